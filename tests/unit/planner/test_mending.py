"""What to run where data has other columns than its block: each call is run with pylance, and nothing is left over."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler import load
from reconciler.arrow_types import from_arrow_schema, make_column, to_arrow_schema
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import Evolve, ExtraColumns
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.planner import words
from reconciler.planner.schema_calls import schema_remedy
from reconciler.planner.schemas import SchemaDifference, compare

ROWS = 1000
ID = make_column("id", "int64")
CODE = re.compile(r"`((?:ds = )?lance\.dataset\(.*?\))`(?=;|$)")
"""A call in a remedy, which has no backtick in it."""


def remedy(
    blocking: SchemaDifference, extra: Schema, location: str, evolve: Evolve | None, served_as: Identifier | None = None
) -> str:
    """Return what to do about a difference, as a plan says it."""
    return words.remedy(ReasonCode.OTHER_COLUMNS, schema_remedy(blocking, extra, location, evolve, served_as))


def column(type_text: str, nullable: bool = True, **metadata: str) -> Column:
    return make_column("c", type_text, nullable, metadata)


def written(place: Path, *columns: Column, rows: int = ROWS) -> str:
    """Write a dataset with these columns, whose values are those of ``id`` where they can be."""
    schema = to_arrow_schema((ID, *columns))
    numbers = pa.array(range(rows), pa.int64())
    values = [
        numbers if field.name == ID.name else pa.array([_value(field.type)] * rows, field.type) for field in schema
    ]
    lance.write_dataset(pa.table(values, schema=schema), place)
    return str(place)


def _value(kind: pa.DataType) -> object:
    types = pa.types
    if types.is_struct(kind):
        return {kind.field(number).name: _value(kind.field(number).type) for number in range(kind.num_fields)}
    if types.is_fixed_size_list(kind):
        return [_value(kind.value_type)] * kind.list_size
    if types.is_list(kind) or types.is_large_list(kind):
        return [_value(kind.value_type)]
    if types.is_binary(kind) or types.is_large_binary(kind):
        return b"1"
    if types.is_string(kind) or types.is_large_string(kind):
        return "1"
    if types.is_temporal(kind):
        return datetime(2026, 1, 2)
    if types.is_boolean(kind):
        return True
    return Decimal(1) if types.is_decimal(kind) else 1


def difference(place: str, *desired: Column, extra: ExtraColumns = ExtraColumns.KEEP) -> SchemaDifference:
    found = from_arrow_schema(lance.dataset(place).schema)
    return compare((ID, *desired), found).blocking(Evolve.NEVER, extra)


def codes(place: str, *desired: Column, extra: ExtraColumns = ExtraColumns.KEEP) -> list[str]:
    found = from_arrow_schema(lance.dataset(place).schema)
    whole = compare((ID, *desired), found)
    text = remedy(whole.blocking(Evolve.NEVER, extra), whole.extra, place, Evolve.NEVER)
    return CODE.findall(text)


def run(code: str) -> None:
    exec(code, {"lance": lance, "pa": pa})  # noqa: S102 - what a person is told to run


CHANGED = [
    ("int32", "int64"),
    ("int64", "int16"),
    ("uint8", "int32"),
    ("float32", "float64"),
    ("float64", "float16"),
    ("string", "large_string"),
    ("binary", "large_binary"),
    ("date32", "timestamp[us]"),
    ("timestamp[s]", "timestamp[us, tz=UTC]"),
    ("decimal128(10, 2)", "decimal128(20, 2)"),
    ("decimal128(10, 2)", "decimal256(20, 2)"),
    ("list<int32>", "list<int64>"),
    ("list<int32>", "large_list<int32>"),
    ("fixed_size_list<float32>[4]", "fixed_size_list<float16>[4]"),
    ("struct<a: int32>", "struct<a: int64>"),
    ("struct<a: int32>", "struct<a: int32, b: fixed_size_list<float32>[2]>"),
    ("struct<a: int32, b: string>", "struct<a: int32>"),
    ("struct<a: int32, b: string>", "struct<b: string, c: int8>"),
    ("struct<a: int32 not null>", "struct<a: int32>"),
    ("struct<a: struct<b: int32, c: int8>>", "struct<a: struct<b: int64, c: int8>>"),
    ("list<struct<a: int32>>", "list<struct<a: int64>>"),
    ("int32", "string"),
    ("string", "int32"),
    ("int32", "float64"),
    ("bool", "int8"),
    ("float64", "decimal128(10, 2)"),
    ("uint16", "large_string"),
]


@pytest.mark.parametrize(("found", "desired"), CHANGED, ids=[" -> ".join(pair) for pair in CHANGED])
def test_a_type_is_changed_by_the_call(tmp_path: Path, found: str, desired: str) -> None:
    place = written(tmp_path / "t.lance", column(found))
    assert difference(place, column(desired)).changed
    [code] = codes(place, column(desired))
    run(code)
    assert not difference(place, column(desired))
    assert lance.dataset(place).count_rows() == ROWS


NEW = ["int8", "uint64", "float16", "bool", "string", "large_string", "decimal128(10, 2)", "decimal256(40, 3)"]


@pytest.mark.parametrize("text", [*NEW, "fixed_size_list<float32>[768]", "uuid", "struct<a: list<int8>>", "blob"])
def test_a_column_is_added_by_the_call(tmp_path: Path, text: str) -> None:
    place = written(tmp_path / "t.lance")
    [code] = codes(place, column(text, unit="none"))
    run(code)
    assert not difference(place, column(text, unit="none"))


@pytest.mark.parametrize("text", NEW)
def test_a_column_that_cannot_be_null_gets_a_value_in_every_row(tmp_path: Path, text: str) -> None:
    place = written(tmp_path / "t.lance")
    [code] = codes(place, column(text, nullable=False))
    run(code)
    assert not difference(place, column(text, nullable=False))
    assert lance.dataset(place).count_rows("c IS NULL") == 0


@pytest.mark.parametrize("text", ["uuid", "fixed_size_list<float32>[2]", "timestamp[us]"])
def test_where_there_is_no_call_it_says_so(tmp_path: Path, text: str) -> None:
    place = written(tmp_path / "t.lance")
    found = compare((ID, column(text, nullable=False)), (ID,))
    assert "pylance cannot change `c`" in remedy(found, (), place, Evolve.NEVER)


@pytest.mark.parametrize(
    ("found", "desired"),
    [
        (column("int64", nullable=False), column("int64")),
        (column("int64"), column("int64", nullable=False)),
        (column("int32"), column("int64", nullable=False, unit="m")),
        (column("string"), column("string", unit="m")),
        (column("string", unit="m", other="k"), column("string", unit="km")),
    ],
    ids=["nullable", "not nullable", "type too", "metadata", "other metadata"],
)
def test_nullability_and_metadata_are_changed_by_the_call(tmp_path: Path, found: Column, desired: Column) -> None:
    place = written(tmp_path / "t.lance", found)
    [code] = codes(place, desired)
    run(code)
    assert not difference(place, desired)


def test_columns_are_taken_away_by_the_call(tmp_path: Path) -> None:
    extra = make_column('it\'s "new"', "int8"), make_column("ünï", "string")
    place = written(tmp_path / "t.lance", *extra)
    [code] = codes(place, extra=ExtraColumns.CONFLICT)
    run(code)
    assert not difference(place, extra=ExtraColumns.CONFLICT)


def test_a_renamed_column_is_renamed_by_its_own_call(tmp_path: Path) -> None:
    place = written(tmp_path / "t.lance", make_column("years", "int32"), make_column("name", "string"))
    wanted = make_column("age", "int32")
    add, rename = codes(place, wanted)
    assert "add_columns" in add
    run(rename)
    assert not difference(place, wanted)
    assert lance.dataset(place).count_rows("age IS NULL") == 0


def test_all_of_it_is_one_line_of_calls(tmp_path: Path) -> None:
    place = written(tmp_path / "t.lance", make_column("a", "int32"), make_column("b", "int8"), make_column("x", "bool"))
    wanted = (make_column("a", "int64"), make_column("b", "string"), make_column("c", "date32"))
    [code] = codes(place, *wanted, extra=ExtraColumns.CONFLICT)
    run(code)
    assert not difference(place, *wanted, extra=ExtraColumns.CONFLICT)


@pytest.mark.parametrize("name", ["a`b", "`c`"])
@pytest.mark.parametrize("wanted", [("int64", {}), ("int32", {"unit": "m"})], ids=["type", "metadata"])
def test_a_name_may_have_backticks(tmp_path: Path, name: str, wanted: tuple[str, dict[str, str]]) -> None:
    place = written(tmp_path / "t.lance", make_column(name, "int32"))
    desired = make_column(name, wanted[0], metadata=wanted[1]), make_column("new`", "int8")
    [code] = codes(place, *desired)
    run(code)
    assert not difference(place, *desired)
    renamed = *desired[:1], make_column("other", "int8")
    [_, rename] = codes(place, *renamed)
    run(rename)
    assert not difference(place, *renamed)


def test_what_pylance_cannot_do_by_a_name_with_backticks_is_said(tmp_path: Path) -> None:
    inside, required = make_column("a`b", "struct<a: int8>"), make_column("a`b", "int8", nullable=False)
    for desired, found in (((ID,), (ID, inside)), ((ID, required), (ID,)), ((ID, inside), (ID, required))):
        whole = compare(desired, found)
        assert "pylance cannot change `a`b`" in remedy(whole, (), str(tmp_path), Evolve.NEVER)


NULLABLE: Schema = (ID, make_column("c", "int8"))


@pytest.mark.parametrize(
    ("desired", "found", "evolve", "written_first"),
    [
        (NULLABLE, (ID,), Evolve.NEVER, "write `evolve: additive` in its block, or change the data: "),
        (NULLABLE, (ID,), None, "remove `c` from its block, or change the data: "),
        (
            (ID, column("int8", nullable=False)),
            (ID,),
            Evolve.NEVER,
            "make `c` nullable and write `evolve: additive` in its block, or give every row a value: ",
        ),
        (
            (ID,),
            NULLABLE,
            Evolve.NEVER,
            "write `{name: c, type: int8}` in its block or `extra_columns: keep`, or change the data: ",
        ),
        (
            NULLABLE,
            (ID, column("int16")),
            Evolve.NEVER,
            "write `{name: c, type: int16}` in its block, or change the data: ",
        ),
        (
            (*NULLABLE, make_column("d", "int8")),
            (ID, column("list<float32>", nullable=False)),
            Evolve.NEVER,
            'remove `d` from its block and write `{name: c, type: "list<float32>", nullable: false}` in it',
        ),
        (
            (ID, *(make_column(name, "int8") for name in "abcd")),
            (ID, *(make_column(name, "int16") for name in "abcd")),
            Evolve.NEVER,
            "write the columns that the data has in its block, or change the data: ",
        ),
    ],
)
def test_it_says_first_what_to_write(desired: Schema, found: Schema, evolve: Evolve | None, written_first: str) -> None:
    whole = compare(desired, found)
    assert remedy(whole, whole.extra, "/t.lance", evolve).startswith(written_first)


NAMES = ["amount", "null", "a b", "a: b", "-", '"quoted"', "#", "0"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["int16", "decimal128(10, 2)", "struct<a: int32>"])
def test_what_is_to_be_written_is_what_a_manifest_takes(name: str, kind: str, tmp_path: Path) -> None:
    """The line is put into a manifest as it stands, and then nothing differs."""
    found = (make_column(name, kind, nullable=False),)
    whole = compare((make_column(name, "int8"),), found)
    [line] = re.findall(r"write `(\{.*?\})` in its block", remedy(whole, (), "/t.lance", Evolve.NEVER))
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: s\ncatalogs:\n  lake:\n    impl: memory\n    namespaces:\n      a:\n        tables:\n"
        f"          t:\n            schema:\n              - {line}\n"
    )
    [block] = load(manifest).catalogs["lake"].desired.tables.values()
    assert block.schema == found
