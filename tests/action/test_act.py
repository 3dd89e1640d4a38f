"""The example workflows from end to end, run by a real runner: plan, comment, merge, apply, drift."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from tests.action.runner import ROOT, Repository
from tests.servers.github_api import TOKEN, GitHubApi


def manifest(root: Path, tables: str = "users: {properties: {tier: gold}}", more: str = "") -> str:
    return (
        f"version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {{root: {root}}}\n"
        f"    namespaces:\n      features:\n        tables:\n          {tables}\n{more}"
    )


def tables_of(root: Path) -> set[str]:
    import lance_namespace

    namespace = lance_namespace.connect("dir", {"root": str(root)})
    listed = namespace.list_tables(lance_namespace.ListTablesRequest(id=["features"]))
    return set(listed.tables)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_from_the_pull_request_to_the_merge(repository: Repository, api: GitHubApi, lake: Path) -> None:
    planned = repository.pull_request(7, manifest(lake))
    assert planned.ok, planned.log
    assert (planned.output("to-create"), planned.output("to-declare")) == ("1", "1")
    [comment] = api.comments_on(7)
    assert planned.output("plan-sha256") in comment
    saved = repository.artifact(planned.output("artifact")) / "plan.json"
    assert reconciler.Plan.from_json(saved.read_bytes()).digest() == planned.output("plan-sha256")
    assert not lake.exists()

    drifted = repository.run("workflow_dispatch", "drift")
    assert drifted.ok, drifted.log
    assert [issue["state"] for issue in api.issues] == ["open"]

    applied = repository.merge(7)
    assert applied.ok, applied.log
    assert tables_of(lake) == {"users"}
    assert "2 of 2 done" in api.comments_on(7, "apply")[0]
    assert repository.run("workflow_dispatch", "drift").ok
    assert [issue["state"] for issue in api.issues] == ["closed"]


def test_a_preview_from_the_opening_to_the_end(repository: Repository, api: GitHubApi, tmp_path: Path) -> None:
    workflow = repository.path / ".github/workflows/preview.yml"
    workflow.write_text(re.sub(r"pip install .*", "true", workflow.read_text()))
    files = {path.name: path.read_text() for path in (ROOT / "examples/preview").glob("*.yaml")}
    files = {name: re.sub(r"\./(lake|previews)", rf"{tmp_path}/\1", text) for name, text in files.items()}
    files["check_preview.py"] = (
        "import lance, reconciler, sys\n"
        f"preview = reconciler.connect('dir', {{'root': '{tmp_path}/previews/' + sys.argv[1]}})\n"
        "users = lance.dataset(namespace_client=preview, table_id=['features', 'users'])\n"
        "print('checked', *users.schema.names)\n"
    )
    repository.commit_files(files)
    manifest = reconciler.load(repository.path / "lancens.yaml")
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok

    head = repository.commit_files({"tables.yaml": files["tables.yaml"].replace("gold", "silver")})
    event = {"action": "opened", "number": 7, "pull_request": api.add_pull(7, head)}
    opened = repository.run("pull_request", "preview", event)
    assert opened.ok, opened.log
    assert "checked user_id country" in opened.printed
    assert "Open it: `lancens serve preview.yaml --var pr=7`" in api.comments_on(7)[0]

    api.pulls[7]["state"] = "closed"
    ended = repository.run("pull_request", "preview", {**event, "action": "closed"})
    assert ended.ok, ended.log
    assert tables_of(tmp_path / "previews/7") == set()
    assert "data stays at" in api.comments_on(7)[1]


def test_hostile_names_run_nothing(repository: Repository, api: GitHubApi, lake: Path) -> None:
    owned = repository.folder / "owned"
    name = json.dumps(f"`touch {owned}`; touch {owned} && ::error::x ##[error]x </details> | @x".replace("/", "-"))
    value = json.dumps(f"$(touch {owned}) '; touch {owned} ; ' \"\n::error::forged\n##[error]forged")
    hostile = manifest(lake, f"{name}: {{properties: {{{name}: {value}}}}}")
    planned = repository.pull_request(7, hostile)
    assert planned.ok, planned.log
    assert "❗" not in planned.log, "the sign of an error that a step reported"
    assert repository.merge(7).ok
    assert not owned.exists()
    assert TOKEN not in planned.log


def test_an_audit_hands_on_what_it_found(repository: Repository, api: GitHubApi, lake: Path) -> None:
    repository.commit(manifest(lake))
    lance.write_dataset(pa.table({"id": [1]}), lake / "deep/forgotten.lance")
    audited = repository.run("workflow_dispatch", "audit")
    assert audited.ok, audited.log
    report = repository.artifact(audited.output("artifact")) / "audit"
    shown = {"audit.html", "audit.json", "audit.junit.xml", "audit.sarif"}
    assert {path.name for path in report.iterdir()} == shown | {"findings.parquet", "tables.parquet"}
    handed_on = repository.artifact("code-scanning")
    assert handed_on.read_bytes() == (report / "audit.sarif").read_bytes()
    [run] = json.loads(handed_on.read_text())["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"missing", "orphan"}
    assert api.calls == []


def test_a_fork_is_validated_only(repository: Repository, api: GitHubApi, lake: Path) -> None:
    head = repository.commit(manifest(lake))
    validated = repository.run("pull_request", "plan", {"number": 7, "pull_request": api.add_pull(7, head, fork=True)})
    assert validated.ok, validated.log
    assert "comes from a fork" in validated.log
    assert api.calls == []


def test_the_action_keeps_its_downloads_in_githubs_cache(repository: Repository, lake: Path) -> None:
    """Only what builds lancens is downloaded: that it runs with all it needs is seen where no cache is used."""
    repository.package()
    project = repository.folder / "action/pyproject.toml"
    text = re.sub(r"^dependencies = \[.*?^\]", "dependencies = []", project.read_text(), flags=re.MULTILINE | re.DOTALL)
    project.write_text(text)
    repository.workflows("extras: ''")
    for restored in (False, True):
        installed = repository.pull_request(7, manifest(lake))
        assert "lancens is installed (" in installed.printed, installed.log
        assert ("restored lancens-wheels-" in installed.printed) is restored
        assert "No module named" in installed.printed
        folder = Path(installed.output("python")).parents[1]
        assert folder.name.startswith("lancens-")
        shutil.rmtree(folder)
