"""Locations the way the service takes them: a URI of few schemes, kept as it is sent or not taken at all."""

from __future__ import annotations

import re
from urllib.parse import quote

from reconciler.model import locations

_SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "file")
_LONGEST = 2048
_MANAGED = "__unitystorage"
_REFUSED = re.compile(r"[ \[\]\"{}|\\^`<>]|%(?![0-9A-Fa-f]{2})")
"""What the service refuses in a location, and what stands for the same place percent-encoded."""


def as_uri(location: str) -> str:
    """Return what is sent for ``location``: the same place, in a form that the service takes."""
    scheme = locations.scheme(location)
    if scheme == "file":
        return "file://" + quote(_local_path(location), safe="/~!$&'()*+,;=:@")
    rest = location.partition(":")[2]
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{scheme}:{_REFUSED.sub(lambda found: quote(found[0]), rest)}"


def problem_of(location: str) -> str | None:
    """Return why the service cannot keep ``location``, None when it can."""
    scheme = locations.scheme(location)
    if scheme not in _SCHEMES:
        return f"Unity Catalog takes no location of the scheme `{scheme}`, expected s3, gs, abfs, abfss or file"
    path = _local_path(location) if scheme == "file" else location.partition(":")[2].lstrip("/").partition("/")[2]
    if scheme == "file" and not path.startswith("/"):
        return "Unity Catalog would take a relative path for one of its server's own, expected an absolute one"
    if not path.strip("/"):
        return "Unity Catalog takes no whole bucket and no root directory, expected a path in it"
    if not {".", ".."}.isdisjoint(locations.names_in(location)):
        return "Unity Catalog writes a location with `.` or `..` in another way, expected one without"
    if _MANAGED in locations.names_in(location):
        return f"Unity Catalog keeps managed tables below `{_MANAGED}`, expected a location without it"
    if len(as_uri(location)) > _LONGEST:
        return f"Unity Catalog takes at most {_LONGEST} characters, the URI of this one has {len(as_uri(location))}"
    return None


def _local_path(location: str) -> str:
    """Return the path of a local file, written as a path or as a URI; a relative one as it is."""
    return locations.normalise(location)
