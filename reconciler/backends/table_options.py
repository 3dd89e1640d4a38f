"""What the entry of a table says of opening its dataset, beside what is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reconciler.hosts import hosts_in

__all__ = ["own_options"]

_STORAGE = "storage."
_UNPROTECTED = re.compile(r"(.*_)?(allow_(http|invalid_certificates)|proxy_.*)", re.IGNORECASE)


def own_options(configured: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the ``configured`` options, with what a table's ``storage.*`` properties say about opening it.

    Whoever writes to the catalog says those, and the configured secrets go where they say: no host is taken from them
    that the configuration does not name, and nothing that protects the way there less.
    """
    hosts = {host for key, value in configured.items() for host in hosts_in(key, value)}
    said = {key.removeprefix(_STORAGE): value for key, value in properties.items() if key.startswith(_STORAGE)}
    own = {
        key: value
        for key, value in said.items()
        if hosts.issuperset(hosts_in(key, value)) and not _UNPROTECTED.fullmatch(key)
    }
    return {**configured, **own}
