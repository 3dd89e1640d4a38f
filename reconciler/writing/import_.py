"""Write the manifest of what is there: the first step of bringing existing catalogs under management."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.backends import optional, registry
from reconciler.model import locations
from reconciler.model.columns import Schema
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.desired import DesiredCatalog
from reconciler.model.errors import BackendError, ConfigError, SelectionError
from reconciler.model.live import LiveTable, Snapshot, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.operations.connections import CatalogSpec, Connection, missing_root, open_connections, read_all
from reconciler.operations.manifests import manifest_of_service
from reconciler.operations.unregistered import UnregisteredDatasets, find_unregistered
from reconciler.writing.export import ExportCatalog, to_yaml
from reconciler.writing.importable import (
    is_owned_outside,
    manageable,
    names_of,
    place_text,
    texts_of_root,
    unmanaged_name,
    within,
)

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest


_UNREGISTERED = "data that no catalog has: apply registers it, and changes nothing in it"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What to write a manifest of.

    Args:
        select: globs over ``catalog/namespace/table``; only what they match is written.
        unmanaged: only what no manifest manages.
        with_schema: the columns of each table too, as its dataset has them.
        from_storage: also a block for each dataset under the catalogs' roots that none of them has.
        beside: what a manifest says already, by catalog: it is not written again.
        parallelism: how many requests and storage probes run at once.
    """

    select: Sequence[str] = ()
    unmanaged: bool = False
    with_schema: bool = False
    from_storage: bool = False
    beside: Mapping[str, DesiredCatalog] | None = None
    parallelism: int = DEFAULT_PARALLELISM


@dataclass(frozen=True, slots=True)
class Imported:
    """The ``text`` of a manifest, how many namespaces and tables are in it, and what a person should know of it."""

    text: str
    namespaces: int
    tables: int
    remarks: Sequence[str]


@dataclass(slots=True)
class _Live:
    """One catalog as it was read: its ``snapshot``, and what is written of that."""

    name: str
    spec: CatalogSpec
    backend: Backend
    texts: Mapping[str, str]
    scope: Scope
    owner: str
    snapshot: Snapshot
    chosen: Snapshot = field(default_factory=Snapshot)
    found: UnregisteredDatasets = field(default_factory=UnregisteredDatasets)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.spec.impl})"

    @property
    def names(self) -> list[Identifier]:
        return [*self.chosen.namespaces, *self.chosen.tables]

    def selection(self, patterns: Sequence[str]) -> Scope:
        scope = Scope(tuple(patterns)).below(self.name)
        return scope.folded() if self.backend.capabilities.folds_case else scope

    def keep(self, names: Iterable[Identifier]) -> None:
        kept = set(names)
        self.chosen = within(self.chosen, lambda one: one.id in kept)


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
    parallelism: int = DEFAULT_PARALLELISM,
) -> str:
    """Return the text of a manifest that describes live catalogs; planning it gives no changes.

    Either ``manifest`` names the catalogs (``catalog`` picks one), or ``impl`` and ``config`` describe one directly;
    its names are then those under which most of what is managed there is managed (``catalog`` picks among several).
    Relative paths are written as seen from ``folder``, where the text is going to be kept: by default the manifest's
    own folder, or the current one. Objects that another manifest manages are left out, and a comment says so. The
    other arguments are those of :class:`ImportOptions`; blocks that ``from_storage`` adds are registered by an apply.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: ``catalog`` is not in the manifest, or is not a name it is managed under; a glob of
            ``select`` matches nothing.
        ConfigError: ``impl`` is unknown; the root is not there.
    """
    options = ImportOptions(
        select=select,
        unmanaged=unmanaged,
        with_schema=with_schema,
        from_storage=from_storage,
        parallelism=parallelism,
    )
    return imported(manifest, options, catalog=catalog, impl=impl, config=config, folder=folder).text


