"""Every example runs."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pytest

from tests.catalogs.maintained import example
from tests.cli.running import lancens

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.end_to_end
def test_the_demo_ends_in_no_changes() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "quickstart/demo.py"], capture_output=True, text=True, check=True)
    assert "Applied 5 of 5 changes" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("No changes. 5 objects in 1 catalog")


def test_the_mirror_follows_what_somebody_else_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "mirror/demo.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "mirrored/features/users" in shown
    assert "mirrored/clicks has 2 rows" in shown


def test_a_staging_catalog_follows_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "staging/demo.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "new clone of prod/users at 2 (tag released) instead of 1" in shown
    assert "staging/users has 4 rows; the old clone has 5" in shown


def test_policies_reach_what_a_job_made(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "policies/demo.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "2 to update" in shown
    assert "policy `ads/**`, `*/daily_*`" in shown


def test_the_environments_share_a_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES / "environments", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for stage, variables in (("dev", ()), ("prod", ("--var", "stage=prod"))):
        applied = lancens(capsys, "apply", *variables, "--auto-approve")
        assert applied.code == 0
        assert f"+ {stage}_features/users" in applied.out
        assert lancens(capsys, "drift", *variables).code == 0


def test_the_upkeep_is_carried_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert lancens(capsys, "maintain", "--dry-run", "--detailed-exitcode").code == 2
    assert lancens(capsys, "maintain", "--auto-approve").code == 0
    assert lancens(capsys, "maintain", "--dry-run", "--detailed-exitcode").code == 0
    users = lance.dataset("lake/users.lance")
    assert {index.name for index in users.describe_indices()} == {"user_id_idx", "embedding_idx"}
    assert len(lance.dataset("lake/clicks.lance").get_fragments()) == 1
