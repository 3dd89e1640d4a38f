"""Plots in HTML and SVG that need no script and no style of their own: the page's style colours them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from reconciler.pipeline.report import figures

__all__ = ["Bar", "Line", "Point", "bars", "columns", "lines"]

Parts = Sequence[tuple[str, int]]
"""The parts of a stacked bar: by what each is styled, and how much it is."""

_MOST_DOTS = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label as markup, what it stacks, and where it leads."""

    label: str
    parts: Parts
    says: str
    link: str | None = None

    @property
    def total(self) -> int:
        """What all parts come to."""
        return sum(amount for _, amount in self.parts)


def bars(found: Sequence[Bar], most: int) -> Iterator[str]:
    """Yield horizontal bars, each under its label; a bar of ``most`` is as wide as there is room."""
    for bar in found:
        opening, closing = (f'<a href="{escape(bar.link)}">', "</a>") if bar.link else ("<div>", "</div>")
        yield f'<li>{opening}<span class="label">{bar.label}</span> <b>{figures.number(bar.total)}</b>'
        yield f'<svg class="bar" role="img" aria-label="{escape(bar.says)}"><title>{escape(bar.says)}</title>'
        at = 0.0
        for style, amount in bar.parts:
            if amount:
                width = 100 * amount / max(most, 1)
                yield f'<rect class="{style}" x="{at:.2f}%" width="{width:.2f}%" height="100%"/>'
                at += width
        yield f"</svg>{closing}</li>"


def columns(found: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield a column for each label and number, side by side, the tallest as high as there is room."""
    most = max((amount for _, amount in found), default=0) or 1
    for label, amount in found:
        height = 100 * amount / most
        yield f'<li><b>{figures.number(amount)}</b><svg class="column" aria-hidden="true">'
        yield f'<rect y="{100 - height:.2f}%" width="100%" height="{height:.2f}%" rx="3"/></svg>'
        yield f'<span class="label">{escape(label)}</span></li>'


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


def lines(found: Sequence[Line], written: Callable[[int], str], unit_of: Callable[[int], int]) -> Iterator[str]:
    """Yield a plot of lines over time on one scale that begins at nothing.

    Args:
        found: the lines; each has a point or more.
        written: how an amount is written at the scale.
        unit_of: the unit in which the scale has round numbers, for the greatest amount.
    """
    moments = [point.at for line in found for point in line.points]
    first, last = min(moments), max(moments)
    most = max(point.amount for line in found for point in line.points)
    top = _round_up(most, unit_of(most))

    def place(point: Point) -> str:
        along = (point.at - first) / (last - first) if last > first else 0.5
        return f"{1000 * along:.1f},{100 - 100 * point.amount / top:.2f}"

    yield '<div class="plot"><ol class="scale" aria-hidden="true">'
    yield f"<li>{written(top)}</li><li>{written(top // 2)}</li><li>{written(0)}</li></ol>"
    yield '<svg class="lines" viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="'
    yield escape("; ".join(f"{line.label}: {written(line.points[-1].amount)} now" for line in found)) + '">'
    yield '<path class="grid" d="M0,0H1000M0,50H1000M0,100H1000"/>'
    for line in found:
        places = [place(point) for point in line.points]
        crowded = " crowded" if len(places) > _MOST_DOTS else ""
        yield f'<g class="{line.style}{crowded}"><polyline points="{" ".join(places)}"/>'
        for point, where in zip(line.points, places, strict=True):
            style = "dot" if point.firm else "dot loose"
            # A line of no length has round ends that keep their shape, however the plot is stretched.
            yield f'<path class="{style}" d="M{where}h0"><title>{escape(point.says)}</title></path>'
            if not point.firm:
                yield f'<path class="hole" d="M{where}h0"/>'
        yield "</g>"
    yield f'</svg><p class="dates"><span>{first:%Y-%m-%d}</span> <span>{last:%Y-%m-%d}</span></p></div>'


def _round_up(amount: int, unit: int) -> int:
    """Return the next amount that is easy to read off a scale, and to halve, in whole ``unit``s."""
    while True:
        for factor in (2, 4, 6, 8, 10):
            if unit * factor >= amount:
                return unit * factor
        unit *= 10
