"""Render a plan as GitHub-flavoured Markdown, for the comment on a pull request.

The markup is in ``templates/plan.md``; this module decides what fits into a comment.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.model import display
from reconciler.model.display import count
from reconciler.output.grouping import (
    FOLD_OVER,
    Fold,
    Row,
    Section,
    comes_first,
    covered_line,
    entries_in,
    first_of,
    moves,
    sections,
)
from reconciler.output.markdown_text import length_of
from reconciler.output.wording import ShownField, closing_line, columns, counts, entries_of, word_of
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

COMMENT_LIMIT = 65_536
"""The most characters GitHub takes in one comment."""

_LONGEST_COLUMN = 2_000
_LONGEST_NAMES = 4_000
_NOTHING: Mapping[Key, str] = {}
_TABLE_HEAD = "| | Object | Change | Why | Where |\n|:-:|---|---|---|---|\n"


def render_markdown(plan: Plan, *, removed: Mapping[Key, str] = _NOTHING) -> str:
    """Return the whole plan; ``removed`` describes deregistered tables' data."""
    return _Comment(plan, None, removed=removed).text()


def pull_request_comment(
    plan: Plan,
    *,
    commit: str | None = None,
    limit: int = COMMENT_LIMIT,
    removed: Mapping[Key, str] = _NOTHING,
    approves: bool = True,
) -> str:
    """Return the comment for a pull request that would apply ``plan`` when merged.

    Args:
        plan: what the merge would do.
        commit: the head commit that was planned.
        limit: the most characters the comment may have; at least 2,000. What does not fit is left out and counted, and
            the comment then says that it approves nothing.
        removed: what to say of the data of deregistered tables.
        approves: whether everything before the comment could be shown, so that the comment approves the plan.
    """
    promise = "Merging applies exactly this plan." if approves else "What is above was cut: this approves nothing."
    return _Comment(plan, limit, commit, promise, removed=removed).text()


# ---- the parts -------------------------------------------------------------------------------------------------------


def _part(name: str, **shown: object) -> str:
    """Render a macro of ``templates/plan.md``."""
    from reconciler.output.templating import markdown_templates

    return str(getattr(markdown_templates().get_template("plan.md").module, name)(**shown))


def _heading(plan: Plan) -> str:
    amounts = [(word, number) for word, number in counts(plan) if number]
    return _part("heading", plan=plan, amounts=() if plan.is_empty else amounts, closing=closing_line(plan))


def _schema(row: Row) -> str | None:
    """Return the changed columns as a block of code; None if there are none."""
    fold = row if isinstance(row, Fold) else None
    found = columns(first_of(row))
    return _part("schema", entry=row, fold=fold, columns=found, lines=[*map(_column, found)]) if found else None


