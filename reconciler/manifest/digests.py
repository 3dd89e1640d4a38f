"""The digest by which a saved plan knows its manifest again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence

from reconciler.manifest.manifest import ManifestCatalog
from reconciler.model import locations
from reconciler.model.desired import DesiredNamespace, DesiredTable, Thresholds
from reconciler.model.names import Identifier, address, join
from reconciler.model.redaction import redact_properties, slow_digest

_MOST_ALIKE = 2**12
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def digest_of(
    name: str,
    thresholds: Thresholds,
    catalogs: Sequence[tuple[ManifestCatalog, Mapping[Identifier, str]]],
    folder: str,
) -> str:
    """Return the SHA-256 over what the manifest means.

    Beside each catalog stand the tables whose location was written relative: they count as seen from ``folder``. Values
    that are secrets count by a slow digest, so that this one does not tell whether a guess is right.
    """
    digest = hashlib.sha256()
    for line in _lines(name, thresholds, catalogs, folder):
        digest.update(line)
    return digest.hexdigest()


def _lines(
    name: str,
    thresholds: Thresholds,
    catalogs: Sequence[tuple[ManifestCatalog, Mapping[Identifier, str]]],
    folder: str,
) -> Iterator[bytes]:
    yield _line("manifest", 3, name, thresholds.max_removal_percent, thresholds.min_tables)
    for catalog, relative in sorted(catalogs, key=lambda pair: pair[0].name):
        desired, texts = catalog.desired, catalog.config.texts(folder)
        config = sorted((catalog.config.plain_key(entry), texts[entry.key]) for entry in catalog.config.entries)
        yield _line("catalog", catalog.name, catalog.impl, config, desired.prune.value, sorted(desired.scope.patterns))
        for _, namespace in sorted(desired.namespaces.items()):
            claims = (_properties(catalog.name, namespace), namespace.absent, namespace.protect)
            yield _line("namespace", namespace.id, *(claims if namespace.claimed else ()), namespace.kind)
        yield _line("tables", len(desired.tables))
        yield from _tables(catalog, relative, folder)
        if (mirror := desired.mirror) is not None:
            names, defaults = sorted(mirror.names.items()), sorted(mirror.defaults.items())
            said = [(name, *_table_parts(catalog.name, table, None)) for name, table in defaults]
            yield _line("mirror", mirror.origin, sorted(mirror.select.patterns), mirror.into, names, said)
        for move in sorted(desired.moves, key=lambda move: (move.to, move.is_table)):
            yield _line("moved", move.origin, move.to, move.is_table)


def _tables(catalog: ManifestCatalog, relative: Mapping[Identifier, str], folder: str) -> Iterator[bytes]:
    """Yield what the digest is taken over for each table; ``relative`` are the locations that were written relative."""
    alike: dict[tuple[object, ...], bytes] = {}
    for identifier, table in sorted(catalog.desired.tables.items()):
        location = table.location
        if location is not None and location in catalog.places:
            location = slow_digest(location, address(catalog.name, identifier))
        elif identifier in relative:
            inside = relative[identifier].removeprefix(f"{folder}/")
            location = os.path.relpath(inside, folder) if inside.startswith("/") else inside
        key = _alike(table) if location is None else None
        said = alike.get(key) if key is not None else None
        if said is None:
            said = _line(*_table_parts(catalog.name, table, location))
            # What stands in the place of a secret is another text for every table.
            shows_all = redact_properties(table.properties) == table.properties
            if key is not None and shows_all and len(alike) < _MOST_ALIKE:
                alike[key] = said
        yield b"%s %s" % (join(identifier).encode(), said)


def _alike(table: DesiredTable) -> tuple[object, ...] | None:
    """Return what tables have in common that say the same; None where it takes more than a look to tell.

    Many tables of a manifest say the same, and then hold the same properties.
    """
    if table.schema is not None or table.secret_keys:
        return None
    return id(table.properties), table.evolve, table.extra_columns, table.probe, table.absent, table.protect


def _line(*parts: object) -> bytes:
    return _ENCODER.encode(parts).encode() + b"\n"


def _table_parts(catalog: str, table: DesiredTable, location: str | None) -> tuple[object, ...]:
    schema = None
    if table.schema is not None:
        where = address(catalog, table.id)
        schema = [
            (column.name, column.type, column.nullable, sorted(redact_properties(column.metadata, where).items()))
            for column in table.schema
        ]
    return (
        _properties(catalog, table),
        None if location is None else locations.normalise(location),
        schema,
        table.evolve.value,
        table.extra_columns.value,
        table.probe,
        table.absent,
        table.protect,
    )


def _properties(catalog: str, desired: DesiredNamespace | DesiredTable) -> list[tuple[str, str]]:
    if not desired.properties:
        return []
    where = address(catalog, desired.id)
    return sorted(redact_properties(desired.properties, where, desired.secret_keys).items())
