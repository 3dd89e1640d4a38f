"""The digest by which a saved plan knows its manifest again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence

from reconciler import locations
from reconciler.manifest.manifest import ManifestCatalog
from reconciler.names import Identifier
from reconciler.state import DesiredNamespace, DesiredTable, Thresholds

__all__ = ["digest_of"]


def digest_of(
    name: str,
    thresholds: Thresholds,
    catalogs: Sequence[tuple[ManifestCatalog, Mapping[Identifier, str]]],
    folder: str,
) -> str:
    """Return the SHA-256 over what the manifest means.

    Beside each catalog stand the tables whose location was written relative: they count as seen from ``folder``.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        digest.update(json.dumps(parts, ensure_ascii=True, separators=(",", ":")).encode())
        digest.update(b"\n")

    add("manifest", 1, name, thresholds.max_removal_percent, thresholds.min_tables)
    for catalog, relative in sorted(catalogs, key=lambda pair: pair[0].name):
        desired = catalog.desired
        texts = catalog.config.texts(folder)
        config = sorted((catalog.config.plain_key(entry), texts[entry.key]) for entry in catalog.config.entries)
        add("catalog", catalog.name, catalog.impl, config, desired.prune.value, sorted(desired.scope.patterns))
        for _, namespace in sorted(desired.namespaces.items()):
            add("namespace", *_namespace_parts(namespace))
        for identifier, table in sorted(desired.tables.items()):
            location = table.location
            if identifier in relative:
                inside = relative[identifier].removeprefix(f"{folder}/")
                location = os.path.relpath(inside, folder) if inside.startswith("/") else inside
            add("table", *_table_parts(table, location))
        for move in sorted(desired.moves, key=lambda move: (move.to, move.is_table)):
            add("moved", move.origin, move.to, move.is_table)
    return digest.hexdigest()


def _namespace_parts(namespace: DesiredNamespace) -> tuple[object, ...]:
    if not namespace.claimed:
        return (namespace.id, namespace.kind)
    properties = sorted(namespace.properties.items())
    return (namespace.id, properties, namespace.absent, namespace.protect, namespace.kind)


def _table_parts(table: DesiredTable, location: str | None) -> tuple[object, ...]:
    schema = None
    if table.schema is not None:
        schema = [
            (column.name, column.type, column.nullable, sorted(column.metadata.items())) for column in table.schema
        ]
    return (
        table.id,
        sorted(table.properties.items()),
        None if location is None else locations.normalise(location),
        schema,
        table.evolve.value,
        table.extra_columns.value,
        table.probe,
        table.absent,
        table.protect,
    )
