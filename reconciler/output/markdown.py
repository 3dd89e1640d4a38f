"""A plan as GitHub-flavoured Markdown, for the comment on a pull request.

Names and values come from people who may open a pull request, so none of them is trusted: they stand in code, where
Markdown, HTML, mentions and references to issues mean nothing, or, inside sentences, with all punctuation encoded.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reconciler import display
from reconciler.display import count
from reconciler.output.details import Difference, columns, differences, place
from reconciler.output.grouping import FOLD_OVER, CatalogGroup, by_catalog
from reconciler.output.wording import Entry, closing_line, counts, headline, word_of
from reconciler.planner.plan import Change, Plan

__all__ = ["COMMENT_LIMIT", "pull_request_comment", "render_markdown"]

COMMENT_LIMIT = 65_536
"""The most characters GitHub takes in one comment."""

_LONGEST_VALUE = 200
_LONGEST_COLUMN = 2_000
_TABLE_HEAD = "| | Object | Change | Why | Where |\n|:-:|---|---|---|---|\n"
_BACKTICKS = re.compile("`+")
_ENCODED = re.compile(r"[!-/:-@\[-`{-~]")
_READABLE = frozenset("(),;'.:-/")
_IN_BACKTICKS = re.compile("(`[^`]+`)")
# A mention or a reference to an issue is recognised after entities are decoded; a word joiner keeps it from being one.
_REFERENCE = re.compile(r"([@#]|\bGH-|\bwww\.|:(?=[/\w]))", re.IGNORECASE)
_WORD_JOINER = "&#8288;"
_PIPE = "\\|"


def render_markdown(plan: Plan) -> str:
    """Return the whole plan as Markdown, of any length."""
    return _Comment(plan, None, _footer(plan, None, merging=False)).text()


def pull_request_comment(plan: Plan, *, commit: str | None = None, limit: int = COMMENT_LIMIT) -> str:
    """Return the comment for a pull request that would apply ``plan`` when merged.

    Args:
        plan: what the merge would do.
        commit: the head commit that was planned.
        limit: the most characters the comment may have; at least 2,000. What does not fit is left out, counted, and
            the comment then says that it approves nothing.
    """
    return _Comment(plan, limit, _footer(plan, commit, merging=True)).text()


def _footer(plan: Plan, commit: str | None, *, merging: bool) -> str:
    parts = [f"plan {_code(plan.digest())}", f"manifest {_code(plan.manifest.digest)}"]
    if commit is not None:
        parts.append(f"commit {_code(commit)}")
    promise = "<br>Merging applies exactly this plan." if merging else ""
    return f"---\n<sub>{' · '.join(parts)}{promise}</sub>\n"


# ---- foreign text ----------------------------------------------------------------------------------------------------


def _code(text: str) -> str:
    """Return escaped ``text`` as a code span."""
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or text != text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"


def _value(text: str) -> str:
    return _code(display.shorten(display.value(text), _LONGEST_VALUE))


def _sentence(text: str) -> str:
    """Return escaped ``text`` as prose; what stands in backticks stays code."""
    parts = _IN_BACKTICKS.split(text)
    return "".join(_code(part[1:-1]) if number % 2 else _prose(part) for number, part in enumerate(parts))


def _prose(text: str) -> str:
    apart = _REFERENCE.split(text)
    return _WORD_JOINER.join(
        _ENCODED.sub(lambda found: found[0] if found[0] in _READABLE else f"&#{ord(found[0])};", part) for part in apart
    )


# ---- the parts -------------------------------------------------------------------------------------------------------


def _row(entry: Entry) -> str:
    why = [_sentence(headline(entry))]
    if isinstance(entry, Change):
        why += map(_difference, differences(entry))
        located = place(entry)
        if located:
            why.append(f"{located[0]} {_value(located[1])}")
    else:
        why.append(_sentence(display.printable(entry.reason)))
    where = _code(f"{display.printable(entry.source.file)}:{entry.source.line}") if entry.source else ""
    name = _code(display.address(*entry.identifier))
    cells = (_code(entry.symbol), name, word_of(entry), "<br>".join(why), where)
    return f"| {' | '.join(cell.replace('|', _PIPE) for cell in cells)} |\n"


def _difference(difference: Difference) -> str:
    label = _code(display.shorten(display.key(difference.label), _LONGEST_VALUE))
    if difference.before is None:
        return f"add {label}: {_value(difference.after or '')}"
    if difference.after is None:
        return f"remove {label}: {_value(difference.before)}"
    remark = " (data stays at both)" if difference.is_location else ""
    return f"{label}: {_value(difference.before)} → {_value(difference.after)}{remark}"


def _schema(entry: Entry) -> str | None:
    """Return the columns a change adds or changes as a block of code, None where there are none."""
    found = columns(entry) if isinstance(entry, Change) else ()
    if not found:
        return None
    lines = []
    for column in found:
        text = f"{column.symbol} {display.key(column.name)}: {display.value(column.text)}"
        # GitHub colours `+` and `-`; `!` is its sign for a changed line.
        lines.append(display.shorten("!" + text[1:] if column.symbol == "~" else text, _LONGEST_COLUMN))
    fence = "`" * max(3, *(len(run) + 1 for line in lines for run in _BACKTICKS.findall(line)), 3)
    body = "\n".join(lines)
    title = f"{_code(display.address(*entry.identifier))}, {count(len(found), 'column')}"
    return f"\n{title}\n\n{fence}diff\n{body}\n{fence}\n"


def _heading(plan: Plan) -> str:
    if plan.is_empty:
        listed = "no changes"
    else:
        listed = ", ".join(f"{number:,} to {word}" for word, number in counts(plan) if number)
    name = _code(display.shorten(display.printable(plan.manifest.name), _LONGEST_VALUE))
    return f"### lancens plan of {name}: {listed}\n\n{closing_line(plan)}\n"


@dataclass(slots=True)
class _Omitted:
    """What did not fit."""

    words: Counter[str] = field(default_factory=Counter)
    schemas: int = 0
    notes: int = 0

    def __bool__(self) -> bool:
        return bool(self.words or self.schemas or self.notes)

    def warning(self, total: int, limit: int) -> str:
        """Return the warning that stands above a comment that was cut."""
        parts = []
        if self.words:
            kinds = ", ".join(f"{number:,} {word}" for word, number in sorted(self.words.items()))
            parts.append(f"{self.words.total():,} of {count(total, 'line')} ({kinds})")
        if self.schemas:
            parts.append(count(self.schemas, "schema difference"))
        if self.notes:
            parts.append(count(self.notes, "note"))
        return (
            f"\n> [!WARNING]\n> Cut to the {limit:,} characters a comment may have. Left out: {', '.join(parts)}. "
            "**A cut comment can't approve the plan**; read all of it with `lancens show`.\n"
        )


_LONGEST_WARNING = 700


class _Comment:
    """Parts in reading order, as many as fit below the limit; heading and footer always do."""

    def __init__(self, plan: Plan, limit: int | None, footer: str) -> None:
        self._plan = plan
        self._limit = limit
        self._heading = _heading(plan)
        self._footer = footer
        self._omitted = _Omitted()
        self._parts: list[str] = []
        self._left: float = float("inf")

    def text(self) -> str:
        whole = self._assembled(float("inf"))
        if self._limit is None or _length(whole) <= self._limit:
            return whole
        fixed = _length(self._heading) + _length(self._footer) + _LONGEST_WARNING
        return self._assembled(self._limit - fixed)

    def _assembled(self, room: float) -> str:
        self._parts, self._omitted, self._left = [], _Omitted(), room
        groups = by_catalog(self._plan)
        for group in groups:
            self._table(group)
            self._schemas(group)
        self._notes()
        total = sum(len(group.entries) for group in groups)
        warning = self._omitted.warning(total, self._limit or 0) if self._omitted else ""
        footer = self._footer
        if warning:
            footer = footer.replace("Merging applies exactly this plan.", "This comment was cut: it approves nothing.")
        return "".join((self._heading, warning, *self._parts, "\n", footer))

    def _add(self, text: str, reserve: int = 0) -> bool:
        """Add ``text`` when it fits with ``reserve`` characters to spare."""
        length = _length(text)
        if length + reserve > self._left:
            return False
        self._left -= length
        self._parts.append(text)
        return True

    def _block(self, title: str, head: str, items: Sequence[str], *, folded: bool, above: str = "") -> int:
        """Add a titled block with as many of ``items`` as fit, folded away or in sight; return how many it has."""
        start, end = (f"\n<details><summary>{title}</summary>\n\n", "\n</details>\n") if folded else ("\n", "")
        start = above + start
        reserve = _length(end)
        if not items or _length(start + head + items[0]) + reserve > self._left:
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
        name = html.escape(display.name(group.name))
        impl = f" ({_prose(display.name(group.summary.impl))})" if group.summary else ""
        rows = [_row(entry) for entry in group.entries]
        heading = f"\n#### {_code(display.name(group.name))}{impl}\n"
        title = f"{count(len(rows), 'change')} in <code>{name}</code>"
        fitting = self._block(title, _TABLE_HEAD, rows, folded=len(rows) > FOLD_OVER, above=heading)
        self._omitted.words.update(word_of(entry) for entry in group.entries[fitting:])

    def _schemas(self, group: CatalogGroup) -> None:
        blocks = [block for block in map(_schema, group.entries) if block]
        lines = sum(block.count("\n") for block in blocks)
        title = f"Schemas of {count(len(blocks), 'table')} in <code>{html.escape(display.name(group.name))}</code>"
        fitting = self._block(title, "**Schemas**\n", blocks, folded=lines > FOLD_OVER)
        self._omitted.schemas += len(blocks) - fitting

    def _notes(self) -> None:
        notes = [*_notes(self._plan)]
        fitting = self._block(count(len(notes), "note"), "**Notes**\n\n", notes, folded=len(notes) > FOLD_OVER)
        self._omitted.notes += len(notes) - fitting


def _notes(plan: Plan) -> Iterator[str]:
    for note in plan.notes:
        yield f"- {_code(display.name(note.catalog))}: {_sentence(display.printable(note.message))}\n"


def _length(text: str) -> int:
    """Return the length as GitHub may count it: in UTF-16 code units, never fewer than characters."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
