"""Make a plan: read the catalogs, look at storage, and hand both to the planner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import chain
from typing import Any

from reconciler import storage
from reconciler.backends import optional
from reconciler.manifest import Manifest
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.display import count
from reconciler.model.errors import SelectionError
from reconciler.model.figures import UNKNOWN
from reconciler.model.live import Snapshot, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.model.redaction import slow_digest
from reconciler.operations.connections import Connection, open_connections, places_of, read_all
from reconciler.operations.facts import (
    ask_held,
    ask_occupants,
    ask_storage,
    check_selection,
    find_stored,
    links_to,
    missing_blocks,
    names_kept,
    schemas_to_show,
)
from reconciler.operations.manifests import expect
from reconciler.operations.profile import Profile
from reconciler.planner.catalog import compare_namespaces, plan_catalog
from reconciler.planner.comparison import Outcomes
from reconciler.planner.entries import Action, Change, Key
from reconciler.planner.facts import (
    CatalogInput,
    Facts,
    PlanOptions,
    TablesInMemory,
    names_in_question,
    new_names,
    storage_questions,
)
from reconciler.planner.mirrors import waves, with_sources
from reconciler.planner.moves import moves_of, pairs
from reconciler.planner.placeholders import hide_places, show_places
from reconciler.planner.plan import CatalogSummary, ManifestRef, Options, Plan, check_removals
from reconciler.planner.planning import Planning


def plan(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    recreate_lost: Sequence[str] = (),
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    profile: Profile | None = None,
) -> Plan:
    """Return the plan that makes the catalogs match ``manifest``; change nothing.

    Args:
        manifest: from :func:`reconciler.load`.
        select: globs over ``catalog/namespace/table``; only their matches and missing ancestors are planned.
        adopt: also mark unowned objects that equal their block.
        take_over: claim objects that another manifest owns.
        recreate_lost: globs like those of ``select``; matches whose data is lost get an empty dataset.
        allow_mass_removal: make a plan that removes more than the manifest's thresholds allow.
        parallelism: how many requests and storage probes run at once.
        profile: records the duration of each stage.

    Raises:
        ManifestError: a placeholder in a ``config`` cannot be resolved.
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob of ``select`` matches nothing.
        SafetyError: too much would be removed.
    """
    expect("plan", manifest, Manifest, "a manifest, such as reconciler.load('lancens.yaml')")
    expect("plan", select, (list, tuple, set, frozenset), "a list of globs as `select`, such as ['lake/**']")
    _, concerned = selected_catalogs(manifest, select)
    asked = Options(select=tuple(select), adopt=adopt, take_over=take_over, recreate_lost=tuple(recreate_lost))
    planning, profile = Planning(), profile or Profile()

    def read(connection: Connection) -> tuple[CatalogInput, Outcomes]:
        options = options_in(connection, asked)
        return read_catalog(connection, options, parallelism, planning, profile, connections.values())

    inputs: list[CatalogInput] = []
    with open_connections(manifest, concerned, parallelism=parallelism, as_planned=True) as connections:
        for names in waves({name: connection.desired for name, connection in connections.items()}):
            for source, namespaces in read_all([connections[name] for name in names], read, parallelism):
                inputs.append(source)
                with profile.stage("compare", connections[source.desired.name]):
                    planning.add(source, plan_catalog(planning.with_written(source), namespaces))
    check_selection([*select, *recreate_lost], [(source, TablesInMemory(source.live.tables)) for source in inputs])
    with profile.stage("order"):
        made = planning.plan(reference(manifest), manifest.thresholds, asked)
    if not allow_mass_removal:
        check_removals(made)
    return hide_places(made, places_of(manifest))


def read_catalog(
    connection: Connection,
    options: PlanOptions,
    parallelism: int,
    planning: Planning,
    profile: Profile,
    others: Collection[Connection],
) -> tuple[CatalogInput, Outcomes]:
    """Return the planner's input for one catalog, and how its namespaces differ.

    ``planning`` has the catalog that it mirrors, ``profile`` records stages, and ``others`` may mirror it.

    Raises:
        BackendError: something could not be read.
    """
    backend, scope = connection.backend, connection.desired.scope
    with profile.stage("scan", connection):
        scanned = connection.spec.scan(backend, scope)
    own, live = replace(input_of(connection, options), live=scanned), scanned
    source = planning.with_mirror(own)
    kept = names_kept(backend, missing_blocks(source.desired, live), chain(live.namespaces, live.tables))
    if kept:
        source = planning.with_mirror(own, kept)
    desired = source.desired
    asked = list(storage_questions(desired, live, options.select))
    with profile.stage("storage", connection):
        found = ask_storage(backend, asked, parallelism, source.mirrored.written if source.mirrored else {})
    notes = optional.schema_notes(backend, schemas_to_show(asked, found))
    source = replace(source, live=replace(live, notes=(*live.notes, *notes)), facts=Facts(found))
    namespaces = compare_namespaces(source)
    missing = [pair for pair in pairs(moves_of(desired), desired.tables, live.tables) if pair.live is None]
    names = names_in_question(missing, options.select)
    with profile.stage("questions", connection):
        occupants = ask_occupants(backend, source, namespaces.drops, parallelism)
        held = live.held | ask_held(backend, names, live.namespaces, parallelism)
        leftovers = optional.leftovers(backend, scope)
        stored = find_stored(connection, dict(new_names(missing, options.select)), others, parallelism)
    places = chain((one.location for one in found.values()), *stored.values())
    links = links_to(places, live.tables.values())
    return replace(source, facts=Facts(found, occupants, leftovers, held, links, stored)), namespaces


def input_of(connection: Connection, options: PlanOptions) -> CatalogInput:
    """Return the planner's input for one catalog, without its live state.

    Raises:
        CatalogError: the catalog's capabilities could not be read.
    """
    with connection.spec.errors():
        capabilities = optional.asked_capabilities(connection.backend)
    return CatalogInput(
        connection.desired,
        Snapshot(),
        capabilities,
        connection.spec.impl,
        options=options,
        service=connection.service,
    )


def options_in(connection: Connection, options: Options) -> PlanOptions:
    """Return the part of a plan's options that is about one catalog."""
    return PlanOptions(
        options.adopt,
        options.take_over,
        selected_in(connection, selection_of(options.select)),
        selected_in(connection, Scope(options.recreate_lost)),
    )


