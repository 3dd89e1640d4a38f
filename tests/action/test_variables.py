"""Variables in names under the Action: files of them, the file beside the manifest, the base, and a fork."""

from __future__ import annotations

from tests.action.step import MERGE, Workspace
from tests.servers.github_api import GitHubApi


def _templated(workspace: Workspace) -> None:
    """Make the names of the manifest depend on `stage`."""
    workspace.edit("name: store", 'name: "${var:stage}-store"')
    workspace.edit(
        "  lake:\n", '  "${var:stage}_lake":\n    scope: ["${var:stage}_features", "${var:stage}_features/**"]\n'
    )
    workspace.edit("      features:\n", '      "${var:stage}_features":\n')


def _commit(workspace: Workspace, api: GitHubApi) -> None:
    """Make what the checkout holds the base of the pull request, too."""
    api.files = {path.name: path.read_bytes() for path in workspace.path.glob("*.yaml")}


def test_a_file_of_variables_names_what_is_planned_and_applied(workspace: Workspace, api: GitHubApi) -> None:
    _templated(workspace)
    workspace.write("stage: dev\nregoin: eu\n", "dev.vars.yaml")
    _commit(workspace, api)
    planned = workspace.pull_request(var_file="dev.vars.yaml")
    assert planned.code == 0, planned.log
    assert "plan of `dev-store`" in planned.summary
    assert "dev_features/users" in planned.log
    assert "How catalogs are reached" not in planned.summary, "the base has the same names"
    [warning] = [line for line in planned.commands("warning") if "regoin" in line]
    assert "dev.vars.yaml:2" in warning
    api.merge(7, MERGE)
    applied = workspace.push(command="apply", var_file="dev.vars.yaml")
    assert applied.code == 0, applied.log
    assert (workspace.path / "lake").exists()


def test_a_config_that_changes_below_a_placeholder_is_shown_as_a_change(workspace: Workspace, api: GitHubApi) -> None:
    _templated(workspace)
    _commit(workspace, api)
    workspace.edit("{root: ./lake}", "{root: ./other}")
    summary = workspace.pull_request(variables="stage=dev").summary
    assert "! catalog dev_lake\n-   root: ./lake\n+   root: ./other\n" in summary


def test_the_file_beside_the_manifest_is_read_and_its_changes_are_shown(workspace: Workspace, api: GitHubApi) -> None:
    _templated(workspace)
    workspace.edit("{root: ./lake}", '{root: "./${var:lake}"}')
    workspace.write("stage: dev\nlake: one\n", "lancens.vars.yaml")
    _commit(workspace, api)
    assert "How catalogs are reached" not in workspace.pull_request().summary
    workspace.write("stage: dev\nlake: two\n", "lancens.vars.yaml")
    summary = workspace.pull_request().summary
    assert "! the variables in lancens.vars.yaml\n-   lake: one\n+   lake: two\n" in summary
    (workspace.path.parent / "outside").write_text("stage: hunter2\n")
    (workspace.path / "lancens.vars.yaml").unlink()
    (workspace.path / "lancens.vars.yaml").symlink_to(workspace.path.parent / "outside")
    refused = workspace.pull_request()
    assert refused.code == 1
    assert "leads out of the manifest's folder" in refused.log
    assert "hunter2" not in refused.log + refused.summary


def test_another_value_after_the_review_is_refused_by_its_name(workspace: Workspace, api: GitHubApi) -> None:
    _templated(workspace)
    _commit(workspace, api)
    assert workspace.pull_request(variables="stage=dev").code == 0
    api.merge(7, MERGE)
    refused = workspace.push(command="apply", variables="stage=prod")
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "plan-changed")
    assert "the value of `stage` has changed since" in refused.log
    assert not (workspace.path / "lake").exists()


def test_a_fork_validates_names_without_their_values(workspace: Workspace, api: GitHubApi) -> None:
    _templated(workspace)
    workspace.edit(
        "    namespaces:\n", '    moved: [{from: "${var:stage}_old", to: "${var:stage}_features"}]\n    namespaces:\n'
    )
    workspace.write(
        (workspace.path / "lancens.yaml").read_text()
        + '  copy:\n    impl: memory\n    mirror: {from: "${var:stage}_lake", names: {"${var:stage}_features": all}}\n'
    )
    checked = workspace.pull_request(8, fork=True, variables="stage=hunter2")
    assert checked.code == 0, checked.log
    assert "hunter2" not in checked.log + checked.summary
    workspace.edit('"${var:stage}_features":\n', '"${env:HOME}_features":\n')
    assert "a name takes variables only" in workspace.pull_request(8, fork=True, variables="stage=x").log
