"""Shared and nested locations, against comparing every pair: that is done on each engine."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from reconciler.auditor.entries import MOST_NAMED, directory_of, with_relations
from reconciler.model import locations
from reconciler.pipeline.frames import frame_of
from tests.soak import count, seeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Related = dict[str, tuple[list[str], list[str], list[str]]]


def related(engine: SparkSession | None, tables: list[tuple[str, str | None]]) -> Related:
    """Return, by address, who shares the location, its schemes, and who is around it."""
    rows = [
        (address, locations.scheme(location), place, directory_of(place))
        if location and (place := locations.normalise(location))
        else (address, None, None, None)
        for address, location in tables
    ]
    schema = pa.schema([(name, pa.string()) for name in ("address", "scheme", "place", "directory")])
    found = with_relations(
        frame_of(engine, pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)),
        30_000,
    )
    return {row["address"]: (row["sharing"] or [], row["schemes"] or [], row["inside"] or []) for row in found.rows()}


def by_pairs(tables: list[tuple[str, str | None]]) -> Related:
    """Return the same by looking at every pair."""
    found: Related = {}
    for address, location in tables:
        others = [(other, place) for other, place in tables if place and location]
        same = [(other, place) for other, place in others if locations.same(place, location)]
        around = [other for other, place in others if locations.is_under(place, location or "")]
        around = [other for other in around if other not in dict(same)]
        shared = len(same) > 1
        named = sorted(other for other, _ in same)
        of = [one.partition("/")[0] for one in named]
        found[address] = (
            [one for at, one in enumerate(named) if of[:at].count(of[at]) <= MOST_NAMED] if shared else [],
            sorted({locations.scheme(place) for _, place in same}) if shared else [],
            sorted(around)[:MOST_NAMED],
        )
    return found


def test_a_prefix_of_a_name_is_not_a_directory_above() -> None:
    tables: list[tuple[str, str | None]] = [
        ("a", "s3://b/t"),
        ("b", "s3://b/t2"),
        ("c", "s3://b/t/x"),
        ("d", "s3://bt"),
    ]
    assert {address: inside for address, (_, _, inside) in related(None, tables).items() if inside} == {"c": ["a"]}


def test_everything_is_inside_the_root_of_the_machine_and_nothing_is_inside_itself() -> None:
    tables: list[tuple[str, str | None]] = [("root", "/"), ("a", "/a"), ("deep", "file:///a//b/c/"), ("none", None)]
    assert {address: inside for address, (_, _, inside) in related(None, tables).items()} == {
        "root": [],
        "a": ["root"],
        "deep": ["a", "root"],
        "none": [],
    }


def test_of_many_at_one_place_a_few_are_named() -> None:
    tables: list[tuple[str, str | None]] = [(f"a/t{number}", "/a") for number in range(9)]
    sharing, schemes, _ = related(None, [*tables, ("z/t", "/a"), ("z/inner", "/a/b")])["a/t8"]
    assert (sharing, schemes) == ([*(f"a/t{number}" for number in range(MOST_NAMED + 1)), "z/t"], ["file"])


@pytest.mark.soak
def test_grouping_finds_what_comparing_every_pair_finds(engine: SparkSession | None) -> None:
    random = seeded("relations")
    for _ in range(count(2, 20)):
        tables: list[tuple[str, str | None]] = []
        for number in range(150):
            start = random.choice(("s3://b", "s3a://b", "s3n://b/", "gs://b", "/b", "file:///b", "file:/b/", "", "/"))
            path = PurePosixPath(*random.choices(("a", "ab", "x y", "z"), k=random.randrange(5)))
            location = f"{start}/{path}" if path.parts else start
            tables.append((f"{random.choice('az')}/t{number:03}", location or None))
        assert related(engine, tables) == by_pairs(tables)
