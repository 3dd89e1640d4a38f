"""Forecast what a dataset will need once the jobs that it needs now are done.

pylance merges neighbouring fragments that the same segments of indices cover. An index brought up to date makes more
fragments alike, a compaction puts new ones next to others, and takes what it rewrites out of some indices.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from reconciler.model.maintenance import LaterNeed, LiveIndex, Maintain, WantedCompaction, total_bytes
from reconciler.storage.reading import described_indices

_MIN_DELETED_SHARE = 0.1
"""A fragment with a larger share of deleted rows is rewritten even on its own, as in pylance."""
_MOST_ROUNDS = 10
_SMALL_SHARE = 64
"""How many small fragments have the target bytes."""
_OUTWEIGHING = 1.25
"""How much larger than its neighbours together a fragment is that is not merged with them; a fragment that the
neighbours become may be a little larger than they are."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The properties of a fragment by which pylance plans a compaction.

    ``segments`` are the index names and segment ids that cover it; ``size`` None is unknown.
    """

    rows: int
    deleted: int
    size: int | None
    segments: frozenset[tuple[str, str]]

    @property
    def live_rows(self) -> int:
        """The rows that are not deleted."""
        return self.rows - self.deleted

    @property
    def is_rewritten_alone(self) -> bool:
        """Whether pylance rewrites it without neighbours."""
        return self.deleted > _MIN_DELETED_SHARE * self.rows

    def is_left(self, compaction: WantedCompaction) -> bool:
        """Return whether this compaction never rewrites it."""
        is_full = self.rows >= compaction.target_rows or 2 * (self.size or 0) > compaction.target_bytes
        return is_full and not self.is_rewritten_alone

    def is_small(self, compaction: WantedCompaction) -> bool:
        """Return whether it has so few bytes that it costs little to merge it with smaller ones."""
        return _SMALL_SHARE * (self.size or 0) <= compaction.target_bytes

    def has(self, name: str) -> bool:
        """Return whether an index covers it."""
        return any(name == other for other, _ in self.segments)


def left_alone(fragments: Iterable[Fragment], compaction: WantedCompaction) -> list[bool]:
    """Return for each fragment whether it must be kept from ``compaction``, for which pylance counts rows alone."""
    return [
        not is_merged and not fragment.is_small(compaction)
        for group, is_merged in _task_groups(fragments, compaction)
        for fragment in group
    ]


def fragments_of(dataset: Any) -> list[Fragment]:
    """Return the fragments of a dataset, in order."""
    covering: dict[int, set[tuple[str, str]]] = {}
    for index in described_indices(dataset):
        for segment in index.segments:
            for number in segment.fragment_ids:
                covering.setdefault(number, set()).add((index.name, segment.uuid))
    return [
        Fragment(
            fragment.physical_rows,
            fragment.num_deletions,
            total_bytes(file.file_size_bytes for file in fragment.data_files()),
            frozenset(covering.get(fragment.fragment_id, ())),
        )
        for fragment in dataset.get_fragments()
    ]


def later_needs(fragments: Sequence[Fragment], maintain: Maintain, indices: Sequence[LiveIndex]) -> Iterator[LaterNeed]:
    """Simulate rounds of a compaction and index updates; yield the need after each, until there is no more."""
    updated = [index for index in indices if not index.may_wait and not index.is_old]
    unmapped = {index.name for index in indices if not index.is_remapped}
    if maintain.compact is None:
        return
    need = _need(fragments, maintain.compact, maintain, updated)
    for _ in range(_MOST_ROUNDS):
        if need is None:
            return
        if need.mergeable:
            fragments = _after_compaction(fragments, maintain.compact, unmapped)
        fragments = [_after_index_update(fragment, need.unindexed) for fragment in fragments]
        need = _need(fragments, maintain.compact, maintain, updated)
        if need is not None:
            yield need


def _need(
    fragments: Sequence[Fragment], compact: WantedCompaction, maintain: Maintain, indices: Iterable[LiveIndex]
) -> LaterNeed | None:
    """Return what the fragments need now; None if nothing."""
    merged = [fragment for group, is_merged in _task_groups(fragments, compact) if is_merged for fragment in group]
    if not maintain.needs_compaction(len(merged)):
        merged = []
    rows = sum(fragment.live_rows for fragment in fragments)
    live = [
        replace(index, rows=sum(fragment.live_rows for fragment in fragments if fragment.has(index.name)))
        for index in indices
    ]
    stale = {
        index.name: rows - index.rows for index in maintain.indices_to_update(rows, live, is_compacted=bool(merged))
    }
    if not merged and not stale:
        return None
    return LaterNeed(len(fragments), len(merged), total_bytes(fragment.size for fragment in merged), stale)


def _task_groups(fragments: Iterable[Fragment], compaction: WantedCompaction) -> Iterator[tuple[list[Fragment], bool]]:
    """Yield the fragments in the groups that pylance plans together, each with whether it merges the group."""
    for (is_left, _), group in groupby(fragments, lambda fragment: (fragment.is_left(compaction), fragment.segments)):
        members = [*group]
        yield from [(members, False)] if is_left else _merged_groups(members, compaction)


def _merged_groups(members: list[Fragment], compaction: WantedCompaction) -> Iterator[tuple[list[Fragment], bool]]:
    """Split neighbours at each fragment that outweighs all others; yield the parts with whether each is merged.

    If each new fragment were merged with all old ones, a table would be rewritten again and again.
    """
    if not members:
        return
    sizes = [member.size or 0 for member in members]
    at = sizes.index(max(sizes))
    largest = members[at]
    outweighs = sizes[at] > _OUTWEIGHING * (sum(sizes) - sizes[at]) and not largest.is_small(compaction)
    if len(members) > 1 and outweighs and not largest.is_rewritten_alone:
        yield from _merged_groups(members[:at], compaction)
        yield [largest], False
        yield from _merged_groups(members[at + 1 :], compaction)
    else:
        yield members, len(members) > 1 or members[0].is_rewritten_alone


def _after_compaction(
    fragments: Sequence[Fragment], compaction: WantedCompaction, unmapped: Container[str]
) -> list[Fragment]:
    """Return the fragments after a compaction; the merged ones are last, as their numbers are the highest.

    ``unmapped`` are the indices that lose the merged fragments.
    """
    left: list[Fragment] = []
    merged: list[Fragment] = []
    for group, is_merged in _task_groups(fragments, compaction):
        if not is_merged:
            left += group
            continue
        segments = frozenset(segment for segment in group[0].segments if segment[0] not in unmapped)
        for task in _tasks(group, compaction.target_rows):
            rows, size = sum(fragment.live_rows for fragment in task), total_bytes(fragment.size for fragment in task)
            most_rows = max(1, compaction.target_bytes * rows // size) if size else compaction.target_rows
            most_rows = min(most_rows, compaction.target_rows)
            full, remainder = divmod(rows, most_rows)
            parts = [most_rows] * full + ([remainder] if remainder else [])
            merged += (Fragment(part, 0, None if size is None else size * part // rows, segments) for part in parts)
    return [*left, *merged]


def _tasks(group: Iterable[Fragment], most_rows: int) -> Iterator[list[Fragment]]:
    """Split a group as pylance does, into tasks of at least ``most_rows``."""
    members = [*group]
    task, rows, rest = list[Fragment](), 0, sum(member.live_rows for member in members)
    for member in members:
        task.append(member)
        rows, rest = rows + member.live_rows, rest - member.live_rows
        if min(rows, rest) >= most_rows:
            yield task
            task, rows = [], 0
    yield task


def _after_index_update(fragment: Fragment, names: Collection[str]) -> Fragment:
    """Return the fragment once these indices are up to date.

    It depends on an index and its data how many of its segments pylance then merges: all are the most.
    """
    segments = {(name, segment) for name, segment in fragment.segments if name not in names}
    return replace(fragment, segments=frozenset(segments | {(name, "") for name in names}))
