"""Catalogs read on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.backends.dir import DirBackend
from reconciler.names import EVERYTHING
from reconciler.pipeline.catalogs import CatalogSpec
from reconciler.pipeline.rows import NAMESPACE, NOTE, TABLE, namespace_of, table_of
from reconciler.pipeline.source import live_rows
from reconciler.state import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def snapshot_of(frame: DataFrame) -> Snapshot:
    """Return what the rows say is there."""
    rows = [row.asDict() for row in frame.collect()]
    namespaces = [namespace_of(row) for row in rows if row["kind"] == NAMESPACE]
    tables = [table_of(row) for row in rows if row["kind"] == TABLE]
    notes = {row["message"] for row in rows if row["kind"] == NOTE}
    assert len(namespaces) == len({live.id for live in namespaces})
    assert len(tables) == len({live.id for live in tables})
    return Snapshot({live.id: live for live in namespaces}, {live.id: live for live in tables}, tuple(sorted(notes)))


def directory(root: Path) -> DirBackend:
    """Return a catalog with namespaces on three levels, a table directly under the root and a note."""
    backend = DirBackend(root=str(root))
    for name in ("a", "b", "empty"):
        backend.insert_namespace((name,), {"owner": name})
        backend.insert_namespace((name, "deep"), {})
    for identifier in (("top",), ("a", "one"), ("a", "two"), ("b", "one"), ("b", "deep", "three")):
        location = backend.default_location(identifier)
        backend.insert_table(identifier, location, {"name": identifier[-1]})
    (root / "unseen.lance").mkdir()
    return backend


def test_reading_in_units_is_reading_at_once(spark: SparkSession, tmp_path: Path) -> None:
    backend = directory(tmp_path)
    spec = CatalogSpec("lake", "dir", {"root": str(tmp_path)}, (), EVERYTHING)
    whole = backend.scan()
    for partitions in (1, 2, 100):
        found = snapshot_of(live_rows(spark, [spec], partitions=partitions))
        assert found == Snapshot(whole.namespaces, whole.tables, tuple(sorted(set(whole.notes))))
