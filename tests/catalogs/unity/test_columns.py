"""Columns to Unity and back, for every type that Lance stores."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.arrow_types import from_arrow_schema, make_column
from reconciler.backends.unity.columns import ARROW_TYPE, nearest_types, schema_of, to_columns
from reconciler.model.columns import Column
from tests.unit.test_arrow_types import STORED

_scalars = st.sampled_from([text for text in STORED if "<" not in text and text not in ("null", "blob")])
_names = st.text("abc é`:.<>,", min_size=1, max_size=5)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _nested(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(st.tuples(_names, types, st.booleans()), max_size=3, unique_by=lambda found: found[0])
    optional = st.sampled_from(["", " not null"])
    return st.one_of(
        st.builds("{}<{}{}>".format, st.sampled_from(["list", "large_list"]), types, optional),
        st.builds("map<string, {}{}>".format, types, optional),
        fields.map(
            lambda found: (
                "struct<"
                + ", ".join(f"{_quoted(name)}: {kind}{'' if null else ' not null'}" for name, kind, null in found)
                + ">"
            )
        ),
    )


_types = st.recursive(_scalars, _nested, max_leaves=6)


def column(text: str) -> dict[str, Any]:
    [found] = to_columns((make_column("c", text),))
    return found


@pytest.mark.parametrize("text", STORED)
def test_every_type_comes_back_as_it_was(text: str) -> None:
    schema = (
        make_column("c", text, metadata={"k": "v"}),
        make_column("d", text, nullable=text == "null", metadata={"comment": "the second"}),
    )
    assert schema_of(to_columns(schema)) == schema


@given(_types, st.booleans())
def test_nested_types_come_back_as_they_were(text: str, nullable: bool) -> None:
    schema = (make_column("c", text, nullable=nullable),)
    written = to_columns(schema)
    assert schema_of(written) == schema
    assert to_columns(schema_of(written)) == written


@given(_types)
def test_what_unity_shows_is_stable_without_the_exact_type_too(text: str) -> None:
    """As after another tool rewrote the columns: they are written back as they are read."""
    shown = column(text)
    whole = json.loads(shown["type_json"])
    whole["metadata"].pop(ARROW_TYPE, None)
    stripped = {**shown, "type_json": json.dumps(whole)}
    [again] = to_columns(schema_of([stripped]))
    assert (again["type_text"], again["type_name"]) == (shown["type_text"], shown["type_name"])
    assert json.loads(again["type_json"])["metadata"] == {}


@pytest.mark.parametrize("text", STORED)
def test_type_json_is_a_whole_field(text: str) -> None:
    whole = json.loads(column(text)["type_json"])
    assert set(whole) == {"name", "type", "nullable", "metadata"}
    assert (whole["name"], whole["nullable"]) == ("c", True)
    assert whole["metadata"] in ({}, {ARROW_TYPE: text})


@pytest.mark.parametrize(
    ("text", "name", "shown", "in_json"),
    [
        ("bool", "BOOLEAN", "boolean", "boolean"),
        ("int8", "BYTE", "tinyint", "byte"),
        ("int16", "SHORT", "smallint", "short"),
        ("int32", "INT", "int", "integer"),
        ("int64", "LONG", "bigint", "long"),
        ("float32", "FLOAT", "float", "float"),
        ("float64", "DOUBLE", "double", "double"),
        ("string", "STRING", "string", "string"),
        ("binary", "BINARY", "binary", "binary"),
        ("date32", "DATE", "date", "date"),
        ("timestamp[us, tz=UTC]", "TIMESTAMP", "timestamp", "timestamp"),
        ("timestamp[us]", "TIMESTAMP_NTZ", "timestamp_ntz", "timestamp_ntz"),
        ("duration[us]", "INTERVAL", "interval day to second", "interval day to second"),
        ("decimal128(10, 2)", "DECIMAL", "decimal(10,2)", "decimal(10,2)"),
        ("null", "NULL", "void", "void"),
        (
            "list<int32 not null>",
            "ARRAY",
            "array<int>",
            {"type": "array", "elementType": "integer", "containsNull": False},
        ),
        (
            "map<string, float64>",
            "MAP",
            "map<string,double>",
            {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
        ),
        (
            "struct<a: int64 not null, `b c`: string>",
            "STRUCT",
            "struct<a:bigint,`b c`:string>",
            {
                "type": "struct",
                "fields": [
                    {"name": "a", "type": "long", "nullable": False, "metadata": {}},
                    {"name": "b c", "type": "string", "nullable": True, "metadata": {}},
                ],
            },
        ),
    ],
)
def test_types_unity_has(text: str, name: str, shown: str, in_json: object) -> None:
    written = column(text)
    assert (written["type_name"], written["type_text"]) == (name, shown)
    assert json.loads(written["type_json"]) == {"name": "c", "type": in_json, "nullable": True, "metadata": {}}
    assert nearest_types([(make_column("c", text),)]) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fixed_size_list<float32>[768]", "array<float>"),
        ("fixed_size_list<float16>[4]", "array<float>"),
        ("uint8", "smallint"),
        ("uint16", "int"),
        ("uint32", "bigint"),
        ("uint64", "decimal(20,0)"),
        ("float16", "float"),
        ("large_string", "string"),
        ("large_list<int8>", "array<tinyint>"),
        ("fixed_size_binary[16]", "binary"),
        ("timestamp[ns, tz=Europe/Berlin]", "timestamp"),
        ("timestamp[s]", "timestamp_ntz"),
        ("time32[ms]", "int"),
        ("time64[ns]", "bigint"),
        ("duration[ns]", "interval day to second"),
        ("decimal128(5, -2)", "decimal(7,0)"),
        ("decimal128(3, 5)", "decimal(5,5)"),
        ("decimal256(76, 10)", "decimal(38,10)"),
        ("dictionary<values=string, indices=int8>", "string"),
        ("blob", "binary"),
        ("json", "string"),
    ],
)
def test_types_unity_does_not_have_are_shown_as_the_nearest(text: str, shown: str) -> None:
    assert column(text)["type_text"] == shown
    [note] = nearest_types([(make_column("c", text),)])
    assert note.startswith(f"1 column of type {text}: Unity shows {shown}")


def test_equal_types_of_many_tables_are_one_note() -> None:
    embedding = make_column("e", "fixed_size_list<float32>[768]")
    notes = nearest_types([(embedding, make_column("id", "int64")), (embedding,), (make_column("u", "uint8"),)])
    assert [note.split(":")[0] for note in notes] == [
        "2 columns of type fixed_size_list<float32>[768]",
        "1 column of type uint8",
    ]


def test_positions_comments_and_nullability() -> None:
    schema = (make_column("a", "int64", nullable=False), make_column("b", "string", metadata={"comment": "said"}))
    first, second = to_columns(schema)
    assert (first["position"], first["nullable"], "comment" in first) == (0, False, False)
    assert (second["position"], second["nullable"], second["comment"]) == (1, True, "said")
    assert schema_of([second, first]) == schema


def test_a_comment_that_was_changed_in_unity_is_the_one_that_counts() -> None:
    [written] = to_columns((make_column("a", "int64", metadata={"comment": "old"}),))
    assert schema_of([{**written, "comment": "new"}]) == (make_column("a", "int64", metadata={"comment": "new"}),)


def test_an_exact_type_that_no_longer_fits_is_not_believed() -> None:
    written = column("uint8")
    changed = json.loads(written["type_json"]) | {"type": "string"}
    assert schema_of([{**written, "type_json": json.dumps(changed)}])[0].type == "string"


@pytest.mark.parametrize(
    ("type_json", "expected"),
    [
        ('"long"', "int64"),
        ("long", "int64"),
        ("decimal(12, 3)", "decimal128(12, 3)"),
        ('{"type":"array","elementType":"string","containsNull":false}', "list<string not null>"),
        ('{"name":"c","type":"variant","nullable":true,"metadata":{}}', "string"),
        ('{"name":"c","type":{"type":"udt","class":"x"},"nullable":true,"metadata":null}', "string"),
        ('{"name":"c","type":{"type":"struct","fields":[1]},"nullable":true}', "struct<>"),
        ('{"name":"c","type":{"type":"struct","fields":[{"name":"a"},{"name":"a"}]}}', "string"),
        ("decimal(99,1)", "string"),
        ("[" * 5000, "string"),
    ],
)
def test_columns_of_other_writers(type_json: str, expected: str) -> None:
    [read] = schema_of([{"name": "c", "type_json": type_json, "type_name": "LONG"}])
    assert read.type == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type_name": "LONG"}, "int64"),
        ({"type_name": "NULL"}, "null"),
        ({"type_name": "DECIMAL", "type_precision": 8, "type_scale": 2}, "decimal128(8, 2)"),
        ({"type_name": "ARRAY"}, "string"),
        ({}, "string"),
    ],
)
def test_columns_without_json(written: dict[str, Any], expected: str) -> None:
    assert schema_of([{"name": "c", **written}]) == (Column("c", expected),)


def test_types_that_only_other_writers_of_lance_make_are_text() -> None:
    schema = from_arrow_schema(pa.schema([("i", pa.month_day_nano_interval())]))
    [written] = to_columns(schema)
    assert written["type_text"] == "string"
    assert ARROW_TYPE not in written["type_json"]
    assert len(nearest_types([schema])) == 1
