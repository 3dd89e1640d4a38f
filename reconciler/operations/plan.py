"""Make a plan: read the catalogs, look at storage, and hand both to the planner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from reconciler.backends import optional
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.names import EVERYTHING, Scope
from reconciler.operations.connections import Connection, open_connections, places_of, read_all
from reconciler.operations.facts import (
    ask_held,
    ask_occupants,
    ask_storage,
    check_selection,
    links_to,
    missing_blocks,
    names_kept,
    schemas_to_show,
)
from reconciler.operations.profile import Profile
from reconciler.operations.unregistered import find_stored
from reconciler.planner.catalog import compare_namespaces, plan_catalog
from reconciler.planner.comparison import Outcomes
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
from reconciler.planner.placeholders import hide_places
from reconciler.planner.plan import ManifestRef, Options, Plan, check_removals
from reconciler.planner.planning import Planning

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


def plan(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    profile: Profile | None = None,
) -> Plan:
    """Return the plan that makes the live catalogs what ``manifest`` says. Nothing is changed.

    Args:
        manifest: from :func:`reconciler.load`.
        select: globs over ``catalog/namespace/table``; only what they match is planned, and missing ancestors of it.
        adopt: also mark unowned objects that equal their block.
        take_over: claim objects that another manifest owns.
        allow_mass_removal: make a plan that removes more than the manifest's thresholds allow.
        parallelism: how many requests and storage probes run at once.
        profile: gets what each stage took.

    Raises:
        ManifestError: a placeholder in a ``config`` cannot be resolved.
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob of ``select`` matches nothing.
        SafetyError: too much would be removed.
    """
    selection, concerned = selected_catalogs(manifest, select)

    planning, profile = Planning(), profile or Profile()

    def read(connection: Connection) -> tuple[CatalogInput, Outcomes]:
        options = plan_options(connection, selection, adopt=adopt, take_over=take_over)
        return read_catalog(connection, options, parallelism, planning, profile, connections.values())

    inputs: list[CatalogInput] = []
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        for names in waves({name: connection.desired for name, connection in connections.items()}):
            for source, namespaces in read_all([connections[name] for name in names], read, parallelism):
                inputs.append(source)
                with profile.stage("compare", connections[source.desired.name]):
                    planning.add(source, plan_catalog(planning.with_written(source), namespaces))
    check_selection(select, [(source, TablesInMemory(source.live.tables)) for source in inputs])
    asked = Options(select=tuple(select), adopt=adopt, take_over=take_over)
    with profile.stage("order"):
        made = planning.plan(reference(manifest), manifest.thresholds, asked)
    if not allow_mass_removal:
        check_removals(made)
    return hide_places(made, places_of(connections.values()))


def read_catalog(
    connection: Connection,
    options: PlanOptions,
    parallelism: int,
    planning: Planning | None = None,
    profile: Profile | None = None,
    others: Collection[Connection] = (),
) -> tuple[CatalogInput, Outcomes]:
    """Return all the planner has to know of one catalog: its entries, its storage and what its namespaces hold.

    How its namespaces differ comes with it: what those hold that are to go has been asked.

    ``planning`` has the catalog that it mirrors, ``profile`` gets what each stage took, and ``others`` may mirror it.

    Raises:
        BackendError: something could not be read.
    """
    backend, scope = connection.backend, connection.desired.scope
    profile = profile or Profile()
    with profile.stage("scan", connection):
        scanned = connection.spec.scan(backend, scope)
    source = CatalogInput(
        connection.desired,
        scanned,
        optional.asked_capabilities(backend),
        connection.spec.impl,
        options=options,
        service=connection.service,
    )
    own, live = source, source.live
    if planning is not None:
        source = planning.with_mirror(own)
    kept = names_kept(backend, missing_blocks(source.desired, live), chain(live.namespaces, live.tables))
    if kept and planning is not None:
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
        held = ask_held(backend, names, live.namespaces, parallelism)
        leftovers = optional.leftovers(backend, scope)
        stored = find_stored(connection, dict(new_names(missing, options.select)), others, parallelism)
    places = chain((one.location for one in found.values()), *stored.values())
    links = links_to(places, live.tables.values())
    return replace(source, facts=Facts(found, occupants, leftovers, held, links, stored)), namespaces


def plan_options(connection: Connection, selection: Scope, *, adopt: bool, take_over: bool) -> PlanOptions:
    """Return how to plan one catalog; ``selection`` is the whole manifest's."""
    selected = selection.below(connection.spec.name)
    if connection.backend.capabilities.folds_case:
        selected = selected.folded()
    return PlanOptions(adopt=adopt, take_over=take_over, select=selected)


def selection_of(select: Sequence[str]) -> Scope:
    """Return what the globs of ``select`` select; everything, where there are none."""
    return Scope(tuple(select)) if select else EVERYTHING


def selected_catalogs(manifest: Manifest, select: Sequence[str]) -> tuple[Scope, list[str]]:
    """Return what the globs of ``select`` select, and the catalogs in which that can be something.

    Those that they mirror are among these: they have to be read, selected or not.
    """
    selection = selection_of(select)
    return selection, with_sources_of(manifest, (name for name in manifest.catalogs if selection.below(name).patterns))


def with_sources_of(manifest: Manifest, names: Iterable[str]) -> list[str]:
    """Return ``names`` and the catalogs that those mirror, in the order of the manifest."""
    desired = {name: catalog.desired for name, catalog in manifest.catalogs.items()}
    found = with_sources(desired, names)
    return [name for name in manifest.catalogs if name in found]


def reference(manifest: Manifest) -> ManifestRef:
    """Return how a plan names the manifest it was made of."""
    return ManifestRef(name=manifest.name, digest=manifest.digest, files=tuple(manifest.files))