def selected_in(connection: Connection, selection: Scope) -> Scope:
    """Return the part of ``selection`` that is about one catalog."""
    selected = selection.below(connection.spec.name)
    return selected.folded() if connection.backend.capabilities.folds_case else selected


def check_globs(select: Sequence[str], found: Collection[Identifier], problem: str) -> None:
    """Raise SelectionError with ``problem`` for a glob that matches none of ``found``, which begin with a catalog."""
    for pattern in select:
        if not any(map(Scope((pattern,)).contains, found)):
            raise SelectionError(f"`{pattern}` {problem}")


def summary_of(connection: Connection, namespaces: int, tables: int, desired_objects: int) -> CatalogSummary:
    """Return the summary of a catalog from which nothing is removed."""
    return CatalogSummary(
        name=connection.spec.name,
        impl=connection.spec.impl,
        namespaces=namespaces,
        tables=tables,
        removable_tables=0,
        service=connection.service,
        desired_objects=desired_objects,
    )


def selection_of(select: Sequence[str]) -> Scope:
    """Return the scope of the globs of ``select``; everything if there are none."""
    return Scope(tuple(select)) if select else EVERYTHING


def selected_catalogs(manifest: Manifest, select: Sequence[str]) -> tuple[Scope, list[str]]:
    """Return the scope of ``select``, and the catalogs to read for it.

    Catalogs that they mirror are included.
    """
    selection = selection_of(select)
    return selection, with_sources_of(manifest, (name for name in manifest.catalogs if selection.below(name).patterns))


def with_sources_of(manifest: Manifest, names: Iterable[str]) -> list[str]:
    """Return ``names`` and the catalogs that they mirror, in manifest order."""
    desired = {name: catalog.desired for name, catalog in manifest.catalogs.items()}
    found = with_sources(desired, names)
    return [name for name in manifest.catalogs if name in found]


def reference(manifest: Manifest) -> ManifestRef:
    """Return the plan's reference to ``manifest``."""
    variables = {name: slow_digest(value, name) for name, value in sorted(manifest.variables.items())}
    return ManifestRef(name=manifest.name, digest=manifest.digest, files=tuple(manifest.files), variables=variables)


_MOST = 1_000
_OTHERWISE = {StorageKind.NOTHING: "nothing is stored there", StorageKind.NOT_LANCE: "no Lance dataset is there"}


def look_at_removed(plan: Plan, manifest: Manifest, *, parallelism: int = DEFAULT_PARALLELISM) -> Mapping[Key, str]:
    """Describe the data of the tables that ``plan`` deregisters.

    The texts are shown beside the plan and no part of it.

    The first thousand are opened, ``parallelism`` at a time.

    Raises:
        ManifestError, CatalogError: as when planning; no catalog is read.
    """
    going = [change for change in plan.changes if change.action is Action.DEREGISTER_TABLE][:_MOST]
    if not going:
        return {}
    with open_connections(manifest, {change.catalog for change in going}, parallelism=parallelism) as connections:
        options = {name: connection.backend.storage_options() for name, connection in connections.items()}
        shown = show_places(plan, places_of(manifest)).changes
    going = [change for change in shown if change.action is Action.DEREGISTER_TABLE][:_MOST]
    said = in_parallel(lambda change: _said(change, options[change.catalog]), going, parallelism)
    return {change.key: text for change, text in zip(going, said, strict=True) if text}


def _said(change: Change, options: Mapping[str, str]) -> str:
    if change.before is None or change.before.location is None:
        return ""
    found = storage.examine(change.before.location, options, _rows_and_age)
    return found if isinstance(found, str) else _OTHERWISE.get(found.kind, "its data cannot be opened")


def _rows_and_age(dataset: Any) -> str:
    """Describe a ``lance.LanceDataset``."""
    latest, rows = dataset.get_version(), storage.rows_of(dataset)
    counted = f"{UNKNOWN} rows" if rows is None else count(rows, "row")
    return f"{counted}, last written {latest['timestamp'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
