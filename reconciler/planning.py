"""Make a plan: read the catalogs, look at storage, and hand both to the planner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler import storage
from reconciler.backends.parallel import in_parallel
from reconciler.connections import Connection, open_connections, read_all
from reconciler.errors import SelectionError
from reconciler.names import EVERYTHING, Identifier, Scope
from reconciler.planner import make_plan
from reconciler.planner.catalog import droppable_namespaces
from reconciler.planner.facts import CatalogInput, Facts, PlanOptions, StorageQuestion, TableFacts, storage_questions
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.planner.safety import check_removals
from reconciler.state import DEFAULT_PARALLELISM, Schema, Snapshot, Storage, StorageKind

if TYPE_CHECKING:
    from reconciler.manifest import Manifest

__all__ = ["plan", "read_catalog"]

_NOT_LOOKED_AT = Storage(StorageKind.UNKNOWN)


def plan(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return the plan that makes the live catalogs what ``manifest`` says. Nothing is changed.

    Args:
        manifest: from :func:`reconciler.load`.
        select: globs over ``catalog/namespace/table``; only what they match is planned, and missing ancestors of it.
        adopt: also mark unowned objects that equal their block.
        take_over: claim objects that another manifest owns.
        allow_mass_removal: make a plan that removes more than the manifest's thresholds allow.
        parallelism: how many requests and storage probes run at once.

    Raises:
        ManifestError: a placeholder in a ``config`` cannot be resolved.
        CatalogError: a catalog could not be read completely.
        PlanError: desired and live state conflict; every conflict is named.
        SelectionError: a glob of ``select`` matches nothing.
        SafetyError: too much would be removed.
    """
    selection = Scope(tuple(select)) if select else EVERYTHING
    concerned = [name for name in manifest.catalogs if selection.below(name).patterns]

    def read(connection: Connection) -> CatalogInput:
        selected = selection.below(connection.name)
        if connection.backend.capabilities.folds_case:
            selected = selected.folded()
        options = PlanOptions(adopt=adopt, take_over=take_over, select=selected)
        return read_catalog(connection, options, parallelism)

    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        inputs = read_all(connections.values(), read, parallelism)
    _check_selection(select, inputs)
    reference = ManifestRef(name=manifest.name, digest=manifest.digest, files=tuple(manifest.files))
    made = make_plan(reference, manifest.thresholds, inputs)
    if not allow_mass_removal:
        check_removals(made)
    return made


def read_catalog(connection: Connection, options: PlanOptions, parallelism: int) -> CatalogInput:
    """Return all the planner has to know of one catalog: its entries, its storage and what its namespaces hold.

    Raises:
        LanceNamespaceError: something could not be read.
    """
    desired, backend = connection.desired, connection.backend
    live = backend.scan(desired.scope)
    questions = list(storage_questions(desired, live, options.select))
    found = _ask_storage(connection, questions, parallelism)
    notes = backend.schema_notes(_schemas_to_show(questions, found, live))
    live = replace(live, notes=(*live.notes, *notes))
    source = CatalogInput(
        desired, live, backend.capabilities, connection.impl, Facts(found), options, connection.service
    )
    candidates = droppable_namespaces(source)
    names = in_parallel(lambda identifier: _occupants(connection, live, identifier), candidates, parallelism)
    occupants = dict(zip(candidates, names, strict=True))
    return replace(source, facts=Facts(found, occupants))


def _ask_storage(
    connection: Connection, questions: Collection[StorageQuestion], parallelism: int
) -> Mapping[Identifier, TableFacts]:
    """Open the location of each table in question."""
    backend = connection.backend
    asked = list(questions)
    places = dict(
        in_parallel(
            lambda question: (
                question.table.id,
                question.location or backend.default_location(question.table.id),
            ),
            asked,
            parallelism,
        )
    )
    probed = {question.table.id for question in questions if question.table.probe}
    locations = {place for identifier, place in places.items() if place is not None and identifier in probed}
    found = storage.probe_many(locations, backend.storage_options(), parallelism)
    return {
        identifier: TableFacts(
            place,
            found[place] if place in found and identifier in probed else _NOT_LOOKED_AT,
            None if place is None else backend.location_problem(identifier, place),
        )
        for identifier, place in places.items()
    }


def _schemas_to_show(
    questions: Iterable[StorageQuestion], found: Mapping[Identifier, TableFacts], live: Snapshot
) -> Iterator[Schema]:
    """Yield the columns that the catalog will be told of: those of the tables to be made."""
    for table in (question.table for question in questions):
        schema = table.schema or found[table.id].storage.schema
        if schema is not None and table.id not in live.tables:
            yield schema


def _occupants(connection: Connection, live: Snapshot, identifier: Identifier) -> tuple[str, ...]:
    """Return what a namespace holds that the snapshot does not show: foreign objects, and what is out of scope."""
    backend = connection.backend
    names = list(backend.foreign_objects(identifier))
    if not connection.desired.scope.is_everything:
        names += [name for name in backend.child_tables(identifier) if (*identifier, name) not in live.tables]
        names += [name for name in backend.child_namespaces(identifier) if (*identifier, name) not in live.namespaces]
    return tuple(names)


def _check_selection(select: Sequence[str], inputs: Sequence[CatalogInput]) -> None:
    for pattern in select:
        scope = Scope((pattern,))
        if not any(_selects(scope.below(source.desired.name), source) for source in inputs):
            raise SelectionError(f"--select `{pattern}` matches no namespace and no table, in the manifest or live")


def _selects(scope: Scope, source: CatalogInput) -> bool:
    if source.capabilities.folds_case:
        scope = scope.folded()
    return bool(scope.patterns) and any(map(scope.contains, _identifiers(source)))


def _identifiers(source: CatalogInput) -> Iterator[Identifier]:
    yield from source.desired.namespaces
    yield from source.desired.tables
    yield from source.live.namespaces
    yield from source.live.tables
