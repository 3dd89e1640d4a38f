"""Choose the part of a live catalog that a manifest should describe, and its names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import TypeVar

from reconciler.manifest.variables import escape
from reconciler.model import locations, ownership
from reconciler.model.errors import SelectionError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# Engines write these themselves; a manifest with them would conflict with the engines.
_ENGINE_KEYS = frozenset(
    {"transient_lastDdlTime", "totalSize", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize"}
    | {"write.parquet.compression-codec", "created-at", "nessie.catalog.content-id"}
)

NEW_NAME = "imported"
"""The name of a manifest for unmanaged objects."""

_NEW_CATALOG = "main"
_MOST_NAMED = 10


def names_of(snapshot: Snapshot, catalog: str | None) -> tuple[str, str]:
    """Return the names of the manifest and catalog that own the most objects.

    Raises:
        SelectionError: all owned objects have another owner than ``catalog``, so that all would conflict.
    """
    counts = Counter(owner for live in _objects(snapshot) if (owner := _owner_names(live)) is not None)
    fitting = [owner for owner in counts if catalog is None or owner[1] == catalog]
    if fitting:
        return min(fitting, key=lambda owner: (-counts[owner], owner))
    if counts:
        owners = ", ".join("/".join(owner) for owner in sorted(counts))
        raise SelectionError(
            f"nothing here is managed as catalog `{catalog}`: {owners} manages it; "
            f"leave `--catalog` out, or say `--catalog {min(counts)[1]}`"
        )
    return NEW_NAME, catalog or _NEW_CATALOG


def unmanaged_name(snapshots: Iterable[Snapshot]) -> str:
    """Return a name that no manifest uses yet, so that planning it prunes nothing."""
    taken = {
        (ownership.owner_of(live.properties) or "").partition("/")[0]
        for snapshot in snapshots
        for live in _objects(snapshot)
    }
    names = chain([NEW_NAME], (f"{NEW_NAME}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def _owner_names(live: LiveNamespace | LiveTable) -> tuple[str, str] | None:
    """Return the manifest and the catalog in an object's mark, None where they are not valid names."""
    name, _, catalog = (ownership.owner_of(live.properties) or "").partition("/")
    possible = check_name(name) is None and check_name(catalog) is None and "${" not in name
    return (name, catalog) if possible else None


def _objects(snapshot: Snapshot) -> Iterable[LiveNamespace | LiveTable]:
    return chain(snapshot.namespaces.values(), snapshot.tables.values())


def manageable(snapshot: Snapshot, owner: str, *, unmanaged: bool = False) -> Snapshot:
    """Return the objects that ``owner`` may manage, and a note on those of other owners.

    With ``unmanaged``, only objects without an owner.
    """
    foreign: defaultdict[str, list[Identifier]] = defaultdict(list)
    for live in _objects(snapshot):
        manager = ownership.owner_of(live.properties)
        if manager is not None and manager != owner and not unmanaged:
            foreign[manager].append(live.id)
    wanted = (None,) if unmanaged else (None, owner)
    left = (_left_out(manager, sorted(found)) for manager, found in sorted(foreign.items()))
    kept = within(snapshot, lambda live: ownership.owner_of(live.properties) in wanted)
    return Snapshot(
        {key: _without_noise(one) for key, one in kept.namespaces.items()},
        {key: _without_noise(one) for key, one in kept.tables.items()},
        (*snapshot.notes, *left),
    )


def within(snapshot: Snapshot, wanted: Callable[[LiveNamespace | LiveTable], bool]) -> Snapshot:
    """Return the part of ``snapshot`` that is wanted."""
    return Snapshot(
        {key: one for key, one in snapshot.namespaces.items() if wanted(one)},
        {key: one for key, one in snapshot.tables.items() if wanted(one)},
        snapshot.notes,
    )


def _left_out(manager: str, identifiers: list[Identifier]) -> str:
    named = ", ".join("/".join(identifier) for identifier in identifiers[:_MOST_NAMED])
    more = len(identifiers) - _MOST_NAMED
    return f"left out, because {manager} manages it: {named}" + (f" and {more:,} more" if more > 0 else "")


def _without_noise(live: LiveT) -> LiveT:
    """Keep the properties that lancens set on an owned object, and those that users set on an unowned one."""
    properties = live.properties
    if ownership.owner_of(properties) is not None:
        kept = ownership.recorded_keys(properties) | {ownership.MANAGED_BY, ownership.KEYS, ownership.TAGS}
    else:
        users = frozenset(key for key in properties.keys() - _ENGINE_KEYS if not ownership.is_reserved_key(key))
        kept = users | {ownership.KEYS}  # those that policies set
    return replace(live, properties={key: value for key, value in properties.items() if key in kept})


def is_owned_outside(snapshot: Snapshot, owner: str, selection: Scope) -> bool:
    """Return whether an object of ``owner`` is not selected, so that a plan without it would prune it."""
    return any(
        ownership.owner_of(live.properties) == owner and not selection.contains(live.id) for live in _objects(snapshot)
    )


def place_text(live: LiveTable, default: str | None, roots: Mapping[str, str]) -> str | None:
    """Return the text of the location of ``live`` in a manifest, None where it is the default.

    Args:
        live: the table.
        default: the location of a table of this name without one in its block.
        roots: directories that a manifest does not name by their path, each with its text in the manifest.
    """
    if default is not None and locations.same(live.location, default):
        return None
    for root, text in roots.items():
        below = live.location.removeprefix(root.rstrip("/"))
        if below != live.location and below[:1] in ("", "/"):
            return text.rstrip("/") + escape(below)
    return escape(live.location)


def text_of_root(texts: Mapping[str, str], impl: str) -> str | None:
    """Return the root in the texts of a ``config`` where it is relative or has a placeholder, otherwise None."""
    for key, text in texts.items():
        if key.removeprefix(f"{impl}.") in ("root", "path"):
            return text if locations.absolute(text, "/") != text or "${" in text else None
    return None
