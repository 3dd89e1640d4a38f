"""Find contradictions in the manifest of a version; only datasets that old writers miscounted have files read.

pylance's ``validate()`` stops at the first of them, and reads the footers of all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reconciler.storage.needed import listed_indices
from reconciler.storage.pylance import or_none
from reconciler.storage.reading import formats_of, shared_fields


@dataclass(frozen=True, slots=True)
class Defects:
    """What the manifest of a version contradicts itself in.

    Args:
        shared_fields: numbers of the fragments in which two fields share an id.
        shared_fragments: numbers that several fragments have.
        is_unsorted: whether the fragments are not in the order of their numbers.
        has_mixed_formats: whether it names data files of format 0.1 and of later ones.
        miscounted: numbers of the fragments that record another number of rows than their files hold.
        overlapping_indices: names of the indices of which two segments cover the same fragment.
    """

    shared_fields: tuple[int, ...] = ()
    shared_fragments: tuple[int, ...] = ()
    is_unsorted: bool = False
    has_mixed_formats: bool = False
    miscounted: tuple[int, ...] = ()
    overlapping_indices: tuple[str, ...] = ()


NO_DEFECTS = Defects()


def defects_of(dataset: Any) -> Defects:
    """Return the defects of a ``lance.LanceDataset``."""
    fragments = dataset.get_fragments()
    numbers = [fragment.fragment_id for fragment in fragments]
    return Defects(
        shared_fields=tuple(shared_fields(fragments)),
        shared_fragments=_repeated(numbers),
        is_unsorted=any(before > after for before, after in pairwise(numbers)),
        has_mixed_formats=len(formats_of(fragments)) > 1,
        miscounted=tuple(fragment.fragment_id for fragment in fragments if _is_miscounted(fragment)),
        overlapping_indices=tuple(
            index.name
            for index in listed_indices(dataset)
            if _repeated(number for segment in index.segments for number in segment.fragment_ids)
        ),
    )


def _repeated(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(number for number, times in Counter(numbers).items() if times > 1))


def _is_miscounted(fragment: Any) -> bool:
    """Return whether a fragment records another number of rows than pylance counts.

    pylance counts in the files where no writer is named, as 0.7 and 0.8 left them.
    """
    recorded = fragment.metadata.physical_rows
    return recorded is not None and or_none(lambda: fragment.physical_rows) not in (None, recorded)
