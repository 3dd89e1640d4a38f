"""Carry out a plan: connect, check it, and hand it to the applier."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from reconciler.applier.check import check_plan, with_live_count
from reconciler.applier.executor import execute
from reconciler.applier.journal import Journal
from reconciler.applier.live import load
from reconciler.applier.report import ApplyReport, Event
from reconciler.applier.step import NO_SOURCES, CloneSources
from reconciler.manifest import Manifest
from reconciler.model import display, locations, ownership
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.display import count
from reconciler.model.errors import PlanFileError, StalePlanError
from reconciler.model.live import Snapshot, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.operations.connections import (
    Connection,
    open_connections,
    read_all,
    secret_locations_of,
    shown_locations_of,
)
from reconciler.operations.facts import ask_locations, links_to, problem_of
from reconciler.operations.manifests import check_argument
from reconciler.operations.plan import input_of, options_in, reference, with_sources_of
from reconciler.operations.profile import Profile
from reconciler.operations.unreferenced import dependents_of, shared_places, unreferenced_clones
from reconciler.planner.entries import Action, Key
from reconciler.planner.facts import CatalogInput, TableFacts
from reconciler.planner.integrity import PresentLocations, RecordedCatalog, check_catalogs, replan
from reconciler.planner.mirrors import PlannedTable, TablesAfterPlan, mirrored
from reconciler.planner.placeholders import location_hider
from reconciler.planner.plan import Plan, check_blocked, check_removals
from reconciler.storage import Executors

_CATALOG_SETTINGS = (ReasonCode.CATALOG_CLEANUP, ReasonCode.CATALOG_TOO_NEW)
"""The reasons of entries about the settings of a directory catalog's list of objects."""


def check_arguments(plan: Plan, manifest: Manifest) -> None:
    """Check what a plan says of its manifest and catalogs, without a connection.

    Raises:
        StalePlanError: it was made of another manifest or with other variables. What the manifest asks of `maintain`
            counts for jobs alone.
        PlanFileError: it was edited.
    """
    check_argument("apply", plan, Plan, "a plan and then its manifest, such as reconciler.plan(manifest)")
    check_argument("apply", manifest, Manifest, "the plan's manifest, such as reconciler.load('lancens.yaml')")
    if plan.manifest.digest != manifest.digest:
        _check_variables(plan, manifest)
        raise StalePlanError(
            f"the manifest has changed since it was made (digest {plan.manifest.digest[:12]} then, "
            f"{manifest.digest[:12]} now)"
        )
    if plan.options.maintain and plan.manifest.upkeep != manifest.upkeep_digest:
        raise StalePlanError("what the manifest asks of `lancens maintain` has changed since it was made")
    desired = {name: (catalog.impl, catalog.desired) for name, catalog in manifest.catalogs.items()}
    check_catalogs(plan, reference(manifest), manifest.thresholds, desired)
    if not plan.manifest.is_shown_as(reference(manifest)):
        _check_variables(plan, manifest)
        raise StalePlanError("`lancens.vars.yaml` has changed since it was made, or its first line was edited")


def _check_variables(plan: Plan, manifest: Manifest) -> None:
    """Raise StalePlanError, naming the variables, if some have other values than the plan was made with."""
    names = plan.manifest.differing_variables(reference(manifest))
    if names:
        raise StalePlanError(
            f"{plan.manifest.name} was planned with other values of {', '.join(f'`{name}`' for name in names)}",
            remedy="Apply with the values of the plan, or plan again.",
        )


def ignore_event(event: Event) -> None:
    """Do nothing."""


