"""A loaded manifest, and the digest by which a saved plan recognises it."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.manifest.config import ConfigText, ResolvedConfig
from reconciler.manifest.policy import VARIABLES_ONLY
from reconciler.manifest.variables import Resolver, TemplateError
from reconciler.model import locations
from reconciler.model.backend_config import BackendConfig
from reconciler.model.columns import Schema
from reconciler.model.desired import (
    CloneAt,
    DesiredCatalog,
    DesiredClone,
    DesiredNamespace,
    DesiredTable,
    Source,
    Thresholds,
)
from reconciler.model.errors import ManifestError, Problem
from reconciler.model.names import Identifier, address, join
from reconciler.model.redaction import redact_properties, slow_digest
from reconciler.model.rendering import Renderable

_MOST_ALIKE = 2**12
_MOST_SCHEMAS = 2**6
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ManifestCatalog:
    """One catalog: its desired state, and how it is reached."""

    name: str
    impl: str
    desired: DesiredCatalog = field(repr=False)
    config: ConfigText = field(repr=False)
    _resolver: Resolver = field(repr=False)
    hidden_locations: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The template in the manifest of each location that the environment or a file decides."""

    def resolve_config(self) -> ResolvedConfig:
        """Return the ``config`` with its placeholders resolved.

        Raises:
            ManifestError: a placeholder has no value, or a value cannot be used.
        """
        return self.config.resolve(self._resolver)


