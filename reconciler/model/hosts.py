"""The hosts that a configuration names: where its secrets could be sent.

Hosts are recognised by the form of keys and values, so that no option of a backend or a storage library is missed.
The default hosts of a vendor's library, such as those of AWS, are not in a configuration.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

# Only where a run of such characters begins, and without backtracking: a long value without a URL is read once.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])[0-9+.-]*+([A-Za-z][A-Za-z0-9+.-]*+)://([^/?#,]*)")
_ADDRESS_KEY = re.compile(
    r"(?!.*(?:fabric_endpoint|per_host)$)"  # a switch and a number
    r"(?:.*[._-])?(?:addr|endpoint|host|hostname|proxy|server|uri|url|urls)(?:_(?:s3|sts))?",
    re.IGNORECASE,
)
_ACCOUNT_KEY = re.compile(r"(?:.*[._-])?account[._-]?name", re.IGNORECASE)
_REGION_KEY = re.compile(r"(?:.*[._-])?region", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9-]*")
# The authority of these is a bucket or nothing; a request to a bucket is signed, so that it carries no secret.
_LOCAL = frozenset({"file", "file-object-store", "file+uring", "memory", "shared-memory"})
_BUCKETS = _LOCAL | {"gs", "hf", "oss", "s3", "s3a", "s3n", "s3+ddb", "az", "cos", "obs", "tos"}


def hosts_in(key: str, value: str) -> Iterator[str]:
    """Yield each host that the value of a configuration's ``key`` names, in lower case, without its port.

    Parsers differ: to pylance's, a backslash is a slash. Both readings count.
    """
    value = value.strip()
    readings = (value, value.replace("\\", "/"))
    yield from dict.fromkeys(host for reading in readings for host in _hosts_in(key, reading))


def _hosts_in(key: str, value: str) -> Iterator[str]:
    urls = list(_URL.finditer(value))
    for url in urls:
        if url[1].lower() not in _BUCKETS:
            yield _host(url[2])
    if _ADDRESS_KEY.fullmatch(key):
        # Each of several addresses may lack the scheme.
        bare = (part.strip() for part in value.split(",") if _URL.search(part) is None)
        yield from (_host(part.partition("/")[0]) for part in bare if part)
    elif urls or not value:
        return
    elif _ACCOUNT_KEY.fullmatch(key):
        yield f"{value.lower()}.blob.core.windows.net" if _PLAIN_NAME.fullmatch(value) else value.lower()
    elif _REGION_KEY.fullmatch(key) and not _PLAIN_NAME.fullmatch(value):
        yield value.lower()  # it would become a part of an address


def is_admitted(host: str, allowed: Collection[str] | None) -> bool:
    """Return whether ``host`` is in ``allowed``; ``.example.com`` allows all hosts below it, None any."""
    name = host.lower().rstrip(".")
    return allowed is None or any(
        name == pattern or (pattern.startswith(".") and name.endswith(pattern)) for pattern in map(str.lower, allowed)
    )


def bucket_of(location: str) -> str | None:
    """Return the bucket of ``location``; None if it has none."""
    url = _URL.match(location.strip())
    if url is None or url.start(1) or url[1].lower() not in _BUCKETS - _LOCAL:
        return None
    return url[2].lower()


def texts_in(key: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield ``key`` and ``value``, and the pairs of a JSON object in ``value``, in base64 or not."""
    yield key, value
    entries: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> None:
        entries.extend(pairs)  # both values of a duplicate key

    for text in (value, _unpacked(value)):
        try:
            json.loads(text, object_pairs_hook=keep)
        except (ValueError, RecursionError):
            continue
    yield from ((name, text) for name, text in entries if isinstance(text, str))


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
