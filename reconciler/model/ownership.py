"""The marks that lancens keeps in a live object's properties.

- ``lancens.managed-by`` names the owner, and ``lancens.manifest-id`` has the ``id`` of its manifest, if it has one.
- ``lancens.keys`` lists the property keys that lancens set, so that a key removed from the manifest is removed from the
  catalog. A list within it has the keys whose values came from the environment or a file: they stay secret.
- ``lancens.protect`` forbids removal even after the manifest's block is gone.
- ``lancens.mirror`` names the catalog that the object follows.
- ``lancens.clone`` names the table and the version that the data was cloned from: ``prod/features/users@42``, with
  ``pinned`` after it if a tag of lancens keeps that version.
- ``lancens.policy`` names the owner of the policies that set ``lancens.keys`` of a table without a block.
- ``lancens.tags`` lists the tags of the data that lancens set, so that one removed from the manifest is removed.
- ``lancens.data`` says that lancens wrote, registered or saw data at the entry's location.
- ``lancens.requested-location`` is the location asked for where the service chose another one, which is in
  ``lancens.chosen-location``. Both hold only while the entry is at the chosen location.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from reconciler.model import locations
from reconciler.model.secret_forms import REDACTED, looks_secret

MANAGED_BY = "lancens.managed-by"
MANIFEST_ID = "lancens.manifest-id"
KEYS = "lancens.keys"
PROTECT = "lancens.protect"
MIRROR = "lancens.mirror"
CLONE = "lancens.clone"
POLICY = "lancens.policy"
TAGS = "lancens.tags"
DATA = "lancens.data"
REQUESTED_LOCATION = "lancens.requested-location"
CHOSEN_LOCATION = "lancens.chosen-location"

_PINNED = " pinned"

_MOST_CACHED = 2**12
"""The number of cached values of ``lancens.keys``; the tables of a catalog have few different ones."""
_MOST_DIGITS = 20
_RESERVED = frozenset({"table_type", "external", "external.table.purge", "gc.enabled"})


def is_reserved_key(key: str) -> bool:
    """Return whether only catalogs or lancens may set the property ``key``."""
    return key.startswith("lancens.") or key.lower() in _RESERVED


def owner_name(manifest: str, catalog: str, identity: str | None) -> str:
    """Return the owner text of a manifest in a catalog, with the manifest's ``id`` if it has one."""
    return f"{manifest}/{catalog}/{identity}" if identity else f"{manifest}/{catalog}"


def owner_of(properties: Mapping[str, str]) -> str | None:
    """Return the recorded owner, ``<manifest>/<catalog>`` or with ``/<id>``; None for an unmanaged object."""
    return _with_id(_mark(properties, MANAGED_BY), properties)


def _mark(properties: Mapping[str, str], key: str) -> str | None:
    """Return a mark, redacted if others wrote credentials there; None without one."""
    mark = properties.get(key)
    return REDACTED if mark and looks_secret(mark) else mark or None


def _with_id(owner: str | None, properties: Mapping[str, str]) -> str | None:
    identity = identity_of(properties)
    return f"{owner}/{identity}" if owner and identity else owner or None


def identity_of(properties: Mapping[str, str]) -> str | None:
    """Return the recorded id of the owner's manifest; None without one."""
    return _mark(properties, MANIFEST_ID)


def owner_marks(managed_by: str | None, policy: str | None) -> dict[str, str | None]:
    """Return the marks for an owner and an owner of policies, by property key; None for a mark to leave out."""
    (owner, owner_id), (author, author_id) = map(_split, (managed_by, policy))
    return {MANAGED_BY: owner, POLICY: author, MANIFEST_ID: owner_id or author_id}


def _split(owner: str | None) -> tuple[str | None, str | None]:
    """Return an owner without its id, and the id."""
    names = (owner or "").split("/")
    return "/".join(names[:2]) or None, "/".join(names[2:]) or None


def is_same_owner(mark: str | None, owner: str | None) -> bool:
    """Return whether a recorded owner is ``owner``; a mark without an id matches any id."""
    if mark is None or owner is None:
        return mark is owner
    return mark == owner or (mark.count("/") == 1 and owner.startswith(f"{mark}/"))


def is_same_name(mark: str | None, owner: str) -> bool:
    """Return whether two owners have the same manifest and catalog name, whatever their ids."""
    return mark is not None and mark.split("/")[:2] == owner.split("/")[:2]