@dataclass(frozen=True, slots=True, repr=False)
class Manifest(Renderable):
    """The desired state of several catalogs.

    ``digest`` is the SHA-256 of the normalised content. Files, layout, order, comments, the folder and the values of
    placeholders in ``config`` make no difference. ``files`` are relative to the current folder; ``folder`` is the
    absolute one of the first file. ``variables`` are the values of those it uses; ``given`` has those of them that
    differ from ``lancens.vars.yaml``, without secrets. ``warnings`` name unused keys in files of variables. ``origins``
    says what writes each value of the traced object: ``block`` or ``defaults``, and where. ``identity`` is its ``id``,
    if it has one.
    """

    name: str
    digest: str
    files: tuple[str, ...]
    folder: str
    thresholds: Thresholds
    catalogs: Mapping[str, ManifestCatalog]
    variables: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()
    origins: Mapping[str, tuple[str, Source]] = field(default_factory=dict)
    identity: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many objects it names, by kind."""
        blocks = [catalog.desired for catalog in self.catalogs.values()]
        namespaces = sum(len(block.namespaces) for block in blocks)
        return {"catalog": len(blocks), "namespace": namespaces, "table": sum(len(block.tables) for block in blocks)}

    def _headline(self) -> tuple[str, Mapping[str, int]]:
        return self.name, {f"{kind}s": number for kind, number in self.counts.items()}

    @property
    def sources(self) -> dict[str, frozenset[str]]:
        """The catalogs whose tables each catalog mirrors or clones."""
        return {name: catalog.desired.sources for name, catalog in self.catalogs.items()}

    @property
    def upkeep_digest(self) -> str:
        """The SHA-256 of what it asks of `lancens maintain`; no other plan depends on it."""
        requests = [
            (
                name,
                [(table.id, table.maintain) for _, table in sorted(catalog.desired.tables.items()) if table.maintain],
                [(policy.pattern, policy.maintain) for policy in catalog.desired.policies],
            )
            for name, catalog in sorted(self.catalogs.items())
        ]
        return hashlib.sha256(repr(requests).encode()).hexdigest()

    @property
    def services(self) -> dict[str, str]:
        """What people see of the service and root of each catalog (see ``ConfigText.shown_service``)."""
        return {
            name: catalog.config.shown_service(Resolver(VARIABLES_ONLY, self.variables), self.folder)
            for name, catalog in sorted(self.catalogs.items())
        }

    def expanded(self, name: str) -> str:
        """Return ``name`` with its variables resolved; ``name`` itself if one has no value."""
        try:
            return Resolver(VARIABLES_ONLY, self.variables).name(name)
        except TemplateError:
            return name


def service_problems(configs: Iterable[tuple[ManifestCatalog, BackendConfig | None]]) -> Iterator[Problem]:
    """Yield an error for each catalog with the service and root of another one, as far as known.

    Two catalogs may be parts of one service if their scopes have no outermost name in common.
    """
    same: defaultdict[tuple[str, str], list[ManifestCatalog]] = defaultdict(list)
    for catalog, config in configs:
        if config is None:
            continue
        others = same[catalog.impl, config.identity()]
        scope = catalog.desired.scope
        other = next((other for other in others if not scope.is_apart_from(other.desired.scope)), None)
        others.append(catalog)
        if other is not None:
            yield catalog.desired.source.problem(
                f"catalog {catalog.name} and {other.desired.source.exact} {other.name} are the same {catalog.impl} "
                "service and root; expected one catalog for both, or a `scope` in each with other outermost names"
            )


def check_services(manifest: Manifest, configs: Mapping[str, ResolvedConfig]) -> None:
    """Check that no two catalogs, by name in ``configs``, reach the same service and root.

    Raises:
        ManifestError: some do.
    """
    catalogs = [manifest.catalogs[name] for name in configs]
    reached = ((catalog, catalog.config.read(configs[catalog.name].properties)[0]) for catalog in catalogs)
    problems = list(service_problems(reached))
    if problems:
        raise ManifestError(problems)


# ---- digest -------------------------------------------------------------------------------------------------------


CatalogAndRelative: TypeAlias = tuple[ManifestCatalog, Mapping[Identifier, str]]
"""A catalog, and the absolute locations of its tables whose blocks have relative ones."""


def digest_of(name: str, thresholds: Thresholds, catalogs: Sequence[CatalogAndRelative], folder: str) -> str:
    """Return the SHA-256 of the manifest's normalised content.

    Relative locations count as seen from ``folder``. Secrets count by a slow digest, so that this one does not tell
    whether a guess is right.
    """
    digest = hashlib.sha256()
    for line in _lines(name, thresholds, catalogs, folder):
        digest.update(line)
    return digest.hexdigest()


def _lines(name: str, thresholds: Thresholds, catalogs: Sequence[CatalogAndRelative], folder: str) -> Iterator[bytes]:
    yield _line("manifest", 3, name, thresholds.max_removal_percent, thresholds.min_tables)
    for catalog, relative in sorted(catalogs, key=lambda pair: pair[0].name):
        desired, texts = catalog.desired, catalog.config.relative_templates(folder)
        config = sorted((catalog.config.plain_key(entry), texts[entry.key]) for entry in catalog.config.entries)
        yield _line("catalog", catalog.name, catalog.impl, config, desired.prune.value, sorted(desired.scope.patterns))
        for _, namespace in sorted(desired.namespaces.items()):
            claims = (_properties(catalog.name, namespace), namespace.absent, namespace.protect)
            yield _line("namespace", namespace.id, *(claims if namespace.is_claimed else ()), namespace.kind)
        yield _line("tables", len(desired.tables))
        yield from _tables(catalog, relative, folder)
        if (mirror := desired.mirror) is not None:
            names, defaults = sorted(mirror.names.items()), sorted(mirror.defaults.items())
            parts = ((name, _table_parts(catalog.name, table, None)) for name, table in defaults)
            tables = [(name, *before, None, *after) for name, (before, after) in parts]
            at = () if mirror.clones is None else _at_parts(mirror.clones)
            yield _line(mirror.key, mirror.origin, sorted(mirror.select.patterns), mirror.into, names, tables, *at)
        for policy in desired.policies:  # the order counts
            policy_address = address(catalog.name, policy.match.patterns)
            properties = sorted(redact_properties(policy.properties, policy_address, policy.secret_keys).items())
            yield _line("policy", policy.match.patterns, properties)
        for move in sorted(desired.moves, key=lambda move: (move.to, move.is_table)):
            yield _line("moved", move.origin, move.to, move.is_table)


def _tables(catalog: ManifestCatalog, relative: Mapping[Identifier, str], folder: str) -> Iterator[bytes]:
    """Yield a line of the digest for each table; ``relative`` are locations that are written relative."""
    alike: dict[tuple[object, ...], bytes] = {}
    shared_schemas: dict[int, str] = {}
    for identifier, table in sorted(catalog.desired.tables.items()):
        location = table.location
        if location is not None and (hidden := _hidden_part(location, catalog.hidden_locations)):
            location = slow_digest(hidden, catalog.name) + location.removeprefix(hidden)
        elif identifier in relative:
            inside = relative[identifier].removeprefix(f"{folder}/")
            location = os.path.relpath(inside, folder) if inside.startswith("/") else inside
        key = _alike(table) if location is None else None
        line = alike.get(key) if key is not None else None
        if line is None:
            before, after = _table_parts(catalog.name, table, location)
            if table.schema is None:
                line = _line(*before, None, *after)
            else:
                schema = _schema_json(address(catalog.name, identifier), table.schema, shared_schemas)
                line = f"{_ENCODER.encode(before)[:-1]},{schema},{_ENCODER.encode(after)[1:]}\n".encode()
            # The stand-in of a secret differs from table to table.
            if key is not None and len(alike) < _MOST_ALIKE and redact_properties(table.properties) == table.properties:
                alike[key] = line
        yield b"%s %s" % (join(identifier).encode(), line)


def _hidden_part(location: str, hidden: Mapping[str, str]) -> str | None:
    """Return the longest beginning of ``location`` that is one of ``hidden``; None if none is."""
    at = len(location) if hidden else 0
    while at > 0 and location[:at] not in hidden:
        at = location.rfind("/", 0, at)
    return location[:at] if at > 0 else None


def _alike(table: DesiredTable) -> tuple[object, ...] | None:
    """Return a key by which tables with equal digest lines share one; None if they may differ.

    Equal blocks share their properties.
    """
    if table.schema is not None or table.secret_keys or table.tags or table.clones:
        return None
    return id(table.properties), table.evolve, table.extra_columns, table.probe, table.absent, table.protect


def _line(*parts: object) -> bytes:
    return _ENCODER.encode(parts).encode() + b"\n"


def _schema_json(table_address: str, schema: Schema, shared: dict[int, str]) -> str:
    """Return the JSON of a table's ``schema``; those that are equal in all tables are ``shared`` by their ids."""
    text = shared.get(id(schema))
    if text is None:
        columns = [
            (
                column.name,
                column.type,
                column.nullable,
                sorted(redact_properties(column.metadata, table_address).items()) if column.metadata else [],
                *((column.renamed_from,) if column.renamed_from is not None else ()),
            )
            for column in schema
        ]
        text = _ENCODER.encode(columns)
        if all(redact_properties(column.metadata) == column.metadata for column in schema if column.metadata):
            if len(shared) == _MOST_SCHEMAS:
                shared.clear()
            shared[id(schema)] = text
    return text


def _table_parts(
    catalog: str, table: DesiredTable, location: str | None
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the parts of a table's line that come before its schema, and those after it."""
    before = (_properties(catalog, table), None if location is None else locations.normalise(location))
    return before, (
        table.evolve.value,
        table.extra_columns.value,
        table.probe,
        table.absent,
        table.protect,
        *([table.tags] if table.tags else ()),
        *([_clone_parts(table.clones)] if table.clones else ()),
    )


def _clone_parts(clone: DesiredClone) -> tuple[object, ...]:
    return "clone", clone.origin.catalog, clone.origin.identifier, *_at_parts(clone.at)


def _at_parts(at: CloneAt) -> tuple[object, ...]:
    return (at.tag, at.version, *(("pin",) if at.pin else ()), *(("follow",) if at.follow else ()))


def _properties(catalog: str, desired: DesiredNamespace | DesiredTable) -> list[tuple[str, str]]:
    if not desired.properties:
        return []
    object_address = address(catalog, desired.id)
    return sorted(redact_properties(desired.properties, object_address, desired.secret_keys).items())
