"""Where inventories go: from the parts of tasks to something that is there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler import storage
from reconciler.model.errors import LancensError
from reconciler.pipeline.schemas import LONG, STRING, STRING_MAP
from reconciler.pipeline.sinks import Form, open_sink

SCHEMA = pa.schema([("name", STRING), ("tables", LONG), ("properties", STRING_MAP)])
FORMS: list[Form] = ["json", "parquet", "lance"]
PARTS: list[list[dict[str, Any]]] = [
    [{"name": "a", "tables": 1, "properties": {"k": "v"}}, {"name": "b", "tables": None, "properties": None}],
    [{"name": "ü表", "tables": 3, "properties": {}}],
]
WITHOUT_NULLS = [{key: value for key, value in row.items() if value is not None} for part in PARTS for row in part]


def content(path: Path, form: Form) -> list[dict[str, Any]]:
    """Return the rows in a file, without what is null."""
    if form == "json":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    table: Any = lance.dataset(str(path)).to_table() if form == "lance" else pq.read_table(path)
    rows = table.to_pylist(maps_as_pydicts="strict")
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("form", FORMS)
def test_parts_become_one(tmp_path: Path, form: Form) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # the second takes the place of the first
        with open_sink(str(out), form, SCHEMA) as sink:
            sink.write(PARTS[0][:1])  # of an attempt that failed afterwards
            sink.finish([sink.write(part) for part in PARTS])
        assert content(out, form) == WITHOUT_NULLS
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_no_regular_file_stays_what_it_is(tmp_path: Path) -> None:
    out = tmp_path / "pipe"
    os.mkfifo(out)
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(str(out), "json", SCHEMA) as sink:
        sink.finish([sink.write(part) for part in PARTS])
    assert out.is_fifo()
    assert [json.loads(line) for line in os.read(reader, 65536).splitlines()] == WITHOUT_NULLS
    os.close(reader)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_finished_is_not_there(tmp_path: Path, form: Form) -> None:
    def interrupted() -> None:
        with open_sink(str(tmp_path / "out"), form, SCHEMA) as sink:
            sink.write(PARTS[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_inventory_stays_as_it_was_until_the_next_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out.lance"
    with open_sink(str(out), "lance", SCHEMA) as sink:
        sink.finish([sink.write(PARTS[0])])
    with open_sink(str(out), "lance", SCHEMA) as sink:
        sink.write(PARTS[1])
    assert (lance.dataset(str(out)).version, content(out, "lance")) == (1, WITHOUT_NULLS[:2])


def test_a_first_inventory_in_an_object_store_that_was_cut_off_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "local_path", lambda _: None)
    out = tmp_path / "out"
    with open_sink(str(out), "lance", SCHEMA) as sink:
        sink.write(PARTS[0])
    assert out.exists()
    with open_sink(str(out), "lance", SCHEMA) as sink:
        sink.finish([sink.write(part) for part in PARTS])
    assert content(out, "lance") == WITHOUT_NULLS


@pytest.mark.parametrize("content", ["a file", "lance"])
def test_data_of_somebody_in_an_object_store_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(storage, "local_path", lambda _: None)
    out = tmp_path / "out"
    if content == "lance":  # its versions are lost
        lance.write_dataset(pa.table({"name": ["mine"]}), str(out))
        shutil.rmtree(out / "_versions")
    else:
        (out / "data").mkdir(parents=True)
        (out / "data/rows.csv").write_text("mine")
    before = sorted(out.rglob("*"))
    with pytest.raises(LancensError), open_sink(str(out), "lance", SCHEMA):
        pass
    assert sorted(out.rglob("*")) == before


def test_a_worker_that_does_not_share_the_place_says_so(tmp_path: Path) -> None:
    with open_sink(str(tmp_path / "out.json"), "json", SCHEMA) as sink:
        for folder in tmp_path.iterdir():
            shutil.move(folder, tmp_path.parent / f"{tmp_path.name}-elsewhere")
        with pytest.raises(LancensError, match="name one that they share"):
            sink.write(PARTS[0])


def test_rows_of_many_parts_stand_in_few_groups(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with open_sink(str(out), "parquet", SCHEMA) as sink:
        sink.finish([sink.write(PARTS[1]) for _ in range(50)])
    file = pq.ParquetFile(out)
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (50, 1)