def mirror_of(properties: Mapping[str, str]) -> str | None:
    """Return the catalog that the object mirrors; None if it mirrors none."""
    return _mark(properties, MIRROR)


def clone_of(properties: Mapping[str, str]) -> str | None:
    """Return the table and version that the data was cloned from, ``<address>@<version>``; None for no clone."""
    return _mark(properties, CLONE)


def clone_mark(origin: str, version: int, pin: bool) -> str:
    """Return the mark of a clone of a version of the table ``origin``."""
    return f"{origin}@{version}{_PINNED if pin else ''}"


def is_pinned(mark: str | None) -> bool:
    """Return whether a tag of lancens keeps the version that a clone was made of."""
    return (mark or "").endswith(_PINNED)


def origin_of_clone(mark: str | None) -> str:
    """Return the address of the table that a clone was made of; empty for no clone."""
    return (mark or "").rpartition("@")[0]


def catalog_of_clone(mark: str | None) -> str:
    """Return the catalog of the table that a clone was made of; empty for no clone."""
    return origin_of_clone(mark).partition("/")[0]


def version_of_clone(mark: str | None) -> int:
    """Return the version that a clone was made of; 0 for no clone, and for a mark of others without a number."""
    number = (mark or "").removesuffix(_PINNED).rpartition("@")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < _MOST_DIGITS else 0


def is_cloned_from(mark: str | None, catalog: str | None) -> bool:
    """Return whether the mark of a clone names a table of ``catalog``."""
    return mark is not None and mark.startswith(f"{catalog}/")


def follows(properties: Mapping[str, str], catalog: str) -> bool:
    """Return whether a mirror or clone of ``catalog`` made the entry."""
    return mirror_of(properties) == catalog or is_cloned_from(clone_of(properties), catalog)


def policy_of(properties: Mapping[str, str]) -> str | None:
    """Return the owner of the policies that set properties of the table; None if none did."""
    return _with_id(_mark(properties, POLICY), properties)


def is_protected(properties: Mapping[str, str]) -> bool:
    """Return whether the live object is protected from removal."""
    return properties.get(PROTECT) == "true"


def has_data(properties: Mapping[str, str]) -> bool:
    """Return whether lancens has written, registered or seen data at the entry's location."""
    return properties.get(DATA) == "true"


def foreign_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that lancens has not set."""
    ours = recorded_keys(properties)
    return {key: value for key, value in properties.items() if key not in ours and not is_reserved_key(key)}


def is_request_true(requested: str | None, chosen: str | None, location: str | None) -> bool:
    """Return whether the marks of the requested location are valid for an entry at ``location``.

    They are valid if there are none, or if the entry is at the location that the service chose instead. They are stale
    if the service used the requested location, if the entry has moved since, or if an interrupted run did not record
    the chosen location.
    """
    if requested is None:
        return chosen is None
    return chosen is not None and locations.same(chosen, location) and not locations.same(requested, location)


def encode_keys(keys: Iterable[str], secret: Collection[str] = ()) -> str:
    """Return the value of ``lancens.keys`` for ``keys``, those in ``secret`` marked as secrets.

    Equal sets give equal texts.
    """
    return _encoded(frozenset(keys), frozenset(secret))


@lru_cache(_MOST_CACHED)
def _encoded(known: frozenset[str], secret: frozenset[str]) -> str:
    hidden = sorted(known.intersection(secret))
    listed = [*sorted(known.difference(hidden)), *([hidden] if hidden else [])]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def recorded_keys(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the keys that lancens set; an unreadable mark counts as empty, so that nothing is removed."""
    plain, secret = _decoded(properties.get(KEYS))
    return plain | secret


def recorded_secrets(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the keys that lancens set with values from the environment or a file."""
    return _decoded(properties.get(KEYS))[1]


def encode_tags(names: Iterable[str]) -> str:
    """Return the value of ``lancens.tags`` for ``names``."""
    return ",".join(sorted(names))


def recorded_tags(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the tags that lancens set."""
    return frozenset(filter(None, properties.get(TAGS, "").split(",")))


@lru_cache(_MOST_CACHED)
def _decoded(text: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return the plain keys and the secret keys in a value of ``lancens.keys``."""
    try:
        listed = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return frozenset(), frozenset()
    if not isinstance(listed, list):
        return frozenset(), frozenset()
    return _plain(listed), frozenset(key for part in listed if isinstance(part, list) for key in _plain(part))


def _plain(keys: list[object]) -> frozenset[str]:
    return frozenset(key for key in keys if isinstance(key, str) and not is_reserved_key(key))
