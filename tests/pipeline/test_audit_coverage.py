"""Audits of catalogs of which a part cannot be read, or is not meant: nothing is said of what nobody has seen.

Spark has those of which it reads, orders or repeats something in its own way; the others run in this process.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from reconciler import load
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.document import AuditDocument
from reconciler.backends.dir import DirBackend
from reconciler.model.capabilities import Capabilities
from reconciler.model.live import Snapshot
from tests.pipeline.plugins.frozen_backend import freeze
from tests.pipeline.troubled import SECRET, Troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def dataset(place: Path) -> Path:
    lance.write_dataset(pa.table({"id": [1]}), str(place))
    return place


def found_in(document: AuditDocument, *rules: str) -> list[tuple[str, str]]:
    """Return the rule and address of each finding of ``rules``."""
    return [(finding.rule, finding.address) for finding in document.findings if finding.rule in rules]


def with_blocks(catalog: Troubled, text: str) -> Path:
    """Add blocks to the manifest of a catalog."""
    with catalog.path.open("a", encoding="utf-8") as manifest:
        manifest.write(text)
    return catalog.path


def test_what_an_unread_namespace_may_explain_is_not_reported(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Troubled(tmp_path, namespace="b", times=100).make()
    dataset(tmp_path / "lake/group/lost.lance")
    dataset(tmp_path / "other/group/lost.lance")
    path = with_blocks(
        catalog,
        "    namespaces: {a: {tables: {gone: {}}}, b: {tables: {gone: {}}, namespaces: {deep: {tables: {gone: {}}}}}}\n"
        "  other: {impl: dir, config: {root: ./other}}\n",
    )
    document = audit(spark, load(path), AuditOptions(NOW))

    assert not document.complete
    assert [(failure.address, failure.message) for failure in document.failures] == [
        ("lake/b", "lake (troubled): no answer to (redacted)")
    ]
    assert found_in(document, "unreadable", "missing", "orphan") == [
        ("unreadable", "lake/b"),
        ("missing", "lake/a/gone"),
        ("orphan", "other/group/lost.lance"),
    ]
    [note] = document.notes
    assert note.startswith("Orphans were not looked for ")
    assert note.endswith(": lake/b could not be read")
    assert {catalog.name: catalog.namespaces_unread for catalog in document.coverage} == {"lake": 1, "other": 0}
    assert SECRET not in document.model_dump_json()


@pytest.mark.parametrize(("times", "kills"), [(2, False), (1, True)])
def test_what_fails_for_a_while_is_read_in_the_end(
    spark: SparkSession, tmp_path: Path, times: int, kills: bool
) -> None:
    catalog = Troubled(tmp_path, times=times, kills=kills).make()
    document = audit(spark, catalog.manifest(), AuditOptions(NOW))
    assert (document.complete, document.totals.tables) == (True, 5)
    assert len(found_in(document, "unmanaged")) == 5


def test_only_what_is_in_scope_is_audited(plugins: None, tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path / "lake"))
    for name in ("in", "out"):
        backend.insert_namespace((name,), {})
        backend.insert_table((name, "table"), str(tmp_path / "lake" / name / "nowhere"), {})
    dataset(tmp_path / "lake/group/lost.lance")
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, scope: ['in/**'],"
        " namespaces: {in: {tables: {gone: {}}}}}}\n"
    )
    document = audit(None, load(path), AuditOptions(NOW))
    assert found_in(document, "dangling", "unmanaged", "missing", "orphan") == [
        ("dangling", "lake/in/table"),
        ("missing", "lake/in/gone"),
        ("unmanaged", "lake/in/table"),
    ]
    assert document.complete
    [note] = document.notes
    assert note.startswith("Orphans were not looked for ")
    assert "lake: its `scope` leaves out" in note


def mixed(folder: Path, silent: str = "") -> Path:
    """Make a catalog with a table of another kind in each namespace, and an orphan below its root."""
    backend = DirBackend(root=str(folder / "lake"))
    for name in ("a", "b", "gone"):
        backend.insert_namespace((name,), {})
    dataset(folder / "lake/group/lost.lance")
    path = folder / "lancens.yaml"
    path.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: mixed\n"
        f"    config: {{root: ./lake, silent: '{silent}', password: {SECRET}, foreign: '{dataset(folder / 'csv')}'}}\n"
        "    scope: ['**']\n    namespaces: {b: {tables: {gone: {}}}}\n"
    )
    return path


def test_rules_on_tables_of_other_kinds_go_by_what_is_at_their_locations(plugins: None, tmp_path: Path) -> None:
    document = audit(None, load(mixed(tmp_path)), AuditOptions(NOW))
    assert found_in(document, "wrong-table-type", "missing", "orphan") == [
        ("missing", "lake/b/gone"),
        ("orphan", "lake/group/lost.lance"),
        ("wrong-table-type", "lake/a/csv"),
        ("wrong-table-type", "lake/b/csv"),
        ("wrong-table-type", "lake/csv"),
    ]
    assert (document.complete, document.totals.tables) == (True, 0)


def test_an_entry_that_was_not_read_may_be_anywhere_and_of_any_name(plugins: None, tmp_path: Path) -> None:
    document = audit(None, load(mixed(tmp_path, silent="b")), AuditOptions(NOW))
    assert found_in(document, "wrong-table-type", "missing", "orphan", "unreadable") == [
        ("unreadable", "lake/b"),
        ("wrong-table-type", "lake/a/csv"),
        ("wrong-table-type", "lake/csv"),
    ]
    assert [failure.message for failure in document.failures] == ["lake (mixed): no answer to (redacted)"]
    (note,) = document.notes
    assert note.startswith("Orphans were not looked for ")
    assert "lake: lake/b could not be read, and " in note


def test_roots_that_are_not_known_are_said_to_be(plugins: None, tmp_path: Path) -> None:
    document = audit(None, load(mixed(tmp_path, silent="roots")), AuditOptions(NOW))
    assert found_in(document, "missing", "orphan", "unreadable") == [("missing", "lake/b/gone")]
    assert [(failure.address, failure.message) for failure in document.failures] == [
        ("lake", "lake (mixed): no answer to (redacted)")
    ]
    assert not document.complete


def test_a_directory_that_cannot_be_listed_makes_the_search_incomplete(plugins: None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n"
        f"  prod: {{impl: frozen, config: {{state: '{tmp_path / 'state'}', root: ./file}}}}\n"
    )
    freeze(tmp_path / "state", Snapshot(), Capabilities())
    document = audit(None, load(tmp_path / "lancens.yaml"), AuditOptions(NOW))
    (failure,) = document.failures
    assert failure.catalog == "prod"
    assert f"{tmp_path / 'file'} could not be searched for orphans" in failure.message


def test_a_long_list_is_cut_short_and_counted_in_full(spark: SparkSession, tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("ns",), {})
    for number in range(12):
        backend.insert_table(("ns", f"t{number:02}"), str(dataset(tmp_path / f"lake/data/{number}")), {})
    backend.insert_table(("ns", "zz"), str(tmp_path / "lake/nowhere"), {})
    path = tmp_path / "lancens.yaml"
    path.write_text("version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n")
    options = AuditOptions(NOW, rules=("unmanaged", "dangling"), most_findings=3, most_tables=4)
    document = audit(spark, load(path), options)
    assert [finding.rule for finding in document.findings] == ["dangling", "unmanaged", "unmanaged"]
    assert (document.findings_left_out, document.totals.findings.total) == (11, 14)
    assert [table.name for table in document.tables] == ["t00", "t01", "t02", "t03"]
    assert (document.tables_left_out, document.totals.tables) == (9, 13)
    assert [rule.name for rule in document.settings.rules] == ["unmanaged", "dangling"]