def apply(
    plan: Plan,
    manifest: Manifest,
    *,
    journal: str | os.PathLike[str] = ".lancens",
    allow_mass_removal: bool = False,
    skip_blocked: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = ignore_event,
    stop: threading.Event | None = None,
    profile: Profile | None = None,
) -> ApplyReport:
    """Carry out ``plan`` on the catalogs of ``manifest``, the one it was made from.

    Args:
        plan: from :func:`reconciler.plan` or a saved one.
        manifest: for the connections; its digest must be the plan's.
        journal: the folder for the journal of this run.
        allow_mass_removal: carry out a plan that removes more than its thresholds allow.
        skip_blocked: carry out the changes of a plan that could not plan everything.
        parallelism: how many changes run at once.
        on_event: gets every change as it starts and as it ends.
        stop: once set, changes in flight end and no other starts.
        profile: records the duration of each stage.

    Raises:
        StalePlanError: the manifest, or an object the plan touches, has changed since; nothing was written.
        PlanFileError: a saved plan was edited: its changes do not follow from its manifest and recorded states.
        ManifestError: a placeholder in a ``config`` has no value, so the locations in the plan cannot be checked.
        BlockedError: something could not be planned.
        SafetyError: too much would be removed.
        ApplyError: the journal cannot be written.
        CatalogError: a catalog could not be reached before the first write.
    """
    check_arguments(plan, manifest)
    if plan.options.maintain:
        raise PlanFileError("the plan holds jobs of `lancens maintain`, which carries them out. Nothing was changed.")
    if not skip_blocked:
        check_blocked(plan)
    if not allow_mass_removal:
        check_removals(plan)
    concerned = with_sources_of(manifest, plan.concerned)
    with open_connections(manifest, concerned, parallelism=parallelism, as_planned=True) as connections:
        replanned, inputs = replan_verified(plan, manifest, connections, parallelism)
        table_counts = check_vanished(replanned, inputs, connections, parallelism)
        if not allow_mass_removal:
            _check_counts(replanned, inputs, table_counts, connections, parallelism)
        made = dependents_of(replanned, manifest)
        with _around_clones(manifest, replanned, made, connections) as around:
            shared = shared_places(
                replanned, {**connections, **{name: around[name] for name in made}}, made, parallelism
            )
            sources = CloneSources({name: connection.backend for name, connection in around.items()}, shared)
            report = carry_out(
                replanned, plan, connections, parallelism, journal, on_event, stop, profile, sources=sources
            )
        return _with_left_clones(manifest, report, shared)


@contextmanager
def _around_clones(
    manifest: Manifest, plan: Plan, dependents: Collection[str], connections: Mapping[str, Connection]
) -> Iterator[Mapping[str, Connection]]:
    """Yield connections, with those to the sources of clones that ``plan`` leaves, and to ``dependents``.

    Raises:
        ManifestError: a placeholder in the ``config`` of one has no value.
        CatalogError: a backend does not accept its configuration.
    """
    sources = {ownership.catalog_of_clone(change.unpinned) for change in plan.changes}
    named = (sources & manifest.catalogs.keys()).union(dependents)
    with open_connections(manifest, named - connections.keys()) as others:
        yield {**connections, **others}


def _with_left_clones(manifest: Manifest, report: ApplyReport, shared: Collection[str] | None) -> ApplyReport:
    """Return ``report`` with the data of clones that has no entry any more, and the tags that stay."""
    unreferenced = unreferenced_clones(report.results, shared)
    kept = [result.kept_tag for result in report.results if result.kept_tag is not None]
    if not (unreferenced or kept):
        return report
    hide = location_hider(secret_locations_of(manifest))
    shown = [
        replace(tag, location=tag.location and hide(locations.redact(tag.location)), reason=hide(tag.reason))
        for tag in kept
    ]
    return replace(report, unreferenced=[*map(hide, unreferenced)], kept_tags=shown)


def replan_verified(
    plan: Plan, manifest: Manifest, connections: Mapping[str, Connection], parallelism: int
) -> tuple[Plan, Mapping[str, CatalogInput]]:
    """Replan ``plan`` from its recorded states, so that every change follows from them.

    Return it with the planner's input for each catalog.

    Raises:
        StalePlanError: a catalog, a default location or a leftover has changed since; nothing was written.
        PlanFileError: the plan was edited.
        CatalogError: a catalog could not be read.
    """
    check_services(plan, manifest, connections)
    inputs = {name: _input_of(plan, connection) for name, connection in connections.items()}
    catalogs = {
        name: (catalog, _settings_keys(plan, name) | _confirmed_leftovers(plan, connections[name], catalog))
        for name, catalog in inputs.items()
    }

    def present_locations(recorded: RecordedCatalog) -> PresentLocations:
        """Return where the tables in question are now, without opening their data."""
        tables = _table_facts(recorded, connections[recorded.source.desired.name], parallelism)
        locations = (facts.location for facts in tables.values())
        return PresentLocations(tables, links_to(locations, recorded.source.live.tables.values()))

    with _config_errors_first(manifest):
        replanned = replan(
            plan, reference(manifest), manifest.thresholds, catalogs, present_locations, shown_locations_of(manifest)
        )
    return replanned, inputs


