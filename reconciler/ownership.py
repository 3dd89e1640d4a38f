"""The marks lancens keeps in a live object's properties, and what they say.

``lancens.managed-by`` names the owner, ``lancens.keys`` lists the property keys lancens set (so that one removed from
the manifest is removed from the catalog), ``lancens.protect`` forbids removal even after the manifest's block is
gone, and ``lancens.mirror`` names the catalog that the entry follows. ``lancens.requested-location`` keeps the location
asked for where the service chose another, which is in ``lancens.chosen-location``: the two hold only as long as the
entry is at the latter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from reconciler import locations

__all__ = [
    "CHOSEN_LOCATION",
    "KEYS",
    "MANAGED_BY",
    "MIRROR",
    "PROTECT",
    "REQUESTED_LOCATION",
    "encode_keys",
    "is_protected",
    "is_request_true",
    "is_reserved_key",
    "mirror_of",
    "others",
    "owner_of",
    "recorded_keys",
]

MANAGED_BY = "lancens.managed-by"
KEYS = "lancens.keys"
PROTECT = "lancens.protect"
MIRROR = "lancens.mirror"
REQUESTED_LOCATION = "lancens.requested-location"
CHOSEN_LOCATION = "lancens.chosen-location"

_RESERVED = frozenset({"table_type", "external", "gc.enabled"})


def is_reserved_key(key: str) -> bool:
    """Return whether a manifest may not set the property ``key``: catalogs or lancens write it themselves."""
    return key.startswith("lancens.") or key.lower() in _RESERVED


def owner_of(properties: Mapping[str, str]) -> str | None:
    """Return the ``<manifest>/<catalog>`` that manages the object, None for an unmanaged one."""
    return properties.get(MANAGED_BY) or None


def mirror_of(properties: Mapping[str, str]) -> str | None:
    """Return the catalog that the object was made to follow, None for one that was not."""
    return properties.get(MIRROR) or None


def is_protected(properties: Mapping[str, str]) -> bool:
    """Return whether the live object is marked as never to be removed or replaced."""
    return properties.get(PROTECT) == "true"


def others(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that lancens has not set: those that somebody else looks after."""
    ours = recorded_keys(properties)
    return {key: value for key, value in properties.items() if key not in ours and not is_reserved_key(key)}


def is_request_true(requested: str | None, chosen: str | None, location: str | None) -> bool:
    """Return whether the marks of the location asked for say how it is with an entry at ``location``.

    They do where there are none, and where the entry is at the place that the service chose instead of the one asked
    for. They do not where the service did as it was asked, where the entry was moved since, and where the answer was
    never recorded: an interrupted run leaves that, and so did earlier versions.
    """
    if requested is None:
        return chosen is None
    return chosen is not None and locations.same(chosen, location) and not locations.same(requested, location)


def encode_keys(keys: Iterable[str]) -> str:
    """Return the value of ``lancens.keys`` for ``keys``: one text for one set, whatever its order."""
    return json.dumps(sorted(keys), ensure_ascii=False, separators=(",", ":"))


def recorded_keys(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the keys lancens set on a live object; a value it cannot read counts as none, so nothing is removed."""
    text = properties.get(KEYS)
    if not text:
        return frozenset()
    try:
        keys = json.loads(text)
    except ValueError:
        return frozenset()
    if not isinstance(keys, list):
        return frozenset()
    return frozenset(key for key in keys if isinstance(key, str) and not is_reserved_key(key))
