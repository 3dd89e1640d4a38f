"""A plan as one HTML page: no server, no network, nothing but itself.

The page is complete without its script, which adds searching and filtering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from reconciler import display
from reconciler.display import count
from reconciler.names import Identifier
from reconciler.output.details import Difference, columns, differences, place, settings
from reconciler.output.grouping import CatalogGroup, by_catalog
from reconciler.output.page import asset, render_page, sentence
from reconciler.output.wording import (
    PROTECTED,
    SYMBOLS,
    Entry,
    closing_line,
    counts,
    entries_of,
    headline,
    read_line,
    word_of,
)
from reconciler.planner.plan import Change, Plan

__all__ = ["render_html"]

_OPEN_ENTRIES_UP_TO = 40
_OPEN_GROUPS_UP_TO = 300


def render_html(plan: Plan) -> str:
    """Return the page, ready to be written as UTF-8."""
    return render_page(
        f"Plan of {display.printable(plan.manifest.name)}",
        _content(plan),
        style=asset(__package__, "plan.css"),
        script=asset(__package__, "plan.js"),
    )


def _content(plan: Plan) -> Iterator[str]:
    name = escape(display.printable(plan.manifest.name))
    yield '<header class="page">'
    yield f'<p class="eyebrow">lancens plan</p><h1>{name}</h1>'
    yield f'<p class="closing">{escape(closing_line(plan))}</p>'
    yield f'<p class="quiet">{escape(read_line(plan))}</p>'
    yield "</header>"
    groups = by_catalog(plan)
    if groups:
        yield from _toolbar(plan, groups)
    yield "<main>"
    total = len(entries_of(plan))
    for group in groups:
        yield from _catalog(group, total)
    yield '<p class="nothing" hidden>Nothing matches. <button type="button" id="reset">Show everything</button></p>'
    yield from _notes(plan)
    yield "</main>"
    yield from _footer(plan)


def _sort_of(entry: Entry) -> str:
    return entry.sort if isinstance(entry, Change) else PROTECTED


# ---- what stands around the changes ----------------------------------------------------------------------------------


def _toolbar(plan: Plan, groups: Sequence[CatalogGroup]) -> Iterator[str]:
    total = len(entries_of(plan))
    symbols = {_sort_of(entry): SYMBOLS[entry.symbol] for entry in entries_of(plan)}
    yield '<form class="toolbar" role="search" hidden>'
    yield '<div class="tiles" role="group" aria-label="Show only">'
    for word, number in (*counts(plan), (PROTECTED, len(plan.guards))):
        if number:
            yield (
                f'<button type="button" class="tile {symbols[word]}" data-sort="{word}" aria-pressed="false">'
                f"<b>{number:,}</b> {word}</button>"
            )
    yield "</div>"
    yield '<div class="controls">'
    yield (
        '<input type="search" id="search" placeholder="Search names, values, columns…" '
        'aria-label="Search" autocomplete="off" spellcheck="false" title="Press / to search">'
    )
    if len(groups) > 1:
        yield '<select id="catalog" aria-label="Catalog"><option value="">All catalogs</option>'
        for group in groups:
            name = escape(display.name(group.name))
            yield f'<option value="{name}">{name}</option>'
        yield "</select>"
    yield '<button type="button" id="expand">Expand all</button>'
    yield '<button type="button" id="collapse">Collapse all</button>'
    yield f'<output id="shown" role="status">{total:,} of {total:,} shown</output>'
    yield "</div>"
    yield "</form>"


def _notes(plan: Plan) -> Iterator[str]:
    if not plan.notes:
        return
    yield '<section class="notes"><h2>Notes</h2><ul>'
    for note in plan.notes:
        yield f"<li><b>{escape(display.name(note.catalog))}</b> {sentence(note.message)}</li>"
    yield "</ul></section>"


def _footer(plan: Plan) -> Iterator[str]:
    files = ", ".join(display.printable(file) for file in plan.manifest.files)
    yield '<footer class="page"><dl>'
    yield f"<dt>Plan</dt><dd><code>{plan.digest()}</code></dd>"
    yield f"<dt>Manifest</dt><dd><code>{escape(display.printable(plan.manifest.digest))}</code> {escape(files)}</dd>"
    yield f"<dt>Format</dt><dd>{escape(display.printable(plan.format_version))}</dd>"
    yield "</dl></footer>"


# ---- the changes -----------------------------------------------------------------------------------------------------


def _catalog(group: CatalogGroup, total: int) -> Iterator[str]:
    name = escape(display.name(group.name))
    yield f'<section class="catalog" data-catalog="{name}">'
    about = ""
    if group.summary:
        summary = group.summary
        read = f"{count(summary.namespaces, 'namespace')} and {count(summary.tables, 'table')} read"
        about = f' <span class="impl">{escape(display.name(summary.impl))}</span> <span class="quiet">{read}</span>'
    yield f"<h2>{name}{about}</h2>"
    for namespace, members in groupby(group.entries, key=_namespace):
        entries = [*members]
        title = escape(display.address(*namespace)) if namespace else "directly in the catalog"
        tally = Counter(entry.symbol for entry in entries)
        marks = " ".join(
            f'<span class="{style}">{symbol} {tally[symbol]:,}</span>'
            for symbol, style in SYMBOLS.items()
            if tally[symbol]
        )
        yield f'<details class="group"{" open" if total <= _OPEN_GROUPS_UP_TO else ""}>'
        yield f'<summary><span class="title">{title}</span> <span class="tally">{marks}</span></summary>'
        for entry in entries:
            yield from _entry(entry, name, is_open=total <= _OPEN_ENTRIES_UP_TO)
        yield "</details>"
    yield "</section>"


def _namespace(entry: Entry) -> Identifier:
    return entry.identifier if entry.kind == "namespace" else entry.identifier[:-1]


def _entry(entry: Entry, catalog: str, *, is_open: bool) -> Iterator[str]:
    symbol, sort = entry.symbol, _sort_of(entry)
    *above, last = entry.identifier or ("",)
    path = f"{escape(display.address(*above))}/" if above else ""
    where = f"{display.printable(entry.source.file)}:{entry.source.line}" if entry.source else ""
    opened = " open" if is_open and isinstance(entry, Change) and (differences(entry) or columns(entry)) else ""
    yield f'<details class="entry {SYMBOLS[symbol]}" data-sort="{sort}" data-catalog="{catalog}"{opened}>'
    yield (
        f'<summary><span class="symbol">{symbol}</span> '
        f'<bdi class="name"><span class="path">{path}</span>{escape(display.name(last))}</bdi> '
        f'<span class="word">{word_of(entry)}</span> <span class="why">{escape(headline(entry))}</span> '
        f'<span class="where">{escape(where)}</span></summary>'
    )
    yield f'<div class="body">{"".join(_body(entry))}</div>'
    yield "</details>"


def _body(entry: Entry) -> Iterator[str]:
    reason = display.printable(entry.reason)
    if not headline(entry).endswith(reason):
        yield f"<p>{escape(reason)}</p>"
    if not isinstance(entry, Change):
        return
    located = place(entry)
    if located:
        yield f"<p>{located[0]} <code>{escape(display.value(located[1]))}</code></p>"
    rows = (*differences(entry), *settings(entry))
    if rows:
        yield '<table class="fields"><thead><tr><th>Field<th>Before<th>After</tr></thead><tbody>'
        yield from map(_field, rows)
        yield "</tbody></table>"
    if any(row.is_location for row in rows):
        yield '<p class="quiet">The data stays at both locations.</p>'
    found = columns(entry)
    if found:
        yield '<table class="columns"><thead><tr><th><th>Column<th>Type</tr></thead><tbody>'
        for column in found:
            name, text = escape(display.key(column.name)), escape(display.value(column.text))
            yield f'<tr class="{SYMBOLS[column.symbol]}"><td>{column.symbol}'
            yield f"<td><bdi>{name}</bdi><td><bdi>{text}</bdi></tr>"
        yield "</tbody></table>"


def _field(row: Difference) -> str:
    before = "" if row.before is None else f"<del>{escape(display.value(row.before))}</del>"
    after = "" if row.after is None else f"<ins>{escape(display.value(row.after))}</ins>"
    return f"<tr><th scope=row><bdi>{escape(display.key(row.label))}</bdi><td>{before}<td>{after}</tr>"
