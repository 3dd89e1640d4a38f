"""Render a plan as GitHub-flavoured Markdown, for the comment on a pull request.

The markup is in ``templates/plan.md``; this module decides what fits into a comment.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence

from reconciler.model import display
from reconciler.model.display import count
from reconciler.output.grouping import (
    FOLD_OVER,
    Fold,
    Row,
    Section,
    approval_line,
    entries_in,
    first_of,
    is_move,
    is_risky,
    sections,
)
from reconciler.output.markdown_text import length_of
from reconciler.output.omissions import Omissions
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
    reserve: int = 0,
    omissions: Omissions | None = None,
) -> str:
    """Return the comment for a pull request that would apply ``plan`` when merged.

    Args:
        plan: what the merge would do.
        commit: the head commit that was planned.
        limit: the most characters the comment may have; at least 2,000. What does not fit is left out and counted, and
            the comment then says that it approves nothing.
        removed: what to say of the data of deregistered tables.
        approves: whether everything before the comment could be shown, so that the comment approves the plan.
        reserve: the characters of ``limit`` that the approval takes, which only a whole comment has.
        omissions: counts what was left out.
    """
    promise = "Merging applies exactly this plan." if approves else "What is above was cut: this approves nothing."
    return _Comment(plan, limit, commit, promise, removed=removed, omissions=omissions).text(reserve)


# ---- the parts -------------------------------------------------------------------------------------------------------


def _part(name: str, **shown: object) -> str:
    """Render a macro of ``templates/plan.md``."""
    from reconciler.output.templating import markdown_templates

    return str(getattr(markdown_templates().get_template("plan.md").module, name)(**shown))


def _heading(plan: Plan, omissions: Omissions) -> str:
    amounts = () if plan.is_empty else [(word, number) for word, number in counts(plan) if number]
    return _part("heading", plan=plan, amounts=amounts, closing=closing_line(plan), omissions=omissions)


def _schema(row: Row, omissions: Omissions) -> str | None:
    """Return the changed columns as a block of code; None if there are none."""
    fold = row if isinstance(row, Fold) else None
    changed = columns(first_of(row))
    lines = [_column(column, omissions) for column in changed]
    return _part("schema", entry=row, fold=fold, columns=changed, lines=lines) if changed else None


def _names(fold: Fold, omissions: Omissions) -> Iterator[tuple[str, int]]:
    """Yield a line for each namespace of a fold, with as many names as fit, and the number of those."""
    room = _LONGEST_NAMES
    for namespace, details, part in fold.by_namespace():
        number = len(part.entries)
        length = max(length_of(display.name(entry.identifier[-1])) for entry in part.entries) + 2
        most = min(max(room // length, 0), number)
        names = part.names(omissions, most)
        line = _part("names", namespace=namespace, number=number, names=names, details=details, omissions=omissions)
        yield line, most
        room -= length_of(line)


def _column(column: ShownField, omissions: Omissions) -> str:
    # GitHub colours `+` and `-`; `!` is its sign for a changed line.
    symbol = "!" if column.symbol == "~" else column.symbol
    text = " -> ".join(map(display.value, column.values))
    return omissions.short(f"{symbol} {display.key(column.label)}: {text}", _LONGEST_COLUMN)


_LONGEST_WARNING = 700


class _Comment:
    """Writes one comment: heading, footer, and as many parts as fit below the limit."""

    def __init__(
        self,
        plan: Plan,
        limit: int | None,
        commit: str | None = None,
        promise: str = "",
        *,
        removed: Mapping[Key, str],
        omissions: Omissions | None = None,
    ) -> None:
        self._plan = plan
        self._removed = removed
        self._limit = limit
        self._commit = commit
        self._footer = self._signed(promise)
        self._omissions = Omissions() if omissions is None else omissions
        self._parts: list[str] = []
        self._left: float = float("inf")

    def text(self, reserve: int = 0) -> str:
        self._omissions.limits = False
        whole = self._assembled(float("inf"))
        if self._limit is None or length_of(whole) + reserve <= self._limit:
            return whole
        self._omissions.limits = True
        # Below the whole length in any case: only a cut comment says that it approves nothing.
        limit = min(self._limit, length_of(whole) - 1)
        return self._assembled(limit - length_of(self._footer) - _LONGEST_WARNING)

    def _assembled(self, room: float) -> str:
        heading = _heading(self._plan, self._omissions)
        self._parts, self._left = [], room - length_of(heading)
        shown_sections = sections(self._plan, self._omissions)
        for section in shown_sections:
            self._table(section)
            self._folds(section)
            if section.waiting and not self._add(_part("sentence", sentence=section.waiting)):
                self._omissions.notes += 1
            self._schemas(section)
        covered = approval_line(shown_sections)
        if covered and not self._add(_part("sentence", sentence=covered)):
            self._omissions.notes += 1
        self._notes()
        total = len(entries_of(self._plan))
        warning, footer = "", self._footer
        if self._omissions:
            warning = _part("warning", omissions=self._omissions, total=total, limit=self._limit or 0)
            footer = self._signed("This comment was cut: it approves nothing.")
        return "".join((heading, warning, *self._parts, "\n", footer))

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
        sight = sum(is_risky(row) for row in shown)
        moved = sum(is_move(row) for row in shown)
        if moved <= FOLD_OVER:
            sight, moved = sight + moved, 0
        if len(shown) - sight - moved <= FOLD_OVER and not moved:
            sight = len(shown)
        changes_from = sight + moved
        parts = (
            (shown[:sight], False, "change"),
            (shown[sight:changes_from], True, "move"),
            (shown[changes_from:], len(shown) - changes_from > FOLD_OVER, "change"),
        )
        for part, folded, word in parts:
            title = f"{count(len(part), word)} in {_in(section)}"
            fitting = self._block(title, _TABLE_HEAD, [*map(self._row, part)], folded=folded, above=above)
            self._omissions.rows.update(word_of(entry) for entry in entries_in(part[fitting:]))
            above = "" if fitting else above

    def _row(self, row: Row) -> str:
        if isinstance(row, Fold):
            return _part("row", entry=row.common, fold=row, held=None, omissions=self._omissions)
        return _part("row", entry=row, fold=None, held=self._removed.get(row.key), omissions=self._omissions)

    def _folds(self, section: Section) -> None:
        """Add the names of folded objects, as many as fit."""
        for fold in section.rows:
            if isinstance(fold, Fold):
                parts = [*_names(fold, self._omissions)]
                title = f"{html.escape(fold.title)}: {html.escape(fold.why)} ({word_of(fold.first)})"
                fitting = self._block(title, "", [line for line, _ in parts], folded=True)
                self._omissions.names += sum(number for _, number in parts[fitting:])

    def _schemas(self, section: Section) -> None:
        blocks = [block for row in section.rows if (block := _schema(row, self._omissions))]
        lines = sum(block.count("\n") for block in blocks)
        title = f"Schemas of {count(len(blocks), 'table')} in {_in(section)}"
        fitting = self._block(title, "**Schemas**\n", blocks, folded=lines > FOLD_OVER)
        self._omissions.schemas += len(blocks) - fitting

    def _notes(self) -> None:
        notes = [_part("note", note=note) for note in self._plan.notes]
        fitting = self._block(count(len(notes), "note"), "**Notes**\n\n", notes, folded=len(notes) > FOLD_OVER)
        self._omissions.notes += len(notes) - fitting


def _in(section: Section) -> str:
    return "several catalogs" if section.name is None else f"<code>{html.escape(display.name(section.name))}</code>"
