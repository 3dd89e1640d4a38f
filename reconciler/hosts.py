"""Which hosts a configuration names: where its secrets could be sent.

This goes by how keys and values look, not by what one backend does with them, so that no option of any backend or
storage library is left out. What a service's own library goes to by itself, such as AWS, nobody names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

__all__ = ["hosts_in"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#,\s]*)")
_ADDRESS_KEY = re.compile(r"(?:.*[._-])?(?:endpoint|host|hostname|proxy|server|uri|url|urls)", re.IGNORECASE)
_ACCOUNT_KEY = re.compile(r"(?:.*[._-])?account[._-]?name", re.IGNORECASE)
_REGION_KEY = re.compile(r"(?:.*[._-])?region", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9-]*")
# What stands where others have a host is a bucket here, and a request to it is signed: no secret is in it.
_BUCKETS = frozenset({"file", "gs", "memory", "oss", "s3", "s3a", "s3n", "az", "cos", "obs", "tos"})


def hosts_in(key: str, value: str) -> Iterator[str]:
    """Yield each host that the value of a configuration's ``key`` names, in lower case, without its port."""
    found = list(_URL.finditer(value))
    for url in found:
        if url[1].lower() not in _BUCKETS:
            yield _host(url[2])
    if _ADDRESS_KEY.fullmatch(key):
        # Of several addresses each may leave out the scheme.
        bare = (part.strip() for part in value.split(",") if _URL.search(part) is None)
        yield from (_host(part.partition("/")[0]) for part in bare if part)
    elif found or not value:
        return
    elif _ACCOUNT_KEY.fullmatch(key):
        yield f"{value.lower()}.blob.core.windows.net" if _PLAIN_NAME.fullmatch(value) else value.lower()
    elif _REGION_KEY.fullmatch(key) and not _PLAIN_NAME.fullmatch(value):
        yield value.lower()  # it would become a part of an address


def _host(authority: str) -> str:
    try:
        return urlsplit(f"//{authority}").hostname or authority.lower()
    except ValueError:
        return authority.lower()
