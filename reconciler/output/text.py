"""Render a plan for a terminal or a log: by catalog, in aligned columns.

Only lancens' own text can start a line or colour it: names and values are escaped, and lines that are too long are
broken here, with an indent, not by the terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.model import display
from reconciler.model.display import count
from reconciler.output.grouping import Fold, Row, approval_line, fold_namespaces, sections
from reconciler.output.omissions import Omissions
from reconciler.output.wording import (
    SYMBOLS,
    Entry,
    ShownField,
    closing_line,
    columns,
    differences,
    headline,
    settings,
    shown_location,
    style_of,
    word_of,
)
from reconciler.planner.entries import Blocked, Change, Key
from reconciler.planner.plan import Plan

Span: TypeAlias = tuple[str, str]
"""A piece of a line and its style, empty for none."""

Line: TypeAlias = Sequence[Span]

_STYLES = {
    "heading": "bold",
    "add": "green",
    "change": "yellow",
    "remove": "red",
    "move": "blue",
    "protected": "bold cyan",
    "blocked": "bold red",
    "quiet": "dim",
}
_LONGEST_VALUE = 72
_FIELDS_NAMED = 3
_NOTES_SHOWN = 20
_NARROWEST = 40
_WIDEST_NAME = 48
_NARROWEST_HEADLINE = 24
_MARGIN = "  "
_BEFORE_NAME = "    "
_INDENT = "        "
_DEEPER = 4
_GAP = "  "


def render_text(plan: Plan, *, color: bool, full: bool, width: int | None, removed: Mapping[Key, str]) -> str:
    """Return the plan as text; a width below 40 cells counts as 40."""
    view = _View(plan, full, width, removed)
    paint = _painter() if color else _plain
    return "".join(f"{paint(line)}\n" for line in view.lines())


def _plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def _painter() -> Callable[[Line], str]:
    from rich.color import ColorSystem
    from rich.style import Style

    styles = {name: Style.parse(style) for name, style in _STYLES.items()}

    def paint(line: Line) -> str:
        return "".join(
            styles[style].render(text, color_system=ColorSystem.STANDARD) if style and text.strip() else text
            for text, style in line
        ).rstrip()

    return paint


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of the line for an entry or a fold, and the detail lines below it."""

    symbol: str
    style: str
    name: str
    word: str
    headline: str
    source: str
    below: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The width of each column. ``headline`` is None if it must go below the name."""

    name: int
    word: int
    headline: int | None


class _View:
    """Lays out one plan as lines."""

    def __init__(self, plan: Plan, full: bool, width: int | None, removed: Mapping[Key, str]) -> None:
        self._plan, self._full, self._removed = plan, full, removed
        self._width = None if width is None else max(width, _NARROWEST)
        self._omissions = Omissions(limits=not full)

    def lines(self) -> Iterator[Line]:
        shown_sections = sections(self._plan, self._omissions, full=self._full)
        groups = [(section, [*self._rows(section.rows)]) for section in shown_sections]
        widths = self._columns([row for _, rows in groups for row in rows])
        for section, rows in groups:
            impl = f" ({display.name(section.summary.impl)})" if section.summary else ""
            title = "In several catalogs" if section.name is None else display.name(section.name) + impl
            yield from self._paragraph(title, "", "heading")
            for row in rows:
                yield from self._row_lines(row, widths)
                yield from row.below
            if section.waiting:
                yield from self._paragraph(section.waiting, _MARGIN)
            yield []
        covered = approval_line(shown_sections)
        if covered:
            yield from self._paragraph(covered, "", "remove")
            yield []
        yield from self._notes()
        if self._omissions:
            yield from self._paragraph("Some lines stand for many or are cut; --full shows every one.", "", "quiet")
            yield []
        yield from self._paragraph(closing_line(self._plan), "", "heading")

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _rows(self, rows: Sequence[Row]) -> Iterator[_Row]:
        for item in rows if self._full else fold_namespaces(rows):
            if isinstance(item, Fold):
                yield self._row(item.first, item.title, item.why, item.source, self._fold_details(item))
            else:
                source = f"{display.printable(item.source.file)}:{item.source.line}" if item.source else ""
                yield self._row(item, display.address(*item.identifier), headline(item), source, self._below(item))

    def _row(self, entry: Entry, name: str, why: str, source: str, below: Iterable[Line]) -> _Row:
        return _Row(entry.symbol, style_of(entry), name, word_of(entry), why, source, [*below])

    def _below(self, entry: Entry) -> Iterator[Line]:
        if isinstance(entry, Change):
            yield from self._details(entry)
        elif isinstance(entry, Blocked):
            yield from self._paragraph(display.printable(entry.reason), _INDENT)
            yield from self._paragraph(display.printable(entry.remedy), f"{_INDENT}-> ", "change")
        else:
            yield from self._quiet(display.printable(entry.reason))

    def _fold_details(self, fold: Fold) -> Iterator[Line]:
        if isinstance(fold.common, Blocked):
            yield from self._below(fold.common)
        elif fold.common is not None:
            yield from self._difference_lines(differences(fold.common))
            yield from self._column_lines(columns(fold.common) if fold.first.symbol == "~" else ())
        yield from self._quiet(fold.names(self._omissions))
        if fold.common is not None:
            return
        contents = [(differences(entry), columns(entry)) for entry in fold.entries]
        if len(set(contents)) == 1:
            yield from self._difference_lines(contents[0][0])
            yield from self._column_lines(contents[0][1])
            return
        fields = Counter(difference.label for same, _ in contents for difference in same)
        fields.update(f"column {column.label}" for _, added in contents for column in added)
        most = ", ".join(f"{display.key(label)} in {n:,}" for label, n in fields.most_common(_FIELDS_NAMED))
        more = len(fields) - _FIELDS_NAMED
        yield from self._quiet(f"differ: {most}" + (f" and {count(more, 'other field')}" if more > 0 else ""))

    def _columns(self, rows: Sequence[_Row]) -> _Columns:
        name = min(max((display.width_of(row.name) for row in rows), default=0), _WIDEST_NAME)
        word = max((len(row.word) for row in rows), default=0)
        headline = max((display.width_of(row.headline) for row in rows), default=0)
        if self._width is None:
            return _Columns(name, word, headline)
        source = max((display.width_of(row.source) for row in rows), default=0)
        left = self._width - len(_BEFORE_NAME) - name - len(_GAP) - word - len(_GAP)
        room = left - (source + len(_GAP) if source else 0)
        if room >= min(headline, _NARROWEST_HEADLINE):
            return _Columns(name, word, min(headline, room))
        name = min(name, self._width - len(_BEFORE_NAME) - len(_GAP) - word)
        return _Columns(name, word, None)

    def _row_lines(self, row: _Row, widths: _Columns) -> Iterator[Line]:
        head: Span = (f"{_MARGIN}{row.symbol} ", row.style)
        name, gap = row.name, " " * (widths.word - len(row.word)) + _GAP
        if display.width_of(name) > widths.name:
            for part in display.wrap(name, self._room(len(_BEFORE_NAME))):
                yield [head, (part, "")]
                head = (_BEFORE_NAME, "")
            name = ""
        padding = " " * (widths.name - display.width_of(name))
        start: list[Span] = [head, (name + padding + _GAP, ""), (row.word, row.style)]
        below = " " * (len(_BEFORE_NAME) + widths.name + len(_GAP) + widths.word + len(_GAP))
        if widths.headline is None:
            fits = len(below) + display.width_of(row.source) <= self._room(0)
            yield [*start, (gap + row.source if fits else "", "quiet")]
            yield from self._paragraph(row.headline, _INDENT)
            if not fits:
                yield from self._quiet(row.source)
            return
        first, *further = display.wrap(row.headline, max(widths.headline, 1))
        tail = " " * (widths.headline - display.width_of(first)) + _GAP + row.source
        yield [*start, (gap + first, ""), (tail if row.source else "", "quiet")]
        yield from ([(below + part, "")] for part in further)

    # ---- below a row ---------------------------------------------------------------------------------------------

    def _details(self, change: Change) -> Iterator[Line]:
        yield from self._quiet(self._removed.get(change.key, ""))
        located = shown_location(change)
        if located:
            words, location = located
            yield from self._quiet(f"{words} {self._value(location)}")
        yield from self._difference_lines(differences(change))
        if self._full:
            yield from self._difference_lines(settings(change))
        if self._full or change.before is not None:
            yield from self._column_lines(columns(change))

    def _difference_lines(self, differences: Iterable[ShownField]) -> Iterator[Line]:
        for difference in differences:
            label = self._value(difference.label, display.key)
            if difference.before is None or difference.after is None:
                added = difference.before is None
                value = self._value((difference.after if added else difference.before) or "")
                yield from self._signed("+" if added else "-", f"{label}: {value}")
                continue
            before, after = self._value(difference.before), self._value(difference.after)
            remark = " (data stays at both)" if difference.is_location else ""
            if display.width_of(f"{label}: {before} -> {after}{remark}") <= self._room(len(_INDENT)):
                start: Span = (f"{_INDENT}{label}: ", "")
                yield [start, (before, "remove"), (" -> ", ""), (after, "add"), (remark, "quiet")]
                continue
            yield from self._paragraph(f"{label}:{remark}", _INDENT)
            yield from self._paragraph(before, f"{_INDENT}     ", "remove")
            yield from self._paragraph(after, f"{_INDENT}  -> ", "add")

    def _column_lines(self, columns: Iterable[ShownField]) -> Iterator[Line]:
        for column in columns:
            label = self._value(column.label, display.key)
            text = " -> ".join(map(self._value, column.values))
            yield from self._signed(column.symbol, f"column {label}: {text}")

    def _signed(self, symbol: str, text: str) -> Iterator[Line]:
        yield from self._paragraph(text, f"{_INDENT}{symbol} ", SYMBOLS[symbol])

    def _quiet(self, text: str) -> Iterator[Line]:
        if text:
            yield from self._paragraph(text, _INDENT, "quiet")

    def _paragraph(self, text: str, lead: str, style: str = "") -> Iterator[Line]:
        """Yield ``text`` behind ``lead``; further lines are indented more."""
        further = " " * (len(lead) + _DEEPER)
        for part in display.wrap(text, self._room(len(further))):
            yield [(lead, style), (part, style)]
            lead = further

    def _notes(self) -> Iterator[Line]:
        notes = self._plan.notes
        if not notes:
            return
        yield [("Notes", "heading")]
        listed = self._omissions.first(notes, _NOTES_SHOWN)
        for note in listed:
            yield from self._paragraph(f"{display.name(note.catalog)}: {display.printable(note.message)}", _MARGIN)
        if len(listed) < len(notes):
            unlisted = count(len(notes) - len(listed), "more note")
            yield [(f"{_MARGIN}and {unlisted}", "quiet")]
        yield []

    # ---- room ----------------------------------------------------------------------------------------------------

    def _value(self, text: str, escape: Callable[[str], str] = display.value) -> str:
        return self._omissions.short(escape(text), _LONGEST_VALUE)

    def _room(self, taken: int) -> int:
        return 1_000_000_000 if self._width is None else max(self._width - taken, 8)
