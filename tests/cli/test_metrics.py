"""`--metrics`: every command's numbers, read by the parser that Prometheus' users have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.cli.running import Ran, lancens
from tests.cli.samples import samples

MANIFEST = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      a: {properties: {api_token: s3cret-value}, tables: {t: {schema: [{name: id, type: int64}]}, u: {}}}
"""
Run = Callable[..., Ran]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: lancens(capsys, *arguments, "--metrics", "run.prom")


def test_a_plan_counts_objects_by_state_and_changes_by_action(run: Run) -> None:
    assert run("plan").code == 0
    assert samples("lancens_objects", "catalog", "state")["lake", "drifted"] == 3
    planned = samples("lancens_changes", "catalog", "action", "outcome")
    assert planned["lake", "create-table", "planned"] == planned["lake", "declare-table", "planned"] == 1
    assert samples("lancens_exit_code", "command", "manifest") == {("plan", "shop"): 0}
    assert samples("lancens_stage_seconds", "catalog", "stage")["lake", "scan"] > 0


def test_an_apply_counts_outcomes_and_drift_is_a_success(run: Run) -> None:
    assert run("drift").code == 2
    assert samples("lancens_success") == {(): 1}
    assert run("apply", "--auto-approve").code == 0
    assert samples("lancens_changes", "action", "outcome")["create-table", "done"] == 1
    assert run("drift").code == 0
    states = samples("lancens_objects", "catalog", "state")
    assert states["lake", "in_step"] == 3
    assert states["lake", "drifted"] == 0
    assert run("drift", "--exclude", "lake/a/u").code == 0
    assert ("lake", "in_step") not in samples("lancens_objects", "catalog", "state"), "nobody looked"


def test_upkeep_counts_its_jobs(run: Run) -> None:
    assert run("apply", "--auto-approve").code == 0
    for number in range(3):
        lance.write_dataset(pa.table({"id": pa.array([number], pa.int64())}), _only_dataset(), mode="append")
    Path("lancens.yaml").write_text(
        MANIFEST.replace("t: {schema", "t: {maintain: {compact: {max_small_fragments: 1}}, schema")
    )
    assert run("maintain", "--dry-run").code == 0
    assert samples("lancens_changes", "action", "outcome") == {("compact", "planned"): 1}
    assert run("maintain", "--auto-approve").code == 0
    assert samples("lancens_changes", "action", "outcome") == {("compact", "done"): 1}
    assert samples("lancens_success", "command") == {("maintain",): 1}


def _only_dataset() -> Path:
    [versions] = Path("lake").glob("*$t/_versions")
    return versions.parent


def test_a_failure_keeps_the_time_of_the_last_success(run: Run) -> None:
    assert run("plan").code == 0
    [last] = samples("lancens_last_success_timestamp_seconds").values()
    Path("lancens.yaml").write_text("version: 1\nname: [no name]\n")
    assert run("plan").code == 1
    assert samples("lancens_success") == {(): 0}
    assert list(samples("lancens_last_success_timestamp_seconds").values()) == [last]


@pytest.mark.parametrize("command", ["plan", "drift", "apply"])
def test_a_catalog_that_cannot_be_read_is_a_failure_of_each_command(run: Run, command: str) -> None:
    Path("lake/__manifest/_versions").mkdir(parents=True)
    Path("lake/__manifest/_versions/1.manifest").write_text("junk")
    assert run(command, *(["--auto-approve"] if command == "apply" else [])).code == 1
    assert samples("lancens_exit_code", "command", "manifest") == {(command, "shop"): 1}
    assert samples("lancens_success") == {(): 0}
    assert samples("lancens_changes") == samples("lancens_last_success_timestamp_seconds") == {}


def test_a_blocked_object_is_counted(run: Run) -> None:
    assert run("apply", "--auto-approve").code == 0
    Path("lancens.yaml").write_text(MANIFEST.replace("type: int64", "type: string"))
    assert run("plan").code == 3
    states = samples("lancens_objects", "catalog", "state")
    assert (states["lake", "blocked"], states["lake", "in_step"]) == (1, 2)


def test_a_file_that_cannot_be_written_is_an_error_before_the_work(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = lancens(capsys, "apply", "--auto-approve", "--metrics", "nowhere/run.prom")
    assert refused.code == 1
    assert "nowhere" in refused.err
    assert not Path("lake").exists()
