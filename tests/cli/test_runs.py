"""What was run, what it did, and how it comes back; and what is said of what goes."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from unittest.mock import ANY

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.model.errors import ServiceUnavailableError
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier
from tests.cli.running import lancens

HEAD = "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
BLOCKS = (
    "    namespaces:\n      a/b:\n        properties: {team: ml, api_token: s3cret-value}\n        tables:\n"
    "          t: {schema: [{name: id, type: int64}], properties: {tier: gold, api_token: s3cret-value}}\n"
    "          kept: {}\n"
)
MANIFEST = HEAD + BLOCKS.replace("a/b", "a b")


@pytest.fixture
def shop(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A table with ten rows that was made, and is not in the manifest any more."""
    manifest = folder / "lancens.yaml"
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    [place] = (folder / "lake").glob("*$t")
    lance.write_dataset(pa.table({"id": range(10)}), str(place), mode="append")
    manifest.write_text(re.sub(r"          t: .*\n", "", MANIFEST))
    return manifest


def _shown(page: str) -> str:
    """Return what a reader sees; Markdown has a joiner beside what could become a link."""
    return unescape(page).replace("\u2060", "")


def test_a_removal_says_what_the_table_holds_and_the_plan_is_the_same(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = r"10 rows, last written 20\d\d-\d\d-\d\d \d\d:\d\d UTC"
    for form in ("text", "markdown", "html"):
        assert re.search(said, _shown(lancens(capsys, "plan", "--format", form, "-o", "looked.json").out)), form
        assert not re.search(said, lancens(capsys, "plan", "--no-probe", "--format", form, "-o", "plain.json").out)
    assert Path("looked.json").read_bytes() == Path("plain.json").read_bytes()
    assert "last written" not in Path("looked.json").read_text()
    assert re.search(said, lancens(capsys, "apply", "looked.json", "--auto-approve").out)


def test_data_that_cannot_be_opened_keeps_no_removal_from_being_shown(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [place] = (shop.parent / "lake").glob("*$t")
    for part in (place / "_versions").iterdir():
        part.write_bytes(b"broken")
    shown = lancens(capsys, "plan")
    assert shown.code == 0
    assert "its data cannot be opened" in shown.out


def test_runs_are_listed_and_what_one_removed_comes_back(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    newest, oldest = lancens(capsys, "runs").out.splitlines()
    listed = re.fullmatch(r"(\w+)  (20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC)  shop  \S+  1 done of 1 change", newest)
    assert listed is not None, newest
    run, when = listed.groups()
    assert lancens(capsys, "show", run).out.startswith(f"Run {run} of shop, begun {when}, plan ")
    assert "lake/a b/t  deregister-table: done" in lancens(capsys, "show", run).out
    assert lancens(capsys, "show", f".lancens/{run}.jsonl").out == lancens(capsys, "show", run).out
    blocks = lancens(capsys, "show", run, "--manifest").out
    assert "s3cret" not in blocks
    [variable] = re.findall(r"\$\{env:(\w+)\}", blocks)
    monkeypatch.setenv(variable, "s3cret-value")
    Path("back.yaml").write_text(blocks)
    shop.write_text(shop.read_text().replace("name: shop", "name: shop\ninclude: [back.yaml]"))
    plan = reconciler.plan(reconciler.load(shop))
    assert [(change.action.value, change.address) for change in plan.changes] == [("register-table", "lake/a b/t")]
    nothing = lancens(capsys, "show", oldest.split()[0], "--manifest")
    assert (nothing.code, "this run removed nothing" in nothing.err) == (1, True)


@pytest.mark.parametrize("ending", ["killed", "lost answer", "second try"])
def test_what_a_run_may_have_removed_comes_back_too(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The entry is gone, and the run was killed before the outcome, or never learnt it from the service."""
    remove = DirBackend.remove_table

    def removed(self: DirBackend, table_id: Identifier) -> LiveTable:
        gone = remove(self, table_id)
        if ending == "lost answer":
            raise ServiceUnavailableError("the connection broke off")
        return remove(self, table_id) if ending == "second try" else gone

    monkeypatch.setattr(DirBackend, "remove_table", removed)
    assert lancens(capsys, "apply", "--auto-approve").code == (1 if ending == "lost answer" else 0)
    run = lancens(capsys, "runs").out.split()[0]
    journal = Path(f".lancens/{run}.jsonl")
    if ending == "killed":
        journal.write_text("".join(journal.open().readlines()[:2]))
    blocks = lancens(capsys, "show", run, "--manifest")
    assert (blocks.code, re.findall("(?m)^# Possibly removed.*lake/a b/t$", blocks.out)) == (0, [ANY])
    [variable] = re.findall(r"\$\{env:(\w+)\}", blocks.out)
    monkeypatch.setenv(variable, "s3cret-value")
    Path("back.yaml").write_text(blocks.out)
    shop.write_text(shop.read_text().replace("name: shop", "name: shop\ninclude: [back.yaml]"))
    plan = reconciler.plan(reconciler.load(shop))
    assert [(change.action.value, change.address) for change in plan.changes] == [("register-table", "lake/a b/t")]


def test_what_was_moved_is_told_and_not_taken_for_removed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A namespace has another name now, and one of its tables was taken out of the manifest at the same time."""
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    shop.write_text(shop.read_text().replace("          kept: {}\n", "          kept: {}\n          other: {}\n"))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    before = shop.read_text().replace("          kept: {}\n", "")
    moved = before.replace("a b:", "c:").replace("    namespaces:", "    moved: [{from: a b, to: c}]\n    namespaces:")
    shop.write_text(moved)
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    run = lancens(capsys, "runs").out.split()[0]
    shown = lancens(capsys, "show", run).out
    assert "move-table from lake/a b/other: done" in shown
    assert "create-namespace from lake/a b: done" in shown
    blocks = lancens(capsys, "show", run, "--manifest").out
    assert "of `moved` from lake/a b" in blocks
    assert "properties" not in blocks
    assert "other" not in blocks
    Path("back.yaml").write_text(blocks)
    without = moved.replace("    moved: [{from: a b, to: c}]\n", "")
    shop.write_text(without.replace("name: shop", "name: shop\ninclude: [back.yaml]"))
    plan = reconciler.plan(reconciler.load(shop))
    assert [(change.action.value, change.address) for change in plan.changes] == [
        ("create-namespace", "lake/a b"),
        ("declare-table", "lake/a b/kept"),
    ]


def test_bad_input_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str], shop: Path) -> None:
    for arguments, said in {
        (
            "show",
            "nope",
        ): (
            "nope is neither a file nor a run in .lancens; `lancens runs` lists the runs, and an address is "
            "CATALOG/NAMESPACE/TABLE"
        ),
        ("runs", "--journal", "elsewhere"): "There is no journal in elsewhere.",
    }.items():
        ran = lancens(capsys, *arguments)
        assert (ran.out, ran.err.strip()) == ("", said)
    lancens(capsys, "plan", "-o", "plan.json")
    assert "--manifest goes with a run" in lancens(capsys, "show", "plan.json", "--manifest").err
    Path(".lancens/bad.jsonl").write_text("{}\n")
    assert "not a line of a journal" in lancens(capsys, "runs").out
    [journal] = [path for path in Path(".lancens").glob("*.jsonl") if path.stem != "bad"]
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert {"catalog", "identifier", "before"} <= next(line for line in lines if line["entry"] == "intent").keys()


def test_drift_fails_on_what_nobody_manages_when_asked_to(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert lancens(capsys, "drift", "--fail-on", "unmanaged").code == 0
    lance.write_dataset(pa.table({"id": [1]}), str(shop.parent / "lake" / "stray.lance"))
    assert lancens(capsys, "drift").code == 0
    failed = lancens(capsys, "drift", "--fail-on", "unmanaged")
    assert (failed.code, "1 table managed by no manifest." in failed.err) == (2, True)
    assert failed.out.rstrip().endswith("1 more table only in the catalogs.")


def test_a_journal_can_be_named_by_a_file_uri(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = (shop.parent / "journals").as_uri()
    assert lancens(capsys, "apply", "--auto-approve", "--journal", uri).code == 0
    [journal] = (shop.parent / "journals").iterdir()
    assert journal.stem in lancens(capsys, "runs", "--journal", uri).out
    assert f"Run {journal.stem} " in lancens(capsys, "show", journal.stem, "--journal", uri).out
