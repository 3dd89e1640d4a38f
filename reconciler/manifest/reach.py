"""Check what a value of a ``config`` has read, and which hosts it names, against what a run allows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from reconciler.manifest.policy import Policy
from reconciler.manifest.variables import Resolver
from reconciler.model.hosts import bucket_of, hosts_in, texts_in

_LARGEST_FILE_BYTES = 1024 * 1024
_STORAGE = "storage."
_FILE_OPTION = re.compile(r"(?:.*[._-])?(?:file|path|application_credentials|service_account)", re.IGNORECASE)
_FILE_IN_JSON = frozenset({"file", "output_file"})
"""Google's external accounts read a file, or run a command, that their JSON names."""
_OUTSIDE = "names a file outside of the manifest's folder; --allow-outside lets it be read"


def refusals(key: str, text: str, resolver: Resolver, *, is_literal: bool) -> Iterator[str]:
    """Yield why ``text`` cannot be the value of ``key``: hosts and files that the policy does not allow.

    JSON is looked into, and so is the file that a ``storage.*`` option names. A host is told where the value
    ``is_literal``.
    """
    for name, value in _texts(key, text, resolver):
        if value is None:
            yield _OUTSIDE
            continue
        for host in hosts_in(name, value):
            if not resolver.policy.admits(host):
                named = f"the host `{host}`" if is_literal else "a host"
                yield f"names {named} that is not allowed; --allow-host names those that are"


def bucket_refusal(location: str, policy: Policy) -> str | None:
    """Return why ``location``, with values of the environment or a file in it, cannot be used; None where it can.

    Who owns a bucket sees the names that are asked for in it, on hosts that nobody has to allow.
    """
    bucket = bucket_of(location)
    if bucket is None or policy.admits(bucket):
        return None
    return "takes a value of the environment or a file to a bucket that is not allowed; --allow-host names those, too"


def is_file_option(key: str) -> bool:
    """Return whether the value of a ``config``'s ``key`` names a file that pylance reads."""
    return key.startswith(_STORAGE) and _FILE_OPTION.fullmatch(key) is not None


def _texts(key: str, text: str, resolver: Resolver) -> Iterator[tuple[str, str | None]]:
    """Yield what is looked at, by its key; None for a file that may not be read."""
    if not key.startswith(_STORAGE):
        yield key, text
        return
    found = [*texts_in(key, text)]
    if is_file_option(key):
        content = _content(text, resolver)
        if content is None:
            yield key, None
        found += [*texts_in(key, content or "")][1:]
    for name, value in found:
        is_refused = name in _FILE_IN_JSON and _content(value, resolver) is None
        is_refused |= name == "command" and not resolver.policy.outside
        yield name, None if is_refused else value


def _content(path: str, resolver: Resolver) -> str | None:
    """Return what pylance would read at ``path``, empty where it would not; None where it may not be read."""
    try:
        real = os.path.realpath(path)
        if not resolver.policy.may_read(real, resolver.folders):
            return None
        if not Path(real).is_file():  # what a pipe gives is gone once it was looked at
            return "" if resolver.policy.outside or not Path(real).exists() else None
        with Path(real).open("rb") as opened:
            data = opened.read(_LARGEST_FILE_BYTES + 1)
        return data.decode("utf-8", "replace") if len(data) <= _LARGEST_FILE_BYTES else None
    except (OSError, ValueError):
        return None
