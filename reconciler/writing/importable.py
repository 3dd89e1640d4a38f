"""What of a live catalog a manifest can name, and what it is not to name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import TypeVar

from reconciler.model import locations, ownership
from reconciler.model.errors import SelectionError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier, Scope, check_name

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# Engines write these on their own; a manifest that named them would fight the engines.
_ENGINE_KEYS = frozenset(
    {"transient_lastDdlTime", "totalSize", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize"}
    | {"write.parquet.compression-codec", "created-at", "nessie.catalog.content-id"}
)

NEW_NAME = "imported"
"""The name of a manifest of what no manifest manages."""

_NEW_CATALOG = "main"
_MOST_NAMED = 10


def names_of(snapshot: Snapshot, catalog: str | None) -> tuple[str, str]:
    """Return the names of a manifest and its catalog under which most of what is managed there is managed.

    Raises:
        SelectionError: none of what is managed is managed as ``catalog``; under that name everything would conflict.
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
    """Return the name of a manifest that manages nothing yet, so that one of its own prunes nothing."""
    taken = {
        (ownership.owner_of(live.properties) or "").partition("/")[0]
        for snapshot in snapshots
        for live in _objects(snapshot)
    }
    names = chain([NEW_NAME], (f"{NEW_NAME}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def _owner_names(live: LiveNamespace | LiveTable) -> tuple[str, str] | None:
    """Return the manifest and the catalog that an object's mark names; None where it names none that could be."""
    name, _, catalog = (ownership.owner_of(live.properties) or "").partition("/")
    possible = check_name(name) is None and check_name(catalog) is None and "${" not in name
    return (name, catalog) if possible else None


def _objects(snapshot: Snapshot) -> Iterable[LiveNamespace | LiveTable]:
    return chain(snapshot.namespaces.values(), snapshot.tables.values())


def manageable(snapshot: Snapshot, owner: str, *, unmanaged: bool = False) -> Snapshot:
    """Return what a manifest that marks its objects with ``owner`` can name, and a note on what others manage.

    With ``unmanaged``, only what nobody manages.
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
    """Keep what lancens set on an owned object, with the marks that say so, and what somebody set on an unowned one."""
    properties = live.properties
    if ownership.owner_of(properties) is not None:
        kept = ownership.recorded_keys(properties) | {ownership.MANAGED_BY, ownership.KEYS}
    else:
        kept = frozenset(key for key in properties.keys() - _ENGINE_KEYS if not ownership.is_reserved_key(key))
    return replace(live, properties={key: value for key, value in properties.items() if key in kept})


def is_owned_outside(snapshot: Snapshot, owner: str, selection: Scope) -> bool:
    """Return whether something that ``owner`` manages is not selected, so that a manifest without it would prune it."""
    return any(
        ownership.owner_of(live.properties) == owner and not selection.contains(live.id) for live in _objects(snapshot)
    )


def place_text(live: LiveTable, default: str | None, root: str | None, root_text: str | None) -> str | None:
    """Return what a manifest says as the location of ``live``; None for nothing, where it is the default.

    Args:
        live: the table.
        default: where a table of this name goes that names no location.
        root: the directory that holds the whole catalog, where one does.
        root_text: what the manifest says of ``root``, where that is relative.
    """
    if default is not None and locations.same(live.location, default):
        return None
    if root is not None and root_text is not None and live.location.startswith(f"{root.rstrip('/')}/"):
        below = live.location[len(root.rstrip("/")) + 1 :]
        return locations.join(root_text, below)
    return live.location


def texts_of_root(texts: Mapping[str, str], impl: str) -> str | None:
    """Return what a ``config`` as text says of its root, where that is a relative path; None otherwise."""
    for key, text in texts.items():
        if key.removeprefix(f"{impl}.") in ("root", "path"):
            is_relative = locations.absolute(text, "/") != text and not text.startswith("$")
            return text if is_relative else None
    return None
