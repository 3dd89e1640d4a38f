"""What is lost from sight with each table that a plan deregisters: shown beside the plan, and no part of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from reconciler import storage
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.display import count
from reconciler.model.live import StorageKind
from reconciler.operations.connections import open_connections, places_of
from reconciler.planner.entries import Action, Change, Key
from reconciler.planner.placeholders import show_places
from reconciler.planner.plan import Plan

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


_MOST = 1_000
_OTHERWISE = {StorageKind.NOTHING: "nothing is stored there", StorageKind.NOT_LANCE: "no Lance dataset is there"}


def look_at_removed(plan: Plan, manifest: Manifest, *, parallelism: int = DEFAULT_PARALLELISM) -> Mapping[Key, str]:
    """Return what is to be said of the data of the tables that ``plan`` deregisters, by table.

    The first thousand of them are opened, ``parallelism`` at a time; what cannot be opened is said so.

    Raises:
        ManifestError, CatalogError: as when planning; no catalog is read.
    """
    going = [change for change in plan.changes if change.action is Action.DEREGISTER_TABLE][:_MOST]
    if not going:
        return {}
    with open_connections(manifest, {change.catalog for change in going}, parallelism=parallelism) as connections:
        options = {name: connection.backend.storage_options() for name, connection in connections.items()}
        shown = show_places(plan, places_of(connections.values())).changes
    going = [change for change in shown if change.action is Action.DEREGISTER_TABLE][:_MOST]
    said = in_parallel(lambda change: _said(change, options[change.catalog]), going, parallelism)
    return {change.key: text for change, text in zip(going, said, strict=True) if text}


def _said(change: Change, options: Mapping[str, str]) -> str:
    if change.before is None or change.before.location is None:
        return ""
    found = storage.examine(change.before.location, options, _rows_and_age)
    return found if isinstance(found, str) else _OTHERWISE.get(found.kind, "its data cannot be opened")


def _rows_and_age(dataset: Any) -> str:
    """Describe a ``lance.LanceDataset`` by its latest manifest alone."""
    latest = dataset.get_version()
    rows = count(int(latest["metadata"]["total_rows"]), "row")
    return f"{rows}, last written {latest['timestamp'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
