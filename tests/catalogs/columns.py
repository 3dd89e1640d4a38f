"""A table of 1,000 rows whose columns change, in the manifest and by writers: what is planned, and what data becomes.

Rows, versions and files are pylance's own view, past lancens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.applier.report import Status
from reconciler.model import locations
from reconciler.planner.entries import Action, Blocked
from reconciler.planner.plan import Plan

__all__ = ["change_columns"]

ROWS = 1000
_KEY = "{name: user_id, type: int64, nullable: false}"
_PLACEHOLDER = re.compile(r"\$\{env:(\w+)\}")
_CALL = re.compile(r"`((?:ds = )?lance\.dataset\(.*?\))`(?=;|$)")


def change_columns(manifest: Path, open_table: Callable[[str], lance.LanceDataset]) -> None:
    """Change the columns of the example's table of users, which is applied, as its manifest and as a writer can.

    Args:
        manifest: where the example is; its first table with a schema is the one of users.
        open_table: the dataset of a table by its path below the catalog.
    """
    path = _path_of_users(manifest)
    dataset = open_table(path)
    if locations.scheme(dataset.uri) != "file":
        pytest.skip("the calls that a plan shows would need the credentials of this object store")
    lance.write_dataset(_rows(dataset.schema), dataset.uri, mode="append")
    files, version = _files(dataset), lance.dataset(dataset.uri).version
    assert _planned(manifest).is_empty

    lance.dataset(dataset.uri).add_columns({"score": "1.5"})
    files, version = _files(dataset), version + 1
    made = _planned(manifest)
    assert made.is_empty
    [note] = [note.message for note in made.notes if "does not name" in note.message]
    assert f"/{path} " in note
    assert note.endswith(": `score`.")

    _write(manifest, _KEY, "{name: user_id, type: int64}\n{indent}- {name: age, type: int32}")
    blocked = _blocked(manifest, path)
    assert "`age` (int32) is not in the data" in blocked.reason
    assert "`user_id` is int64 not null in the data" in blocked.reason
    assert blocked.remedy.startswith("write `evolve: additive` in its block")

    _write(manifest, "schema:", "evolve: additive\n{indent}schema:")
    assert [("/".join(one.identifier), one.action) for one in _planned(manifest).changes] == [
        (path, Action.ALTER_TABLE)
    ]
    _apply(manifest)
    grown = lance.dataset(dataset.uri)
    assert (grown.count_rows(), grown.version, _files(dataset)) == (ROWS, version + 2, files)
    assert grown.count_rows("age IS NULL") == ROWS
    assert grown.schema.field("user_id").nullable

    _write(manifest, "type: int32", "type: int64")
    _run(_blocked(manifest, path), "alter_columns")
    assert lance.dataset(dataset.uri).schema.field("age").type == pa.int64()

    _write(manifest, "evolve: additive", "evolve: additive\n{indent}extra_columns: conflict")
    _run(_blocked(manifest, path), "drop_columns")
    assert "score" not in lance.dataset(dataset.uri).schema.names

    assert _planned(manifest).is_empty
    assert lance.dataset(dataset.uri).count_rows() == ROWS
    assert lance.dataset(dataset.uri).version == version + 4


def _path_of_users(manifest: Path) -> str:
    [catalog] = reconciler.load(manifest).catalogs.values()
    [found] = [table.id for table in catalog.desired.tables.values() if table.schema and table.id[-1] == "users"]
    return "/".join(found)


def _rows(schema: pa.Schema) -> pa.Table:
    numbers = pa.array(range(ROWS), pa.int64())
    return pa.table(
        [numbers if field.name == "user_id" else pa.nulls(ROWS, field.type) for field in schema], schema=schema
    )


def _files(dataset: lance.LanceDataset) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (Path(locations.normalise(dataset.uri)) / "data").iterdir()}


def _planned(manifest: Path) -> Plan:
    return reconciler.plan(reconciler.load(manifest))


def _apply(manifest: Path) -> None:
    """Apply a plan that was saved, twice: the second time there is nothing left to do."""
    saved = Plan.from_json(_planned(manifest).to_json())
    for status in (Status.DONE, Status.ALREADY):
        report = reconciler.apply(saved, reconciler.load(manifest))
        assert [result.status for result in report.results] == [status], report
    assert _planned(manifest).is_empty


def _blocked(manifest: Path, path: str) -> Blocked:
    made = _planned(manifest)
    [blocked] = made.blocked
    assert ("/".join(blocked.identifier), made.changes) == (path, ())
    return blocked


def _run(blocked: Blocked, call: str) -> None:
    """Run the call that the remedy shows, with the values of the environment that a plan keeps to itself."""
    [code] = _CALL.findall(blocked.remedy)
    code = _PLACEHOLDER.sub(lambda found: os.environ[found[1]], code)
    assert call in code
    exec(code, {"lance": lance, "pa": pa})  # noqa: S102 - what a person is told to run


def _write(manifest: Path, old: str, new: str) -> None:
    """Replace the first ``old`` of the manifest; ``{indent}`` is how far its line is indented."""
    text = manifest.read_text("utf-8")
    found = re.search(rf"^( *).*?{re.escape(old)}", text, re.MULTILINE)
    assert found is not None, old
    start = text.index(old, found.start())
    manifest.write_text(text[:start] + new.replace("{indent}", found[1]) + text[start + len(old) :], "utf-8")
