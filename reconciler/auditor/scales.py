"""The classes of the distributions of sizes and ages, the same in every run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Scale:
    """Classes of a number from zero on, each from its edge to the next edge.

    Args:
        unit: ``bytes`` or ``days``.
        classes: the edge of each class, ascending from 0, and its label.
    """

    unit: str
    classes: Sequence[tuple[int, str]]

    def bin_of(self, value: float) -> int:
        """Return the position of the class of ``value``; a negative value counts as zero."""
        return bisect_right(self.classes, max(value, 0), key=lambda edge: edge[0]) - 1


SIZES = Scale(
    "bytes",
    (
        (0, "empty"),
        (1, "under 1 MiB"),
        (_MIB, "1 to 10 MiB"),
        (10 * _MIB, "10 to 100 MiB"),
        (100 * _MIB, "100 MiB to 1 GiB"),
        (_GIB, "1 to 10 GiB"),
        (10 * _GIB, "10 to 100 GiB"),
        (100 * _GIB, "100 GiB to 1 TiB"),
        (1024 * _GIB, "1 TiB and more"),
    ),
)
"""The sizes of tables: the bytes of the data files of the latest version."""

AGES = Scale(
    "days",
    (
        (0, "under a day"),
        (1, "1 to 7 days"),
        (7, "7 to 30 days"),
        (30, "30 to 90 days"),
        (90, "90 to 180 days"),
        (180, "180 to 365 days"),
        (365, "1 to 2 years"),
        (730, "2 years and more"),
    ),
)
"""The ages of tables: the days since the last commit."""


def age_in_days(committed: datetime, now: datetime) -> float:
    """Return the days from ``committed`` to ``now``; both have a time zone."""
    return (now - committed) / timedelta(days=1)
