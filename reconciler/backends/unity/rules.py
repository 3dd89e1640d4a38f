"""Define the names, properties and locations that Unity Catalog accepts.

A mark of lancens' own that is longer (``lancens.keys`` of a table with many properties) is kept in parts: the first
under its name, the others under ``lancens.keys.2``, ``lancens.keys.3`` and so on. A release that does not know this
cannot read the first part, and ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from urllib.parse import quote

from reconciler.model import locations
from reconciler.model.capabilities import NameRule
from reconciler.model.names import check_name

NAME_RULE = NameRule(
    re.compile(r"[A-Za-z0-9_@-]{1,255}"),
    "a name in Unity Catalog has letters without accents, digits, `_`, `@` and `-` only",
)
LONGEST = 255
"""The length of a key or value in UTF-16 code units, as the reference server's database counts."""
_MARK_PREFIX = "lancens."
_SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "file")
_LONGEST_LOCATION = 2048
_MANAGED = "__unitystorage"
_REFUSED_CHARACTERS = re.compile(r"[ \[\]\"{}|\\^`<>]|%(?![0-9A-Fa-f]{2})")
"""Characters that the service refuses in a location, unless they are percent-encoded."""


def name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be a name in Unity Catalog; None if it can."""
    problem = check_name(name)
    if problem is None and not NAME_RULE.pattern.fullmatch(name):
        problem = NAME_RULE.meaning
    return problem


def split_marks(properties: Mapping[str, str]) -> dict[str, str]:
    """Split values of lancens' marks that exceed Unity's limit, for a request."""
    sent: dict[str, str] = {}
    for key, value in properties.items():
        if key.startswith(_MARK_PREFIX):
            sent.update(zip(_part_names(key), _split(value), strict=False))
        else:
            sent[key] = value
    return sent


def join_marks(stored: Mapping[str, str]) -> dict[str, str]:
    """Join the parts of marks; the inverse of :func:`split_marks`."""
    numbered = {key for key in stored if key.startswith(_MARK_PREFIX) and key.rpartition(".")[2].isdecimal()}
    whole = {key: value for key, value in stored.items() if key not in numbered}
    if numbered:
        for key in filter(lambda key: key.startswith(_MARK_PREFIX), whole):
            whole[key] = "".join(stored[name] for name in takewhile(stored.__contains__, _part_names(key)))
    return whole


def _part_names(key: str) -> Iterator[str]:
    yield key
    for number in count(2):
        yield f"{key}.{number}"


def _split(value: str) -> Iterator[str]:
    """Yield parts of ``value`` within the limit, splitting between characters.

    The empty text is one piece.
    """
    start = size = 0
    for position, character in enumerate(value):
        width = 2 if character > "\uffff" else 1
        if size + width > LONGEST:
            yield value[start:position]
            start, size = position, 0
        size += width
    yield value[start:]


def as_uri(location: str) -> str:
    """Return the URI for ``location`` that the service accepts."""
    scheme = locations.scheme(location)
    if scheme == "file":
        return "file://" + quote(locations.normalise(location), safe="/~!$&'()*+,;=:@")
    path = location.partition(":")[2]
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{scheme}:{_REFUSED_CHARACTERS.sub(lambda match: quote(match[0]), path)}"


def location_problem(location: str) -> str | None:
    """Return why the service cannot store ``location``; None if it can."""
    scheme = locations.scheme(location)
    if scheme not in _SCHEMES:
        return f"Unity Catalog takes no location of the scheme `{scheme}`, expected s3, gs, abfs, abfss or file"
    path = location.partition(":")[2].lstrip("/").partition("/")[2]
    if scheme == "file":
        path = locations.normalise(location)
        if not path.startswith("/"):
            return "Unity Catalog would take a relative path for one of its server's own, expected an absolute one"
    if not path.strip("/"):
        return "Unity Catalog takes no whole bucket and no root directory, expected a path in it"
    if not {".", ".."}.isdisjoint(locations.names_in(location)):
        return "Unity Catalog writes a location with `.` or `..` in another way, expected one without"
    if _MANAGED in locations.names_in(location):
        return f"Unity Catalog keeps managed tables below `{_MANAGED}`, expected a location without it"
    length = len(as_uri(location))
    if length > _LONGEST_LOCATION:
        return f"Unity Catalog takes at most {_LONGEST_LOCATION} characters, the URI of this one has {length}"
    return None
