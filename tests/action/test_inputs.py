"""What a workflow may ask for, and what it is told when it asks for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.action.inputs import Command, CommentWhen, InputError, Inputs, read_inputs
from tests.action.step import MERGE, Workspace
from tests.servers.github_api import GitHubApi


def test_without_inputs_there_are_the_defaults_of_the_action() -> None:
    assert read_inputs({}) == Inputs(command=Command.PLAN)


def test_lists_are_one_a_line() -> None:
    inputs = read_inputs(
        {
            "INPUT_COMMAND": "apply",
            "INPUT_MANIFEST": "a.yaml\n\n  b b.yaml \n",
            "INPUT_SELECT": "lake/**\nprod/*/users",
            "INPUT_VARIABLES": "region=eu\nquery=a=b",
            "INPUT_COMMENT": "always",
            "INPUT_REQUIRE_APPROVED_PLAN": "False",
        }
    )
    assert inputs.manifest == ("a.yaml", "b b.yaml")
    assert inputs.select == ("lake/**", "prod/*/users")
    assert inputs.variables == {"region": "eu", "query": "a=b"}
    assert inputs.comment is CommentWhen.ALWAYS
    assert not inputs.require_approved_plan


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COMMAND", "destroy", "`command`: expected 'plan', 'apply', 'drift', 'audit' or 'validate'"),
        ("COMMENT", "sometimes", "`comment`: expected 'changes-only', 'always' or 'never'"),
        ("REQUIRE_APPROVED_PLAN", "maybe", "`require-approved-plan`: expected true or false"),
        ("VARIABLES", "a=1\nhunter2", "`variables`: expected NAME=VALUE in line 2"),
        ("LABEL", "--> <script>", "`label`: expected"),
        ("PARALLELISM", "0", "`parallelism`: expected a number from 1 to 256"),
        ("PARALLELISM", "\u0663", "`parallelism`: expected a number from 1 to 256"),
        ("PLAN_FILE", "plan.json", "`plan-file` goes with `command: apply`"),
        ("EXPECT_DIGEST", "0" * 64, "`expect-digest` goes with `command: apply`"),
        ("ENGINE", "flink", "`engine`: expected 'local' or 'spark'"),
        ("MASTER", "local[2]", "`master` and `spark-conf` go with `engine: spark`"),
        ("SPARK_CONF", "a=b", "`master` and `spark-conf` go with `engine: spark`"),
        ("SPARK_CONF", "hunter2", "`spark-conf`: expected NAME=VALUE in line 1"),
        ("RULES", "orphan", "`rules` goes with `command: audit`, not with `plan`"),
        ("SKIP_RULES", "orphan", "`skip-rules` goes with `command: audit`"),
        ("STALE_AFTER", "30", "`stale-after` goes with `command: audit`"),
        ("STALE_AFTER", "9" * 5_000, "`stale-after`: expected a number from 1 to 36500"),
        ("FAIL_ON_UNMANAGED", "true", "`fail-on-unmanaged` goes with `command: drift`"),
        ("FAIL_ON", "worst", "`fail-on`: expected 'error', 'warning', 'note' or 'never'"),
        ("HISTORY", "s3://ops/audits.lance", "`history` goes with `command: audit`"),
        ("SINCE_LAST", "true", "`since-last` goes with `command: audit`"),
    ],
)
def test_an_input_that_cannot_be_used_is_one_clear_error(name: str, value: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_inputs({f"INPUT_{name}": value})
    assert said in str(error.value)
    assert "hunter2" not in str(error.value)


_OF_A_PLAN = {"SELECT": "lake/**", "ADOPT": "true", "TAKE_OVER": "true"}


@pytest.mark.parametrize("name", _OF_A_PLAN)
def test_what_steers_a_plan_goes_with_neither_a_saved_one_nor_an_audit(name: str) -> None:
    shown, given = name.lower().replace("_", "-"), {f"INPUT_{name}": _OF_A_PLAN[name]}
    with pytest.raises(InputError, match=f"`plan-file` or `{shown}`, not both"):
        read_inputs({"INPUT_COMMAND": "apply", "INPUT_PLAN_FILE": "plan.json", **given})
    with pytest.raises(InputError, match=f"`{shown}` does not go with `command: audit`"):
        read_inputs({"INPUT_COMMAND": "audit", **given})


def test_a_wrong_input_fails_the_step_with_every_output_set(workspace: Workspace) -> None:
    failed = workspace.push(command="destroy")
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "invalid-input")
    assert (failed.outputs["exit-code"], failed.outputs["has-changes"]) == ("1", "false")
    assert "`command`: expected" in failed.summary


def test_validate_reads_no_catalog(workspace: Workspace) -> None:
    validated = workspace.event("push", command="validate")
    assert validated.code == 0
    assert "1 catalog, 1 namespace, 2 tables" in validated.summary
    assert not (workspace.path / "lake").exists()


def test_files_of_variables_are_read_and_variables_win(workspace: Workspace) -> None:
    workspace.edit("tier: gold", 'tier: "${var:tier}", region: "${var:region}"')
    workspace.write("tier: a\nregion: eu\n", "one.yaml")
    workspace.write("tier: b\n", "two.yaml")
    planned = workspace.push(command="plan", var_file="one.yaml\ntwo.yaml")
    assert planned.code == 0, planned.log
    first = json.loads(Path(planned.outputs["plan-file"]).read_text())["changes"]
    assert {"tier": "b", "region": "eu"}.items() <= first[-1]["after"]["properties"].items()
    planned = workspace.push(command="plan", var_file="one.yaml\ntwo.yaml", variables="tier=c")
    assert '"tier": "c"' in Path(planned.outputs["plan-file"]).read_text()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "the variables in prod.yaml cannot be read: No such file"),
        ("tier: {a: b}\n", "variable `tier` is not text"),
        ("/outside", "`var-file`: prod.yaml leads out of the checkout"),
    ],
)
def test_a_file_of_variables_that_cannot_be_used_is_one_clear_error(
    workspace: Workspace, api: GitHubApi, made: str | None, said: str
) -> None:
    if made == "/outside":
        (workspace.path.parent / "outside").write_text("tier: hunter2\n")
        (workspace.path / "prod.yaml").symlink_to(workspace.path.parent / "outside")
    elif made:
        workspace.write(made, "prod.yaml")
    for fork in (False, True):
        failed = workspace.pull_request(8 if fork else 7, fork=fork, var_file="prod.yaml")
        assert (failed.code, failed.outputs["failure-reason"]) in ((1, "invalid-input"), (1, "invalid-manifest"))
        assert said in failed.log
        assert "hunter2" not in failed.log + failed.summary


_TEAM = """\
version: 1
catalogs:
  lake:
    namespaces:
      team:
        tables: {clicks: {schema: [{name: id, type: int64}]}}
