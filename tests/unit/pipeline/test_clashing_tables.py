"""What several tables have at one place is found by `plan --engine spark`, too; its tasks run in this process here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest

from reconciler import apply, load, plan
from reconciler.pipeline import engine

COLUMNS = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
RENAMED = [COLUMNS[0], {"name": "title", "type": "string", "renamed_from": "name"}]


def in_this_process(_spark: object, work: Sequence[Any], act: Callable[[Any, bool], Any]) -> list[Any]:
    return [act(one, True) for one in work]


@pytest.mark.parametrize(
    ("before", "after", "moved", "reason"),
    [
        (
            {"a": {"schema": COLUMNS}, "b": {"schema": COLUMNS}},
            {"a": {"schema": RENAMED, "evolve": "additive"}, "b": {"schema": COLUMNS}},
            [],
            "location-shared",
        ),
        ({"a": {}, "b": {}}, {"c": {"schema": COLUMNS}}, [{"from": "n/a", "to": "n/c"}], "location-taken"),
    ],
)
def test_a_change_of_data_that_another_table_has_is_blocked_as_by_the_local_engine(
    before: dict[str, Any],
    after: dict[str, Any],
    moved: list[Any],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "schema" in before["a"]:
        lance.write_dataset(pa.table({"id": [1], "name": ["x"]}), f"{tmp_path}/lake/shared")

    def written(tables: dict[str, Any]) -> Path:
        placed = {name: {**block, "location": "./lake/shared"} for name, block in tables.items()}
        lake = {"impl": "dir", "config": {"root": "./lake"}, "prune": "never", "moved": moved}
        catalogs = {"lake": {**lake, "namespaces": {"n": {"tables": placed}}}}
        path = tmp_path / "lancens.yaml"
        path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": catalogs}))
        return path

    lines, moved = moved, []
    first = load(written(before))
    assert apply(plan(first), first, journal=tmp_path / "runs").ok
    moved = lines
    manifest = load(written(after))
    for name, stand_in in {
        "in_tasks": in_this_process,
        "stage": lambda *_: nullcontext(Mock()),
        "tasks_at_once": lambda _: 2,
        "probe_tasks": lambda _: 1,
        "require_pyspark": Mock(),
    }.items():
        monkeypatch.setattr(engine, name, stand_in)
    spark: Any = None
    made = engine.plan_on_spark(spark, manifest)
    assert [one.code.value for one in made.blocked] == [reason]
    assert made.to_json() == plan(manifest).to_json()
