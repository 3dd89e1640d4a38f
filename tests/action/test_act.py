"""The example workflows from end to end, run by a real runner: plan, comment, merge, apply, drift."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from tests.action.runner import ROOT, Repository
from tests.action.step import many_tables
from tests.servers.github_api import TOKEN, GitHubApi
from tests.servers.glue import ACCESS_KEY, REGION, SECRET_KEY, glue_server


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

    again = repository.pull_request(7, manifest(lake))
    assert again.ok
    assert len(api.comments_on(7)) == 1

    drifted = repository.run("workflow_dispatch", "drift")
    assert drifted.ok, drifted.log
    assert [issue["state"] for issue in api.issues] == ["open"]

    applied = repository.merge(7)
    assert applied.ok, applied.log
    assert tables_of(lake) == {"users"}
    assert "2 of 2 done" in api.comments_on(7, "apply")[0]
    repeated = repository.run("push", "apply")
    assert repeated.ok
    assert repeated.output("has-changes") == "false"

    assert repository.run("workflow_dispatch", "drift").ok
    assert [issue["state"] for issue in api.issues] == ["closed"]


def test_what_changed_since_the_review_is_refused(repository: Repository, api: GitHubApi, lake: Path) -> None:
    assert repository.pull_request(7, manifest(lake)).ok
    changed = repository.merge(7, manifest(lake, "users: {properties: {tier: silver}}"))
    assert not changed.ok
    assert changed.output("failure-reason") == "plan-changed"
    assert "tier: silver" in api.comments_on(7, "apply")[0]
    assert not lake.exists()

    # Another time the manifest is the same and the catalog is not.
    assert repository.pull_request(8, manifest(lake)).ok
    elsewhere = repository.folder / "elsewhere.yaml"
    elsewhere.write_text(manifest(lake, "users: {properties: {tier: bronze}}"))
    moving = reconciler.load(elsewhere)
    assert reconciler.apply(reconciler.plan(moving), moving, journal=repository.folder / "journal").ok
    moved = repository.merge(8)
    assert not moved.ok
    assert moved.output("failure-reason") == "plan-changed"
    assert "bronze -> gold" in api.comments_on(8, "apply")[0]


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


def test_what_cannot_be_planned_approves_nothing(repository: Repository, api: GitHubApi, lake: Path) -> None:
    assert repository.pull_request(7, manifest(lake)).ok
    broken = repository.pull_request(7, manifest(lake, "users: {propertys: {}}"))
    assert not broken.ok
    assert broken.output("failure-reason") == "invalid-manifest"
    assert "::error file=lancens.yaml,line=10,col=" in broken.log
    lake.mkdir()
    (lake / "__manifest").write_text("no dataset")
    unreadable = repository.pull_request(7, manifest(lake))
    assert not unreadable.ok
    assert unreadable.output("failure-reason") == "catalog-unreadable"
    [comment] = api.comments_on(7)
    assert "catalog-unreadable" in comment
    shutil.rmtree(lake)
    refused = repository.merge(7)
    assert refused.output("failure-reason") == "not-approved"


def test_a_huge_plan_is_cut_and_approves_nothing(repository: Repository, api: GitHubApi, lake: Path) -> None:
    more = many_tables(1_000)
    planned = repository.pull_request(7, manifest(lake, more=more))
    assert planned.ok
    assert "Left out:" in api.comments_on(7)[0]
    saved = repository.artifact(planned.output("artifact")) / "plan.json"
    assert len(json.loads(saved.read_text())["changes"]) == 1_002
    refused = repository.merge(7)
    assert not refused.ok
    assert refused.output("failure-reason") == "not-approved"


def test_a_fork_is_validated_only(repository: Repository, api: GitHubApi, lake: Path) -> None:
    head = repository.commit(manifest(lake))
    validated = repository.run("pull_request", "plan", {"number": 7, "pull_request": api.add_pull(7, head, fork=True)})
    assert validated.ok, validated.log
    assert "comes from a fork" in validated.log
    assert api.calls == []


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


def test_glue_from_the_pull_request_to_the_merge(
    repository: Repository, api: GitHubApi, lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with glue_server(tmp_path_factory.mktemp("glue")) as glue:
        repository.environment |= {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "GLUE_ENDPOINT": glue.endpoint,
            "LAKE_ROOT": str(lake),
        }
        text = (ROOT / "examples/glue/lancens.yaml").read_text()
        lance.write_dataset(pa.table({"url": ["a", "b"]}), lake / "raw/clicks.lance")
        planned = repository.pull_request(7, text)
        assert planned.ok, planned.log
        [comment] = api.comments_on(7)
        assert SECRET_KEY not in planned.log + comment

        applied = repository.merge(7)
        assert applied.ok, applied.log
        databases = {database["Name"] for database in glue.client.get_databases()["DatabaseList"]}
        assert databases
        assert SECRET_KEY not in applied.log
        drifted = repository.run("workflow_dispatch", "drift")
        assert drifted.ok
        assert drifted.output("has-changes") == "false"

        # Somebody changes a table by hand between the review and the merge.
        assert repository.pull_request(8, text.replace("gold", "silver")).output("to-update") == "1"
        client: Any = glue.client
        [moved] = [
            (database, table)
            for database in databases
            for table in client.get_tables(DatabaseName=database)["TableList"]
            if table["Parameters"].get("tier") == "gold"
        ]
        kept = {key: moved[1][key] for key in ("Name", "TableType", "StorageDescriptor", "Parameters")}
        kept["Parameters"]["tier"] = "bronze"
        client.update_table(DatabaseName=moved[0], TableInput=kept)
        refused = repository.merge(8)
        assert not refused.ok
        assert refused.output("failure-reason") == "plan-changed"
        assert "bronze -> silver" in api.comments_on(8, "apply")[0]

        glue.allow([])
        unreadable = repository.pull_request(9, text)
        assert not unreadable.ok
        assert unreadable.output("failure-reason") == "catalog-unreadable"
        assert SECRET_KEY not in unreadable.log + api.comments_on(9)[0]


def test_the_action_installs_itself_once(repository: Repository, api: GitHubApi, lake: Path) -> None:
    """And the next run finds it on the same runner; one that begins with GitHub's cache finds the downloads."""
    repository.workflows("extras: ''")
    seconds, kept = {}, lake
    for run in ("first", "the same runner", "GitHub's cache"):
        if run == "GitHub's cache":
            shutil.rmtree(kept)
        planned = repository.pull_request(7, manifest(lake))
        assert planned.ok, planned.log
        assert ("lancens is installed already" in planned.printed) is (run == "the same runner")
        assert ("restored lancens-wheels-" in planned.printed) is (run == "GitHub's cache")
        kept = Path(planned.output("python")).parents[1]
        assert kept.name.startswith("lancens-")
        [said] = re.findall(r"Seconds to the plan, with installing: ([0-9.]+)", planned.printed)
        seconds[run] = float(said)
    [comment] = api.comments_on(7)
    assert "lancens approves" in comment
    for run in ("the same runner", "GitHub's cache"):
        print(
            f"A plan with lancens kept by {run} takes 1/{seconds['first'] / seconds[run]:.1f} of the first run's time"
        )
    # What copying from a cache takes is the disk's and the network's affair: nothing is installed is what counts.
    assert seconds["the same runner"] < seconds["first"] / 2, seconds
