"""The format ``lancens-history`` as Spark calls it, without Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from reconciler.auditor import history
from reconciler.auditor.history_source import HistoryDataSource
from reconciler.model.errors import LancensError
from tests.unit.pipeline.documents import NOW, small_document


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a history of five runs."""
    path = tmp_path / "audits.lance"
    for number in range(5):
        run = small_document().model_copy(update={"run_id": f"run-{number}", "finished": NOW + timedelta(hours=number)})
        history.append(str(path), run, {})
    return path


def read(path: Path | str, *columns: str, **options: str) -> list[list[dict[str, Any]]]:
    """Return what Spark would get, task by task."""
    source = HistoryDataSource({"path": str(path), **options})
    own = {field.name: field for field in source.schema()}
    given = [own.get(name, StructField(name, StringType())) for name in columns or own]
    reader = source.reader(StructType(given))
    found: list[list[dict[str, Any]]] = []
    for part in reader.partitions():
        batches: list[Any] = list(reader.read(part))
        found.append([row for batch in batches for row in batch.to_pylist()])
    return found


def test_every_run_is_read_with_all_that_is_known_of_it(path: Path) -> None:
    (runs,) = read(path)
    assert [row["run_id"] for row in runs] == [f"run-{number}" for number in range(5)]
    kept = [run.model_dump() for run in history.read(str(path), {})]
    assert [row["finished"] for row in runs] == [run["finished"] for run in kept]
    assert [row["totals"] for row in runs] == [run["totals"] for run in kept]
    assert [row["by_rule"] for row in runs] == [[*run["by_rule"]] for run in kept]


def test_only_the_columns_that_are_asked_for_are_read(path: Path) -> None:
    assert read(path, "complete", "run_id") == [[{"complete": False, "run_id": f"run-{n}"} for n in range(5)]]


def test_a_relative_path_begins_where_the_query_is_planned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    reader = HistoryDataSource({"path": "audits.lance"}).reader(StructType([StructField("run_id", StringType())]))
    (part,) = reader.partitions()
    monkeypatch.chdir("/")
    (batch,) = list[Any](reader.read(part))
    assert batch.num_rows == 5


def test_what_is_wrong_is_one_line(path: Path) -> None:
    with pytest.raises(LancensError, match=r"nowhere\.lance .*: nothing is there"):
        read(path.with_name("nowhere.lance"))
    with pytest.raises(LancensError, match=r"^no column `totls` .* `totals`"):
        read(path, "totls")
    with pytest.raises(LancensError, match=r"^no option `paths` .* `path`"):
        read(path, paths="[]")
    with pytest.raises(LancensError, match=r"^no history is given: .*lancens-history"):
        HistoryDataSource({}).reader(StructType([]))
