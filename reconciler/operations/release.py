"""Remove the marks of lancens from objects, which stay as they are."""

from __future__ import annotations

import threading
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
from reconciler.operations.plan import plan_options, reference, selected_catalogs
from reconciler.planner.entries import Action, Change, Protection
from reconciler.planner.plan import CatalogSummary, Options, Plan
from reconciler.planner.views import ObjectView, explain, view_of

if TYPE_CHECKING:
    import os

    from reconciler.applier.report import ApplyReport, Event
    from reconciler.manifest import Manifest


def plan_release(
    manifest: Manifest, select: Sequence[str], *, protected: bool = False, parallelism: int = DEFAULT_PARALLELISM
) -> Plan:
    """Return a plan that removes this manifest's marks from the matches.

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
        catalogs = tuple(map(_summary, connections.values(), snapshots))
        entries = [
            _entry(connection, live, protected)
            for connection, snapshot in zip(connections.values(), snapshots, strict=True)
            for live in _marked(connection, snapshot, selection)
        ]
    _check_globs(select, entries, manifest.name)
    return Plan(
        manifest=reference(manifest),
        catalogs=catalogs,
        changes=tuple(entry for entry in entries if isinstance(entry, Change)),
        guards=tuple(entry for entry in entries if isinstance(entry, Protection)),
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
    stop: threading.Event | None = None,
) -> ApplyReport:
    """Carry out the plan of :func:`plan_release`.

    Each object is read again before its marks are removed.

    Raises:
        StalePlanError: an object has changed; nothing was written.
        ApplyError: the journal cannot be written.
        CatalogError: a catalog could not be reached before the first write.
    """
    with open_connections(manifest, plan.concerned, parallelism=parallelism) as connections:
        return carry_out(plan, plan, connections, parallelism, journal, on_event, stop)


def _marked(connection: Connection, snapshot: Snapshot, selection: Scope) -> list[LiveNamespace | LiveTable]:
    """Return the selected objects that this manifest manages, namespaces first."""
    selected = plan_options(connection, selection, adopt=False, take_over=False).select
    live_objects: list[LiveNamespace | LiveTable] = [snapshot.namespaces[key] for key in sorted(snapshot.namespaces)]
    live_objects += [snapshot.tables[key] for key in sorted(snapshot.tables)]
    return [
        live
        for live in live_objects
        if connection.desired.owner in (ownership.owner_of(live.properties), ownership.policy_of(live.properties))
        and selected.contains(live.id)
    ]


def _entry(connection: Connection, live: LiveNamespace | LiveTable, protected: bool) -> Change | Protection:
    """Return the change that removes the marks, or the protection that prevents it."""
    catalog = connection.spec.name
    action = Action.UPDATE_TABLE if isinstance(live, LiveTable) else Action.UPDATE_NAMESPACE
    if ownership.is_protected(live.properties) and not protected:
        code = ReasonCode.PROTECTED_FROM_RELEASE
        return Protection(catalog=catalog, kind=action.kind, identifier=live.id, would=action, code=code)
    before = view_of(live, (), connection.backend.capabilities.safeguard) or ObjectView()
    without = ObjectView().model_dump(
        exclude={
            "location",
            "kind",
            "properties",
            "safeguards",
            "managed_versioning",
            "columns",
            "shown_columns",
            "tags",
        }
    )
    after = before.model_copy(update=without)
    return Change(
        catalog=catalog,
        kind=action.kind,
        identifier=live.id,
        action=action,
        before=before,
        after=after,
        fields=explain(before, after, address(catalog, live.id)),
        code=ReasonCode.RELEASED,
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
