"""Which hosts a configuration names: where its secrets could be sent.

This goes by how keys and values look, not by what one backend does with them, so that no option of any backend or
storage library is left out. What a service's own library goes to by itself, such as AWS, nobody names.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#,\s]*)")
_ADDRESS_KEY = re.compile(
    r"(?!.*(?:fabric_endpoint|per_host)$)"  # a switch and a number
    r"(?:.*[._-])?(?:addr|endpoint|host|hostname|proxy|server|uri|url|urls)(?:_(?:s3|sts))?",
    re.IGNORECASE,
)
_ACCOUNT_KEY = re.compile(r"(?:.*[._-])?account[._-]?name", re.IGNORECASE)
_REGION_KEY = re.compile(r"(?:.*[._-])?region", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9-]*")
# What stands where others have a host is a bucket here, and a request to it is signed: no secret is in it.
_LOCAL = frozenset({"file", "file-object-store", "file+uring", "memory", "shared-memory"})
_BUCKETS = _LOCAL | {"gs", "hf", "oss", "s3", "s3a", "s3n", "s3+ddb", "az", "cos", "obs", "tos"}


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


def is_admitted(host: str, allowed: Collection[str] | None) -> bool:
    """Return whether ``host`` is one of ``allowed``, of which ``.example.com`` is all below one; None allows any."""
    name = host.lower().rstrip(".")
    return allowed is None or any(
        name == one or (one.startswith(".") and name.endswith(one)) for one in map(str.lower, allowed)
    )


def bucket_of(location: str) -> str | None:
    """Return the bucket of ``location``, whose owner sees the names that are asked for; None where it has none."""
    url = _URL.match(location.strip())
    return url[2].lower() if url is not None and url[1].lower() in _BUCKETS - _LOCAL else None


def texts_in(key: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield ``key`` and ``value``, and those in it where it is a JSON object, in base64 or not."""
    yield key, value
    found: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> None:
        found.extend(pairs)  # of a key that stands there twice, both

    for text in (value, _unpacked(value)):
        try:
            json.loads(text, object_pairs_hook=keep)
        except (ValueError, RecursionError):
            continue
    yield from ((name, text) for name, text in found if isinstance(text, str))


def _unpacked(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _host(authority: str) -> str:
    try:
        return urlsplit(f"//{authority}").hostname or authority.lower()
    except ValueError:
        return authority.lower()
