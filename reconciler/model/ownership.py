"""The marks lancens keeps in a live object's properties, and what they say.

``lancens.managed-by`` names the owner. ``lancens.keys`` lists the property keys lancens set, so that one removed from
the manifest is removed from the catalog; those whose values come from the environment or a file are in a list within
it, so that they stay secret when no manifest says so any more. ``lancens.protect`` forbids removal even after the
manifest's block is gone, and ``lancens.mirror`` names the catalog that it follows. ``lancens.requested-location``
keeps the location asked for where the service chose another, which is in ``lancens.chosen-location``: the two hold only
as long as the entry is at the latter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from reconciler.model import locations

MANAGED_BY = "lancens.managed-by"
KEYS = "lancens.keys"
PROTECT = "lancens.protect"
MIRROR = "lancens.mirror"
REQUESTED_LOCATION = "lancens.requested-location"
CHOSEN_LOCATION = "lancens.chosen-location"

_CACHED = 2**12
"""How many lists of keys are remembered: the tables of a catalog have few different ones."""
_RESERVED = frozenset({"table_type", "external", "external.table.purge", "gc.enabled"})


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
    """Return whether the live object is marked as never to be removed."""
    return properties.get(PROTECT) == "true"


def others(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that lancens has not set: those that somebody else looks after."""
    ours = recorded_keys(properties)
    return {key: value for key, value in properties.items() if key not in ours and not is_reserved_key(key)}


def is_request_true(requested: str | None, chosen: str | None, location: str | None) -> bool:
    """Return whether the marks of the location asked for say how it is with an entry at ``location``.

    They do where there are none, and where the entry is at the place that the service chose instead of the one asked
    for. They do not where the service did as it was asked, where the entry was moved since, and where the answer was
    never recorded: an interrupted run leaves that.
    """
    if requested is None:
        return chosen is None
    return chosen is not None and locations.same(chosen, location) and not locations.same(requested, location)


def encode_keys(keys: Iterable[str], secret: Collection[str] = ()) -> str:
    """Return the value of ``lancens.keys`` for ``keys``, those in ``secret`` being secrets whatever they are called.

    It is one text for one set, whatever its order.
    """
    return _encoded(frozenset(keys), frozenset(secret))


@lru_cache(_CACHED)
def _encoded(known: frozenset[str], secret: frozenset[str]) -> str:
    hidden = sorted(known.intersection(secret))
    told = [*sorted(known.difference(hidden)), *([hidden] if hidden else [])]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def recorded_keys(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the keys lancens set on a live object; a value it cannot read counts as none, so nothing is removed."""
    plain, within = _told(properties.get(KEYS))
    return plain | within


def recorded_secrets(properties: Mapping[str, str]) -> frozenset[str]:
    """Return those of the keys lancens set whose values came from the environment or a file."""
    return _told(properties.get(KEYS))[1]


@lru_cache(_CACHED)
def _told(text: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return the keys in the value of ``lancens.keys``, and those in the list within it."""
    try:
        told = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return frozenset(), frozenset()
    if not isinstance(told, list):
        return frozenset(), frozenset()
    return _plain(told), frozenset(key for part in told if isinstance(part, list) for key in _plain(part))


def _plain(keys: list[object]) -> frozenset[str]:
    return frozenset(key for key in keys if isinstance(key, str) and not is_reserved_key(key))
