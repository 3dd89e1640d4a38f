"""What users are shown of the rows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.errors import CatalogError, ErrorCode
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import Identifier
from reconciler.model.ownership import CLONE
from reconciler.pipeline.rows import INVENTORY, VIEWS, View, coverage_row, rows_of
from reconciler.pipeline.schemas import record_batch
from tests.strategies import SECRET

_keys = st.sampled_from(["db_password", "api-key", "TOKEN", "fs.s3a.access.key", "owner", "tier"])
_locations = st.sampled_from(
    ["s3://lake/t", "/lake/t", f"s3://key:{SECRET}@lake/t", f"https://host/t?sig={SECRET}", "file:///lake/a b"]
)


def _value(key: str) -> str:
    return key if key in ("owner", "tier") else f"{SECRET}-{key}"


_properties = st.sets(_keys).map(lambda keys: {key: _value(key) for key in keys})


def shown(view: View, *rows: Any) -> list[dict[str, Any]]:
    return list(view.rows(rows, view.schema.names))


@given(_properties, _properties, _locations)
def test_no_view_shows_a_secret(spaces: dict[str, str], tables: dict[str, str], location: str) -> None:
    live = Snapshot({("a",): LiveNamespace(("a",), spaces)}, {("a", "t"): LiveTable(("a", "t"), location, tables)})
    rows = [*rows_of("lake", live), coverage_row("lake", ("a",), tables=1)]
    for view in (*VIEWS.values(), INVENTORY):
        found = shown(view, *rows)
        assert SECRET not in repr(found)
        assert record_batch(found, view.schema).schema == view.schema
    (table,) = shown(VIEWS["tables"], *rows)
    assert table["properties"].keys() == tables.keys()
    assert {key: text for key, text in table["properties"].items() if SECRET not in tables[key]} == {
        key: text for key, text in tables.items() if SECRET not in text
    }


def test_each_view_shows_its_rows_and_what_could_not_be_read() -> None:
    live = Snapshot(
        {("a", "b"): LiveNamespace(("a", "b"), {}, "database")}, {("top",): LiveTable(("top",), "/t")}, ("a note",)
    )
    failed = coverage_row("lake", ("a", "b"), error=CatalogError("no answer", ErrorCode.INTERNAL))
    rows = [*rows_of("lake", live), coverage_row("lake", (), namespaces=1, tables=1), failed]
    names = {name: [(row["namespace"], row["error"]) for row in shown(view, *rows)] for name, view in VIEWS.items()}
    assert names == {
        "tables": [("", None), ("a$b", "no answer")],
        "namespaces": [("a", None), ("a$b", "no answer")],
        "coverage": [("", None), ("a$b", "no answer")],
    }
    everything = shown(INVENTORY, *rows)
    assert [row["kind"] for row in everything] == ["namespace", "table", "note", "coverage", "coverage"]
    assert [row["note"] for row in everything] == [None, None, "a note", None, None]
    assert everything[0]["namespace_kind"] == "database"


def test_clones_have_the_table_and_the_version_that_they_were_made_of() -> None:
    marks = {"a": "prod/features/users@42 pinned", "b": "prod/b@", "c": None, "d": f"s3://key:{SECRET}@lake/t@1"}
    tables: dict[Identifier, LiveTable] = {}
    for name, mark in marks.items():
        tables[name,] = LiveTable((name,), "/t", {} if mark is None else {CLONE: mark})
    rows = shown(VIEWS["tables"], *rows_of("lake", Snapshot({}, tables)))
    assert [(row["clone_of"], row["clone_version"]) for row in rows[:3]] == [
        ("prod/features/users", 42),
        ("prod/b", None),
        (None, None),
    ]
    assert SECRET not in repr(rows)


def test_only_the_columns_asked_for_are_made() -> None:
    row = {"catalog": "lake", "kind": "table", "namespace": ["a"], "name": "t", "location": "/t"}  # no properties
    assert list(VIEWS["tables"].rows([row], ("name", "namespace"))) == [{"name": "t", "namespace": "a"}]
