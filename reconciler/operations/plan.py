"""Make a plan: read the catalogs, look at storage, and hand both to the planner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from reconciler import storage
from reconciler.manifest import Manifest
from reconciler.model.collector import collector_paused
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.display import count
from reconciler.model.errors import SelectionError
from reconciler.model.figures import UNKNOWN
from reconciler.model.live import Snapshot, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope, selecting
from reconciler.model.redaction import slow_digest
from reconciler.operations.connections import Connection, open_connections, read_all, shown_locations_of
from reconciler.operations.driver import Driver, Engine, LocalEngine
from reconciler.operations.facts import check_selection
from reconciler.operations.manifests import check_argument
from reconciler.operations.profile import Profile
from reconciler.operations.revisions import shared_blocks
from reconciler.planner.entries import Action, Change, Key
from reconciler.planner.facts import CatalogInput, PlanOptions
from reconciler.planner.mirrors import with_sources
from reconciler.planner.placeholders import restore_locations
from reconciler.planner.plan import CatalogSummary, ManifestRef, Options, Plan, check_removals
from reconciler.planner.planning import Planning


def plan(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    adopt: bool = False,
    take_over: bool = False,
    recreate_lost: Sequence[str] = (),
    allow_mass_removal: bool = False,
    parallelism: int = DEFAULT_PARALLELISM,
    profile: Profile | None = None,
    against: Manifest | None = None,
) -> Plan:
    """Return the plan that makes the catalogs match ``manifest``; change nothing.

    Args:
        manifest: from :func:`reconciler.load`.
        select: globs over ``catalog/namespace/table``; only their matches and missing ancestors are planned.
        exclude: globs like those of ``select``; their matches are not planned, selected or not.
        adopt: also mark unowned objects that equal their block.
        take_over: claim objects that another manifest owns.
        recreate_lost: globs like those of ``select``; matches whose data is lost get an empty dataset.
        allow_mass_removal: make a plan that removes more than the manifest's thresholds allow.
        parallelism: how many requests and storage probes run at once.
        profile: records the duration of each stage.
        against: an earlier manifest of the same catalogs; ``pending`` of the plan names what its plan has, too.

    Raises:
        ManifestError: a placeholder in a ``config`` cannot be resolved.
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob of ``select`` or ``exclude`` matches nothing, or nothing is left.
        SafetyError: too much would be removed.
    """
    check_argument("plan", manifest, Manifest, "a manifest, such as reconciler.load('lancens.yaml')")
    for name, globs in (("select", select), ("exclude", exclude)):
        check_argument(
            "plan", globs, (list, tuple, set, frozenset), f"a list of globs as `{name}`, such as ['lake/**']"
        )
    profile = profile or Profile()
    return plan_with(
        lambda connections, _: LocalEngine(connections, parallelism, profile),
        manifest,
        Options(
            select=tuple(select),
            exclude=tuple(exclude),
            adopt=adopt,
            take_over=take_over,
            recreate_lost=tuple(recreate_lost),
        ),
        allow_mass_removal=allow_mass_removal,
        parallelism=parallelism,
        profile=profile,
        against=against,
    )


def drift(
    manifest: Manifest,
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    parallelism: int = DEFAULT_PARALLELISM,
) -> Plan:
    """Return how the catalogs differ from ``manifest``, as a plan with nothing adopted; change nothing.

    Without ``changes`` and ``blocked``, nothing differs. ``unmanaged_tables`` of its ``catalogs`` counts the tables
    that no manifest manages. A plan that removes too much is returned as well; :func:`reconciler.apply` refuses it.

    Args:
        manifest: from :func:`reconciler.load`.
        select: globs over ``catalog/namespace/table``; only their matches are compared.
        exclude: globs like those of ``select``; their matches are not compared.
        parallelism: how many requests and storage probes run at once.

    Raises:
        ManifestError: a placeholder in a ``config`` cannot be resolved.
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob of ``select`` or ``exclude`` matches nothing, or nothing is left.
    """
    return plan(manifest, select=select, exclude=exclude, allow_mass_removal=True, parallelism=parallelism)


def shared_options(given: Any) -> dict[str, Any]:
    """Return the options of :func:`plan` that commands and the Action have alike, which ``given`` has as attributes.

    How much a plan removes is checked after it was shown.
    """
    names = ("select", "exclude", "adopt", "take_over", "recreate_lost", "parallelism")
    return {**{name: getattr(given, name) for name in names}, "allow_mass_removal": True}


def plan_with(
    engine_of: Callable[[Mapping[str, Connection], Sequence[Scope]], Engine],
    manifest: Manifest,
    options: Options,
    *,
    allow_mass_removal: bool,
    parallelism: int,
    profile: Profile,
    against: Manifest | None = None,
) -> Plan:
    """Return the plan that makes the catalogs match ``manifest``, read by an engine.

    Args:
        engine_of: returns the engine for the catalogs, given the globs of the user, and what is left of all.
        options: how to plan.
        against: an earlier manifest, for an engine that reads in this process.

    The other arguments and the errors raised are those of :func:`plan`.
    """
    planning, earlier = _plan_catalogs(engine_of, manifest, options, parallelism, profile, against)
    with profile.stage("order"), collector_paused():
        places = shown_locations_of(manifest)
        planned = planning.plan(reference(manifest), manifest.thresholds, options, places)
        planned = planned.with_pending(earlier.plan(planned.manifest, manifest.thresholds, places=places))
        if not allow_mass_removal:
            check_removals(planned)
        return planned


def _plan_catalogs(
    engine_of: Callable[[Mapping[str, Connection], Sequence[Scope]], Engine],
    manifest: Manifest,
    options: Options,
    parallelism: int,
    profile: Profile,
    against: Manifest | None,
) -> tuple[Planning, Planning]:
    """Return the plans of the catalogs for ``manifest``, and for ``against``: none without it."""
    _, concerned = selected_catalogs(manifest, options.select, options.exclude)
    globs = [*options.select, *options.recreate_lost, *checkable(options.exclude, manifest, concerned)]
    selections = [Scope((glob,)) for glob in globs]
    selections += [Scope(options.select, options.exclude)] if options.select and options.exclude else []
    with open_connections(manifest, concerned, parallelism=parallelism, as_planned=True) as connections:
        engine = engine_of(connections, selections)
        driver = Driver(engine, connections, parallelism, profile, keeps_probes=against is not None)

        def input_from(connection: Connection) -> CatalogInput:
            engine.read_ahead(connection)
            with profile.stage("questions", connection):
                return input_of(connection, options_in(connection, options))

        sources = read_all(connections.values(), input_from, parallelism)
        inputs = dict(zip(connections, sources, strict=True))
        read = driver.plan(inputs)
        check_selection(selections, read, (catalog.desired for catalog in manifest.catalogs.values()))
        if against is None:
            return driver.planning, Planning()
        earlier = driver.again(shared_blocks(manifest, against, [*connections]))
        earlier.plan({name: replace(inputs[name], desired=each.desired) for name, each in earlier.connections.items()})
        return driver.planning, earlier.planning


def input_of(connection: Connection, options: PlanOptions) -> CatalogInput:
    """Return the planner's input for one catalog, without its live state.

    Raises:
        CatalogError: the catalog's capabilities could not be read.
    """
    return CatalogInput(
        connection.desired,
        Snapshot(),
        connection.capabilities(),
        connection.spec.impl,
        options=options,
        service=connection.service,
    )


def options_in(connection: Connection, options: Options) -> PlanOptions:
    """Return the part of a plan's options that is about one catalog."""
    return PlanOptions(
        options.adopt,
        options.take_over,
        selected_in(connection, selection_of(options.select, options.exclude)),
        selected_in(connection, Scope(options.recreate_lost)),
    )


