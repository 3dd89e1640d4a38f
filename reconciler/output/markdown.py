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
    CatalogSection,
    FoldedRow,
    PlanRow,
    approval_line,
    entries_in,
    first_of,
    in_reading_order,
    is_move,
    is_risky,
    sections,
)
from reconciler.output.markdown_text import length_of
from reconciler.output.omissions import Omissions
from reconciler.output.wording import (
    ShownField,
    catalog_counts,
    closing_line,
    column_changes,
    counts,
    entries_of,
    outcome_of,
    word_of,
)
from reconciler.planner.entries import Key
from reconciler.planner.plan import Plan

COMMENT_LIMIT = 65_536
"""The most characters GitHub takes in one comment."""

_LONGEST_COLUMN = 2_000
_LONGEST_NAMES = 4_000
_NO_NOTES: Mapping[Key, str] = {}
_TABLE_HEAD = "| | Object | Change | Why | Where |\n|:-:|---|---|---|---|\n"


def render_markdown(plan: Plan, *, summary: bool = False, removal_notes: Mapping[Key, str] = _NO_NOTES) -> str:
    """Return the whole plan or its ``summary``; ``removal_notes`` are about the data of deregistered tables."""
    writer = _CommentWriter(plan, None, removal_notes=removal_notes)
    return writer.summary() if summary else writer.text()


def pull_request_comment(
    plan: Plan,
    *,
    commit: str | None = None,
    limit: int = COMMENT_LIMIT,
    removal_notes: Mapping[Key, str] = _NO_NOTES,
    approves: bool = True,
    reserve: int = 0,
    omissions: Omissions | None = None,
) -> str:
    """Return the comment for a pull request that would apply ``plan`` when merged.

    Args:
        plan: what the merge would do.
        commit: the head commit that was planned.
        limit: the most characters the comment may have; at least 2,000. If the plan does not fit, its summary is shown;
            if that does not fit, as much of the plan as does. The comment then says that it approves nothing.
        removal_notes: notes on the data of tables that the plan deregisters, by key.
        approves: whether everything before the comment could be shown, so that the comment approves the plan.
        reserve: the characters of ``limit`` that the approval takes, which only a whole comment has.
        omissions: counts what was left out.
    """
    promise = "Merging applies exactly this plan." if approves else "What is above was cut: this approves nothing."
    return _CommentWriter(plan, limit, commit, promise, removal_notes=removal_notes, omissions=omissions).text(reserve)


# ---- the parts -------------------------------------------------------------------------------------------------------


def _macro(name: str, **arguments: object) -> str:
    """Return the text of the macro ``name`` of ``templates/plan.md``."""
    from reconciler.output.templating import markdown_templates

    return str(getattr(markdown_templates().get_template("plan.md").module, name)(**arguments))


def _heading(plan: Plan, omissions: Omissions) -> str:
    amounts = () if plan.is_empty else [(word, number) for word, number in counts(plan) if number]
    return _macro("heading", plan=plan, amounts=amounts, closing=closing_line(plan), omissions=omissions)


def _schema_text(row: PlanRow, omissions: Omissions) -> str | None:
    """Return the changed columns as a block of code; None if there are none."""
    fold = row if isinstance(row, FoldedRow) else None
    changed = column_changes(first_of(row))
    lines = [_column_line(column, omissions) for column in changed]
    return _macro("schema", entry=row, fold=fold, columns=changed, lines=lines) if changed else None