@contextmanager
def _config_errors_first(manifest: Manifest) -> Iterator[None]:
    """Raise ManifestError instead of PlanFileError if a placeholder in a ``config`` has no value.

    The plan shows such a root as its placeholder. Without its value the plan looks edited.
    """
    try:
        yield
    except PlanFileError:
        for catalog in manifest.catalogs.values():
            catalog.resolve_config()
        raise


def carry_out(
    plan: Plan,
    saved: Plan,
    connections: Mapping[str, Connection],
    parallelism: int,
    journal: str | os.PathLike[str],
    on_event: Callable[[Event], None],
    stop: threading.Event | None,
    profile: Profile | None = None,
    executors: Executors | None = None,
    sources: CloneSources = NO_SOURCES,
) -> ApplyReport:
    """Check what ``plan`` touches, then make its changes; journal ``saved``.

    Raises:
        StalePlanError: an object has changed; nothing was written.
        ApplyError: the journal cannot be written.
    """
    backends = {name: connection.backend for name, connection in connections.items()}
    secrets = [secret for connection in connections.values() for secret in connection.spec.secrets]
    profile = profile or Profile()
    with profile.stage("check", *connections.values()):
        checked = check_plan(plan, backends, parallelism=parallelism, secrets=secrets)
    with profile.stage("apply", *connections.values()), Journal.open(journal, saved) as opened:
        return execute(
            plan,
            backends,
            parallelism=parallelism,
            journal=opened,
            on_event=on_event,
            stop=stop or threading.Event(),
            secrets=secrets,
            checked=checked,
            executors=executors,
            sources=sources,
        )


def check_services(plan: Plan, manifest: Manifest, connections: Mapping[str, Connection]) -> None:
    """Raise StalePlanError if a catalog's ``config`` now leads to another service."""
    for catalog in plan.catalogs:
        connection = connections.get(catalog.name)
        if connection is not None and connection.service != catalog.service:
            _check_variables(plan, manifest)
            raise StalePlanError(
                f"{catalog.name} ({catalog.impl}) now reaches another service or root, as its `config` has other values"
            )


def _input_of(plan: Plan, connection: Connection) -> CatalogInput:
    """Return the planner's input for one catalog of ``plan``, without its live state.

    Raises:
        CatalogError: the catalog's capabilities could not be read.
    """
    return input_of(connection, options_in(connection, plan.options))


def _settings_keys(plan: Plan, catalog: str) -> set[Key]:
    """Return the keys of the plan's entries about a catalog's own settings, which have no object to confirm."""
    entries = (*plan.changes, *plan.blocked)
    return {entry.key for entry in entries if entry.catalog == catalog and entry.code in _CATALOG_SETTINGS}


def _confirmed_leftovers(plan: Plan, connection: Connection, catalog: CatalogInput) -> set[Key]:
    """Return the keys of entries left by interrupted runs that ``plan`` removes, and that are still unused.

    Raises:
        StalePlanError: an entry to be removed is no leftover.
        CatalogError: the catalog could not be read.
    """
    removals = [change for change in plan.changes_of(connection.spec.name) if change.code is ReasonCode.LEFTOVER]
    if not removals:
        return set()
    backend = connection.backend
    with connection.spec.errors():
        left = {leftover.id for leftover in backend.leftovers(catalog.desired.scope)}
        in_use = [
            f"  {display.address(change.catalog, *change.identifier)}   planned on a leftover, now in use"
            for change in removals
            if change.identifier not in left and load(backend, change.kind, change.identifier) is not None
        ]
    if in_use:
        raise StalePlanError(f"{count(len(in_use), 'leftover')} of interrupted runs changed since it was made", *in_use)
    return {change.key for change in removals}


def _table_facts(
    recorded: RecordedCatalog, connection: Connection, parallelism: int
) -> Mapping[Identifier, TableFacts]:
    """Return where the tables in question are or would be, without opening storage.

    Raises:
        CatalogError: the catalog could not tell the default location of a table.
    """
    backend = connection.backend
    with connection.spec.errors():
        questions = recorded.questions.storage
        table_locations = ask_locations(backend, questions, parallelism)
        return {
            question.table.id: TableFacts(
                location, Storage(StorageKind.UNKNOWN), problem_of(backend, question, location)
            )
            for question in questions
            for location in (table_locations[question.table.id],)
        }


