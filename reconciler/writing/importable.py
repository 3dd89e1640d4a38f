"""Choose the objects of a live catalog that an imported manifest describes, and name the manifest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TypeVar

from reconciler.manifest.variables import escape
from reconciler.model import display, locations, ownership
from reconciler.model.backend_config import plain_key
from reconciler.model.errors import SelectionError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name
from reconciler.writing.export import new_id

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# Engines write these themselves; a manifest with them would conflict with the engines.
_ENGINE_KEYS = frozenset(
    {"transient_lastDdlTime", "totalSize", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize"}
    | {"write.parquet.compression-codec", "created-at", "nessie.catalog.content-id"}
)

_NEW_CATALOG = "main"
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Identity:
    """The name of a manifest, its ``id`` if it has one, and the name that it gives to its catalog."""

    name: str
    id: str | None
    catalog: str = _NEW_CATALOG

    def owner(self, catalog: str) -> str:
        """Return the owner in the marks of what this manifest manages in a catalog."""
        return ownership.owner_name(self.name, catalog, self.id)


def identity_of(snapshot: Snapshot, catalog: str | None, name: str) -> Identity:
    """Return the manifest called ``name`` that owns the most objects, or a new one if none does.

    Raises:
        SelectionError: all objects that it owns are in another catalog than ``catalog``, so that all would conflict.
    """
    owners = [owner for owner in _owners([snapshot]) if owner.name == name]
    counts = Counter(owner.catalog for owner in owners)
    if counts and catalog not in (None, *counts):
        managing = ", ".join(f"{name}/{each}" for each in sorted(counts))
        raise SelectionError(
            f"nothing here is managed as catalog `{catalog}`: {managing} manages it; "
            f"leave `--catalog` out, or say `--catalog {min(counts)}`"
        )
    catalog = catalog or min(counts, key=lambda each: (-counts[each], each), default=_NEW_CATALOG)
    # A mark without an id is of any.
    ids = Counter(owner.id for owner in owners if owner.catalog == catalog and owner.id is not None)
    return Identity(name, min(ids, key=lambda each: (-ids[each], each), default=None) or new_id(), catalog)


def new_identity(snapshots: Iterable[Snapshot], catalog: str | None, name: str) -> Identity:
    """Return a new manifest, whose name begins with ``name`` and is no other's, so that planning it prunes nothing."""
    taken = {owner.name for owner in _owners(snapshots)}
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return Identity(next(each for each in names if each not in taken), new_id(), catalog or _NEW_CATALOG)


def owners_left_out(snapshots: Iterable[Snapshot], identity: Identity) -> Iterator[str]:
    """Yield a remark for each manifest that owns objects which ``identity`` leaves out."""
    counts = Counter(owner.name for owner in _owners(snapshots) if owner.name != identity.name)
    for name, number in sorted(counts.items()):
        yield (
            f"{display.count(number, 'object')} left out: {name} manages {'it' if number == 1 else 'them'}. "
            f"If its manifest is lost, `--name {name}` writes it again."
        )


def _owners(snapshots: Iterable[Snapshot]) -> Iterator[Identity]:
    """Yield the manifest in the mark of each object that has a valid one."""
    for live in chain.from_iterable(map(_objects, snapshots)):
        name, _, catalog = live.properties.get(ownership.MANAGED_BY, "").partition("/")
        if check_name(name) is None and check_name(catalog) is None and "${" not in name:
            yield Identity(name, ownership.identity_of(live.properties), catalog)


def _objects(snapshot: Snapshot) -> Iterable[LiveNamespace | LiveTable]:
    return chain(snapshot.namespaces.values(), snapshot.tables.values())


def manageable(snapshot: Snapshot, owner: str, *, unmanaged: bool = False) -> Snapshot:
    """Return the objects that ``owner`` may manage, and a note on those of other owners.

    With ``unmanaged``, only objects without an owner.
    """
    foreign: defaultdict[str, list[Identifier]] = defaultdict(list)
    for live in _objects(snapshot):
        manager = ownership.owner_of(live.properties)
        if manager is not None and not ownership.is_same_owner(manager, owner) and not unmanaged:
            foreign[manager].append(live.id)
    left = (_left_out(manager, sorted(names)) for manager, names in sorted(foreign.items()))

    def is_wanted(live: LiveNamespace | LiveTable) -> bool:
        manager = ownership.owner_of(live.properties)
        return manager is None or (not unmanaged and ownership.is_same_owner(manager, owner))

    remaining = within(snapshot, is_wanted)
    return Snapshot(
        {key: _without_noise(entry) for key, entry in remaining.namespaces.items()},
        {key: _without_noise(entry) for key, entry in remaining.tables.items()},
        (*snapshot.notes, *left),
    )


def within(snapshot: Snapshot, selects: Callable[[LiveNamespace | LiveTable], bool]) -> Snapshot:
    """Return the part of ``snapshot`` that ``selects`` accepts."""
    return Snapshot(
        {key: entry for key, entry in snapshot.namespaces.items() if selects(entry)},
        {key: entry for key, entry in snapshot.tables.items() if selects(entry)},
        snapshot.notes,
    )


def _left_out(manager: str, identifiers: list[Identifier]) -> str:
    named = ", ".join("/".join(identifier) for identifier in identifiers[:_MOST_NAMED])
    more = len(identifiers) - _MOST_NAMED
    return f"left out, because {manager} manages it: {named}" + (f" and {more:,} more" if more > 0 else "")


def _without_noise(live: LiveT) -> LiveT:
    """Drop properties that a plan would not manage.

    An owned object keeps those that lancens set, an unowned one those that users set.
    """
    properties = live.properties
    if ownership.owner_of(properties) is not None:
        useful_keys = ownership.recorded_keys(properties) | {ownership.MANAGED_BY, ownership.KEYS, ownership.TAGS}
    else:
        users = frozenset(key for key in properties.keys() - _ENGINE_KEYS if not ownership.is_reserved_key(key))
        useful_keys = users | {ownership.KEYS}  # those that policies set
    return replace(live, properties={key: value for key, value in properties.items() if key in useful_keys})


def is_owned_outside(snapshot: Snapshot, owner: str, selection: Scope) -> bool:
    """Return whether an object of ``owner`` is not selected, so that a plan without it would prune it."""
    return any(
        ownership.is_same_owner(ownership.owner_of(live.properties), owner) and not selection.contains(live.id)
        for live in _objects(snapshot)
    )


def location_text(live: LiveTable, default: str | None, directories: Mapping[str, str]) -> str | None:
    """Return the text of the location of ``live`` in a manifest, None where it is the default.

    Args:
        live: the table.
        default: the location of a table of this name without one in its block.
        directories: those that a manifest does not name by their path, each with its text; the first match counts.
    """
    if default is not None and locations.same(live.location, default):
        return None
    for directory, text in directories.items():
        below = live.location.removeprefix(directory.rstrip("/"))
        if below != live.location and below[:1] in ("", "/"):
            return text.rstrip("/") + escape(below)
    return escape(live.location)


def text_of_root(texts: Mapping[str, str], impl: str) -> str | None:
    """Return the root in the texts of a ``config`` where it is relative or has a placeholder, otherwise None."""
    for key, text in texts.items():
        if plain_key(impl, key) in ("root", "path"):
            return text if locations.absolute(text, "/") != text or "${" in text else None
    return None