def selected_in(connection: Connection, selection: Scope) -> Scope:
    """Return the part of ``selection`` that is about one catalog."""
    selected = selection.below(connection.spec.name)
    return selected.folded() if connection.capabilities().folds_case else selected


def check_globs(globs: Sequence[str], found: Iterable[tuple[Connection, Collection[Identifier]]], problem: str) -> None:
    """Raise SelectionError with ``problem`` for a glob that matches none of the names found in each catalog."""
    unmatched = dict.fromkeys(globs)
    for connection, names in found:
        scopes = {glob: selected_in(connection, Scope((glob,))) for glob in unmatched}
        matched = selecting(scopes.values(), names)
        unmatched = {glob: None for glob in unmatched if scopes[glob] not in matched}
    for glob in unmatched:
        raise SelectionError(f"`{glob}` {problem}")


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


def selection_of(select: Sequence[str], exclude: Sequence[str] = ()) -> Scope:
    """Return the scope of the globs of ``select``, everything if there are none, without those of ``exclude``."""
    return Scope(tuple(select) or EVERYTHING.patterns, tuple(exclude))


def selected_catalogs(
    manifest: Manifest, select: Sequence[str], exclude: Sequence[str] = ()
) -> tuple[Scope, list[str]]:
    """Return the scope of ``select`` and ``exclude``, and the catalogs to read for it.

    Catalogs that they mirror are included.

    Raises:
        SelectionError: ``exclude`` leaves no catalog.
    """
    selection = selection_of(select, exclude)
    names = [name for name in manifest.catalogs if selection.below(name).patterns]
    if exclude and not names:
        raise SelectionError(f"`--exclude` leaves nothing{' of what `--select` names' if select else ''}")
    return selection, with_sources_of(manifest, names)


