"""Where the marks of a plot are: what the page draws in HTML and SVG, which its style colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

_MOST_DOTS = 60


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a line: how much it was, what is said of it, and whether it can be compared with the others."""

    at: datetime
    amount: int
    says: str
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """What is followed over time, and by what its line is styled."""

    label: str
    style: str
    points: Sequence[Point]

    @property
    def crowded(self) -> bool:
        """Whether it has too many points to show each of them."""
        return len(self.points) > _MOST_DOTS


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over time on one scale that begins at nothing.

    Args:
        title: what they are about.
        lines: the lines; each has a point or more.
        written: how an amount is written at the scale.
        unit_of: the unit in which the scale has round numbers, for the greatest amount.
    """

    title: str
    lines: Sequence[Line]
    written: Callable[[int], str]
    unit_of: Callable[[int], int] = lambda _: 1

    @property
    def top(self) -> int:
        """The amount at the upper end of the scale."""
        most = max(point.amount for line in self.lines for point in line.points)
        return _round_up(most, self.unit_of(most))

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The first moment and the last."""
        moments = [point.at for line in self.lines for point in line.points]
        return min(moments), max(moments)

    @property
    def says(self) -> str:
        """What the lines come to, for who cannot see them."""
        return "; ".join(f"{line.label}: {self.written(line.points[-1].amount)} now" for line in self.lines)

    def places(self, line: Line) -> list[str]:
        """Return where the points of a line are, in a field of 1000 by 100."""
        (first, last), top = self.span, self.top

        def place(point: Point) -> str:
            along = (point.at - first) / (last - first) if last > first else 0.5
            return f"{1000 * along:.1f},{100 - 100 * point.amount / top:.2f}"

        return [place(point) for point in line.points]


def _round_up(amount: int, unit: int) -> int:
    """Return the next amount that is easy to read off a scale, and to halve, in whole ``unit``s."""
    while True:
        for factor in (2, 4, 6, 8, 10):
            if unit * factor >= amount:
                return unit * factor
        unit *= 10
