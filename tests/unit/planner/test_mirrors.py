"""What a mirror asks for, and what it says where the catalog cannot have it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.desired import DesiredMirror, DesiredMove
from reconciler.model.reasons import ReasonCode
from reconciler.planner import words
from reconciler.planner.mirrors import MirroredTables, PlannedTable, TablesAfterPlan, mirrored
from tests.unit.planner.building import at, desired, identifier, table

PLAIN = NameRule(re.compile("[A-Za-z0-9_]+"), "a name has letters, digits and `_` only")


def asked(*paths: str, into: str = "", location: str | None = "/data/t.lance", **able: Any) -> MirroredTables:
    """Mirror the tables at ``paths`` into a catalog called lake."""
    mirror = DesiredMirror("source", at(), into=identifier(into) if into else (), names={("old",): ("new",)})
    remains = {identifier(path): PlannedTable(identifier(path), location, {"long": "x" * 9}) for path in paths}
    return mirrored(desired(table("own")), mirror, Capabilities(**able), TablesAfterPlan(remains))


@pytest.mark.parametrize(
    ("path", "into", "able", "remedy"),
    [
        ("a/bad name", "", {"name_rule": PLAIN}, 'write `names: {"a/bad name": a/bad_name}` in the `mirror` of lake'),
        ("a b/c d", "x", {"name_rule": PLAIN}, 'write `names: {"a b": a_b}` in the `mirror` of lake'),
        ("Größe", "", {"name_rule": PLAIN}, 'write `names: {"Größe": Groe}` in the `mirror` of lake'),
        ("日本", "", {"name_rule": PLAIN}, 'write `names: {"日本": new_name}` in the `mirror` of lake'),
        ("old/a b", "", {"name_rule": PLAIN}, 'write `names: {"old/a b": new/a_b}` in the `mirror` of lake'),
        ("a/b/c", "main", {"table_depths": (2, 2)}, "write `names: {a/b: a_b}` in the `mirror` of lake"),
        ("a/b/c", "main/m", {"table_depths": (2, 2)}, "write `names: {a/b/c: a_b_c}` in the `mirror` of lake"),
        ("old/b/c", "m", {"table_depths": (2, 2)}, "write `names: {old/b/c: new_b/c}` in the `mirror` of lake"),
        ("a", "", {"table_depths": (1, 1)}, "write more names into `into` in the `mirror` of lake"),
        (
            "a/b",
            "",
            {"chooses_locations": True},
            "leave it out with `namespaces: {a: {tables: {b: {absent: true}}}}` in lake",
        ),
        (
            "t",
            "",
            {"longest_property": 5},
            "shorten it in source/t, or leave it out with `tables: {t: {absent: true}}` in lake",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(path: str, into: str, able: dict[str, Any], remedy: str) -> None:
    found = asked(path, into=into, **able)
    [refused] = [block.refused for block in found.desired.tables.values() if block.refused is not None]
    assert words.remedy(refused.code, refused.params) == remedy
    assert list(found.desired.namespaces) == []


def test_names_that_the_catalog_folds_come_to_one() -> None:
    found = asked("Users", "users", "Own", folds_case=True)
    assert {name: block.refused is not None for name, block in found.desired.tables.items()} == {
        ("own",): False,
        ("users",): True,
    }
    assert found.origins_of(("users",)) == (("Users",), ("users",))


@pytest.mark.parametrize(
    ("path", "into", "origin", "is_table", "write"),
    [
        ("a/t", "", "a/t", True, "names: {a/t: a/t_2}"),
        ("a/b/t", "m", "m/a", False, "names: {a: a_2}"),
        ("a/t", "m", "m", False, "into: [m_2]"),
    ],
)
def test_a_name_that_a_move_takes_away_is_not_given_to_another(
    path: str, into: str, origin: str, is_table: bool, write: str
) -> None:
    move = DesiredMove(identifier(origin), ("else",), at(7), is_table=is_table)
    mirror = DesiredMirror("source", at(), into=identifier(into) if into else ())
    remains = TablesAfterPlan({identifier(path): PlannedTable(identifier(path), "/data/t.lance")})
    found = mirrored(replace(desired(), moves=(move,)), mirror, Capabilities(), remains)
    [block] = found.desired.tables.values()
    assert block.refused is not None
    assert (block.refused.code, block.refused.params["line"]) == (ReasonCode.NAME_MOVED_AWAY, str(at(7)))
    assert block.refused.params["write"] == write


def test_a_location_that_only_apply_tells_is_not_guessed() -> None:
    [refused] = [block.refused for block in asked("t", location=None).desired.tables.values() if block.refused]
    assert (refused.code, refused.params["name"]) == (ReasonCode.SOURCE_NOT_READY, "source/t")


def test_a_location_with_a_password_goes_nowhere_else() -> None:
    found = asked("t", location="https://me:secret@host/t.lance").desired.tables["t",]
    assert found.refused is not None
    assert "secret" not in str(found.refused)


def test_without_marks_no_properties_are_taken_over() -> None:
    assert asked("t", table_markers=False, longest_property=5).desired.tables["t",].properties == {}
