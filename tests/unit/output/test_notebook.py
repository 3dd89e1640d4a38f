"""Plans, manifests and reports show themselves: on one line, as text, and as HTML in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given

import reconciler
from reconciler.applier.report import ApplyReport, ChangeResult, Status
from reconciler.planner.plan import ManifestRef, Plan
from tests.strategies import SECRET, plans
from tests.unit.output.examples import small_plan

MANIFEST = """
version: 1
name: store
catalogs:
  lake:
    impl: memory
    config: {name: "${env:LAKE:-hunter2}"}
    namespaces: {features: {tables: {users: {properties: {password: hunter2}}, clicks: {}}}}
  other: {impl: memory, config: {name: other}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> reconciler.Manifest:
    path = tmp_path / "lancens.yaml"
    path.write_text(MANIFEST, "utf-8")
    return reconciler.load(path)


def report(*messages: str) -> ApplyReport:
    change = small_plan().changes[0]
    failed = [ChangeResult(change, Status.FAILED, message) for message in messages]
    return ApplyReport([ChangeResult(change, Status.DONE, seconds=0.01), *failed], ".lancens/2f9c1e.jsonl")


def test_a_document_is_one_short_line(manifest: reconciler.Manifest) -> None:
    assert repr(small_plan()).startswith("<Plan 'feature-store': create=")
    assert repr(manifest) == "<Manifest 'store': catalogs=2 namespaces=1 tables=2>"
    assert repr(report("no")) == "<ApplyReport '.lancens/2f9c1e.jsonl': done=1 failed=1>"
    assert repr(ApplyReport((), "none")) == "<ApplyReport 'none'>"


def test_a_line_holds_no_control_character_and_no_credential() -> None:
    odd = ManifestRef(name="a\n\x1b[31m\u202eb", digest="d", files=())
    assert repr(Plan(manifest=odd)) == r"<Plan 'a\n\x1b[31m\u202eb'>"
    assert (
        repr(ApplyReport((), "s3://key:hunter2@bucket/runs/1.jsonl"))
        == "<ApplyReport 's3://(redacted)@bucket/runs/1.jsonl'>"
    )


def test_a_plan_shows_itself_wherever_it_comes_from() -> None:
    """Whatever was imported, and wherever each plan was made."""
    script = (
        "import pickle\nfrom reconciler.planner.plan import ManifestRef, Plan\n"
        "saved = Plan(manifest=ManifestRef(name='store', digest='d', files=()))\n"
        "read = Plan.from_json(saved.to_json()), pickle.loads(pickle.dumps(saved)), saved.model_copy(), saved\n"
        "print(*(f'{plan}{plan._repr_html_()}' for plan in read), sep='\\0')"
    )
    text = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for shown in text.split("\0"):
        assert shown.startswith("store\n\nNo changes.")
        assert '<iframe srcdoc="&lt;!doctype html&gt;' in shown


def test_a_plan_in_a_notebook_stays_in_its_frame() -> None:
    page = small_plan()._repr_html_()
    assert page.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert page.count('"') == 6, "what is in the page ends no attribute"


@given(plans())
def test_what_a_notebook_shows_of_any_plan_is_safe(plan: Plan) -> None:
    results = ApplyReport([ChangeResult(change, Status.FAILED, "<b>\x1b") for change in plan.changes], "runs/1")
    for shown in (repr(plan), plan._repr_html_(), repr(results), str(results), results._repr_html_()):
        assert SECRET not in shown
        assert all(character == "\n" or character.isprintable() for character in shown)


def test_a_manifest_in_a_notebook_lists_its_catalogs(manifest: reconciler.Manifest) -> None:
    page = manifest._repr_html_()
    cells = [unescape(cell) for cell in re.findall("<td>(.*?)</td>", page)]
    assert cells == ["lake", "memory", "1", "2", "other", "memory", "0", "0"]
    assert "hunter2" not in page + repr(manifest)


def test_a_report_in_a_notebook_lists_failures_first_and_escapes_them() -> None:
    page = report("<script>alert(1)</script>\u202e")._repr_html_()
    rows = re.findall("<tr>(.*?)</tr>", page)
    assert "failed" in rows[1]
    assert "done" in rows[2]
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "Applied 1 of 2 changes: 1 failed" in page
    assert "hunter2" not in ApplyReport((), "s3://key:hunter2@bucket/1")._repr_html_()


def test_a_report_prints_as_apply_does() -> None:
    failed, done, *rest, summary = str(report(*["no\x1b"] * 500)).splitlines()
    assert (failed.split()[:2], done.split()[0]) == (["✗", "lake"], "✗")
    assert (len(rest), rest[-1]) == (99, "and 401 more")
    assert summary.startswith("Applied 1 of 501 changes: 500 failed")
    assert "\x1b" not in failed
    assert str(ApplyReport((), "none")).startswith("Applied 0 of 0 changes")


def test_a_long_report_in_a_notebook_is_cut_and_says_so() -> None:
    page = report(*["no"] * 500)._repr_html_()
    assert "and 401 more" in page
