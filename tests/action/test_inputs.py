"""What a workflow may ask for, and what it is told when it asks for something else."""

from __future__ import annotations

import pytest

from reconciler.github.inputs import Command, CommentWhen, InputError, Inputs, read_inputs
from tests.action.step import Workspace


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
    assert inputs.manifests == ("a.yaml", "b b.yaml")
    assert inputs.select == ("lake/**", "prod/*/users")
    assert inputs.variables == {"region": "eu", "query": "a=b"}
    assert inputs.comment is CommentWhen.ALWAYS
    assert not inputs.require_approved_plan


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COMMAND", "destroy", "`command` is none of plan, apply, drift, audit, validate"),
        ("COMMENT", "sometimes", "`comment` is none of changes-only, always, never"),
        ("REQUIRE_APPROVED_PLAN", "maybe", "`require-approved-plan` is neither true nor false"),
        ("VARIABLES", "a=1\nhunter2", "`variables`, line 2: expected NAME=VALUE"),
        ("LABEL", "--> <script>", "`label`: expected"),
        ("PARALLELISM", "0", "`parallelism`: expected a number from 1 to 256"),
        ("PARALLELISM", "\u0663", "`parallelism`: expected a number from 1 to 256"),
        ("PLAN_FILE", "plan.json", "`plan-file` goes with `command: apply`"),
        ("FAIL_ON", "worst", "`fail-on` is none of error, warning, note, never"),
        ("HISTORY", "s3://ops/audits.lance", "`history` goes with `command: audit`"),
    ],
)
def test_an_input_that_cannot_be_used_is_one_clear_error(name: str, value: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_inputs({f"INPUT_{name}": value})
    assert said in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_saved_plan_is_not_selected_from() -> None:
    with pytest.raises(InputError, match="`plan-file` or `select`, not both"):
        read_inputs({"INPUT_COMMAND": "apply", "INPUT_PLAN_FILE": "plan.json", "INPUT_SELECT": "**"})


def test_an_audit_is_not_selected_from() -> None:
    with pytest.raises(InputError, match="`select` does not go with `command: audit`"):
        read_inputs({"INPUT_COMMAND": "audit", "INPUT_SELECT": "lake/**"})


def test_a_wrong_input_fails_the_step_with_every_output_set(workspace: Workspace) -> None:
    failed = workspace.push(command="destroy")
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "invalid-input")
    assert (failed.outputs["exit-code"], failed.outputs["has-changes"]) == ("1", "false")
    assert "`command` is none of" in failed.summary


def test_validate_reads_no_catalog(workspace: Workspace) -> None:
    validated = workspace.event("push", command="validate")
    assert validated.code == 0
    assert "1 catalog, 1 namespace, 2 tables" in validated.summary
    assert not (workspace.path / "lake").exists()


def test_select_and_variables_reach_the_plan(workspace: Workspace) -> None:
    workspace.edit("tier: gold", 'tier: "${var:tier}"')
    planned = workspace.push(command="plan", select="lake/features/users", variables="tier=platinum")
    assert planned.outputs["to-create"] == "2"
    assert planned.outputs["to-declare"] == "0"
