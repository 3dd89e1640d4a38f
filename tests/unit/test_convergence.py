"""Plan, apply, plan again: the promises that hold for every desired and every live state.

Random manifests meet random catalogs in the memory backend. After apply the plan is empty, and no write is done twice.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.applier.check import check_plan
from reconciler.applier.executor import execute
from reconciler.applier.journal import Journal
from reconciler.applier.report import ApplyReport
from reconciler.backends.memory import MemoryBackend
from reconciler.model.desired import DesiredCatalog, Thresholds
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier
from reconciler.model.ownership import REQUESTED_LOCATION
from reconciler.operations.connections import CatalogSpec, Connection
from reconciler.operations.driver import Driver, LocalEngine
from reconciler.operations.plan import input_of
from reconciler.planner.facts import PlanOptions
from reconciler.planner.plan import ManifestRef, Plan
from tests.states import held_names, option_sets, situations
from tests.unit.planner.building import CATALOG, OWNER, desired, live, live_table, table


class Recorded(MemoryBackend):
    """A memory catalog that notes its writes."""

    def __init__(self, **given: str) -> None:
        super().__init__(**given)
        self.writes: list[tuple[str, Identifier]] = []

    def _wrote(self, operation: str, identifier: Identifier) -> None:
        self.writes.append((operation, identifier))

    def insert_namespace(self, identifier: Identifier, properties: Mapping[str, str], **more: Any) -> LiveNamespace:
        made = super().insert_namespace(identifier, properties, **more)
        self._wrote("insert namespace", identifier)
        return made

    def remove_namespace(self, identifier: Identifier) -> None:
        super().remove_namespace(identifier)
        self._wrote("remove namespace", identifier)

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        made = super().insert_table(identifier, location, properties)
        self._wrote("insert table", identifier)
        return made

    def remove_table(self, identifier: Identifier) -> LiveTable:
        removed = super().remove_table(identifier)
        self._wrote("remove table", identifier)
        return removed

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        altered = super().alter_namespace(identifier, changes)
        self._wrote("alter namespace", identifier)
        return altered

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        altered = super().alter_table(identifier, changes, location)
        self._wrote("alter table", identifier)
        return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        renamed = super().rename_table(identifier, to)
        self._wrote("rename table", identifier)
        return renamed


def filled(state: Snapshot, foreign: Iterable[Identifier] = ()) -> Recorded:
    backend = Recorded(name=uuid.uuid4().hex, root="shared-memory://defaults")
    for namespace in state.namespaces.values():
        backend.insert_namespace(namespace.id, namespace.properties)
    for entry in state.tables.values():
        backend.insert_table(entry.id, entry.location, entry.properties)
    for identifier in foreign:
        backend.add_foreign(identifier)
    backend.writes.clear()
    return backend


def planned(backend: Recorded, wanted: DesiredCatalog, options: PlanOptions) -> Plan:
    connection = Connection(CatalogSpec(CATALOG, "memory"), wanted, backend)
    connections = {CATALOG: connection}
    driver = Driver(LocalEngine(connections, 1), connections, 1)
    driver.plan({CATALOG: input_of(connection, options)})
    return driver.planning.plan(ManifestRef(name="store", digest="", files=()), Thresholds())


def applied(backend: Recorded, plan: Plan) -> ApplyReport:
    backends = {CATALOG: backend}
    check_plan(plan, backends, 4)
    with TemporaryDirectory() as folder, Journal.open(Path(folder), plan) as journal:
        return execute(plan, backends, parallelism=4, journal=journal, stop=threading.Event())


quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@pytest.mark.soak
@quick
@given(situations(), option_sets, st.data())
def test_after_apply_the_plan_is_empty(
    situation: tuple[DesiredCatalog, Snapshot], options: PlanOptions, data: st.DataObject
) -> None:
    wanted, state = situation
    foreign = data.draw(held_names(wanted, state), "held by tables of another kind")
    backend = filled(state, foreign)
    plan = planned(backend, wanted, options)
    report = applied(backend, plan)
    assert report.ok, report
    again = planned(backend, wanted, options)
    assert again.is_empty, again.to_json()
    assert {one.identifier for one in again.blocked if one.held_by} == set(foreign)
    assert len(backend.writes) == len(set(backend.writes))


def test_an_entry_that_may_have_been_placed_elsewhere_is_moved_with_one_write() -> None:
    """The request was noted and its answer never: a catalog that does as it is asked needs no note of it again."""
    here, there = "shared-memory://shelf/1", "shared-memory://shelf/0"
    entry = live_table("b", owner=OWNER, location=here, extra={REQUESTED_LOCATION: there})
    backend, wanted = filled(live(entry)), desired(table("b", location=there, probe=False))
    assert applied(backend, planned(backend, wanted, PlanOptions())).ok
    assert backend.writes == [("alter table", ("b",))]
    assert planned(backend, wanted, PlanOptions()).is_empty
    [moved] = backend.scan(EVERYTHING).tables.values()
    assert moved.location == there
    assert REQUESTED_LOCATION not in moved.properties
