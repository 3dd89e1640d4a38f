"""Render a plan for a terminal or a log: by catalog, in aligned columns.

Only lancens' own text can start a line or colour it: names and values are escaped, and lines that are too long are
broken here, with an indent, not by the terminal. Only code to copy stays whole, if it cannot look like a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.model import display
from reconciler.model.display import count
from reconciler.output.grouping import FoldedRow, PlanRow, approval_line, fold_namespaces, in_reading_order, sections
from reconciler.output.omissions import Omissions
from reconciler.output.wording import (
    SYMBOLS,
    Entry,
    Piece,
    ShownField,
    alters_columns,
    base_location,
    catalog_counts,
    closing_line,
    column_changes,
    field_changes,
    headline,
    labelled_location,
    note_pieces,
    outcome_of,
    remedy_pieces,
    set_fields,
    style_of,
    where_line_of,
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
_COMMAND = re.compile("`(lancens [^`]+)`")
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


def render_text(
    plan: Plan,
    *,
    color: bool,
    full: bool,
    summary: bool,
    width: int | None,
    removal_notes: Mapping[Key, str],
    complete: Callable[[str], str] | None,
) -> str:
    """Return the plan as text; a width below 40 cells counts as 40."""
    writer = _TextWriter(plan, full, width, removal_notes, complete)
    paint = _painter() if color else _plain
    return "".join(f"{paint(line)}\n" for line in (writer.summary_lines() if summary else writer.lines()))


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
class _RowCells:
    """The texts of a line for an entry or a fold, and the lines of its details."""

    symbol: str
    style: str
    name: str
    word: str
    headline: str
    source: str
    details: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _ColumnWidths:
    """The width of each column. ``headline`` is None if headlines stand on lines of their own."""

    name: int
    word: int
    headline: int | None


class _TextWriter:
    """Writes one plan as lines: catalogs with their rows, approval, notes, counts."""

    def __init__(
        self,
        plan: Plan,
        full: bool,
        width: int | None,
        removal_notes: Mapping[Key, str],
        complete: Callable[[str], str] | None,
    ) -> None:
        self._plan, self._full, self._removal_notes, self._complete = plan, full, removal_notes, complete
        self._width = None if width is None else max(width, _NARROWEST)
        self._omissions = Omissions(may_cut=not full)

    def lines(self) -> Iterator[Line]:
        yield from self._paragraph(where_line_of(self._plan, self._omissions), "", "quiet")
        yield []
        plan_sections = sections(self._plan, self._omissions, full=self._full)
        groups = [(section, [*self._row_cells(section.rows)]) for section in plan_sections]
        widths = self._column_widths([row for _, rows in groups for row in rows])
        for section, rows in groups:
            impl = f" ({display.name(section.summary.impl)})" if section.summary else ""
            title = "In several catalogs" if section.name is None else display.name(section.name) + impl
            yield from self._paragraph(title + section.when, "", "heading")
            for row in rows:
                yield from self._row_lines(row, widths)
                if section.is_pending and row.details and not self._full:
                    self._omissions.rows[row.word] += 1
                else:
                    yield from row.details
            if section.waiting:
                yield from self._paragraph(section.waiting, _MARGIN)
            yield []
        approval = approval_line(plan_sections)
        if approval:
            yield from self._paragraph(approval, "", "remove")
            yield []
        yield from self._note_lines()
        if self._omissions:
            yield from self._paragraph("Some lines stand for many or are cut; --full shows every one.", "", "quiet")
            yield []
        yield from self._paragraph(closing_line(self._plan), "", "heading")

    def summary_lines(self) -> Iterator[Line]:
        """Yield the counts of each catalog, and a line for each object."""
        yield from self._paragraph(where_line_of(self._plan, self._omissions), "", "quiet")
        yield []
        counted = [*catalog_counts(self._plan)]
        longest = min(max((display.width_of(name) for name, _ in counted), default=0), _WIDEST_NAME)
        for name, numbers in counted:
            yield from self._paragraph(f"{display.padded(name, longest)}{_GAP}{numbers}", "", "heading")
        entries = in_reading_order(self._plan)
        addresses = [display.address(entry.catalog, *entry.identifier) for entry in entries]
        longest = min(max(map(display.width_of, addresses), default=0), _WIDEST_NAME)
        for entry, address in zip(entries, addresses, strict=True):
            row = f"{display.padded(address, longest)}{_GAP}{outcome_of(entry, self._plan)}"
            yield from self._paragraph(row, f"{_MARGIN}{entry.symbol} ", style_of(entry))
        if self._plan.notes:
            yield from self._paragraph(f"{count(len(self._plan.notes), 'note')} left out.", _MARGIN, "quiet")
        yield []
        yield from self._paragraph(closing_line(self._plan), "", "heading")

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _row_cells(self, rows: Sequence[PlanRow]) -> Iterator[_RowCells]:
        for row in rows if self._full else fold_namespaces(rows):
            if isinstance(row, FoldedRow):
                yield self._cells(row.first, row.title, row.reason, row.source, self._fold_details(row))
            else:
                source = f"{display.printable(row.source.file)}:{row.source.line}" if row.source else ""
                yield self._cells(
                    row, display.address(*row.identifier), headline(row), source, self._entry_details(row)
                )

    def _cells(self, entry: Entry, name: str, headline: str, source: str, details: Iterable[Line]) -> _RowCells:
        return _RowCells(entry.symbol, style_of(entry), name, word_of(entry), headline, source, [*details])

    def _entry_details(self, entry: Entry) -> Iterator[Line]:
        if isinstance(entry, Change):
            yield from self._change_details(entry)
        elif isinstance(entry, Blocked):
            yield from self._paragraph(display.printable(entry.reason), _INDENT)
            yield from self._prose_and_code(remedy_pieces(entry), f"{_INDENT}-> ", "change")
        else:
            yield from self._quiet_lines(display.printable(entry.reason))

    def _fold_details(self, fold: FoldedRow) -> Iterator[Line]:
        if isinstance(fold.common, Blocked):
            yield from self._entry_details(fold.common)
        elif fold.common is not None:
            yield from self._field_lines(field_changes(fold.common))
            yield from self._column_lines(column_changes(fold.common) if alters_columns(fold.common) else ())
        yield from self._quiet_lines(fold.names_text(self._omissions))
        if fold.common is not None:
            return
        contents = [(field_changes(entry), column_changes(entry)) for entry in fold.entries]
        if len(set(contents)) == 1:
            yield from self._field_lines(contents[0][0])
            yield from self._column_lines(contents[0][1])
            return
        numbers = Counter(field.label for changed, _ in contents for field in changed)
        numbers.update(f"column {column.label}" for _, columns in contents for column in columns)
        most = ", ".join(f"{display.key(label)} in {number:,}" for label, number in numbers.most_common(_FIELDS_NAMED))
        more = len(numbers) - _FIELDS_NAMED
        yield from self._quiet_lines(f"differ: {most}" + (f" and {count(more, 'other field')}" if more > 0 else ""))

    def _column_widths(self, rows: Sequence[_RowCells]) -> _ColumnWidths:
        name = min(max((display.width_of(row.name) for row in rows), default=0), _WIDEST_NAME)
        word = max((len(row.word) for row in rows), default=0)
        headline = max((display.width_of(row.headline) for row in rows), default=0)
        if self._width is None:
            return _ColumnWidths(name, word, headline)
        source = max((display.width_of(row.source) for row in rows), default=0)
        left = self._width - len(_BEFORE_NAME) - name - len(_GAP) - word - len(_GAP)
        room = left - (source + len(_GAP) if source else 0)
        if room >= min(headline, _NARROWEST_HEADLINE):
            return _ColumnWidths(name, word, min(headline, room))
        name = min(name, self._width - len(_BEFORE_NAME) - len(_GAP) - word)
        return _ColumnWidths(name, word, None)

    def _row_lines(self, row: _RowCells, widths: _ColumnWidths) -> Iterator[Line]:
        head: Span = (f"{_MARGIN}{row.symbol} ", row.style)
        name, gap = row.name, " " * (widths.word - len(row.word)) + _GAP
        if display.width_of(name) > widths.name:
            for part in display.wrap(name, self._cells_left(len(_BEFORE_NAME))):
                yield [head, (part, "")]
                head = (_BEFORE_NAME, "")
            name = ""
        start: list[Span] = [head, (display.padded(name, widths.name) + _GAP, ""), (row.word, row.style)]
        indent = " " * (len(_BEFORE_NAME) + widths.name + len(_GAP) + widths.word + len(_GAP))
        if widths.headline is None:
            fits = len(indent) + display.width_of(row.source) <= self._cells_left(0)
            yield [*start, (gap + row.source if fits else "", "quiet")]
            yield from self._paragraph(row.headline, _INDENT)
            if not fits:
                yield from self._quiet_lines(row.source)
            return
        first, *others = display.wrap(row.headline, max(widths.headline, 1))
        source = _GAP + row.source if row.source else ""
        yield [*start, (gap + display.padded(first, widths.headline), ""), (source, "quiet")]
        yield from ([(indent + part, "")] for part in others)

    # ---- below a row ---------------------------------------------------------------------------------------------

    def _change_details(self, change: Change) -> Iterator[Line]:
        yield from self._quiet_lines(self._removal_notes.get(change.key, ""))
        if located := labelled_location(change):
            label, location = located
            yield from self._quiet_lines(f"{label} {self._short_value(location)}")
        if based := base_location(change):
            label, location, remark = based
            yield from self._quiet_lines(f"{label} {self._short_value(location)}, {remark}")
        yield from self._field_lines(field_changes(change))
        if self._full:
            yield from self._field_lines(set_fields(change))
        if self._full or alters_columns(change):
            yield from self._column_lines(column_changes(change))

    def _field_lines(self, fields: Iterable[ShownField]) -> Iterator[Line]:
        for field in fields:
            label = self._short_value(field.label, display.key)
            if field.before is None or field.after is None:
                added = field.before is None
                value = self._short_value((field.after if added else field.before) or "")
                yield from self._symbol_lines("+" if added else "-", f"{label}: {value}")
                continue
            before, after = self._short_value(field.before), self._short_value(field.after)
            remark = " (data stays at both)" if field.is_location else ""
            if display.width_of(f"{label}: {before} -> {after}{remark}") <= self._cells_left(len(_INDENT)):
                start: Span = (f"{_INDENT}{label}: ", "")
                yield [start, (before, "remove"), (" -> ", ""), (after, "add"), (remark, "quiet")]
                continue
            yield from self._paragraph(f"{label}:{remark}", _INDENT)
            yield from self._paragraph(before, f"{_INDENT}     ", "remove")
            yield from self._paragraph(after, f"{_INDENT}  -> ", "add")

    def _column_lines(self, columns: Iterable[ShownField]) -> Iterator[Line]:
        for column in columns:
            label = self._short_value(column.label, display.key)
            text = " -> ".join(map(self._short_value, column.values))
            yield from self._symbol_lines(column.symbol, f"column {label}: {text}")

    def _symbol_lines(self, symbol: str, text: str) -> Iterator[Line]:
        """Yield ``text`` behind ``symbol``, in the style of that symbol."""
        yield from self._paragraph(text, f"{_INDENT}{symbol} ", SYMBOLS[symbol])

    def _quiet_lines(self, text: str) -> Iterator[Line]:
        if text:
            yield from self._paragraph(text, _INDENT, "quiet")

    def _paragraph(self, text: str, lead: str, style: str = "") -> Iterator[Line]:
        """Yield ``text`` behind ``lead``, wrapped; the lines after the first are indented more."""
        indent = " " * (len(lead) + _DEEPER)
        for part in display.wrap(text, self._cells_left(len(indent))):
            yield [(lead, style), (part, style)]
            lead = indent

    def _prose_and_code(self, pieces: Iterable[Piece], lead: str, style: str = "", title: str = "") -> Iterator[Line]:
        """Yield pieces after ``title``: prose as paragraphs, and each line of code whole, so that it can be copied."""
        indent = " " * (len(lead) + 2 * _DEEPER)
        for prose, code in pieces:
            if prose:
                text = prose if self._complete is None else _COMMAND.sub(self._completed, prose)
                yield from self._paragraph(title + display.printable(text), lead, style)
            title, lead = "", " " * len(lead)
            for line in map(display.message, code):
                # Where a terminal breaks a line, spaces in it could look like the margin of a row.
                parts = display.wrap(line, self._cells_left(len(indent))) if _MARGIN in line else [line]
                yield from ([(indent + part, style)] for part in parts)

    def _completed(self, command: re.Match[str]) -> str:
        return command[0] if self._complete is None else f"`{self._complete(command[1])}`"

    def _note_lines(self) -> Iterator[Line]:
        notes = self._plan.notes
        if not notes:
            return
        yield [("Notes", "heading")]
        listed = self._omissions.first(notes, _NOTES_SHOWN)
        for note in listed:
            yield from self._prose_and_code(note_pieces(note), _MARGIN, title=f"{display.name(note.catalog)}: ")
        if len(listed) < len(notes):
            unlisted = count(len(notes) - len(listed), "more note")
            yield [(f"{_MARGIN}and {unlisted}", "quiet")]
        yield []

    # ---- widths --------------------------------------------------------------------------------------------------

    def _short_value(self, text: str, escape: Callable[[str], str] = display.value) -> str:
        return self._omissions.shorten(escape(text), _LONGEST_VALUE)

    def _cells_left(self, taken: int) -> int:
        """Return how many cells of a line are left beside ``taken`` ones; at least 8."""
        return 1_000_000_000 if self._width is None else max(self._width - taken, 8)
