"""Run tests of a manifest: plan their live states in memory, with what each `impl` can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from reconciler.backends import registry
from reconciler.model.errors import ManifestError, SelectionError
from reconciler.model.live import Snapshot
from reconciler.model.names import Scope
from reconciler.operations.facts import check_selection
from reconciler.operations.plan import reference
from reconciler.operations.plan_tests import BLOCKED, DATA, NAMESPACE, NOTE, PROTECTED, TABLE, Expectation, PlanTest
from reconciler.planner.assumed import AssumedCatalog, plan_assumed
from reconciler.planner.entries import Blocked, Change, Note, Protection
from reconciler.planner.facts import CatalogInput

PlanEntry: TypeAlias = Change | Blocked | Protection | Note


class Failure(NamedTuple):
    """An expectation that a plan does not meet, and the entries that it rejects or that are there instead."""

    expectation: Expectation
    entries: Sequence[PlanEntry]


def run_test(test: PlanTest) -> list[Failure]:
    """Return the expectations that the plan of a test's live state does not meet.

    Raises:
        ManifestError: a glob of an expectation matches no object.
    """
    catalogs = {name: _assumed_catalog(test, name) for name in test.manifest.catalogs}
    plan, planned = plan_assumed(catalogs, reference(test.manifest), test.manifest.thresholds)
    entries: list[PlanEntry] = [*plan.changes, *plan.blocked, *plan.guards, *plan.notes]
    failures: list[Failure] = []
    for expectation in test.expectations:
        wanted, is_wanted, source = expectation
        try:
            check_selection([Scope((wanted.address,))], planned)
        except SelectionError as error:
            raise ManifestError([source.problem(str(error))]) from None
        addressed = [
            entry
            for entry in entries
            if isinstance(entry, Note) == (wanted.action == NOTE)
            and _is_about(entry, catalogs[entry.catalog].source.selected(Scope((wanted.address,))))
        ]
        matching = [
            entry
            for entry in addressed
            if wanted.action in (None, word_of_entry(entry)) and wanted.code in (None, entry.code)
        ]
        if is_wanted != bool(matching):
            failures.append(Failure(expectation, addressed if is_wanted else matching))
    return failures


def word_of_entry(entry: PlanEntry) -> str:
    """Return the `action` by which tests name an entry."""
    if isinstance(entry, Change):
        return entry.action.value
    return BLOCKED if isinstance(entry, Blocked) else PROTECTED if isinstance(entry, Protection) else NOTE


def _is_about(entry: PlanEntry, addresses: Scope) -> bool:
    if isinstance(entry, Note):
        return bool(addresses.patterns)
    old_name = None if isinstance(entry, Protection) else entry.moved_from
    return any(map(addresses.contains, filter(None, (entry.identifier, old_name))))


def _assumed_catalog(test: PlanTest, name: str) -> AssumedCatalog:
    catalog = test.manifest.catalogs[name]
    config, backend_class = catalog.config.known_config(), registry.backend_class(catalog.impl)
    able = backend_class.usual_capabilities(config)
    objects = {
        kind: [each for kind_of_each, each in test.live if kind_of_each == kind and each.catalog in ("", name)]
        for kind in (TABLE, NAMESPACE, DATA)
    }
    return AssumedCatalog(
        CatalogInput(catalog.desired, Snapshot(), able, catalog.impl),
        catalog.config.root or (f"shared-memory://{name}" if backend_class.in_process else None),
        objects[TABLE],
        objects[NAMESPACE],
        objects[DATA],
    )
