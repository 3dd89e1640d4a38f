"""``lancens audit`` as a user meets it: what it prints, what it writes, and how it ends.

It runs in this process: `test_engines.py` has the same command on Spark, with the same reports.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler.auditor.history_source import register_history
from reconciler.backends.dir import DirBackend
from tests.cli.running import Ran, lancens
from tests.cli.samples import samples
from tests.pipeline.troubled import SECRET, Troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = Path(__file__).parents[2] / "examples/pipeline/queries.py"

OF_THE_LAKE = [f"--rule={rule}" for rule in ("dangling", "orphan", "property-drift", "unmanaged")]

pytestmark = pytest.mark.usefixtures("plugins")


def audit(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    return lancens(capsys, "audit", "--engine", "local", *arguments)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest and a catalog in which one table dangles and one is fine."""
    monkeypatch.chdir(tmp_path)
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("ns",), {})
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "lake/data/good"))
    backend.insert_table(("ns", "good"), str(tmp_path / "lake/data/good"), {"api-key": SECRET})
    backend.insert_table(("ns", "bad"), str(tmp_path / "lake/data/bad"), {})
    Path("lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, "
        f"namespaces: {{ns: {{tables: {{good: {{properties: {{api-key: {SECRET}-wanted}}}}}}}}}}}}}}\n"
    )
    return tmp_path


