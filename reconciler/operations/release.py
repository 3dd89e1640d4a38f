"""Remove the marks of lancens from objects, which stay as they are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from reconciler import storage
from reconciler.applier.report import ApplyReport, Event, KeptTag
from reconciler.manifest import Manifest
from reconciler.model import ownership
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Scope, address
from reconciler.model.reasons import ReasonCode
from reconciler.operations.apply import carry_out, ignore_event
from reconciler.operations.connections import Connection, open_connections, read_all
from reconciler.operations.plan import check_globs, reference, selected_catalogs, selected_in, summary_of
from reconciler.planner.entries import Action, Change, Protection
from reconciler.planner.plan import Options, Plan
from reconciler.planner.views import ObjectView, field_changes, view_of

_STILL_READS = "the clone reads that version still"
_NO_MARKS = {"location", "kind", "properties", "safeguards", "managed_versioning", "columns", "shown_columns", "tags"}
"""What a view holds beside the marks of lancens."""


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
        snapshots = read_all(
            connections.values(), lambda connection: connection.backend.scan(connection.desired.scope), parallelism
        )
        catalogs, marked = [], list[tuple[Connection, list[LiveNamespace | LiveTable]]]()
        for connection, snapshot in zip(connections.values(), snapshots, strict=True):
            desired = len(connection.desired.namespaces) + len(connection.desired.tables)
            catalogs.append(summary_of(connection, len(snapshot.namespaces), len(snapshot.tables), desired))
            marked.append((connection, _marked(connection, snapshot, selection)))
        problem = f"matches nothing that {manifest.name} manages; names are catalog/namespace/table"
        check_globs(select, [(connection, [live.id for live in found]) for connection, found in marked], problem)
        entries = [_release_entry(connection, live, protected) for connection, found in marked for live in found]
    return Plan(
        manifest=reference(manifest),
        catalogs=tuple(catalogs),
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
        report = carry_out(plan, plan, connections, parallelism, journal, on_event, stop)
    released = (result.change.before for result in report.results if result.status.satisfies)
    kept = [
        KeptTag(storage.pin_of(view.location or ""), ownership.origin_of_clone(view.clone), None, _STILL_READS)
        for view in released
        if view is not None and ownership.is_pinned(view.clone)
    ]
    return replace(report, kept_tags=kept) if kept else report


def _marked(connection: Connection, snapshot: Snapshot, selection: Scope) -> list[LiveNamespace | LiveTable]:
    """Return the selected objects that this manifest manages, namespaces first."""
    selected = selected_in(connection, selection)
    live_objects: list[LiveNamespace | LiveTable] = [snapshot.namespaces[key] for key in sorted(snapshot.namespaces)]
    live_objects += [snapshot.tables[key] for key in sorted(snapshot.tables)]
    owner = connection.desired.owner
    return [
        live
        for live in live_objects
        if selected.contains(live.id)
        and any(
            ownership.is_same_owner(mark, owner)
            for mark in (ownership.owner_of(live.properties), ownership.policy_of(live.properties))
        )
    ]


def _release_entry(connection: Connection, live: LiveNamespace | LiveTable, protected: bool) -> Change | Protection:
    """Return the change that removes the marks, or the protection that prevents it."""
    catalog = connection.spec.name
    action = Action.UPDATE_TABLE if isinstance(live, LiveTable) else Action.UPDATE_NAMESPACE
    if ownership.is_protected(live.properties) and not protected:
        code = ReasonCode.PROTECTED_FROM_RELEASE
        return Protection(catalog=catalog, kind=action.kind, identifier=live.id, would=action, code=code)
    before = view_of(live, (), connection.capabilities().safeguard) or ObjectView()
    after = before.model_copy(update=ObjectView().model_dump(exclude=_NO_MARKS))
    return Change(
        catalog=catalog,
        kind=action.kind,
        identifier=live.id,
        action=action,
        before=before,
        after=after,
        fields=field_changes(before, after, address(catalog, live.id)),
        code=ReasonCode.RELEASED,
    )
