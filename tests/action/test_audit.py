"""Audits on a schedule: what they find, what they hand on, and what they keep to themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.model.errors import LancensError
from reconciler.pipeline.session import SparkOptions
from tests.action.step import Step, Workspace

SECRET = "hunter2hunter2"


def audit(workspace: Workspace, **inputs: str) -> Step:
    return workspace.event("schedule", {}, command="audit", **inputs)


def apply(workspace: Workspace) -> Path:
    """Make what the manifest says and return the catalog's root."""
    assert workspace.push(command="apply", require_approved_plan="false").code == 0
    return workspace.path / "lake"


def test_findings_are_shown_kept_and_fail_the_step_where_that_is_asked_for(workspace: Workspace) -> None:
    lake = apply(workspace)
    [dataset] = [path.parent for path in lake.glob("*/_versions") if "users" in path.parent.name]
    shutil.rmtree(dataset)
    lance.write_dataset(pa.table({"id": [1]}), str(lake / "deep" / "forgotten.lance"))
    history = workspace.path / "audits.lance"
    asked = {"skip_rules": "missing, stale", "stale_after": "3"}
    failed = audit(workspace, fail_on="error", history=str(history), **asked)
    assert (failed.code, failed.outputs["exit-code"], failed.outputs["failure-reason"]) == (1, "2", "findings")
    assert "lancens audit of `store`: findings" in failed.summary
    for rule in ("dangling", "orphan"):
        assert rule in failed.summary
    [error] = failed.commands("error")
    assert "findings of the severity `error`" in error
    report = Path(failed.outputs["report"])
    assert report.parent == Path(failed.outputs["folder"])
    assert failed.outputs["artifact"].startswith("lancens-audit-default-")
    shown = {"audit.html", "audit.json", "audit.junit.xml", "audit.sarif"}
    assert {path.name for path in report.iterdir()} == shown | {"findings.parquet", "tables.parquet"}
    [run] = json.loads((report / "audit.sarif").read_text())["runs"]
    found = {result["ruleId"] for result in run["results"]}
    assert found >= {"dangling", "orphan"}
    assert "missing" not in found
    assert lance.dataset(str(history)).count_rows() > 0
    assert lance.dataset(str(lake / "deep" / "forgotten.lance")).count_rows() == 1


def test_an_audit_runs_on_the_runner_and_looks_again_only_at_what_changed(workspace: Workspace) -> None:
    apply(workspace)
    history = str(workspace.path / "audits.lance")
    runs = [audit(workspace, history=history, since_last="true") for _ in range(3)]
    assert [(audited.code, "Starting Spark" in audited.log) for audited in runs] == [(0, False)] * 3
    # The turn of a dataset can come in one of the last two, and not in both.
    assert "without a new version" in runs[1].summary + runs[2].summary


def test_what_could_not_be_read_fails_the_step_with_a_report(workspace: Workspace) -> None:
    lake = apply(workspace)
    for version in (lake / "__manifest/_versions").iterdir():
        version.write_bytes(b"no dataset")
    failed = audit(workspace)
    assert (failed.code, failed.outputs["exit-code"], failed.outputs["failure-reason"]) == (1, "1", "audit-failed")
    assert "the audit is incomplete" in failed.commands("error")[0]
    assert "__manifest" in failed.summary
    assert (Path(failed.outputs["report"]) / "audit.html").exists()


def test_an_audit_that_fails_has_no_report_of_an_earlier_step(workspace: Workspace, tmp_path: Path) -> None:
    apply(workspace)
    workspace.environment["RUNNER_TEMP"] = str(tmp_path)
    assert audit(workspace).outputs["report"] != ""
    failed = audit(workspace, rules="no-rule")
    assert (failed.outputs["failure-reason"], failed.outputs.get("report", "")) == ("audit-failed", "")
    assert "no-rule" in failed.commands("error")[0]


def test_a_report_that_would_show_a_secret_of_the_job_is_not_kept(workspace: Workspace) -> None:
    workspace.environment["DB_PASSWORD"] = SECRET
    workspace.edit("events: {}", f"{SECRET}: {{}}")
    history = workspace.path / "audits.lance"
    refused = audit(workspace, history=str(history))
    assert (refused.code, refused.outputs["failure-reason"]) == (1, "refused")
    assert not (history / "_versions").exists()
    assert "the environment variable DB_PASSWORD" in refused.summary
    assert refused.outputs.get("report", "") == ""
    kept = [path for path in Path(refused.outputs["folder"]).rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET in path.read_text()]
    assert SECRET not in refused.log + refused.summary


def test_an_audit_that_cannot_be_made_says_why(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.pipeline.session.active_session", lambda: None)
    monkeypatch.setattr("reconciler.auditor.entries._FEW_UNITS", 0)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    failed = audit(workspace, engine="spark")
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "audit-failed")
    assert "Java" in failed.commands("error")[0]
    assert failed.outputs["report"] == ""


def test_settings_of_spark_are_handed_on(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[SparkOptions] = []

    def refuse(options: SparkOptions) -> None:
        given.append(options)
        raise LancensError("there is no Spark")

    monkeypatch.setattr("reconciler.auditor.entries.spark_session", refuse)
    monkeypatch.setattr("reconciler.auditor.entries._FEW_UNITS", 0)
    setting = "spark.hadoop.fs.s3a.secret.key"
    failed = audit(workspace, engine="spark", master="local[1]", spark_conf=f"{setting}={SECRET}")
    assert given == [SparkOptions("local[1]", {setting: SECRET})]
    assert "there is no Spark" in failed.commands("error")[0]
    assert SECRET not in failed.log


def test_a_rule_that_there_is_not_is_named(workspace: Workspace) -> None:
    failed = audit(workspace, rules="orphans")
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "audit-failed")
    assert "orphans" in failed.commands("error")[0]


def test_a_manifest_that_cannot_be_used_is_not_audited(workspace: Workspace) -> None:
    workspace.edit("events: {}", "events: {propertys: {}}")
    failed = audit(workspace)
    assert (failed.code, failed.outputs["failure-reason"]) == (1, "invalid-manifest")
    assert "line=12" in failed.commands("error")[0]
