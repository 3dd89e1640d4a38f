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
from reconciler.output.grouping import FOLD_OVER, CatalogGroup, by_catalog, comes_first, moves
from reconciler.output.markdown_text import length_of
from reconciler.output.wording import Entry, ShownField, closing_line, columns, counts, waiting_line, word_of
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

COMMENT_LIMIT = 65_536
"""The most characters GitHub takes in one comment."""

_LONGEST_COLUMN = 2_000
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


def _schema(entry: Entry) -> str | None:
    """Return the changed columns as a block of code; None if there are none."""
    found = columns(entry)
    return _part("schema", entry=entry, columns=found, lines=[*map(_column, found)]) if found else None


def _column(column: ShownField) -> str:
    # GitHub colours `+` and `-`; `!` is its sign for a changed line.
    symbol = "!" if column.symbol == "~" else column.symbol
    return display.shorten(f"{symbol} {display.key(column.label)}: {display.value(column.text)}", _LONGEST_COLUMN)


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
        groups = by_catalog(self._plan)
        for group in groups:
            self._table(group)
            self._waiting(group)
            self._schemas(group)
        self._notes()
        total = sum(len(group.entries) for group in groups)
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

    def _table(self, group: CatalogGroup) -> None:
        """Add a catalog's entries: blocked and removed in sight, moves, the rest."""
        above = _part("catalog", group=group)
        sight = sum(comes_first(entry) for entry in group.entries)
        moved = sum(moves(entry) for entry in group.entries)
        if moved <= FOLD_OVER:
            sight, moved = sight + moved, 0
        if len(group.entries) - sight - moved <= FOLD_OVER and not moved:
            sight = len(group.entries)
        rest = sight + moved
        parts = (
            (group.entries[:sight], False, "change"),
            (group.entries[sight:rest], True, "move"),
            (group.entries[rest:], len(group.entries) - rest > FOLD_OVER, "change"),
        )
        for entries, folded, word in parts:
            title = f"{count(len(entries), word)} in <code>{html.escape(display.name(group.name))}</code>"
            rows = [_part("row", entry=entry, held=self._removed.get(entry.key)) for entry in entries]
            fitting = self._block(
                title,
                _TABLE_HEAD,
                rows,
                folded=folded,
                above=above,
            )
            self._omitted.words.update(word_of(entry) for entry in entries[fitting:])
            above = "" if fitting else above

    def _waiting(self, group: CatalogGroup) -> None:
        sentence = waiting_line(self._plan, group.name)
        if sentence and not self._add(_part("waiting", sentence=sentence)):
            self._omitted.notes += 1

    def _schemas(self, group: CatalogGroup) -> None:
        blocks = [block for block in map(_schema, group.entries) if block]
        lines = sum(block.count("\n") for block in blocks)
        title = f"Schemas of {count(len(blocks), 'table')} in <code>{html.escape(display.name(group.name))}</code>"
        fitting = self._block(title, "**Schemas**\n", blocks, folded=lines > FOLD_OVER)
        self._omitted.schemas += len(blocks) - fitting

    def _notes(self) -> None:
        notes = [_part("note", note=note) for note in self._plan.notes]
        fitting = self._block(count(len(notes), "note"), "**Notes**\n\n", notes, folded=len(notes) > FOLD_OVER)
        self._omitted.notes += len(notes) - fitting
