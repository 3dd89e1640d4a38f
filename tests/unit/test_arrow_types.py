"""Arrow types as text, held against what Lance really stores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.arrow_types import (
    TypeSyntaxError,
    check_column_name,
    from_arrow_schema,
    make_column,
    parse,
    to_arrow_schema,
)
from reconciler.arrow_types.conversion import column_code
from reconciler.model.columns import Column

STORED = [
    *("null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "string", "large_string", "binary", "large_binary", "date32", "date64"),
    *("time32[s]", "time32[ms]", "time64[us]", "time64[ns]"),
    *(f"timestamp[{unit}]" for unit in ("s", "ms", "us", "ns")),
    *(f"timestamp[us, tz={zone}]" for zone in ("UTC", "Europe/Berlin", "+02:00", "Etc/GMT+5")),
    *(f"duration[{unit}]" for unit in ("s", "ms", "us", "ns")),
    *("decimal128(38, 10)", "decimal128(5, -2)", "decimal128(3, 5)", "decimal256(76, 76)"),
    *("fixed_size_binary[16]", "fixed_size_binary[0]"),
    *("list<int32>", "list<int32 not null>", "list<element: string>", "list<`a b`: int8>", "large_list<string>"),
    "list<list<large_list<float64>>>",
    *("fixed_size_list<float32>[768]", "fixed_size_list<fixed_size_list<float16>[2]>[3]"),
    *("fixed_size_list<bfloat16>[4]", "list<fixed_size_list<int8>[4]>"),
    *("struct<>", "struct<a: int32, b: string not null>", "struct<`a.b`: int8, `c``d`: int8, ``: int8, é: int8>"),
    "struct<a: struct<b: list<struct<c: timestamp[ns, tz=UTC]>>>>",
    *("map<string, int32>", "map<string, int32 not null>", "map<struct<a: int8>, list<int8>>", "map<uuid, json>"),
    *("dictionary<values=string, indices=int8>", "dictionary<values=int64, indices=uint64>"),
    *("list<dictionary<values=large_binary, indices=int32>>", "map<string, dictionary<values=bool, indices=int16>>"),
    *("uuid", "json", "bool8", "bfloat16", "blob", "list<uuid>", "list<bfloat16>", "struct<b: blob>", "list<blob>"),
    "extension<my.point, fixed_size_list<float64>[2]>",
    'extension<my.point, struct<x: float64>, "{\\"crs\\": \\"é\\"}">',
    "list<extension<my.tag, string>>",
]


@pytest.mark.parametrize("text", STORED)
def test_lance_gives_back_the_type_it_was_given(tmp_path: Path, text: str) -> None:
    fields = (
        make_column("c", text, nullable=True),
        make_column("d", text, nullable=text == "null", metadata={"k": "v"}),
    )

    lance.write_dataset(to_arrow_schema(fields).empty_table(), str(tmp_path / "t.lance"))

    assert parse(text) == text
    assert from_arrow_schema(lance.dataset(str(tmp_path / "t.lance")).schema) == fields


@pytest.mark.parametrize("text", [text for text in STORED if "blob" not in text])
def test_a_row_can_be_written_to_every_type(tmp_path: Path, text: str) -> None:
    place = str(tmp_path / "t.lance")
    schema = to_arrow_schema((make_column("c", text),))
    lance.write_dataset(schema.empty_table(), place)

    lance.write_dataset(pa.table([pa.nulls(1, schema.field(0).type)], schema=schema), place, mode="append")

    assert lance.dataset(place).count_rows() == 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_blob_is_a_blob_in_every_storage_version(tmp_path: Path, version: Literal["2.0", "2.1", "2.2"]) -> None:
    fields = (make_column("c", "large_binary", metadata={"lance-encoding:blob": "true", "k": "v"}),)

    place = str(tmp_path / "t.lance")
    lance.write_dataset(to_arrow_schema(fields).empty_table(), place, data_storage_version=version)

    assert from_arrow_schema(lance.dataset(place).schema) == fields == (Column("c", "blob", True, {"k": "v"}),)


def test_extension_objects_of_pyarrow_are_read_like_marked_fields() -> None:
    schema = pa.schema([("u", pa.uuid()), ("j", pa.json_()), ("s", pa.struct([("u", pa.uuid())])), ("b", pa.bool8())])

    assert [field.type for field in from_arrow_schema(schema)] == ["uuid", "json", "struct<u: uuid>", "bool8"]


def test_types_that_only_other_writers_make_are_shown_as_pyarrow_does() -> None:
    schema = pa.schema([("i", pa.month_day_nano_interval()), ("v", pa.list_view(pa.int8()))])

    assert [field.type for field in from_arrow_schema(schema)] == ["month_day_nano_interval", "list_view<item: int8>"]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("float", "float32"),
        ("half", "float16"),
        ("halffloat", "float16"),
        ("double", "float64"),
        ("utf8", "string"),
        ("large_utf8", "large_string"),
        ("boolean", "bool"),
        ("date32[day]", "date32"),
        ("date64[ms]", "date64"),
        ("  list < item : float >  ", "list<float32>"),
        ("fixed_size_list<item: float>[ 8 ]", "fixed_size_list<float32>[8]"),
        ("struct<a:int32,b:utf8   not   null>", "struct<a: int32, b: string not null>"),
        ("struct<`a`: int8>", "struct<a: int8>"),
        ("map<string not null, int8>", "map<string, int8>"),
        ("decimal128(10,2)", "decimal128(10, 2)"),
        ("timestamp[us,tz=UTC]", "timestamp[us, tz=UTC]"),
        ("dictionary<values=string>", "dictionary<values=string, indices=int32>"),
        ("dictionary<values=string, indices=int8, ordered=0>", "dictionary<values=string, indices=int8>"),
    ],
)
def test_every_way_to_write_a_type_has_one_canonical_text(written: str, canonical: str) -> None:
    assert parse(written) == canonical
    assert parse(canonical) == canonical


REFUSED = {
    "": "type ``: a type is missing, such as `int64` or `string`",
    "fixed_size_list<float32>[0]": "the length must be 1 or more",
    "fixed_size_list<float32>": "a fixed_size_list needs its length, such as `fixed_size_list<float32>[768]`",
    "fixed_size_list<float32 not null>[2]": "Lance keeps neither a name nor `not null` for the items of a fixed_size_",
    "fixed_size_list<element: float32>[2]": "Lance keeps neither a name nor `not null` for the items of a fixed_size_",
    "fixed_size_list<list<int8>>[2]": "Lance stores no list, map or struct inside of a fixed_size_list; use `list`",
    "list<fixed_size_list<struct<a: int8>>[2]>": "Lance stores no list, map or struct inside of a fixed_size_list",
    "fixed_size_list<string>[2]": "Lance does not keep `string` inside of a fixed_size_list; use `list` for the outer",
    "fixed_size_list<fixed_size_list<large_binary>[2]>[2]": "Lance does not keep `large_binary` inside of",
    "fixed_size_list<uuid>[2]": "Lance does not keep `uuid` inside of a fixed_size_list; use `list` for the outer one",
    "fixed_size_list<dictionary<values=string>>[2]": "Lance stores no dictionary directly in a fixed_size_list",
    "strng": "Lance stores no type `strng`; did you mean `string`?",
    "STRING": "Lance stores no type `STRING`; did you mean `string`?",
    "decimal(10, 2)": "Lance stores no type `decimal`; did you mean `decimal128(10, 2)`?",
    "decimal32(5, 2)": "Lance stores no type `decimal32`; did you mean `decimal128(5, 2)`?",
    "decimal128(39, 0)": "the precision is 1 to 38",
    "decimal128(10)": "`decimal128` needs precision and scale, such as `decimal128(10, 2)`",
    "string_view": "Lance stores no type `string_view`; did you mean `string`?",
    "list_view<int8>": "Lance stores no type `list_view`; did you mean `list<int8>`?",
    "month_day_nano_interval": "did you mean `duration[ns]`?",
    "timestamp with time zone": "did you mean `timestamp[us, tz=UTC]`?",
    "timestamp(3) without time zone": "did you mean `timestamp[ms]`?",
    "TIMESTAMPTZ(9)": "did you mean `timestamp[ns, tz=UTC]`?",
    "double precision": "write `float64`",
    "Optional[int]": "write `nullable: true` beside the type `int`",
    "List(Float32)": "did you mean `list<float32>`?",
    "xyzzy": "unknown type `xyzzy`; the types are bfloat16, binary, blob, bool,",
    "timestamp": "`timestamp` needs a unit, such as `timestamp[us]`",
    "timestamp[m]": "the unit of `timestamp` is one of s, ms, us, ns",
    "timestamp[us, UTC]": "a time zone is written `tz=Europe/Berlin`",
    "timestamp[us, tz=-]": "a time zone is expected, such as `tz=UTC`",
    "time32[us]": "the unit of `time32` is one of s, ms",
    "list": "`list` needs what it holds, such as `list<string>`",
    "list<>": "a type is expected before `>`",
    "list<int32": "`>` is expected at the end",
    "list<int32>>": "the type ends before `>`",
    "struct<int32>": "a struct field `name: type`, with a colon, is expected before `int32>`",
    "struct<a: int8, a: int16>": "the struct has two fields `a`",
    "struct<a: null not null>": "`null` cannot be `not null`",
    "map<string>": "a map needs key and value, such as `map<string, int32>`",
    "map<null, int8>": "the key of a map cannot be `null`",
    "map<string, blob>": "Lance writes no `blob` into a map; use large_binary",
    "dictionary<values=date32>": "Lance stores no dictionary of `date32`; use `date32` itself, or a dictionary of str",
    "dictionary<string>": "a dictionary is written `dictionary<values=string, indices=int32>`",
    "dictionary<values=string, indices=float32>": "the indices of a dictionary are one of int8, int16,",
    "dictionary<values=string, indices=int8, ordered=1>": "Lance does not keep `ordered`; leave it out",
    "extension<arrow.uuid, fixed_size_binary[16]>": "write `uuid` for arrow.uuid",
    "extension<arrow.opaque, int8>": "unknown extension `arrow.opaque`; the known ones are bfloat16, bool8, json, uuid",
    "extension<a.b, uuid>": "the storage of an extension cannot be an extension",
    "int32 int64": "the type ends before `int64`",
    "list<" * 70 + "int8" + ">" * 70: "types nest at most 60 levels deep",
    "map<string, " * 31 + "int8" + ">" * 31: "types nest at most 60 levels deep",
    "x" * 200_000: "a type has at most 100,000 characters",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=[text[:40] or "empty" for text in REFUSED])
def test_what_lance_does_not_store_is_refused_with_what_it_does(text: str, message: str) -> None:
    with pytest.raises(TypeSyntaxError) as caught:
        parse(text)

    assert message in str(caught.value)
    assert len(str(caught.value)) < 600


def test_the_deepest_type_fits_through_lance(tmp_path: Path) -> None:
    fields = (
        make_column("c", "list<" * 60 + "int8" + ">" * 60),
        make_column("m", "map<int8, " * 30 + "int8" + ">" * 30),
    )

    lance.write_dataset(to_arrow_schema(fields).empty_table(), str(tmp_path / "t.lance"))

    assert from_arrow_schema(lance.dataset(str(tmp_path / "t.lance")).schema) == fields


@pytest.mark.parametrize(
    ("type_text", "nullable", "metadata", "message"),
    [
        ("null", False, {}, "type `null`: the column must be nullable"),
        ("int8", True, {"ARROW:extension:name": "x"}, "`ARROW:extension:name` is part of the type; write `extension<"),
        ("int8", True, {"lance-encoding:blob": "true"}, "`lance-encoding:blob` marks a column of type `blob`; write"),
        ("large_binary", True, {"lance-encoding:blob": "false"}, "`lance-encoding:blob` marks a column of type `blob`"),
    ],
)
def test_metadata_that_contradicts_the_type_is_refused(
    type_text: str, nullable: bool, metadata: dict[str, str], message: str
) -> None:
    with pytest.raises(TypeSyntaxError) as caught:
        make_column("c", type_text, nullable, metadata)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *map(chr, range(0x80)),
        *("", "a.b", "a\0b", "a`b", "``", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version"),
        *("_row_last_updated_at_version", "_distance", "_score", "a b", " a", "a\nb", "é", "select", "x" * 300),
    ],
)
def test_the_column_names_that_lance_refuses_or_cannot_read_are_known(tmp_path: Path, name: str) -> None:
    place = str(tmp_path / "t.lance")

    def is_kept() -> bool:
        try:
            lance.write_dataset(pa.table([pa.array([1]), pa.array([2])], [name, "other"]), place)
            return bool(lance.dataset(place).to_table().column_names == [name, "other"])
        except (OSError, ValueError):
            return False

    def is_taken() -> bool:
        try:
            return check_column_name(name) == name
        except TypeSyntaxError:
            return False

    assert is_taken() == is_kept()


@pytest.mark.parametrize("name", ["a", "a b", "é", "_distance", "no", "x\ny"])
def test_other_column_names_are_taken(tmp_path: Path, name: str) -> None:
    fields = (make_column(name, "int8"),)

    lance.write_dataset(to_arrow_schema(fields).empty_table(), str(tmp_path / "t.lance"))

    assert check_column_name(name) == name
    assert from_arrow_schema(lance.dataset(str(tmp_path / "t.lance")).schema) == fields


def test_parsing_needs_no_pyarrow() -> None:
    code = "import sys, reconciler.arrow_types as types; types.parse('list<int8>'); print('pyarrow' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


# ---- properties ------------------------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
scalars = st.sampled_from([text for text in STORED if "<" not in text and text not in ("null", "blob")])
fixed_size_items = st.sampled_from(["int8", "float32", "bool", "timestamp[us]", "decimal128(5, 2)"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    nullable = st.sampled_from(["", " not null"])
    children = st.lists(st.tuples(names, inner, nullable), max_size=4, unique_by=lambda child: child[0])
    return st.one_of(
        st.builds("list<{}{}>".format, inner, nullable),
        st.builds(lambda name, item: f"large_list<{_quoted(name)}: {item}>", names, inner),
        st.builds("fixed_size_list<{}>[{}]".format, fixed_size_items, st.integers(1, 4096)),
        st.builds("map<{}, {}{}>".format, inner, inner, nullable),
        st.builds(
            lambda some: f"struct<{', '.join(f'{_quoted(name)}: {kind}{null}' for name, kind, null in some)}>", children
        ),
    )


types = st.recursive(scalars, _nested, max_leaves=12)


@given(types)
def test_the_canonical_text_is_stable_through_text_and_pyarrow(text: str) -> None:
    canonical = parse(text)
    fields = (Column("c", canonical),)

    assert parse(canonical) == canonical
    assert from_arrow_schema(to_arrow_schema(fields)) == fields


@settings(max_examples=25, deadline=None)
@given(st.lists(types, min_size=1, max_size=6))
def test_lance_gives_back_whatever_is_accepted(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    fields = tuple(make_column(f"c{number}", text) for number, text in enumerate(texts))
    place = str(tmp_path_factory.mktemp("random") / "t.lance")

    lance.write_dataset(to_arrow_schema(fields).empty_table(), place)

    assert from_arrow_schema(lance.dataset(place).schema) == fields


@given(st.text(max_size=40) | st.text("<>[](),:=`\"' structlimapnodey0123456789", max_size=60))
def test_any_text_is_a_type_or_a_clear_error(text: str) -> None:
    try:
        canonical = parse(text)
    except TypeSyntaxError:
        return

    assert parse(canonical) == canonical


@pytest.mark.parametrize("text", STORED)
def test_the_code_of_a_column_makes_its_field(text: str) -> None:
    column = make_column("c", text, nullable=text == "null", metadata={"k": "it's"})
    made = eval(column_code(column), {"pa": pa})  # noqa: S307 - the code is ours
    assert made.equals(to_arrow_schema((column,)).field(0), check_metadata=True)


def test_the_code_of_a_column_shows_no_secret() -> None:
    assert "hunter2" not in column_code(make_column("c", "int8", metadata={"password": "hunter2"}))
