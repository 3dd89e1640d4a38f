"""Write the manifest of what is there: the first step of bringing existing catalogs under management."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from reconciler import ownership
from reconciler.connections import Connection, catalog_errors, open_connections, read_all
from reconciler.names import EVERYTHING
from reconciler.planning import DEFAULT_PARALLELISM
from reconciler.state import LiveNamespace, LiveTable, Snapshot

if TYPE_CHECKING:
    from reconciler.manifest import Manifest

__all__ = ["import_"]

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# Engines write these on their own; a manifest that named them would fight the engines.
_ENGINE_KEYS = frozenset(
    {"transient_lastDdlTime", "totalSize", "numFiles", "numFilesErasureCoded", "numRows", "rawDataSize"}
    | {"write.parquet.compression-codec", "gc.enabled", "created-at", "nessie.catalog.content-id"}
)


def import_(
    manifest: Manifest | None = None,
    *,
    catalog: str | None = None,
    impl: str | None = None,
    config: Mapping[str, str] | None = None,
    parallelism: int = DEFAULT_PARALLELISM,
) -> str:
    """Return the text of a manifest that describes live catalogs; planning it gives no changes.

    Either ``manifest`` names the catalogs (``catalog`` picks one), or ``impl`` and ``config`` describe one directly.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: ``catalog`` is not in the manifest.
        ConfigError: ``impl`` is unknown.
    """
    from reconciler.manifest.export import ExportCatalog, to_yaml
    from reconciler.manifest.variables import escape

    if manifest is not None:
        concerned = None if catalog is None else [catalog]
        with open_connections(manifest, concerned, parallelism=parallelism) as connections:
            snapshots = read_all(connections.values(), _scan, parallelism)
        exports = [
            ExportCatalog(
                name,
                manifest.catalogs[name].impl,
                manifest.catalogs[name].config_text(),
                snapshot,
                connection.desired.scope,
            )
            for (name, connection), snapshot in zip(connections.items(), snapshots, strict=True)
        ]
        return to_yaml(manifest.name, exports)

    if impl is None:
        raise TypeError("import_ takes a manifest or an impl")
    from reconciler.backends import registry

    properties = dict(config or {})
    with catalog_errors("import", impl, tuple(properties.values())):
        backend = registry.connect(impl, properties)
        backend.parallelism = parallelism
        try:
            snapshot = backend.scan()
        finally:
            backend.close()
    name, _, catalog_name = (_only_owner(snapshot) or "imported/main").partition("/")
    texts = {key: escape(value) for key, value in properties.items()}
    export = ExportCatalog(catalog or catalog_name, impl, texts, _manageable(snapshot), EVERYTHING)
    return to_yaml(name, [export])


def _scan(connection: Connection) -> Snapshot:
    return _manageable(connection.backend.scan(connection.desired.scope))


def _manageable(snapshot: Snapshot) -> Snapshot:
    """Return ``snapshot`` with the properties that a manifest should name."""
    return Snapshot(
        {identifier: _without_noise(namespace) for identifier, namespace in snapshot.namespaces.items()},
        {identifier: _without_noise(table) for identifier, table in snapshot.tables.items()},
        snapshot.notes,
    )


def _without_noise(live: LiveT) -> LiveT:
    """Keep what lancens set on an owned object, and what somebody set on an unowned one."""
    properties = live.properties
    if ownership.owner_of(properties) is not None:
        recorded = ownership.recorded_keys(properties)
        kept = {key: value for key, value in properties.items() if key in recorded}
    else:
        kept = {
            key: value
            for key, value in properties.items()
            if key not in _ENGINE_KEYS and not ownership.is_reserved_key(key)
        }
    return replace(live, properties=kept)


def _only_owner(snapshot: Snapshot) -> str | None:
    """Return the one that owns whatever is owned; None when nobody does, or more than one."""
    objects: Iterable[LiveNamespace | LiveTable] = chain(snapshot.namespaces.values(), snapshot.tables.values())
    owners = {owner for live in objects if (owner := ownership.owner_of(live.properties)) is not None}
    return owners.pop() if len(owners) == 1 else None
