"""Plans against an earlier manifest: what both plans have is pending, and the plan itself is the same."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import given, settings

import reconciler
from reconciler.backends.memory import MemoryBackend
from reconciler.model.desired import DesiredCatalog
from reconciler.model.live import Snapshot
from reconciler.model.names import address
from reconciler.planner.plan import Plan
from tests.soak import count, seeded
from tests.states import situations
from tests.unit.test_edited_plans import chances, fill, manifest_of, quick


def edited(wanted: DesiredCatalog, chance: random.Random) -> DesiredCatalog:
    """Return a catalog of which some tables have left, and some have other properties."""
    targets = {line.to for line in wanted.moves}
    tables = {
        name: replace(table, properties={"tier": "z"}) if not table.absent and chance.random() < 0.3 else table
        for name, table in wanted.tables.items()
        if name in targets or chance.random() < 0.7
    }
    return replace(wanted, tables=tables, prune=chance.choice([wanted.prune, *type(wanted.prune)]))


def modelled(plan: Plan, earlier: Plan) -> set[Any]:
    """Return the objects of which both saved plans say the same, apart from lines and order."""

    def said(one: Plan) -> dict[Any, Any]:
        apart = {"source", "depends_on"}
        return {entry.key: entry.model_dump(mode="json", exclude=apart) for entry in one.entries}

    before = said(earlier)
    return {key for key, entry in said(plan).items() if before.get(key) == entry}


def test_what_was_pending_is_what_both_plans_have(tmp_path: Path) -> None:
    seen = [0, 0]
    name = uuid.uuid4().hex
    backend = MemoryBackend(name=name)

    @hypothesis.seed(seeded("plans against another").randrange(2**32))
    @settings(quick, max_examples=count(60, 1_000))
    @given(situations(), chances)
    def planned(found: tuple[DesiredCatalog, Snapshot], chance: random.Random) -> None:
        wanted, live = found
        fill(backend, live, [])
        base, head = (
            manifest_of(tmp_path, lambda _: f"impl: memory, config: {{name: {name}}}", {"lake": one})
            for one in (wanted, edited(wanted, chance))
        )
        options: dict[str, Any] = {"allow_mass_removal": True, "adopt": chance.random() < 0.3}
        known = sorted(address("lake", name) for name in {*live.tables, *live.namespaces})
        for limit in ("select", "exclude"):
            if known and chance.random() < 0.3:
                options[limit] = [chance.choice(["{}", "{}/**"]).format(chance.choice(known))]
        if {"select", "exclude"} <= {*options}:
            options["select"] = ["lake/**"]
        plan, earlier = (reconciler.plan(each, **options) for each in (head, base))
        with patch.object(MemoryBackend, "scan", autospec=True, side_effect=MemoryBackend.scan) as scan:
            against = reconciler.plan(head, against=base, **options)
        assert scan.call_count == 1, "both are planned on one read"
        assert against.to_json() == plan.to_json()
        assert set(against.pending) == modelled(plan, earlier)
        seen[0] += len(against.pending)
        seen[1] += len(against.entries)

    planned()
    assert 0 < seen[0] < seen[1]