def test_what_is_excluded_is_not_looked_at(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lance.write_dataset(pa.table({"id": [1]}), str(lake / "lake/data/alone"))
    ran = audit(capsys, "--exclude", "lake/ns/*", *OF_THE_LAKE)
    assert ("Checked 0 tables" in ran.out, "orphan" in ran.out) == (True, True)
    assert "orphan" not in audit(capsys, "--exclude", "lake/**", *OF_THE_LAKE).out
    globs = ("lake/ns/*", "lake/sn/*", "lake/data/alone", "lake/**/bad")
    audit(capsys, "--out", "report", *(f"--exclude={glob}" for glob in globs), *OF_THE_LAKE)
    document = json.loads(Path("report/audit.json").read_text("utf-8"))
    assert document["notes"] == ["`lake/sn/*` of `--exclude` matches no table; names are catalog/namespace/table"]
    ran = audit(capsys, "--exclude", "prod/ns", *OF_THE_LAKE)
    assert (ran.code, "`prod/ns` begins with no catalog" in ran.err) == (1, True)


def test_a_report_is_written_and_summed_up(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = audit(capsys, "--out", "report", *OF_THE_LAKE)
    (data,) = (lake / "lake/data/good/data").iterdir()
    assert ran.out.splitlines() == [
        "store on lake (dir, ./lake)",
        f"Checked 2 tables in 1 namespace of 1 catalog, {data.stat().st_size} B of data.",
        "1 error, 1 warning, 1 note:",
        "  dangling        1 error",
        "  property-drift  1 warning",
        "  unmanaged       1 note",
        "Report: report/audit.html",
    ]
    assert ran.code == 0
    assert [line.partition("  ")[0] for line in ran.err.splitlines()] == [
        "Reading 1 catalog: 2 tables",
        "Looking at 2 tables in storage",
        "Searching 1 root for orphans: 0 orphans",
        "Adding up",
    ]
    names = sorted(path.name for path in Path("report").iterdir())
    assert names == ["audit.html", "audit.json", "audit.junit.xml", "audit.sarif", "findings.parquet", "tables.parquet"]
    written = {name: Path("report", name).read_bytes().decode("utf-8", "replace") for name in names}
    assert sorted(pq.read_table("report/findings.parquet")["rule"].to_pylist()) == [
        "dangling",
        "property-drift",
        "unmanaged",
    ]
    assert pq.read_table("report/tables.parquet").select(["name", "rows"]).to_pylist() == [
        {"name": "bad", "rows": None},
        {"name": "good", "rows": 1},
    ]
    assert not any(SECRET in text for text in written.values())
    document = json.loads(written["audit.json"])
    assert [finding["address"] for finding in document["findings"]] == ["lake/ns/bad", "lake/ns/good", "lake/ns/bad"]
    results = json.loads(written["audit.sarif"])["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["dangling", "property-drift", "unmanaged"]


@pytest.mark.parametrize("depth", ["quick", "files"])
def test_a_file_that_is_gone_is_found_by_listing_files(
    lake: Path, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    (data,) = (lake / "lake/data/good/data").iterdir()
    data.unlink()
    ran = audit(capsys, "--depth", depth, "--rule", "missing-files", "--limit", "versions=0")
    assert (ran.code, f"data/{data.name}" in ran.out) == (0, depth == "files")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "error"], 2),
        (["--fail-on", "error", "--rule", "unmanaged"], 0),
        (["--fail-on", "note", "--rule", "unmanaged", "--rule", "stale"], 2),
        (["--fail-on", "note", "--rule", "stale"], 0),
    ],
)
def test_findings_that_are_severe_enough_fail_the_command(
    lake: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    ran = audit(capsys, "--out", "report", *options)
    assert ran.code == code
    assert ("No findings." in ran.out) == ("stale" in options and "unmanaged" not in options)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--rule", "missing-files"], 2),
        (["--rule", "unreadable"], 2),
        (["--skip-rule", "unreadable"], 2),
        (["--rule", "missing-files", "--fail-on", "never"], 0),
    ],
)
def test_a_table_that_could_not_be_opened_fails_the_command_and_the_report_says_so(
    lake: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    (lake / "lake/data/bad").mkdir()
    for manifest in (lake / "lake/data/good/_versions").glob("*.manifest"):
        manifest.write_bytes(b"damaged")
    ran = audit(capsys, "--out", "report", "--fail-on", "error", "--skip-rule", "dangling", *options)
    assert (ran.code, "1 table could not be opened." in ran.out) == (code, True)
    page = Path("report/audit.html").read_text("utf-8")
    assert ("Everything was read" in page, "1 table could not be opened." in page) == (False, True)


def test_a_manifest_suppresses_findings_until_a_day(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("lancens.yaml").read_text("utf-8")
    entries = [
        f"{{rule: {rule}, match: ns/*, until: {until}, reason: they move}}"
        for rule, until in (("dangling", "2900-01-01"), ("stale", "2900-01-01"), ("unmanaged", "2020-01-01"))
    ]
    Path("lancens.yaml").write_text(text.replace("impl: dir,", f"impl: dir, suppress: [{', '.join(entries)}],"))
    ran = audit(capsys, "--out", "report", "--fail-on", "error")
    assert ran.code == 0
    assert "1 finding suppressed by the manifest." in ran.out
    assert ran.err.count("matches no finding") == 1
    document = json.loads(Path("report/audit.json").read_text("utf-8"))
    found = {(finding["rule"], finding["address"]) for finding in document["findings"]}
    assert found >= {("expired-suppression", "lake"), ("unmanaged", "lake/ns/bad")}
    assert "dangling" not in {rule for rule, _ in found}
    assert "they move" in Path("report/audit.html").read_text("utf-8")


def test_each_run_is_in_the_history_which_the_report_shows_and_sql_asks(
    lake: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--out", "report", "--history", "runs.lance", "--rule", "dangling"]
    assert audit(capsys, *command).code == 0
    Path("lake/data/bad").mkdir()
    (lake / "lake/data/bad/.lance-reserved").touch()
    (old,) = (lake / "lake/data/good/data").iterdir()
    lance.write_dataset(pa.table({"id": [2]}), str(lake / "lake/data/good"), mode="overwrite")
    assert audit(capsys, *command, "--depth", "quick").code == 0
    assert audit(capsys, *command).code == 0
    document = json.loads(Path("report/audit.json").read_text("utf-8"))
    # The quick run had other settings, so it is not compared.
    assert [run["totals"]["findings"]["error"] for run in document["history"]] == [1, 0]
    assert [(one["address"], one["rule"], one["gone"]) for one in document["past"]] == [
        ("lake/ns/bad", "dangling", True)
    ]
    first, last = (run["totals"]["reclaimable"] for run in document["history"])
    assert first == 0
    assert last > old.stat().st_size
    kept = lance.dataset("runs.lance").to_table(columns=["totals.reclaimable"], filter="totals.reclaimable >= 0")
    assert kept.to_pydict() == {"totals.reclaimable": [first, last]}
    assert "1 finding gone since" in Path("report/audit.html").read_text("utf-8")
    assert f"UTC: {last:,} B reclaimable</title>" in Path("report/audit.html").read_text("utf-8")

    register_history(spark)
    runs = spark.read.format("lancens-history").load(str(lake / "runs.lance"))
    asked = runs.where("complete").orderBy("finished").select("totals.reclaimable", "totals.findings.error")
    assert [(*row,) for row in asked.collect()] == [(first, 1), (None, 0), (last, 0)]
    Path("runs.lance").rename("audits.lance")
    monkeypatch.setattr(sys, "argv", [str(QUERIES), str(lake)])
    runpy.run_path(str(QUERIES))
    answers = capsys.readouterr().out
    assert answers.count("?\n+--") == 5
    assert f"|nobody|{last}" in answers.replace(" ", "")
    by_rule = answers.partition("How did the findings of each rule change from run to run?")[2]
    assert [line.split("|")[2:4] for line in by_rule.splitlines() if "dangling" in line] == [["dangling", "1       "]]


def test_what_could_not_be_read_comes_first_and_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = Troubled(tmp_path, times=100).make()
    ran = audit(capsys, catalog.path, "--out", tmp_path / "report", "--fail-on", "error")
    assert ran.code == 1
    assert ran.out.startswith("NOT COMPLETE: 1 part could not be read")
    assert ran.err.splitlines()[-2:] == [
        "Orphans were not looked for below the roots of lake: lake/b could not be read",
        "lake/b: lake (troubled): no answer to (redacted)",
    ]
    assert SECRET not in ran.out + ran.err + (tmp_path / "report/audit.html").read_text("utf-8")


def test_the_metrics_have_the_findings_by_rule(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = audit(capsys, "--fail-on", "error", "--metrics", "run.prom", *OF_THE_LAKE)
    assert ran.code == 2
    assert samples("lancens_exit_code", "command", "manifest") == {("audit", "store"): 2}
    assert samples("lancens_success") == {(): 1}
    assert samples("lancens_tables", "catalog") == {("lake",): 2}
    found = samples("lancens_findings", "rule", "severity")
    assert {labels: number for labels, number in found.items() if number} == {
        ("dangling", "error"): 1,
        ("property-drift", "warning"): 1,
        ("unmanaged", "note"): 1,
    }
    assert found["orphan", "warning"] == 0


def test_the_metrics_of_an_audit_that_is_not_complete_are_those_of_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = Troubled(tmp_path, times=100).make()
    assert audit(capsys, catalog.path, "--metrics", "run.prom").code == 1
    assert samples("lancens_success") == {(): 0}
    assert samples("lancens_last_success_timestamp_seconds") == {}
    assert samples("lancens_tables", "catalog")["lake",] > 0


# ---- what is wrong with the command comes before anything is read ----------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "report", "--rule", "dangle"], "'dangle' is not one of 'dangling', 'orphan'"),
        (["--out", "report", "--rule", "stale", "--skip-rule", "stale"], "every rule is left out"),
        (["--limit", "version=3"], "'version' is not one of 'small-fragments', 'versions'"),
        (["--limit", "versions=few"], "'versions=few': expected a whole number"),
        (["--out", "report", "--stale-after", "0"], "0 is not in the range 1<=x<=36500"),
        (["--out", "report", "--stale-after", "99999999999"], "is not in the range 1<=x<=36500"),
        (["--out", "lancens.yaml"], "lancens.yaml cannot be created: File exists; name a folder with --out"),
        (["--out", "report", "--history", "lake"], "lake cannot be used as the history of audits"),
        (["--out", "report", "elsewhere.yaml"], "elsewhere.yaml"),
    ],
)
def test_a_command_that_cannot_work_says_so_at_once(
    lake: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    ran = audit(capsys, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert "Reading" not in ran.err
    assert "Traceback" not in ran.err


def test_a_catalog_is_audited_before_there_is_a_manifest(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lance.write_dataset(pa.table({"id": [1]}), str(lake / "lake/data/lost.lance"))
    before = sorted(lake.rglob("*"))
    ran = audit(capsys, "--impl", "dir", "--config", "root=./lake")

    lines = ran.out.splitlines()
    assert {"error: dangling: main/ns/bad", "warning: orphan: main/data/lost.lance"} <= set(lines)
    assert {"dangling 1 error", "orphan 1 warning"} <= {" ".join(line.split()) for line in lines}
    assert "unmanaged" not in ran.out
    assert (ran.code, SECRET in ran.out + ran.err) == (0, False)
    assert sorted(lake.rglob("*")) == before


def test_a_catalog_and_a_manifest_are_not_audited_together(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = audit(capsys, "lancens.yaml", "--impl", "dir")
    unknown = audit(capsys, "--impl", "dir", "--config", "rooot=./lake")

    assert (refused.code, unknown.code) == (1, 1)
    assert "a manifest or --impl, not both" in refused.err
    assert unknown.err == "--config of dir: unknown key `rooot`; did you mean `root`?\n"