def _check_counts(
    plan: Plan,
    inputs: Mapping[str, CatalogInput],
    table_counts: Mapping[str, int],
    connections: Mapping[str, Connection],
    parallelism: int,
) -> None:
    """Check the limit on removals with counts from the live catalogs, and those in ``table_counts`` of mirrors.

    Raises:
        SafetyError: too much would be removed.
        CatalogError: a catalog could not be read.
    """
    counted = []
    for summary in plan.catalogs:
        if summary.name not in inputs:
            continue
        connection = connections[summary.name]
        removed = {
            change.identifier
            for change in plan.changes_of(summary.name)
            if (change.action is Action.DEREGISTER_TABLE or change.removes_tags or change.recreates)
            and change.code is not ReasonCode.LEFTOVER
        }
        tables = table_counts.get(summary.name, summary.mirrored_tables)
        with_mirror_count = summary.model_copy(update={"mirrored_tables": tables})
        with connection.spec.errors():
            catalog, backend = inputs[summary.name], connection.backend
            counted.append(with_live_count(with_mirror_count, plan.thresholds, catalog, removed, backend, parallelism))
    check_removals(plan.model_copy(update={"catalogs": tuple(counted)}))


def check_vanished(
    plan: Plan, inputs: Mapping[str, CatalogInput], connections: Mapping[str, Connection], parallelism: int
) -> Mapping[str, int]:
    """Confirm that tables a mirror would remove are gone from the source.

    Return how many tables each of those mirrors has.

    A plan cannot record the absence of a table, so the sources are read once more. Only mirrors that lose tables count.

    Args:
        plan: to be carried out.
        inputs: the planner's input for each catalog.
        connections: the same catalogs.
        parallelism: how many catalogs are read at a time.

    Raises:
        StalePlanError: a table to be removed exists in the source.
        CatalogError: a source could not be read.
    """
    vanishing = {name: tables for name, catalog in inputs.items() if (tables := _unmirrored(plan, catalog))}
    mirrors = {name: mirror for name in vanishing if (mirror := inputs[name].desired.mirror) is not None}
    followed = sorted({mirror.origin for mirror in mirrors.values()})
    scans = read_all(
        [connections[name] for name in followed],
        lambda connection: connection.backend.scan(connection.desired.scope),
        parallelism,
    )
    tables_after = {name: _tables_after(plan, name, scan) for name, scan in zip(followed, scans, strict=True)}
    counts: dict[str, int] = {}
    existing: list[str] = []
    for name, mirror in mirrors.items():
        catalog = inputs[name]
        mirror_tables = mirrored(catalog.desired, mirror, catalog.capabilities, tables_after[mirror.origin])
        counts[name] = mirror_tables.tables
        for table in sorted(vanishing[name] & mirror_tables.desired.tables.keys()):
            origin = display.address(mirror.origin, *mirror_tables.origins_of(table)[0])
            existing.append(f"  {display.address(name, *table)} {mirror.key}s {origin}, which is there")
    if existing:
        raise StalePlanError(
            f"{count(len(existing), 'table')} that it deregisters must stay",
            *existing,
            remedy="Plan again, or apply the manifest.",
        )
    return counts


def _unmirrored(plan: Plan, catalog: CatalogInput) -> frozenset[Identifier]:
    """Return the removed tables that a mirror created and no block names."""
    mirror, blocks = catalog.desired.mirror, catalog.desired.tables
    return frozenset(
        change.identifier
        for change in plan.changes_of(catalog.desired.name)
        if mirror is not None
        and change.action is Action.DEREGISTER_TABLE
        and change.before is not None
        and change.before.follows(mirror.origin)
        and change.identifier not in blocks
    )


def _tables_after(plan: Plan, catalog: str, live: Snapshot) -> TablesAfterPlan:
    """Return the names of the tables that a catalog has once ``plan`` is applied, by its live state."""
    names = set(live.tables)
    for change in plan.changes_of(catalog):
        if change.kind == "table":
            names -= {change.identifier, change.moved_from or change.identifier}
            names |= {change.identifier} if change.after is not None else set()
    return TablesAfterPlan({name: PlannedTable(name, None) for name in names})