"""


def test_a_plan_made_on_spark_is_the_same(workspace: Workspace, api: GitHubApi) -> None:
    workspace.edit("version: 1\n", "version: 1\ninclude: [team.yaml]\n")
    workspace.write(_TEAM, "team.yaml")
    here = workspace.pull_request()
    there = workspace.pull_request(8, engine="spark", master="local[1]", spark_conf="spark.driver.memory=1g")
    assert there.code == 0, there.log
    assert there.outputs["plan-sha256"] == here.outputs["plan-sha256"]
    assert '"team"' in Path(there.outputs["plan-file"]).read_text()
    api.merge(8, MERGE)
    applied = workspace.push(command="apply")
    assert applied.code == 0, applied.log

    # The faults of a file are the same, and no Spark is started for them.
    workspace.write(_TEAM.replace("schema:", "schma:"), "team.yaml")
    local = workspace.push(command="drift")
    spark = workspace.push(command="drift", engine="spark", master="local[1]")
    for failed in (local, spark):
        assert (failed.code, failed.outputs["failure-reason"]) == (1, "invalid-manifest"), failed.log
        assert "::error file=team.yaml,line=6" in failed.log
    assert "Starting Spark" in there.log
    assert "Starting Spark" not in spark.log


def test_taking_over_is_asked_for(workspace: Workspace) -> None:
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    workspace.edit("name: store", "name: another")
    workspace.edit("tier: gold", "tier: silver")
    blocked = workspace.push(command="plan")
    assert blocked.outputs["blocked"] != "0", blocked.log
    taken = workspace.push(command="plan", take_over="true")
    assert (taken.outputs["blocked"], taken.code) == ("0", 0)


def test_select_and_variables_reach_the_plan(workspace: Workspace) -> None:
    workspace.edit("tier: gold", 'tier: "${var:tier}"')
    planned = workspace.push(command="plan", select="lake/features/users", variables="tier=platinum")
    assert planned.outputs["to-create"] == "2"
    assert planned.outputs["to-declare"] == "0"
