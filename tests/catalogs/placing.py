"""A plan that gives a namespace its location and makes tables in it, interrupted after its first change."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import reconciler
from reconciler.applier.report import Event
from reconciler.manifest import Manifest
from reconciler.planner.plan import Plan


def assert_tables_follow(manifest: Manifest, folder: Path) -> Mapping[str, str]:
    """Check that the saved plan and a new one finish an interrupted apply; return where they put the new tables."""
    plan, stop = reconciler.plan(manifest), threading.Event()

    def interrupt(event: Event) -> None:
        stop.set()

    apply = partial(reconciler.apply, manifest=manifest, journal=folder / "journal", parallelism=1)
    report = apply(plan, stop=stop, on_event=interrupt)
    assert not report.ok
    assert len(report.results) > 1
    new = reconciler.plan(manifest)
    assert not new.is_empty
    places = {change.address: change.destination for change in plan.changes if change.kind == "table"}
    assert {change.address: change.destination for change in new.changes if change.kind == "table"} == places
    assert apply(Plan.from_json(plan.to_json())).ok
    assert reconciler.plan(manifest).is_empty
    return {address: str(place) for address, place in places.items()}
