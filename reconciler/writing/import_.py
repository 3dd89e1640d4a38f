"""Write a manifest of live catalogs: the first step to manage existing ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from reconciler import storage
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model import locations, ownership
from reconciler.model.backend_config import plain_key
from reconciler.model.columns import Schema
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.desired import DesiredCatalog
from reconciler.model.errors import BackendError, ConfigError, SelectionError
from reconciler.model.live import LiveTable, Snapshot, Storage, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope, address
from reconciler.operations.connections import (
    CatalogSpec,
    Connection,
    missing_root,
    open_connections,
    read_all,
    secret_locations_of,
)
from reconciler.operations.manifests import manifest_of_service
from reconciler.operations.unregistered import UnregisteredDatasets, find_unregistered, glimpse_unregistered
from reconciler.planner.moves import moves_of, pairs
from reconciler.planner.placeholders import location_hider
from reconciler.writing.clones import ImportedClones, find_clones
from reconciler.writing.export import ExportCatalog, name_from_folder, to_yaml
from reconciler.writing.importable import (
    Identity,
    identity_of,
    is_owned_outside,
    location_text,
    manageable,
    new_identity,
    owners_left_out,
    text_of_root,
    within,
)

_UNREGISTERED = "data without an entry in any catalog: apply registers it, and does not change it"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ExtendedManifest:
    """A manifest to which an import adds what it lacks.

    Args:
        catalogs: its desired state by catalog; blocks for these objects are not written again.
        identity: its id, for the marks in a catalog that it gets.
        templates: the texts of values that come from variables in it, by key and value.
    """

    catalogs: Mapping[str, DesiredCatalog]
    identity: str | None = None
    templates: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Which objects to write, and how.

    Args:
        select: globs over ``catalog/namespace/table``; only matching objects are written.
        unmanaged: only objects that no manifest manages.
        with_schema: also the columns of each dataset.
        from_storage: also a block for each dataset under the catalogs' roots without an entry.
        extended: the manifest to which the text is added; None for a new one.
        policies: write policies for the properties of tables instead of blocks.
        name: the name of the manifest, by default that of the given one, otherwise that of the folder.
        parallelism: how many requests and storage probes run at once.
    """

    select: Sequence[str] = ()
    unmanaged: bool = False
    with_schema: bool = False
    from_storage: bool = False
    extended: ExtendedManifest | None = None
    policies: bool = False
    name: str | None = None
    parallelism: int = DEFAULT_PARALLELISM

    def existing(self, catalog: str) -> DesiredCatalog | None:
        """Return what the extended manifest desires of a catalog; None if it has no such catalog."""
        return None if self.extended is None else self.extended.catalogs.get(catalog)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The ``text`` of a manifest, its ``name``, the number of its namespaces and tables, and remarks for a person."""

    text: str
    name: str
    namespaces: int
    tables: int
    remarks: Sequence[str]


@dataclass(slots=True)
class _ImportedCatalog:
    """One catalog to import: what was read of it, and the ``chosen`` objects to write.

    ``config_texts`` is its ``config`` with placeholders; ``secret_locations`` maps locations with secrets to their
    templates. ``owner`` is in the marks of what the manifest to write manages.
    """

    name: str
    spec: CatalogSpec
    backend: Backend
    config_texts: Mapping[str, str]
    secret_locations: Mapping[str, str]
    scope: Scope
    owner: str
    snapshot: Snapshot
    chosen: Snapshot = field(default_factory=Snapshot)
    unregistered: UnregisteredDatasets = field(default_factory=UnregisteredDatasets)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.spec.impl})"

    @property
    def names(self) -> list[Identifier]:
        return [*self.chosen.namespaces, *self.chosen.tables]

    def selection(self, patterns: Sequence[str]) -> Scope:
        scope = Scope(tuple(patterns)).below(self.name)
        return scope.folded() if self.backend.capabilities().folds_case else scope

    def keep(self, names: Iterable[Identifier]) -> None:
        remaining = set(names)
        self.chosen = within(self.chosen, lambda entry: entry.id in remaining)


def import_(
    manifest: Manifest | None = None,
    *,
    catalog: str | None = None,
    impl: str | None = None,
    config: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    select: Sequence[str] = (),
    unmanaged: bool = False,
    with_schema: bool = False,
    from_storage: bool = False,
    policies: bool = False,
    name: str | None = None,
    parallelism: int = DEFAULT_PARALLELISM,
) -> str:
    """Return the text of a manifest of live catalogs; planning it gives no changes.

    Either ``manifest`` has the catalogs, and ``catalog`` picks one of them. Or ``impl`` and ``config`` describe one,
    and ``catalog`` is its name in a new manifest, which is named after the folder.

    To write a lost manifest again, give ``impl``, ``config`` and its ``name``. The text then has its id, as in the
    marks of the objects that it owns. If it owns objects there as several catalogs, ``catalog`` picks one.

    Relative paths start at ``folder``, by default the manifest's folder or the current one. Objects of other manifests
    are left out, with a comment. For the other arguments see :class:`ImportOptions`; apply registers the datasets that
    ``from_storage`` adds.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: ``catalog`` is not in the manifest or owns nothing; a glob of ``select`` matches nothing.
        ConfigError: ``impl`` is unknown; the root does not exist.
    """
    options = ImportOptions(
        select=select,
        unmanaged=unmanaged,
        with_schema=with_schema,
        from_storage=from_storage,
        policies=policies,
        name=name,
        parallelism=parallelism,
    )
    return import_with_counts(manifest, options, catalog=catalog, impl=impl, config=config, folder=folder).text


def import_with_counts(
    manifest: Manifest | None,
    options: ImportOptions,
    *,
    catalog: str | None = None,
    impl: str | None = None,
    config: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> ImportResult:
    """Run :func:`import_`; return its text with counts and remarks.

    Raises:
        CatalogError, SelectionError, ConfigError: see :func:`import_`.
    """
    folder = os.path.realpath(folder or (manifest.folder if manifest is not None else "."))
    is_service = manifest is None
    if manifest is None:
        if impl is None:
            raise TypeError("import takes a manifest or an impl")
        manifest = manifest_of_service(impl, _with_portable_root(impl, config or {}, folder))
    concerned = None if catalog is None or is_service else [catalog]
    with open_connections(manifest, concerned, parallelism=options.parallelism) as connections:
        lives = _read_catalogs(manifest, connections, folder, options)
        identity = _identity(manifest, lives, options, catalog, folder, is_service=is_service)
        for live in lives:
            if is_service:
                live.name = identity.catalog
            live.owner = identity.owner(live.name)
        missing = _missing_root_message(lives[0]) if is_service else None
        if missing is not None:
            raise ConfigError(
                f"{missing} Nothing was written. Check the path; `lancens apply` of a manifest creates a new root."
            )
        return _manifest_text(identity, lives, options)


def _identity(
    manifest: Manifest,
    lives: Sequence[_ImportedCatalog],
    options: ImportOptions,
    catalog: str | None,
    folder: str,
    *,
    is_service: bool,
) -> Identity:
    """Return the identity of the manifest to write.

    That of ``manifest``, unless only unmanaged objects are imported. For a service, that of the extended manifest, or
    of the one called ``options.name`` if it owns objects there. Otherwise a new one.
    """
    if not is_service and not options.unmanaged:
        return Identity(manifest.name, manifest.identity)
    name, snapshots = options.name or name_from_folder(folder), [live.snapshot for live in lives]
    if options.extended is not None and catalog is not None:
        return Identity(name, options.extended.identity, catalog)
    if options.name is None or options.unmanaged:
        return new_identity(snapshots, catalog, name)
    return identity_of(snapshots[0], catalog, name)


def _read_catalogs(
    manifest: Manifest, connections: Mapping[str, Connection], folder: str, options: ImportOptions
) -> list[_ImportedCatalog]:
    snapshots = read_all(
        connections.values(),
        lambda connection: connection.spec.scan(connection.backend, connection.desired.scope),
        options.parallelism,
    )
    secret_locations = secret_locations_of(manifest)
    return [
        _ImportedCatalog(
            name,
            connection.spec,
            connection.backend,
            manifest.catalogs[name].config.relative_templates(folder),
            secret_locations,
            connection.desired.scope,
            connection.desired.owner,
            snapshot,
        )
        for (name, connection), snapshot in zip(connections.items(), snapshots, strict=True)
    ]


def _with_portable_root(impl: str, properties: Mapping[str, str], folder: str) -> dict[str, str]:
    """Make the root of a directory catalog relative to the current folder if it is below ``folder``.

    Values of ``--config`` are relative to the current folder; the manifest's text has them relative to ``folder``.
    """
    portable = dict(properties)
    if registry.backend_class(impl).is_its_root:
        for key in (key for key in properties if plain_key(impl, key) in ("root", "path")):
            path = storage.local_path(properties[key])
            if path is not None and path.is_absolute() and locations.is_under(folder, os.path.realpath(path)):
                portable[key] = os.path.relpath(os.path.realpath(path))
    return portable


def _manifest_text(identity: Identity, lives: Sequence[_ImportedCatalog], options: ImportOptions) -> ImportResult:
    """Choose the objects of each catalog; return the text of their manifest, with counts and remarks."""
    for live in lives:
        live.chosen = manageable(live.snapshot, live.owner, unmanaged=options.unmanaged)
    if options.from_storage:
        _add_unregistered(lives, options.parallelism)
    elif options.extended is None and not options.policies:
        _note_unregistered(lives, options.parallelism)
    remarks = [line for live in lives for line in map(location_hider(live.secret_locations), _remarks(live, options))]
    if options.extended is None and not options.unmanaged:
        remarks += owners_left_out((live.snapshot for live in lives), identity)
    _select(lives, options.select)
    if options.extended is None and options.select:
        lives = [live for live in lives if live.names]
    for live in lives:
        existing = options.existing(live.name)
        if existing is not None:
            _keep_missing(live, existing)
    exports, clones = [], _clones(lives, options)
    for live in lives:
        with live.spec.errors():
            exports.append(_export(live, options, clones[live.name]))
    return ImportResult(
        to_yaml(identity.name, exports, identity.id),
        identity.name,
        sum(len(live.chosen.namespaces) for live in lives),
        sum(len(live.chosen.tables) for live in lives),
        remarks,
    )


def _keep_missing(live: _ImportedCatalog, existing: DesiredCatalog) -> None:
    """Keep only what ``existing`` has no block for, or a block that lacks the location of a moved table."""
    unlocated = {table.id: table for table in _moved_without_location(live, existing)}
    live.keep(set(live.names).difference(existing.tables, existing.namespaces, _mirrored_entries(live, existing)))
    live.chosen = replace(live.chosen, tables={**live.chosen.tables, **unlocated})


def _mirrored_entries(live: _ImportedCatalog, existing: DesiredCatalog) -> set[Identifier]:
    """Return the names of entries that a mirror or clone made, and of their owned namespaces: they need no blocks."""
    if existing.mirror is None:
        return set()
    tables, owned = live.snapshot.tables.items(), partial(ownership.is_same_owner, owner=existing.owner)
    origin = existing.mirror.origin
    mirrored = {name for name, entry in tables if ownership.follows(entry.properties, origin)}
    above = {name[:depth] for name in mirrored for depth in range(1, len(name))}
    ancestors = (live.snapshot.namespaces[name] for name in above if name in live.snapshot.namespaces)
    return mirrored | {entry.id for entry in ancestors if owned(ownership.owner_of(entry.properties))}


def _moved_without_location(live: _ImportedCatalog, existing: DesiredCatalog) -> Iterator[LiveTable]:
    """Yield moved tables whose blocks need a ``location``, without properties, which the blocks have.

    The data of a moved table stays where it is, and the default location changes with the name. A name with variables
    has a location in each environment, and its line of ``moved`` stays.
    """
    moves = moves_of(existing)
    for pair in pairs(moves, existing.tables, live.chosen.tables) if moves else ():
        if pair.live is not None and pair.is_located_by_entry and "${" not in existing.as_written(pair.live.id):
            yield LiveTable(pair.live.id, pair.live.location)


def _remarks(live: _ImportedCatalog, options: ImportOptions) -> Iterator[str]:
    """Yield remarks on an empty catalog, and on data without a block."""
    yield from (f"{live.label}: {line}" for line in live.unregistered.nameless)
    left_out = live.unregistered.tables or live.unregistered.nameless
    if not (live.snapshot.namespaces or live.snapshot.tables or left_out):
        roots = ", ".join(map(location_hider(live.secret_locations), map(locations.redact, live.backend.roots())))
        under_roots = f" under {roots}" if roots else ""
        elsewhere = "" if options.from_storage else ", or find data without entries with --from-storage"
        within_scope = "" if live.scope.is_everything else f" in its scope {', '.join(live.scope.patterns)}"
        yield _missing_root_message(live) or (
            f"{live.label}: there is no namespace and no Lance table{under_roots}{within_scope}. "
            f"If you expected some, check `config`{elsewhere}."
        )


def _missing_root_message(live: _ImportedCatalog) -> str | None:
    """Return the message for a missing root of a directory catalog, None where it exists."""
    root = missing_root(live.backend)
    return None if root is None else f"{live.label}: the root {root} does not exist."


def _entered_places(lives: Iterable[_ImportedCatalog]) -> set[str]:
    """Return the places of all tables with an entry."""
    entered = [table.location for live in lives for table in live.snapshot.tables.values()]
    return {*map(locations.objects_of, storage.resolve_locations(entered))}


def _note_unregistered(lives: Sequence[_ImportedCatalog], parallelism: int) -> None:
    """Note, in the text of a directory, the datasets that it leaves out because they have no entry."""
    entered = _entered_places(lives)
    for live in (live for live in lives if live.backend.is_its_root and live.scope.is_everything):
        paths: Sequence[str] = ()
        with suppress(BackendError):  # nothing of the import depends on it
            paths = glimpse_unregistered(live.backend, entered, parallelism)
        if paths:
            named = ", ".join(paths[:_MOST_NAMED]) + (", …" if len(paths) > _MOST_NAMED else "")
            note = f"data below the root that has no entry is left out; --from-storage adds it: {named}"
            live.unregistered = UnregisteredDatasets(nameless=[note])
            live.chosen = replace(live.chosen, notes=(*live.chosen.notes, note))


def _add_unregistered(lives: Sequence[_ImportedCatalog], parallelism: int) -> None:
    """Add the datasets without an entry to the catalog whose root they are under."""
    known_locations = _entered_places(lives)
    for live in lives:
        with live.spec.errors():
            live.unregistered = find_unregistered(live.backend, known_locations, live.snapshot, parallelism, live.scope)
        known_locations.update(
            storage.resolve_locations([table.location for table in live.unregistered.tables.values()])
        )
        live.chosen = replace(live.chosen, tables={**live.chosen.tables, **live.unregistered.tables})


def _select(lives: Sequence[_ImportedCatalog], select: Sequence[str]) -> None:
    """Keep only the objects that the globs match, and narrow the scopes of the catalogs to them.

    The text names the namespaces above a kept object, without their properties.

    Raises:
        SelectionError: a glob matches nothing.
    """
    for pattern in select:
        if not any(any(map(live.selection([pattern]).contains, live.names)) for live in lives):
            raise SelectionError(
                f"--select `{pattern}` matches no namespace and no table in {', '.join(live.label for live in lives)}"
            )
    for live in lives if select else ():
        selection = live.selection(select)
        live.keep(filter(selection.contains, live.names))
        if live.scope.is_everything:
            live.scope = selection  # what is not selected may be another team's
        elif is_owned_outside(live.snapshot, live.owner, selection):
            # Without another scope, a plan of this manifest would remove the owned objects that are not selected.
            live.scope = Scope(tuple(sorted(map("/".join, live.names))) or live.scope.patterns)


def _clones(lives: Sequence[_ImportedCatalog], options: ImportOptions) -> Mapping[str, ImportedClones]:
    """Return the clones among the chosen tables of each catalog."""
    extended = options.extended.catalogs if options.extended is not None else {}
    read = {live.name: live for live in lives}

    def written(catalog: str, table: Identifier) -> str | None:
        source, existing = read.get(catalog), extended.get(catalog)
        if source is not None and not (table in source.snapshot.tables and source.scope.contains(table)):
            return None
        if source is None and (existing is None or table not in existing.tables):
            return None
        return existing.as_written((catalog, *table)) if existing is not None else address(catalog, table)

    sources = {name: desired.sources for name, desired in extended.items()}
    tables = {
        live.name: [entry for name, entry in live.snapshot.tables.items() if name in live.chosen.tables]
        for live in lives
    }
    return find_clones(tables, sources, written)


def _export(live: _ImportedCatalog, options: ImportOptions, clones: ImportedClones) -> ExportCatalog:
    """Return the part of a catalog to write."""
    templates = {} if options.extended is None else options.extended.templates
    root_text = text_of_root(live.config_texts, live.spec.impl) if live.backend.is_its_root else None
    directories = {location: text for (key, location), text in templates.items() if key == "location"}
    directories |= live.secret_locations
    directories |= {root: root_text for root in live.backend.roots() if root_text is not None}
    longest_first = {location: directories[location] for location in sorted(directories, key=len, reverse=True)}
    texts_of_locations = in_parallel(
        partial(_location_text, live.backend, longest_first), live.chosen.tables.values(), options.parallelism
    )
    existing = options.existing(live.name)
    is_new, written_names = existing is None, {} if existing is None else existing.written_names
    texts = dict(zip(live.chosen.tables, texts_of_locations, strict=True))
    for name, text in texts.items():
        if text is not None and "${" not in text and not written_names.keys().isdisjoint(name):
            texts[name] = None  # of one environment alone, and the block is for all
    return ExportCatalog(
        live.name,
        live.spec.impl if is_new else None,
        live.config_texts if is_new else {},
        live.chosen,
        live.scope if is_new else EVERYTHING,
        location_texts=texts,
        schemas=_schemas(live, options.parallelism) if options.with_schema else {},
        tags=_tags(live, options.parallelism),
        remarks={**dict.fromkeys(live.unregistered.tables, _UNREGISTERED), **clones.comments},
        clones=clones.blocks,
        as_policies=options.policies,
        templates=templates,
        capabilities=live.backend.capabilities(),
        written_names=written_names,
    )


def _location_text(backend: Backend, directories: Mapping[str, str], table: LiveTable) -> str | None:
    """Return the text of a table's location in the manifest; None where it is the default."""
    try:
        default = backend.default_location(table.id)
    except BackendError:  # it depends on a missing object
        default = None
    return location_text(table, default, directories)


def _tags(live: _ImportedCatalog, parallelism: int) -> dict[Identifier, Mapping[str, str]]:
    """Return the tags that lancens set: a plan without them would remove them."""

    def tags_of(table: LiveTable) -> Mapping[str, str]:
        options = live.backend.table_storage_options(table)
        tags = storage.find_tags(table.location, options, {}, ownership.recorded_tags(table.properties))
        return {} if isinstance(tags, Storage) else tags.there

    tagged = [table for table in live.chosen.tables.values() if ownership.recorded_tags(table.properties)]
    return {table.id: tags for table, tags in zip(tagged, in_parallel(tags_of, tagged, parallelism), strict=True)}


def _schemas(live: _ImportedCatalog, parallelism: int) -> dict[Identifier, Schema]:
    tables = list(live.chosen.tables.values())
    probed = in_parallel(
        lambda table: storage.probe(table.location, live.backend.table_storage_options(table)),
        tables,
        parallelism,
    )
    return {
        table.id: stored.schema
        for table, stored in zip(tables, probed, strict=True)
        if stored.kind is StorageKind.DATASET and stored.schema is not None
    }