def imported(
    manifest: Manifest | None,
    options: ImportOptions,
    *,
    catalog: str | None = None,
    impl: str | None = None,
    config: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Imported:
    """Return what :func:`import_` does, and what there is to say of it.

    Raises:
        CatalogError, SelectionError, ConfigError: see :func:`import_`.
    """
    folder = os.path.realpath(folder or (manifest.folder if manifest is not None else "."))
    is_service = manifest is None
    if manifest is None:
        if impl is None:
            raise TypeError("import takes a manifest or an impl")
        manifest = manifest_of_service(impl, _portable(impl, config or {}, folder))
    concerned = None if catalog is None or is_service else [catalog]
    with open_connections(manifest, concerned, parallelism=options.parallelism) as connections:
        lives = _read(manifest, connections, folder, options)
        if not is_service:
            return _written(manifest.name, lives, options)
        [live] = lives
        name, live.name = names_of(live.snapshot if options.beside is None else Snapshot(), catalog)
        live.owner = f"{name}/{live.name}"
        missing = _missing_root(live)
        if missing is not None:
            raise ConfigError(f"{missing} Nothing was written.")
        return _written(name, lives, options)


def _read(
    manifest: Manifest, connections: Mapping[str, Connection], folder: str, options: ImportOptions
) -> list[_Live]:
    snapshots = read_all(
        connections.values(), lambda one: one.spec.scan(one.backend, one.desired.scope), options.parallelism
    )
    return [
        _Live(
            name,
            one.spec,
            one.backend,
            manifest.catalogs[name].config.texts(folder),
            one.desired.scope,
            one.desired.owner,
            snapshot,
        )
        for (name, one), snapshot in zip(connections.items(), snapshots, strict=True)
    ]


def _portable(impl: str, properties: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return ``properties`` with the root of a catalog that is a directory in ``folder`` as a relative path."""
    portable = dict(properties)
    if registry.backend_class(impl).is_its_root:
        for key in (key for key in properties if key.removeprefix(f"{impl}.") in ("root", "path")):
            path = storage.local_path(properties[key])
            if path is not None and path.is_absolute() and locations.is_under(folder, os.path.realpath(path)):
                portable[key] = os.path.relpath(os.path.realpath(path))
    return portable


def _written(name: str, lives: Sequence[_Live], options: ImportOptions) -> Imported:
    if options.unmanaged:
        name = unmanaged_name(live.snapshot for live in lives)
    for live in lives:
        live.chosen = manageable(live.snapshot, live.owner, unmanaged=options.unmanaged)
    if options.from_storage:
        _search(lives, options.parallelism)
    remarks = list(chain.from_iterable(map(_remarks, lives)))
    _select(lives, options.select)
    for live in lives:
        if said := (options.beside or {}).get(live.name):  # is in the manifest already
            live.keep(set(live.names).difference(said.tables, said.namespaces))
    exports = []
    for live in lives:
        with live.spec.errors():
            exports.append(_export(live, options))
    return Imported(
        to_yaml(name, exports),
        sum(len(live.chosen.namespaces) for live in lives),
        sum(len(live.chosen.tables) for live in lives),
        remarks,
    )


def _remarks(live: _Live) -> Iterator[str]:
    """Yield what to say of a catalog in which there is nothing, and of data that got no block."""
    yield from (f"{live.label}: {line}" for line in live.found.nameless)
    if not (live.snapshot.namespaces or live.snapshot.tables or live.found.tables):
        roots = ", ".join(map(locations.redact, live.backend.roots()))
        where = f" under {roots}" if roots else ""
        within_scope = "" if live.scope.is_everything else f" in its scope {', '.join(live.scope.patterns)}"
        yield _missing_root(live) or (
            f"{live.label}: there is no namespace and no Lance table{where}{within_scope}. "
            "If you expected some, look at `config` again, or find data without entries with --from-storage."
        )


def _missing_root(live: _Live) -> str | None:
    """Return in words that the directory which is the whole catalog is not there; None where it is."""
    root = missing_root(live.backend)
    return None if root is None else f"{live.label}: the root {root} is not there."


def _search(lives: Sequence[_Live], parallelism: int) -> None:
    """Add the datasets that no catalog has to what is written of the catalog under whose root they are."""
    claimed = {storage.place_of(table.location) for live in lives for table in live.snapshot.tables.values()}
    for live in lives:
        with live.spec.errors():
            live.found = find_unregistered(live.backend, claimed, live.snapshot, parallelism)
        claimed.update(storage.place_of(table.location) for table in live.found.tables.values())
        live.chosen = replace(live.chosen, tables={**live.chosen.tables, **live.found.tables})


def _select(lives: Sequence[_Live], select: Sequence[str]) -> None:
    """Leave what the globs match; with what its ancestors are by name only.

    Raises:
        SelectionError: one matches nothing.
    """
    for pattern in select:
        if not any(any(map(live.selection([pattern]).contains, live.names)) for live in lives):
            raise SelectionError(
                f"--select `{pattern}` matches no namespace and no table in {', '.join(live.label for live in lives)}"
            )
    for live in lives if select else ():
        selection = live.selection(select)
        live.keep(filter(selection.contains, live.names))
        if is_owned_outside(live.snapshot, live.owner, selection):
            # A manifest that does not say so would be planned as if what was not selected had been removed from it.
            kept = tuple(sorted(map("/".join, live.names)))
            live.scope = selection if live.scope.is_everything else Scope(kept or live.scope.patterns)


def _export(live: _Live, options: ImportOptions) -> ExportCatalog:
    """Return what is written of a catalog."""

    def place(table: LiveTable) -> str | None:
        try:
            default = live.backend.default_location(table.id)
        except BackendError:  # it hangs on something that is not there
            default = None
        return place_text(table, default, root, root_text)

    root = next(iter(live.backend.roots()), None) if live.backend.is_its_root else None
    root_text = texts_of_root(live.texts, live.spec.impl)
    places = in_parallel(place, live.chosen.tables.values(), options.parallelism)
    says_impl = options.beside is None or live.name not in options.beside
    return ExportCatalog(
        live.name,
        live.spec.impl if says_impl else None,
        live.texts if says_impl else {},
        live.chosen,
        live.scope if says_impl else EVERYTHING,
        places=dict(zip(live.chosen.tables, places, strict=True)),
        schemas=_schemas(live, options.parallelism) if options.with_schema else {},
        remarks=dict.fromkeys(live.found.tables, _UNREGISTERED),
        capabilities=live.backend.capabilities,
    )


def _schemas(live: _Live, parallelism: int) -> dict[Identifier, Schema]:
    tables = list(live.chosen.tables.values())
    looked = in_parallel(
        lambda table: storage.probe(table.location, optional.table_storage_options(live.backend, table)),
        tables,
        parallelism,
    )
    return {
        table.id: found.schema
        for table, found in zip(tables, looked, strict=True)
        if found.kind is StorageKind.DATASET and found.schema is not None
    }