def _name_lines(fold: FoldedRow, omissions: Omissions) -> Iterator[tuple[str, int]]:
    """Yield a line for each namespace of a fold, with as many names as fit, and the number of those."""
    room = _LONGEST_NAMES
    for namespace, details, part in fold.by_namespace():
        number = len(part.entries)
        length = max(length_of(display.name(entry.identifier[-1])) for entry in part.entries) + 2
        most = min(max(room // length, 0), number)
        names = part.names_text(omissions, most)
        line = _macro("names", namespace=namespace, number=number, names=names, details=details, omissions=omissions)
        yield line, most
        room -= length_of(line)


def _column_line(column: ShownField, omissions: Omissions) -> str:
    # GitHub colours `+` and `-`; `!` is its sign for a changed line.
    symbol = "!" if column.symbol == "~" else column.symbol
    text = " -> ".join(map(display.value, column.values))
    return omissions.shorten(f"{symbol} {display.key(column.label)}: {text}", _LONGEST_COLUMN)


_LONGEST_WARNING = 700
_CUT = "This comment was cut: it approves nothing."


class _CommentWriter:
    """Writes one comment: heading, footer, and as many parts as fit into ``limit`` characters."""

    def __init__(
        self,
        plan: Plan,
        limit: int | None,
        commit: str | None = None,
        promise: str = "",
        *,
        removal_notes: Mapping[Key, str],
        omissions: Omissions | None = None,
    ) -> None:
        self._plan = plan
        self._removal_notes = removal_notes
        self._limit = limit
        self._commit = commit
        self._promise = promise
        self._footer = self._footer_text(promise)
        self._omissions = Omissions() if omissions is None else omissions
        self._parts: list[str] = []
        self._room: float = float("inf")

    def text(self, reserve: int = 0) -> str:
        """Return the comment, cut if it and ``reserve`` characters exceed the limit."""
        self._omissions.may_cut = False
        whole = self._assemble(float("inf"))
        if self._limit is None or length_of(whole) + reserve <= self._limit:
            return whole
        summary = self.summary()
        if length_of(summary) <= self._limit:
            return summary
        self._omissions.details = self._omissions.names = self._omissions.notes = 0
        self._omissions.may_cut = True
        # Below the whole length, to force a cut: only cut comments say that they approve nothing.
        limit = min(self._limit, length_of(whole) - 1)
        return self._assemble(limit - length_of(self._footer) - _LONGEST_WARNING)

    def summary(self) -> str:
        """Return the counts of each catalog and a line for each object; all else is counted as left out."""
        plan, entries = self._plan, in_reading_order(self._plan)
        omissions = self._omissions
        omissions.details, omissions.names, omissions.notes = len(entries), len(plan.waiting), len(plan.notes)
        lines = [
            f"{entry.symbol} {display.address(entry.catalog, *entry.identifier)}  {outcome_of(entry, plan)}"
            for entry in entries
        ]
        counted = _macro("counts", catalogs=[*catalog_counts(plan)], lines=lines)
        footer = self._footer_text("A summary approves nothing." if omissions else self._promise)
        return "".join((_heading(plan, omissions), self._warning(), counted, "\n", footer))

    def _warning(self) -> str:
        total = len(entries_of(self._plan))
        if not self._omissions:
            return ""
        return _macro("warning", omissions=self._omissions, total=total, limit=self._limit)

    def _assemble(self, room: float) -> str:
        """Return heading, footer and, between them, the parts that fit into ``room`` characters."""
        heading = _heading(self._plan, self._omissions)
        self._parts, self._room = [], room - length_of(heading)
        plan_sections = sections(self._plan, self._omissions)
        for section in plan_sections:
            self._add_rows(section)
            self._add_fold_names(section)
            if section.waiting and not self._add(_macro("sentence", sentence=section.waiting)):
                self._omissions.notes += 1
            self._add_schemas(section)
        approval = approval_line(plan_sections)
        if approval and not self._add(_macro("sentence", sentence=approval)):
            self._omissions.notes += 1
        self._add_notes()
        footer = self._footer_text(_CUT) if self._omissions else self._footer
        return "".join((heading, self._warning(), *self._parts, "\n", footer))

    def _footer_text(self, promise: str) -> str:
        return _macro("footer", plan=self._plan, commit=self._commit, promise=promise)

    def _add(self, text: str, reserve: int = 0) -> bool:
        """Add ``text`` if it fits with ``reserve`` characters to spare."""
        length = length_of(text)
        if length + reserve > self._room:
            return False
        self._room -= length
        self._parts.append(text)
        return True

    def _add_block(self, title: str, head: str, items: Sequence[str], *, folded: bool, above: str = "") -> int:
        """Add a titled block with as many ``items`` as fit; return how many did."""
        start, end = (f"\n<details><summary>{title}</summary>\n\n", "\n</details>\n") if folded else ("\n", "")
        start = above + start
        reserve = length_of(end)
        if not items or length_of(start + head + items[0]) + reserve > self._room:
            return 0
        self._add(start + head)
        fitting = 0
        for item in items:
            if not self._add(item, reserve):
                break
            fitting += 1
        self._add(end)
        return fitting

    def _add_rows(self, section: CatalogSection) -> None:
        """Add a catalog's rows: blocked and removed objects in sight, then moves, then the rest."""
        above = _macro("catalog", section=section)
        rows = section.rows
        in_sight = sum(is_risky(row) for row in rows)
        moved = sum(is_move(row) for row in rows)
        if moved <= FOLD_OVER:
            in_sight, moved = in_sight + moved, 0
        if len(rows) - in_sight - moved <= FOLD_OVER and not moved:
            in_sight = len(rows)
        changes_from = in_sight + moved
        parts = (
            (rows[:in_sight], section.is_pending, "change"),
            (rows[in_sight:changes_from], True, "move"),
            (rows[changes_from:], section.is_pending or len(rows) - changes_from > FOLD_OVER, "change"),
        )
        for part, folded, word in parts:
            title = f"{count(len(part), word)} in {_section_name(section)}"
            fitting = self._add_block(title, _TABLE_HEAD, [*map(self._row_line, part)], folded=folded, above=above)
            self._omissions.rows.update(word_of(entry) for entry in entries_in(part[fitting:]))
            above = "" if fitting else above

    def _row_line(self, row: PlanRow) -> str:
        if isinstance(row, FoldedRow):
            return _macro("row", entry=row.common, fold=row, note=None, omissions=self._omissions)
        return _macro("row", entry=row, fold=None, note=self._removal_notes.get(row.key), omissions=self._omissions)

    def _add_fold_names(self, section: CatalogSection) -> None:
        """Add the names of folded objects, as many as fit."""
        for fold in section.rows:
            if isinstance(fold, FoldedRow):
                parts = [*_name_lines(fold, self._omissions)]
                title = f"{html.escape(fold.title)}: {html.escape(fold.reason)} ({word_of(fold.first)})"
                fitting = self._add_block(title, "", [line for line, _ in parts], folded=True)
                self._omissions.names += sum(number for _, number in parts[fitting:])

    def _add_schemas(self, section: CatalogSection) -> None:
        blocks = [block for row in section.rows if (block := _schema_text(row, self._omissions))]
        lines = sum(block.count("\n") for block in blocks)
        title = f"Schemas of {count(len(blocks), 'table')} in {_section_name(section)}"
        fitting = self._add_block(title, "**Schemas**\n", blocks, folded=section.is_pending or lines > FOLD_OVER)
        self._omissions.schemas += len(blocks) - fitting

    def _add_notes(self) -> None:
        notes = [_macro("note", note=note) for note in self._plan.notes]
        fitting = self._add_block(count(len(notes), "note"), "**Notes**\n\n", notes, folded=len(notes) > FOLD_OVER)
        self._omissions.notes += len(notes) - fitting


def _section_name(section: CatalogSection) -> str:
    return "several catalogs" if section.name is None else f"<code>{html.escape(display.name(section.name))}</code>"
