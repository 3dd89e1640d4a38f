"""A real Kerberos: MIT's KDC on 127.0.0.1, with a realm of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import free_port, running
from tests.servers.require import tool

__all__ = ["REALM", "Kdc", "kdc"]

REALM = "LANCENS.TEST"
_CLIENT = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
kdc = 127.0.0.1:{port}
}}
"""
_SERVER = """\
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
database_name = {folder}/principal
key_stash_file = {folder}/stash
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


@dataclass(frozen=True, slots=True)
class Kdc:
    """A KDC that runs; ``client`` is the configuration of those who ask it."""

    folder: Path
    client: Path

    def keytab(self, principal: str) -> Path:
        """Make a principal of the realm with a random key; return the keytab that has it."""
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._administer(f"addprinc -randkey {principal}")
        self._administer(f"ktadd -k {keytab} {principal}")
        return keytab

    def ticket(self, principal: str, keytab: Path, cache: Path, lifetime: str = "1h") -> None:
        """Put a ticket for a principal into a cache of tickets."""
        self._run("kinit", "-k", "-t", str(keytab), "-c", str(cache), "-l", lifetime, principal)

    def is_valid(self, cache: Path) -> bool:
        """Return whether a cache holds a ticket that has not expired."""
        return subprocess.run([tool("klist"), "-s", "-c", cache], env=self.environment, check=False).returncode == 0

    def _administer(self, query: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def _run(self, command: str, *arguments: str) -> None:
        subprocess.run([tool(command), *arguments], env=self.environment, check=True, capture_output=True)

    @property
    def environment(self) -> dict[str, str]:
        """What MIT's commands have to know, the KDC itself among them."""
        own = {"KRB5_CONFIG": str(self.client), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}
        return {**os.environ, **own}


@contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """Run a KDC with an empty realm until the block ends."""
    port = free_port()
    made = Kdc(folder, folder / "krb5.conf")
    made.client.write_text(_CLIENT.format(realm=REALM, port=port), "utf-8")
    (folder / "kdc.conf").write_text(_SERVER.format(realm=REALM, port=port, folder=folder), "utf-8")
    create = [tool("kdb5_util"), "create", "-s", "-r", REALM, "-P", "of-no-account"]
    subprocess.run(create, env=made.environment, check=True, capture_output=True)

    def listens() -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    with running([tool("krb5kdc"), "-n", "-r", REALM], folder / "out.log", listens, environment=made.environment):
        yield made
