"""Blocks inserted into an existing manifest: missing ones are added, and every existing line stays."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.errors import ManifestError
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import EVERYTHING
from reconciler.writing.export import ExportCatalog, to_yaml
from reconciler.writing.grafting import graft

names = st.sampled_from(["a", "b", "users", "0", "no", "ü"])
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
live = st.builds(
    lambda namespaces, tables: Snapshot(
        {key: LiveNamespace(key, properties) for key, properties in namespaces.items()},
        {key: LiveTable(key, "s3://b/t", properties) for key, properties in tables.items()},
    ),
    st.dictionaries(paths, st.sampled_from([{}, {"k": "v", "x": "a: b"}]), max_size=4),
    st.dictionaries(paths, st.sampled_from([{}, {"k": "é # {"}]), max_size=5),
)


def exported(snapshot: Snapshot) -> str:
    return to_yaml("shop", [ExportCatalog("lake", "memory", {}, snapshot, EVERYTHING)])


def plain(text: str) -> object:
    return yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506


def merged(one: object, other: object) -> object:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if one in ("", None) and isinstance(other, dict) else one
    return {**other, **{key: merged(value, other[key]) if key in other else value for key, value in one.items()}}


@st.composite
def hand_written(draw: st.DrawFn) -> str:
    """A manifest with some blocks, in block style or in brackets, with comments and odd spaces at the ends of lines."""
    text = exported(draw(live))
    if draw(st.booleans()):
        inner = plain(text)["catalogs"]["lake"]  # type: ignore[index]
        flow = yaml.dump(inner, default_flow_style=True, allow_unicode=True, width=10_000).strip()
        text = f"version: 1\nname: shop\ncatalogs:\n    lake: {flow}\n"
    lines = [f"{line}{draw(st.sampled_from(['', '', '  # c', '   ']))}" for line in text.splitlines()]
    lines += draw(st.sampled_from([[], ["", "# the end"], ["safety: {}  # last"]]))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@settings(max_examples=50)
@given(hand_written(), live)
def test_what_is_missing_comes_in_and_every_line_stays(text: str, snapshot: Snapshot) -> None:
    added = exported(snapshot)
    made = graft("lancens.yaml", text.encode(), added).decode()

    assert plain(made) == merged(plain(text), {"catalogs": plain(added)["catalogs"]})  # type: ignore[index]
    # A line in brackets takes what it lacks between them.
    comments = [line for line in text.splitlines() if "#" in line and ": {" not in line]
    rest = iter(made.splitlines())
    assert all(line in rest for line in comments)  # in their order
    assert graft("lancens.yaml", made.encode(), added).decode() == made


@pytest.mark.parametrize("text", ["", "# only a comment\n", "# no line break at the end"])
def test_an_empty_file_takes_all_of_it(text: str) -> None:
    added = exported(Snapshot({}, {("a",): LiveTable(("a",), "s3://b/a")}))
    made = graft("lancens.yaml", text.encode(), added).decode()

    assert made.startswith(text)
    assert plain(made) == plain(added)


@pytest.mark.parametrize("text", ["catalogs: {lake: [b\n", "a: &x 1\n", "a: 1\na: 2\n"])
def test_a_file_that_is_no_manifest_is_an_error_at_its_place(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^lancens\.yaml:\d+:\d+: "):
        graft("lancens.yaml", text.encode(), exported(Snapshot()))


@pytest.mark.parametrize("block", ["users: {}", "users:", "users:   # why", "users: null  # why", "users: {\n  }"])
def test_an_empty_block_takes_what_is_written_in_brackets(block: str) -> None:
    text = f"catalogs:\n  lake:\n    tables:\n      {block}\n      last: {{}}\n"
    added = exported(Snapshot({}, {("users",): LiveTable(("users",), "s3://b/t")}))
    made = graft("lancens.yaml", text.encode(), added).decode()

    assert plain(made)["catalogs"]["lake"]["tables"]["users"] == {"location": "s3://b/t"}  # type: ignore[index]
    assert ("# why" in made) == ("# why" in text)


def test_a_key_without_a_colon_takes_a_block() -> None:
    text = "catalogs: {lake: {impl: dir, namespaces: {a, b}}}"
    added = exported(Snapshot({}, {("a", "null"): LiveTable(("a", "null"), "s3://b/t", {"k": "null"})}))
    made = graft("lancens.yaml", text.encode(), added).decode()

    assert plain(made) == merged(plain(text), {"catalogs": plain(added)["catalogs"]})  # type: ignore[index]


def test_a_comment_within_empty_brackets_is_not_lost() -> None:
    text = "catalogs:\n  lake:\n    tables: {\n      # none yet\n      }\n"
    with pytest.raises(ManifestError):
        graft("lancens.yaml", text.encode(), exported(Snapshot({}, {("a",): LiveTable(("a",), "s3://b/t")})))


def test_a_catalog_that_folds_names_has_blocks_in_capitals() -> None:
    text = "catalogs:\n  lake: {namespaces: {Sales: {tables: {Orders: {}}}}}\n  Dir: {tables: {A: {}}}\n"
    added = "catalogs: {lake: {namespaces: {sales: {tables: {new: {}}}}}, Dir: {tables: {a: {}}}}\n"
    made = graft("lancens.yaml", text.encode(), added, folding={"lake"}).decode()

    assert plain(made) == {
        "catalogs": {
            "lake": {"namespaces": {"Sales": {"tables": {"Orders": {}, "new": {}}}}},
            "Dir": {"tables": {"A": {}, "a": {}}},
        }
    }


def test_names_in_capitals_count_where_another_catalog_folds_them() -> None:
    text = "catalogs:\n  lake:\n    impl: dir\n    tables:\n      Users: {location: s3://b/one}\n  g: {impl: glue}\n"
    added = "catalogs:\n  lake:\n    tables:\n      users: {location: s3://b/two}\n"
    made = graft("lancens.yaml", text.encode(), added, folding={"g"}).decode()
    tables = plain(made)["catalogs"]["lake"]["tables"]  # type: ignore[index]
    assert tables == {"Users": {"location": "s3://b/one"}, "users": {"location": "s3://b/two"}}
