#!/bin/sh
# Install what the tests need of Debian's packages: quiet where all is there, one line and exit code 1 where it may not.
set -eu
PATH=$PATH:/usr/sbin:/sbin

wanted=
any_of() { # COMMAND...: one of the commands is there
	for name; do
		if command -v "$name" > /dev/null; then return; fi
	done
	return 1
}

# A package, and the commands of which one is enough.
while read -r package commands; do
	# shellcheck disable=SC2086
	any_of $commands || wanted="$wanted $package"
done << END
chromium chromium chromium-browser google-chrome google-chrome-stable
default-jre-headless java
gcc cc
git git
jq jq
krb5-admin-server kadmin.local
krb5-kdc krb5kdc
krb5-user kinit
libkrb5-dev krb5-config
maven mvn
nginx-light nginx
openssl openssl
strace strace
END
if [ -z "$wanted" ]; then exit; fi

if [ "$(id -u)" = 0 ]; then
	as_root=
elif sudo -n true 2> /dev/null; then
	as_root="sudo -n"
else
	as_root=none
fi
if [ "$as_root" = none ] || ! command -v apt-get > /dev/null; then
	echo "tests/system.sh: not every test can run before this is installed (names of Debian's packages):$wanted" >&2
	exit 1
fi
echo "installing$wanted"
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $wanted > /dev/null