def check_begins_with_catalog(globs: Sequence[str], manifest: Manifest) -> None:
    """Raise SelectionError for a glob that begins with no catalog of ``manifest``."""
    for glob in globs:
        if not any(Scope((glob,)).below(name).patterns for name in manifest.catalogs):
            known = ", ".join(sorted(manifest.catalogs))
            raise SelectionError(f"`{glob}` begins with no catalog of the manifest; it has {known}")


def checkable(exclude: Sequence[str], manifest: Manifest, read: Collection[str]) -> list[str]:
    """Return the globs of ``exclude`` that must match something in the catalogs that were ``read``.

    One that leaves a whole catalog out, or is about a catalog that was not read, need not.
    """
    parts = {glob: {name: Scope((glob,)).below(name) for name in manifest.catalogs} for glob in exclude}
    return [
        glob
        for glob, scopes in parts.items()
        if not any("**" in scope.patterns or (scope.patterns and name not in read) for name, scope in scopes.items())
    ]


def with_sources_of(manifest: Manifest, names: Iterable[str]) -> list[str]:
    """Return ``names`` and the catalogs that they mirror, in manifest order."""
    followed = with_sources(manifest.sources, names)
    return [name for name in manifest.catalogs if name in followed]


def reference(manifest: Manifest) -> ManifestRef:
    """Return the plan's reference to ``manifest``."""
    return ManifestRef(
        name=manifest.name,
        digest=manifest.digest,
        files=tuple(manifest.files),
        variables={name: slow_digest(value, name) for name, value in sorted(manifest.variables.items())},
        given=manifest.given,
        services=manifest.services,
    )


_MOST_DESCRIBED = 1_000
_WITHOUT_DATASET = {StorageKind.NOTHING: "nothing is stored there", StorageKind.NOT_LANCE: "no Lance dataset is there"}


def describe_removed(plan: Plan, manifest: Manifest, *, parallelism: int = DEFAULT_PARALLELISM) -> Mapping[Key, str]:
    """Describe the data of the tables that ``plan`` deregisters.

    The texts are shown beside the plan and no part of it.

    The first thousand are opened, ``parallelism`` at a time.

    Raises:
        ManifestError, CatalogError: as when planning; no catalog is read.
    """
    removals = [change for change in plan.changes if change.action is Action.DEREGISTER_TABLE][:_MOST_DESCRIBED]
    if not removals:
        return {}
    with open_connections(manifest, {change.catalog for change in removals}, parallelism=parallelism) as connections:
        options = {name: connection.backend.storage_options() for name, connection in connections.items()}
        shown = restore_locations(plan, shown_locations_of(manifest)).changes
    removals = [change for change in shown if change.action is Action.DEREGISTER_TABLE][:_MOST_DESCRIBED]
    texts = in_parallel(lambda change: _data_text(change, options[change.catalog]), removals, parallelism)
    return {change.key: text for change, text in zip(removals, texts, strict=True) if text}


def _data_text(change: Change, options: Mapping[str, str]) -> str:
    if change.before is None or change.before.location is None:
        return ""
    data = storage.examine(change.before.location, options, _rows_and_age)
    if isinstance(data, str):
        return data
    # Without the line that made a clone, the place of its base is not admitted.
    unread = f"a clone of {change.before.clone}" if change.before.clone else "its data cannot be opened"
    return _WITHOUT_DATASET.get(data.kind, unread)


def _rows_and_age(dataset: Any) -> str:
    """Describe a ``lance.LanceDataset``."""
    latest, rows = dataset.get_version(), storage.rows_of(dataset)
    counted = f"{UNKNOWN} rows" if rows is None else count(rows, "row")
    return f"{counted}, last written {latest['timestamp'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
