"""What Unity Catalog takes: names, short properties, locations as URIs.

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
_OURS = "lancens."
_SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "file")
_LONGEST_LOCATION = 2048
_MANAGED = "__unitystorage"
_REFUSED = re.compile(r"[ \[\]\"{}|\\^`<>]|%(?![0-9A-Fa-f]{2})")
"""The characters that the service refuses in a location; percent-encoded, they stand for the same place."""


def name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be a name in Unity Catalog, None when it can."""
    problem = check_name(name)
    if problem is None and not NAME_RULE.pattern.fullmatch(name):
        problem = NAME_RULE.meaning
    return problem


def in_parts(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` as they are sent, long marks in parts."""
    sent: dict[str, str] = {}
    for key, value in properties.items():
        if key.startswith(_OURS):
            sent.update(zip(_names(key), _parts(value), strict=False))
        else:
            sent[key] = value
    return sent


def put_together(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that :func:`in_parts` made ``stored`` of."""
    numbered = {key for key in stored if key.startswith(_OURS) and key.rpartition(".")[2].isdecimal()}
    whole = {key: value for key, value in stored.items() if key not in numbered}
    if numbered:
        for key in filter(lambda key: key.startswith(_OURS), whole):
            whole[key] = "".join(stored[name] for name in takewhile(stored.__contains__, _names(key)))
    return whole


def _names(key: str) -> Iterator[str]:
    yield key
    for number in count(2):
        yield f"{key}.{number}"


def _parts(value: str) -> Iterator[str]:
    """Yield ``value`` in pieces that fit, no character cut in two.

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
    """Return the URI to send for ``location``, in a form that the service takes."""
    scheme = locations.scheme(location)
    if scheme == "file":
        return "file://" + quote(locations.normalise(location), safe="/~!$&'()*+,;=:@")
    path = location.partition(":")[2]
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{scheme}:{_REFUSED.sub(lambda match: quote(match[0]), path)}"


def location_problem(location: str) -> str | None:
    """Return why the service cannot keep ``location``, None when it can."""
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
