"""What a commit of ``__manifest`` writes: the rows that are new, and no more of the others than is worth it.

A version is a list of fragments, and those whose rows all stay are listed again. Small ones are written anew together
with what is new, so that there are few: those that stay are each larger than all that is written, as in a
log-structured merge tree. A catalog that grows to n tables so writes each row about log n times, and not n times.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reconciler.backends.dir.contents import ManifestRows

if TYPE_CHECKING:
    import pyarrow as pa


_SMALL = 1_024
"""Fragments of fewer rows are written anew: that costs about as much as one more file to read."""


def kept_and_loose(before: ManifestRows, after: ManifestRows) -> tuple[list[Any], pa.Table]:
    """Return the fragments of ``before`` that stay as they are, and the rows of ``after`` that are to be written.

    Args:
        before: a whole version as it was read.
        after: what was made of it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if after.read is not before.read:
        return [], after.rows
    fragments = [fragment.metadata for fragment in before.dataset.get_fragments()]
    slices, at = [], 0
    for fragment in fragments:
        slices.append((at, fragment.num_rows))
        at += fragment.num_rows
    stays = after.stays
    kept = {
        number
        for number, fragment in enumerate(fragments)
        if _is_plain(fragment) and pc.all(stays.slice(*slices[number]), min_count=0).as_py()
    }
    writing = len(after.added) + sum(pc.sum(stays.slice(*of)).as_py() or 0 for of in _others(slices, kept))
    for number in sorted(kept, key=lambda one: slices[one][1]):
        size = slices[number][1]
        if size > max(writing, _SMALL):
            break
        kept.remove(number)
        writing += size
    rest = [before.read.slice(*of).filter(stays.slice(*of)) for of in _others(slices, kept)]
    return [replace(fragments[number], id=0) for number in sorted(kept)], pa.concat_tables([*rest, after.added])


def _others(slices: Sequence[tuple[int, int]], kept: Collection[int]) -> list[tuple[int, int]]:
    return [of for number, of in enumerate(slices) if number not in kept]


def _is_plain(fragment: Any) -> bool:
    """Return whether nothing of a fragment hangs on the number that it has: it gets a new one."""
    return fragment.deletion_file is None and fragment.row_id_meta is None and not fragment.overlays
