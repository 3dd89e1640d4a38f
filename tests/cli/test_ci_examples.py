"""The examples for CI systems: their commands run on a directory, one after the other, as the system would."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.running import Ran, lancens

pytestmark = pytest.mark.usefixtures("folder")

EXAMPLES = Path(__file__).parents[2] / "examples/ci"
MANIFEST = "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, tables: {users: {}}}\n"
_GITLAB = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())
_JENKINS = re.findall(r"sh '(.*)'", (EXAMPLES / "Jenkinsfile").read_text())


def run(line: str, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run one line of a script, with what it redirects, and the digest in the environment of the job."""
    if line.startswith("python "):
        program = shlex.split(line)[2]
        assert "['digest']" in program
        return Ran(0, json.loads(Path("plan.json").read_text())["digest"], "")
    command, _, target = line.partition(" > ")
    words = [
        json.loads(Path("plan.json").read_text())["digest"] if one == "$DIGEST" else one for one in shlex.split(command)
    ]
    assert words[0] == "lancens"
    ran = lancens(capsys, *words[1:])
    if target:
        Path(target).write_text(ran.out)
    return ran


@pytest.mark.parametrize(
    "lines",
    [[*_GITLAB["plan"]["script"], *_GITLAB["apply"]["script"], *_GITLAB["drift"]["script"]], _JENKINS],
    ids=["gitlab", "jenkins"],
)
def test_what_is_planned_is_applied_and_then_there_is_no_drift(
    lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tests").mkdir()
    Path("tests/plans.yaml").write_text("tests: [{expect: [{action: declare-table, address: lake/users}]}]")
    for line in lines:
        ran = run(line, capsys)
        assert ran.code == 0, (line, ran.err)
    assert "Plan: " in Path("plan.md").read_text()
    assert Path("plan.junit.xml").read_text().startswith("<?xml")
    assert lancens(capsys, "drift").code == 0


def test_a_merge_request_gets_a_preview_that_goes_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES.parent / "preview", folder, dirs_exist_ok=True)
    assert lancens(capsys, "apply", "lancens.yaml", "--auto-approve").code == 0
    for job in ("preview", "preview-end"):
        own = "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID"
        assert all(own in rule["if"].split(" && ") for rule in _GITLAB[job]["rules"])
        [line] = _GITLAB[job]["script"]
        ran = run(line.replace("$CI_MERGE_REQUEST_IID", "7"), capsys)
        assert ran.code == 0, ran.err
        assert "3 of 3 changes" in ran.out
    assert Path("previews/7").exists()
    assert lancens(capsys, "drift", "lancens.yaml").code == 0


def test_jobs_that_apply_wait_for_each_other() -> None:
    assert all(_GITLAB[job]["resource_group"] for job in ("apply", ".preview"))
    assert "disableConcurrentBuilds()" in (EXAMPLES / "Jenkinsfile").read_text()


def test_schedules_run_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    tree = ast.parse((EXAMPLES / "airflow_dag.py").read_text())
    [commands] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
    ]
    jobs = [line for line in (EXAMPLES / "crontab").read_text().splitlines() if "flock -n" in line]
    found = [shlex.split(command)[1:] for _, command in commands.values()]
    found += [shlex.split(job.partition(".lock lancens ")[2]) for job in jobs]
    assert len(found) == 4
    for words in found:
        if "drift" in words:
            assert lancens(capsys, *words).code == 2, "nothing is there yet"
        else:
            assert lancens(capsys, words[words.index("audit")], "--help").code == 0


def test_a_plan_with_another_digest_is_not_applied(capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "plan", "-o", "plan.json").code == 0
    digest = json.loads(Path("plan.json").read_text())["digest"]
    refused = lancens(capsys, "apply", "plan.json", "--auto-approve", "--expect-digest", "0" * 64)
    assert refused.code == 1
    assert digest in refused.err
    assert not Path("lake").exists()
    misused = lancens(capsys, "apply", "--auto-approve", "--expect-digest", digest)
    assert misused.code == 1
    assert "goes with a saved plan" in misused.err
    assert lancens(capsys, "apply", "plan.json", "--auto-approve", "--expect-digest", digest.upper()).code == 0
