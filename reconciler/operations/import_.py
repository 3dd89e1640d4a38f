"""Write the manifest of what is there: the first step of bringing existing catalogs under management."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reconciler import ownership
from reconciler.backends.faults import catalog_errors
from reconciler.errors import SelectionError
from reconciler.names import EVERYTHING, Identifier, check_name
from reconciler.operations.connections import Connection, open_connections, read_all
from reconciler.state import DEFAULT_PARALLELISM, LiveNamespace, LiveTable, Snapshot

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.manifest.export import ExportCatalog

__all__ = ["import_"]

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# Engines write these on their own; a manifest that named them would fight the engines.
_ENGINE_KEYS = frozenset(
    {"transient_lastDdlTime", "totalSize", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize"}
    | {"write.parquet.compression-codec", "created-at", "nessie.catalog.content-id"}
)


_NEW_NAMES = ("imported", "main")
_MOST_NAMED = 10


def import_(
    manifest: Manifest | None = None,
    *,
    catalog: str | None = None,
    impl: str | None = None,
    config: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    parallelism: int = DEFAULT_PARALLELISM,
) -> str:
    """Return the text of a manifest that describes live catalogs; planning it gives no changes.

    Either ``manifest`` names the catalogs (``catalog`` picks one), or ``impl`` and ``config`` describe one directly;
    its names are then those under which most of what is managed there is managed (``catalog`` picks among several).
    Relative paths are written as seen from ``folder``, where the text is going to be kept: by default the manifest's
    own folder, or the current one. Objects that another manifest manages are left out, and a comment says so.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: ``catalog`` is not in the manifest, or is none of the names it is managed under.
        ConfigError: ``impl`` is unknown.
    """
    from reconciler.manifest.export import to_yaml

    if manifest is not None:
        exports = _of_manifest(manifest, catalog, os.path.realpath(folder or manifest.folder), parallelism)
        return to_yaml(manifest.name, exports)
    if impl is None:
        raise TypeError("import_ takes a manifest or an impl")
    name, export = _of_service(impl, dict(config or {}), catalog, os.path.realpath(folder or "."), parallelism)
    return to_yaml(name, [export])


def _of_manifest(manifest: Manifest, catalog: str | None, folder: str, parallelism: int) -> list[ExportCatalog]:
    from reconciler.manifest.export import ExportCatalog

    concerned = None if catalog is None else [catalog]
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        snapshots = read_all(connections.values(), _scan, parallelism)
    return [
        ExportCatalog(
            name,
            connection.spec.impl,
            manifest.catalogs[name].config.texts(folder),
            _manageable(snapshot, connection.desired.owner),
            connection.desired.scope,
        )
        for (name, connection), snapshot in zip(connections.items(), snapshots, strict=True)
    ]


def _of_service(
    impl: str, properties: dict[str, str], catalog: str | None, folder: str, parallelism: int
) -> tuple[str, ExportCatalog]:
    """Return the manifest's name and its only catalog."""
    from reconciler.backends import registry
    from reconciler.manifest.config import literal_texts
    from reconciler.manifest.export import ExportCatalog

    with catalog_errors("import", impl, tuple(properties.values())):
        backend = registry.connect(impl, properties)
        backend.parallelism = parallelism
        try:
            snapshot = backend.scan()
        finally:
            backend.close()
    name, catalog = _names(snapshot, catalog)
    texts = literal_texts(impl, properties, str(Path.cwd()), folder)
    return name, ExportCatalog(catalog, impl, texts, _manageable(snapshot, f"{name}/{catalog}"), EVERYTHING)


def _scan(connection: Connection) -> Snapshot:
    return connection.backend.scan(connection.desired.scope)


def _names(snapshot: Snapshot, catalog: str | None) -> tuple[str, str]:
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
    return _NEW_NAMES[0], catalog or _NEW_NAMES[1]


def _owner_names(live: LiveNamespace | LiveTable) -> tuple[str, str] | None:
    """Return the manifest and the catalog that an object's mark names; None where it names none that could be."""
    name, _, catalog = (ownership.owner_of(live.properties) or "").partition("/")
    possible = check_name(name) is None and check_name(catalog) is None and "${" not in name
    return (name, catalog) if possible else None


def _objects(snapshot: Snapshot) -> Iterable[LiveNamespace | LiveTable]:
    return chain(snapshot.namespaces.values(), snapshot.tables.values())


def _manageable(snapshot: Snapshot, owner: str) -> Snapshot:
    """Return what a manifest that marks its objects with ``owner`` can name, and a note on what others manage."""
    foreign: defaultdict[str, list[Identifier]] = defaultdict(list)
    for live in _objects(snapshot):
        manager = ownership.owner_of(live.properties)
        if manager is not None and manager != owner:
            foreign[manager].append(live.id)
    return Snapshot(
        {key: _without_noise(one) for key, one in snapshot.namespaces.items() if _is_free(one, owner)},
        {key: _without_noise(one) for key, one in snapshot.tables.items() if _is_free(one, owner)},
        (*snapshot.notes, *(_left_out(manager, sorted(found)) for manager, found in sorted(foreign.items()))),
    )


def _is_free(live: LiveNamespace | LiveTable, owner: str) -> bool:
    return ownership.owner_of(live.properties) in (None, owner)


def _left_out(manager: str, identifiers: list[Identifier]) -> str:
    named = ", ".join("/".join(identifier) for identifier in identifiers[:_MOST_NAMED])
    more = len(identifiers) - _MOST_NAMED
    return f"left out, because {manager} manages it: {named}" + (f" and {more:,} more" if more > 0 else "")


def _without_noise(live: LiveT) -> LiveT:
    """Keep what lancens set on an owned object, its mark included, and what somebody set on an unowned one."""
    properties = live.properties
    if ownership.owner_of(properties) is not None:
        wanted = ownership.recorded_keys(properties) | {ownership.MANAGED_BY}
        kept = {key: value for key, value in properties.items() if key in wanted}
    else:
        kept = {
            key: value
            for key, value in properties.items()
            if key not in _ENGINE_KEYS and not ownership.is_reserved_key(key)
        }
    return replace(live, properties=kept)
