"""What the jobs of `lancens maintain` make necessary: compactions after indices, and indices after compactions."""

from __future__ import annotations

import pytest

from reconciler.model.maintenance import LaterNeed, LiveIndex, Maintain, WantedCompaction
from reconciler.storage.forecast import Fragment, later_needs

WANTED = Maintain(WantedCompaction(5, 1000), max_unindexed_rows=50)


def fragments(*rows: int, covered: dict[str, int], deleted: int = 0) -> list[Fragment]:
    """Return fragments, of which each index covers so many of the first; the first has deleted rows."""
    return [
        Fragment(size, 0 if at else deleted, size, frozenset((name, "a") for name in covered if at < covered[name]))
        for at, size in enumerate(rows)
    ]


def index(name: str, rows: int, kind: str = "BTree") -> LiveIndex:
    return LiveIndex(name, kind, (name,), rows, 100)


def test_an_updated_index_splits_no_fragments_any_more() -> None:
    """One index lacks 52 rows and the other 36, so that pylance merges five fragments, and seven after the update."""
    found = fragments(777, 16, 10, 10, 10, 3, 3, covered={"id": 1, "v": 2}, deleted=18)
    indices = [index("id", 759), index("v", 775)]
    assert [*later_needs(found, WANTED, indices)] == [LaterNeed(7, 7, 829, {})]
    assert [*later_needs(found, Maintain(WANTED.compact), indices)] == []
    assert [*later_needs(found, Maintain(max_unindexed_rows=50), indices)] == []


@pytest.mark.parametrize("kind", ["ZoneMap", "BloomFilter"])
def test_an_index_that_compaction_takes_rows_out_of_is_updated_after_the_last_one(kind: str) -> None:
    found = fragments(*[100] * 12, covered={"id": 12, "v": 4})
    indices = [index("id", 1200, kind), index("v", 400)]
    assert [*later_needs(found, WANTED, indices)] == [LaterNeed(2, 0, 0, {"id": 1200})]
    assert [*later_needs(found, Maintain(WANTED.compact), indices)] == []


def test_merged_fragments_come_last_and_meet_others_there() -> None:
    wanted = Maintain(WantedCompaction(1, 1000))
    found = fragments(10, 10, 1000, 10, covered={})
    assert [*later_needs(found, wanted, [])] == [LaterNeed(3, 2, 30, {})]


def test_a_fragment_of_many_deleted_rows_is_merged_alone_and_once() -> None:
    wanted = Maintain(WantedCompaction(0, 1000))
    assert [*later_needs(fragments(4000, covered={}, deleted=500), wanted, [])] == []
    assert [*later_needs(fragments(4000, covered={}, deleted=4000), wanted, [])] == []


def test_an_index_of_vectors_without_rows_is_not_counted_on() -> None:
    empty = LiveIndex("v", "IVF_PQ", ("v",), 0, 100, "l2")
    assert [*later_needs(fragments(100, 100, covered={}), WANTED, [empty])] == []
