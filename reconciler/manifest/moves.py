"""The ``moved`` of a catalog: its renamed tables and namespaces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from reconciler.manifest.catalogs import CatalogReader
from reconciler.manifest.models import MovedBlock
from reconciler.manifest.nodes import Node, Place, Sequence, entries_of
from reconciler.model.desired import DesiredMove, DesiredNamespace, DesiredTable
from reconciler.model.display import did_you_mean
from reconciler.model.names import Identifier

_MOST_HINTS = 10  # each is a search through the names of the whole catalog

_Block: TypeAlias = DesiredTable | DesiredNamespace | None


def read_moves(reader: CatalogReader, moved: list[MovedBlock], node: Node) -> tuple[DesiredMove, ...]:
    """Return the moves of a catalog's block, in no particular order; errors go to the reader's problems.

    Args:
        reader: of the catalog, after it has read everything else.
        moved: the entries of ``moved``.
        node: the catalog's block.
    """
    written = entries_of(node).get("moved")
    items = written if moved and isinstance(written, Sequence) else []  # a list with an error is read as empty
    return tuple(_Moves(reader, list(_lines(reader, moved, items))).checked())


@dataclass(frozen=True, slots=True)
class _Line:
    """The two names of one entry, folded as the catalog folds them, and the entry."""

    origin: Identifier
    to: Identifier
    node: Node
    is_glob: bool = False

    def place(self, key: str) -> Place:
        return entries_of(self.node)[key].place


def _lines(reader: CatalogReader, moved: list[MovedBlock], items: list[Node]) -> Iterator[_Line]:
    """Yield the entries with valid names."""
    where, able = f"in `moved` ({reader.impl})", reader.capabilities
    for block, item in zip(moved, items, strict=True):
        entries = entries_of(item)
        if not all(map(reader.blocks.is_known, entries.values())):
            continue
        texts = {"from": block.origin, "to": block.to}
        is_glob = "*" in block.origin + block.to
        paths = [
            # A star stands for a part of a name: that of an `x` is as good as any.
            reader.blocks.path(
                text.replace("*", "x") if is_glob else text, entries[key].place, f"`{key}` {where}", able
            )
            for key, text in texts.items()
        ]
        if is_glob and None not in paths:
            paths = [tuple(map(able.folded, text.split("/"))) for text in texts.values()]
        origin, to = paths
        if origin is not None and to is not None:
            yield _Line(origin, to, item, is_glob)


@dataclass
class _Moves:
    """The entries of one catalog, checked against its blocks and each other."""

    reader: CatalogReader
    lines: list[_Line]
    _first: dict[tuple[str, bool, Identifier], Place] = field(default_factory=dict)

    def checked(self) -> Iterator[DesiredMove]:
        """Yield the moves of the entries without an error."""
        problems = self.reader.blocks.problems
        exact = [line for line in self.lines if not line.is_glob]
        taken = {names for line in exact for names in (line.origin, line.to)}
        found = [each for line in self.lines if line.is_glob for each in self._expanded(line, taken)]
        for line in (*exact, *found):
            # A table comes before a namespace of the same name.
            block = self.reader.tables.get(line.to) or self.reader.namespaces.get(line.to)
            problem = next(self._problems(line, block), None)
            if problem is None:
                source, is_table = problems.source(line.node.place), isinstance(block, DesiredTable)
                yield DesiredMove(line.origin, line.to, source, is_table)
            else:
                key, message = problem
                shown = "/".join(line.origin if key == "from" else line.to)
                problems.at(line.place(key), f"`{key}` in `moved`: `{shown}` {message}")

    def _expanded(self, line: _Line, taken: Collection[Identifier]) -> Iterator[_Line]:
        """Yield an entry for each block that an entry with stars means.

        A name in ``taken`` has an entry of its own, and a table that keeps its block stays.
        """
        problems = self.reader.blocks.problems
        origin, to = "/".join(line.origin), "/".join(line.to)
        if origin.count("*") != to.count("*") or "**" in f"{origin} {to}":
            expected = "expected as many `*` in `from` as in `to`, each for a part of one name"
            problems.at(line.place("from"), f"`from` in `moved`: `{origin}` and `to`: `{to}`; {expected}")
            return
        pattern = re.compile(re.escape(to).replace(r"\*", "([^/]+)"))
        blocks: list[list[Identifier]] = [[*self.reader.tables], [*self.reader.namespaces]]
        matches = [[found for names in each if (found := pattern.fullmatch("/".join(names)))] for each in blocks]
        if not any(matches):
            problems.at(
                line.place("to"), f"`to` in `moved`: `{to}` matches nothing in the manifest of {self.reader.catalog}"
            )
        first: dict[Identifier, Identifier] = {}
        for found in matches[0] or matches[1]:
            between = zip(origin.split("*"), (*found.groups(), ""), strict=True)
            names, old = tuple(found[0].split("/")), tuple("".join(chain(*between)).split("/"))
            block = self.reader.tables.get(names) or self.reader.namespaces[names]
            stays = old in (self.reader.tables if matches[0] else self.reader.namespaces)
            if stays or block.absent or old in taken or names in taken:
                continue
            if old in first:
                both = f"`{'/'.join(first[old])}` and `{'/'.join(names)}`"
                problems.at(line.place("from"), f"`from` in `moved`: `{'/'.join(old)}` would become {both}")
            first[old] = names
            yield _Line(old, names, line.node)

    def _problems(self, line: _Line, block: _Block) -> Iterator[tuple[str, str]]:
        """Yield the errors in an entry, each with the key it is about; the first one counts."""
        reader, is_table = self.reader, isinstance(block, DesiredTable)
        if block is None:
            yield "to", f"is not in the manifest of {reader.catalog}; {self._hint(line)}"
            return
        if block.absent:
            yield "to", "is `absent: true`, so that nothing can move there"
        if line.origin == line.to:
            folds = f" ({reader.impl} folds case)" if reader.capabilities.folds_case else ""
            yield "to", f"is the same name as `from`{folds}"
        there = (reader.tables if is_table else reader.namespaces).get(line.origin)
        if there is not None:
            at = there.source.exact
            yield "from", f"is still in the manifest, at {at}; what moves has one block, at its new name"
        depth = self._depth_problem(line.origin, is_table=is_table)
        if depth is not None:
            yield "from", f"({reader.impl}) {depth}"
        if not reader.scope.contains(line.origin):
            yield "from", f"is outside of the catalog's scope: {', '.join(reader.scope.patterns)}"
        for key, names in (("from", line.origin), ("to", line.to)):
            first = self._first.setdefault((key, is_table, names), line.place(key))
            if first != line.place(key):
                yield key, f"is a duplicate, first at {reader.blocks.problems.shown(first)}"

    def _hint(self, line: _Line) -> str:
        onward = self._onward(line)
        if onward:
            where = self.reader.blocks.problems.shown(onward[0].node.place)
            origin, to = "/".join(line.origin), "/".join(onward[-1].to)
            return f"{where} moves it on; write one line for all: {{from: {origin}, to: {to}}}"
        expected = "expected a table or a namespace that is in it"
        if len(self.reader.blocks.problems) >= _MOST_HINTS:
            return expected
        known = map("/".join, (*self.reader.tables, *self.reader.namespaces))
        return did_you_mean("/".join(line.to), known, expected)

    @cached_property
    def _by_origin(self) -> dict[Identifier, _Line]:
        return {line.origin: line for line in self.lines}

    def _onward(self, line: _Line) -> list[_Line]:
        """Return the chain of entries that move on what ``line`` moves; empty for a cycle."""
        found, seen = [line], {line.origin, line.to}
        while (after := self._by_origin.get(found[-1].to)) is not None:
            if after.to in seen:
                return []
            found.append(after)
            seen.add(after.to)
        return found[1:]

    def _depth_problem(self, origin: Identifier, *, is_table: bool) -> str | None:
        able = self.reader.capabilities
        if is_table:
            problem = able.table_depth_problem(len(origin) - 1)
            return None if problem is None else f"would be a table {problem}"
        if len(origin) <= able.fixed_levels:
            return "is a level that exists already; it is never created, renamed or dropped"
        if able.max_depth is not None and len(origin) > able.max_depth:
            return f"is {len(origin)} levels deep; namespaces have at most {able.max_depth} here"
        return None
