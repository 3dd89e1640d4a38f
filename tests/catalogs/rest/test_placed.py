"""Tables without a location, on a server that chooses one: planned, created, and reported with it."""

from __future__ import annotations

from pathlib import Path

import lance

import reconciler
from reconciler.applier.report import Status
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.catalogs.rest.conftest import Server
from tests.writing import load_text

_TABLES = """
    namespaces:
      n:
        tables:
          declared: {}
          made: {schema: [{name: id, type: int64}]}
"""


def _placed(folder: Path, tables: str = _TABLES, **config: str) -> reconciler.Manifest:
    lines = "".join(f"      {key}: {value!r}\n" for key, value in config.items() if key != "root")
    head = "version: 1\nname: placed\ncatalogs:\n  main:\n    impl: rest\n    config:\n"
    return load_text(folder, f"{head}{lines}{tables}")


def _of_tables(plan: Plan) -> dict[tuple[str, ...], tuple[Action, str | None]]:
    return {
        change.identifier: (change.action, change.after.location if change.after else None)
        for change in plan.changes
        if change.kind == "table"
    }


def test_the_server_says_where_and_apply_tells(either: Server, tmp_path: Path) -> None:
    manifest = _placed(tmp_path, **either.config)
    plan = reconciler.plan(manifest)
    assert not plan.blocked
    assert _of_tables(plan) == {
        ("n", "declared"): (Action.DECLARE_TABLE, None),
        ("n", "made"): (Action.CREATE_TABLE, None),
    }
    saved = tmp_path / "plan.json"
    saved.write_text(plan.model_dump_json())
    report = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
    assert report.ok, report.results
    connected = either.connect()
    for result in report.results:
        if result.change.kind == "table":
            place = connected.load_table(result.change.identifier).location
            assert result.note == f"the service put it at {place}"
    made = connected.load_table(("n", "made")).location
    assert lance.dataset(made).schema.names == ["id"]
    assert not reconciler.plan(manifest).changes
    again = reconciler.apply(Plan.model_validate_json(saved.read_text()), manifest, journal=tmp_path / "journal")
    assert {result.status for result in again.results} == {Status.ALREADY}
