"""Take the marks of lancens off objects: what they are stays, and no manifest manages them any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reconciler.model import ownership
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import SelectionError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Scope, address
from reconciler.model.reasons import ReasonCode
from reconciler.operations.apply import carry_out, ignore_event
from reconciler.operations.connections import Connection, open_connections, read_all
from reconciler.operations.plan import reference, selected_catalogs
from reconciler.planner.entries import Action, Change, Protection
from reconciler.planner.plan import CatalogSummary, Options, Plan
from reconciler.planner.views import ObjectView, explain, view_of

if TYPE_CHECKING:
    import os

    from reconciler.applier import ApplyReport, Event, StopSignal
    from reconciler.manifest import Manifest


def plan_release(
    manifest: Manifest, select: Sequence[str], *, protected: bool = False, parallelism: int = DEFAULT_PARALLELISM
) -> Plan:
    """Return what takes this manifest's marks off what the globs of ``select`` match. Nothing is changed.

    Args:
        manifest: whose marks.
        select: globs over ``catalog/namespace/table``.
        protected: release what is protected too.
        parallelism: how many requests run at once.

    Raises:
        CatalogError: a catalog could not be read completely.
        SelectionError: a glob matches nothing that the manifest manages.
    """
    selection, concerned = selected_catalogs(manifest, select)
    with open_connections(manifest, concerned, parallelism=parallelism) as connections:
        snapshots = read_all(connections.values(), lambda one: one.backend.scan(one.desired.scope), parallelism)
        changes: list[Change] = []
        guards: list[Protection] = []
        summaries = []
        for connection, snapshot in zip(connections.values(), snapshots, strict=True):
            summaries.append(_summary(connection, snapshot))
            for live in _marked(connection, snapshot, selection):
                if ownership.is_protected(live.properties) and not protected:
                    guards.append(_guard(connection, live))
                else:
                    changes.append(_change(connection, live))
    _check_globs(select, [*changes, *guards], manifest.name)
    return Plan(
        manifest=reference(manifest),
        catalogs=tuple(summaries),
        changes=tuple(changes),
        guards=tuple(guards),
        thresholds=manifest.thresholds,
        options=Options(select=tuple(select)),
    )


def release(
    plan: Plan,
    manifest: Manifest,
    *,
    journal: str | os.PathLike[str] = ".lancens",
    parallelism: int = DEFAULT_PARALLELISM,
    on_event: Callable[[Event], None] = ignore_event,
    stop: StopSignal | None = None,
) -> ApplyReport:
    """Carry out what :func:`plan_release` returned: each object is read again right before its marks are taken off.

    Raises:
        StalePlanError: an object is not as it was any more; nothing was written.
        ApplyError: the journal cannot be written.
        CatalogError: a catalog could not be reached before the first write.
    """
    with open_connections(manifest, plan.concerned, parallelism=parallelism) as connections:
        return carry_out(plan, plan, connections, parallelism, journal, on_event, stop)


def _marked(connection: Connection, snapshot: Snapshot, selection: Scope) -> list[LiveNamespace | LiveTable]:
    """Return what this manifest manages and the selection contains, namespaces first."""
    selected = selection.below(connection.spec.name)
    if connection.backend.capabilities.folds_case:
        selected = selected.folded()
    live_objects: list[LiveNamespace | LiveTable] = [snapshot.namespaces[key] for key in sorted(snapshot.namespaces)]
    live_objects += [snapshot.tables[key] for key in sorted(snapshot.tables)]
    return [
        live
        for live in live_objects
        if ownership.owner_of(live.properties) == connection.desired.owner and selected.contains(live.id)
    ]


def _views(connection: Connection, live: LiveNamespace | LiveTable) -> tuple[ObjectView, ObjectView]:
    before = view_of(live, (), connection.backend.capabilities.safeguard) or ObjectView()
    without = ObjectView().model_dump(
        include={"managed_by", "protect", "keys", "secret_keys", "mirror", "requested_location", "chosen_location"}
    )
    return before, before.model_copy(update=without)


def _action(live: LiveNamespace | LiveTable) -> Action:
    return Action.UPDATE_TABLE if isinstance(live, LiveTable) else Action.UPDATE_NAMESPACE


def _change(connection: Connection, live: LiveNamespace | LiveTable) -> Change:
    before, after = _views(connection, live)
    action = _action(live)
    return Change(
        catalog=connection.spec.name,
        kind=action.kind,
        identifier=live.id,
        action=action,
        before=before,
        after=after,
        fields=explain(before, after, address(connection.spec.name, live.id)),
        code=ReasonCode.RELEASED,
    )


def _guard(connection: Connection, live: LiveNamespace | LiveTable) -> Protection:
    action = _action(live)
    return Protection(
        catalog=connection.spec.name,
        kind=action.kind,
        identifier=live.id,
        would=action,
        code=ReasonCode.PROTECTED_FROM_RELEASE,
    )


def _summary(connection: Connection, snapshot: Snapshot) -> CatalogSummary:
    return CatalogSummary(
        name=connection.spec.name,
        impl=connection.spec.impl,
        namespaces=len(snapshot.namespaces),
        tables=len(snapshot.tables),
        removable_tables=0,
        service=connection.service,
        desired_objects=len(connection.desired.namespaces) + len(connection.desired.tables),
    )


def _check_globs(select: Sequence[str], found: Sequence[Change | Protection], name: str) -> None:
    for pattern in select:
        scope = Scope((pattern,))
        if not any(scope.contains((one.catalog, *one.identifier)) for one in found):
            raise SelectionError(f"`{pattern}` matches nothing that {name} manages; names are catalog/namespace/table")