def _names(fold: Fold) -> list[str]:
    """Return a line for each namespace of a fold, with the names that there is room for."""
    lines, room = [], _LONGEST_NAMES
    parts = dict(fold.by_namespace())
    for namespace, part in parts.items():
        length = max(length_of(display.name(entry.identifier[-1])) for entry in part.entries) + 2
        most = min(max(room // length, 0), len(part.entries))
        lines.append(_part("names", namespace=namespace, number=len(part.entries), names=part.names(most)))
        room -= length_of(lines[-1])
        if room < 0:
            break
    rest = len(parts) - len(lines)
    return [*lines, f"- and {count(rest, 'more namespace')}\n"] if rest else lines


def _column(column: ShownField) -> str:
    # GitHub colours `+` and `-`; `!` is its sign for a changed line.
    symbol = "!" if column.symbol == "~" else column.symbol
    text = " -> ".join(map(display.value, column.values))
    return display.shorten(f"{symbol} {display.key(column.label)}: {text}", _LONGEST_COLUMN)


@dataclass(slots=True)
class _Omitted:
    """What did not fit."""

    words: Counter[str] = field(default_factory=Counter)
    schemas: int = 0
    notes: int = 0

    def __bool__(self) -> bool:
        return bool(self.words or self.schemas or self.notes)

    def warning(self, total: int, limit: int) -> str:
        """Return the warning at the top of a comment that was cut."""
        return _part("warning", omitted=self, words=sorted(self.words.items()), total=total, limit=limit)


_LONGEST_WARNING = 700


class _Comment:
    """A comment: heading, footer, and as many parts as fit below the limit."""

    def __init__(
        self, plan: Plan, limit: int | None, commit: str | None = None, promise: str = "", *, removed: Mapping[Key, str]
    ) -> None:
        self._plan = plan
        self._removed = removed
        self._limit = limit
        self._heading = _heading(plan)
        self._commit = commit
        self._footer = self._signed(promise)
        self._omitted = _Omitted()
        self._parts: list[str] = []
        self._left: float = float("inf")

    def text(self) -> str:
        whole = self._assembled(float("inf"))
        if self._limit is None or length_of(whole) <= self._limit:
            return whole
        fixed = length_of(self._heading) + length_of(self._footer) + _LONGEST_WARNING
        return self._assembled(self._limit - fixed)

    def _assembled(self, room: float) -> str:
        self._parts, self._omitted, self._left = [], _Omitted(), room
        found = sections(self._plan)
        for section in found:
            self._table(section)
            self._folds(section)
            if section.waiting and not self._add(_part("sentence", sentence=section.waiting)):
                self._omitted.notes += 1
            self._schemas(section)
        covered = covered_line(found)
        if covered and not self._add(_part("sentence", sentence=covered)):
            self._omitted.notes += 1
        self._notes()
        total = len(entries_of(self._plan))
        warning, footer = "", self._footer
        if self._omitted:
            warning = self._omitted.warning(total, self._limit or 0)
            footer = self._signed("This comment was cut: it approves nothing.")
        return "".join((self._heading, warning, *self._parts, "\n", footer))

    def _signed(self, promise: str) -> str:
        return _part("footer", plan=self._plan, commit=self._commit, promise=promise)

    def _add(self, text: str, reserve: int = 0) -> bool:
        """Add ``text`` if it fits with ``reserve`` characters to spare."""
        length = length_of(text)
        if length + reserve > self._left:
            return False
        self._left -= length
        self._parts.append(text)
        return True

    def _block(self, title: str, head: str, items: Sequence[str], *, folded: bool, above: str = "") -> int:
        """Add a titled block with as many ``items`` as fit; return how many did."""
        start, end = (f"\n<details><summary>{title}</summary>\n\n", "\n</details>\n") if folded else ("\n", "")
        start = above + start
        reserve = length_of(end)
        if not items or length_of(start + head + items[0]) + reserve > self._left:
            return 0
        self._add(start + head)
        fitting = 0
        for item in items:
            if not self._add(item, reserve):
                break
            fitting += 1
        self._add(end)
        return fitting

    def _table(self, section: Section) -> None:
        """Add a catalog's rows: blocked and removed in sight, moves, the rest."""
        above = _part("catalog", section=section)
        shown = section.rows
        sight = sum(comes_first(row) for row in shown)
        moved = sum(moves(row) for row in shown)
        if moved <= FOLD_OVER:
            sight, moved = sight + moved, 0
        if len(shown) - sight - moved <= FOLD_OVER and not moved:
            sight = len(shown)
        rest = sight + moved
        parts = (
            (shown[:sight], False, "change"),
            (shown[sight:rest], True, "move"),
            (shown[rest:], len(shown) - rest > FOLD_OVER, "change"),
        )
        for part, folded, word in parts:
            title = f"{count(len(part), word)} in {_in(section)}"
            fitting = self._block(title, _TABLE_HEAD, [*map(self._row, part)], folded=folded, above=above)
            self._omitted.words.update(word_of(entry) for entry in entries_in(part[fitting:]))
            above = "" if fitting else above

    def _row(self, row: Row) -> str:
        if isinstance(row, Fold):
            return _part("row", entry=row.common, fold=row, held=None)
        return _part("row", entry=row, fold=None, held=self._removed.get(row.key))

    def _folds(self, section: Section) -> None:
        """Add the names of what is folded, as many as there is room for."""
        for fold in section.rows:
            if isinstance(fold, Fold):
                items = _names(fold)
                title = f"{html.escape(fold.title)}: {html.escape(fold.why)} ({word_of(fold.first)})"
                self._omitted.notes += self._block(title, "", items, folded=True) < len(items)

    def _schemas(self, section: Section) -> None:
        blocks = [block for block in map(_schema, section.rows) if block]
        lines = sum(block.count("\n") for block in blocks)
        title = f"Schemas of {count(len(blocks), 'table')} in {_in(section)}"
        fitting = self._block(title, "**Schemas**\n", blocks, folded=lines > FOLD_OVER)
        self._omitted.schemas += len(blocks) - fitting

    def _notes(self) -> None:
        notes = [_part("note", note=note) for note in self._plan.notes]
        fitting = self._block(count(len(notes), "note"), "**Notes**\n\n", notes, folded=len(notes) > FOLD_OVER)
        self._omitted.notes += len(notes) - fitting


def _in(section: Section) -> str:
    return "several catalogs" if section.name is None else f"<code>{html.escape(display.name(section.name))}</code>"
