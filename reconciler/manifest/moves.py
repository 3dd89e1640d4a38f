"""Read the ``moved`` entries of a catalog: its renamed tables and namespaces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from reconciler.manifest.catalogs import CatalogBlockReader
from reconciler.manifest.models import MovedBlock
from reconciler.manifest.nodes import Node, Position, Sequence, entries_of
from reconciler.model.desired import DesiredMove, DesiredNamespace, DesiredTable
from reconciler.model.display import did_you_mean
from reconciler.model.names import Identifier

_IF_APPLIED = "delete the line if it has been applied"
_MAX_HINTS = 10  # each is a search through the names of the whole catalog

_Block: TypeAlias = DesiredTable | DesiredNamespace | None


def read_moves(reader: CatalogBlockReader, moved: list[MovedBlock], node: Node) -> tuple[DesiredMove, ...]:
    """Return the moves of a catalog's block, in no particular order; errors go to the reader's problems.

    Args:
        reader: of the catalog, after it has read everything else.
        moved: the entries of ``moved``.
        node: the catalog's block.
    """
    moved_node = entries_of(node).get("moved")
    items = moved_node if moved and isinstance(moved_node, Sequence) else []  # a list with an error is read as empty
    return tuple(_MoveChecker(reader, list(_read_lines(reader, moved, items))).valid_moves())


@dataclass(frozen=True, slots=True)
class _MoveLine:
    """One entry of ``moved``: the old and the new name, folded as the catalog folds them, and its node."""

    origin: Identifier
    to: Identifier
    node: Node
    is_glob: bool = False

    def position(self, key: str) -> Position:
        return entries_of(self.node)[key].position


def _read_lines(reader: CatalogBlockReader, moved: list[MovedBlock], items: list[Node]) -> Iterator[_MoveLine]:
    """Yield the entries with valid names."""
    suffix, capabilities = f"in `moved` ({reader.impl})", reader.capabilities
    for block, item in zip(moved, items, strict=True):
        entries = entries_of(item)
        if not all(map(reader.blocks.is_known, entries.values())):
            continue
        texts = {"from": block.origin, "to": block.to}
        is_glob = "*" in block.origin + block.to
        paths = [
            # To check the names, replace each star by a letter that is valid in every name.
            reader.blocks.path(
                text.replace("*", "x") if is_glob else text, entries[key].position, f"`{key}` {suffix}", capabilities
            )
            for key, text in texts.items()
        ]
        if is_glob and None not in paths:
            paths = [tuple(map(capabilities.folded, text.split("/"))) for text in texts.values()]
        origin, to = paths
        if origin is not None and to is not None:
            yield _MoveLine(origin, to, item, is_glob)


def _name_after_move(names: Identifier, old: Identifier, new: Identifier) -> Identifier | None:
    """Return the name of the object ``names`` after ``old`` becomes ``new``; None if it is not at or below ``old``.

    Each star stands for the same part of a name in both.
    """
    stars = re.escape("/".join(old)).replace(r"\*", "([^/]+)")
    match = re.match(rf"{stars}(?=/|\Z)", "/".join(names))
    parts = "/".join(new).split("*")
    if match is None or len(match.groups()) != len(parts) - 1:
        return None
    between = zip(parts, (*match.groups(), ""), strict=True)
    return (*"".join(chain(*between)).split("/"), *names[len(old) :])


@dataclass
class _MoveChecker:
    """The entries of one catalog, checked against its blocks and each other."""

    reader: CatalogBlockReader
    lines: list[_MoveLine]
    _first: dict[tuple[str, bool, Identifier], Position] = field(default_factory=dict)
    _origins: set[Identifier] = field(default_factory=set)
    _namespaces: dict[Identifier, _MoveLine] = field(default_factory=dict)
    _globs: dict[bool, list[_MoveLine]] = field(default_factory=lambda: {True: [], False: []})

    def valid_moves(self) -> Iterator[DesiredMove]:
        """Yield the moves of the entries without an error."""
        problems = self.reader.blocks.problems
        exact = [line for line in self.lines if not line.is_glob]
        taken = {names for line in exact for names in (line.origin, line.to)}
        expanded = [each for line in self.lines if line.is_glob for each in self._expand_stars(line, taken)]
        lines = [*exact, *expanded]
        self._origins = {line.origin for line in lines}
        self._namespaces = {line.to: line for line in lines if line.to not in self.reader.tables}
        for line in lines:
            # A table comes before a namespace of the same name.
            block = self.reader.tables.get(line.to) or self.reader.namespaces.get(line.to)
            problem = next(self._problems(line, block), None)
            if problem is None:
                source, is_table = problems.source(line.node.position), isinstance(block, DesiredTable)
                yield DesiredMove(line.origin, line.to, source, is_table)
            else:
                key, message = problem
                shown = "/".join(line.origin if key == "from" else line.to)
                problems.add_at(line.position(key), f"`{key}` in `moved`: `{shown}` {message}")

    def _expand_stars(self, line: _MoveLine, taken: Collection[Identifier]) -> Iterator[_MoveLine]:
        """Yield an entry for each block that matches an entry with stars.

        A name in ``taken`` has an entry of its own, and a table that keeps its block stays.
        """
        problems = self.reader.blocks.problems
        origin, to = "/".join(line.origin), "/".join(line.to)
        if origin.count("*") != to.count("*") or "**" in f"{origin} {to}":
            expected = "expected as many `*` in `from` as in `to`, each for a part of one name"
            problems.add_at(line.position("from"), f"`from` in `moved`: `{origin}` and `to`: `{to}`; {expected}")
            return
        blocks: list[list[Identifier]] = [[*self.reader.tables], [*self.reader.namespaces]]
        matches = [
            [
                (old, names)
                for names in each
                if len(names) == len(line.to) and (old := _name_after_move(names, line.to, line.origin))
            ]
            for each in blocks
        ]
        self._globs[bool(matches[0])].append(line)
        if not any(matches):
            problems.add_at(
                line.position("to"),
                f"`to` in `moved`: `{to}` matches nothing in the manifest of {self.reader.catalog}; {_IF_APPLIED}",
            )
        first: dict[Identifier, Identifier] = {}
        for old, names in matches[0] or matches[1]:
            block = self.reader.tables.get(names) or self.reader.namespaces[names]
            stays = old in (self.reader.tables if matches[0] else self.reader.namespaces)
            if stays or block.absent or old in taken or names in taken:
                continue
            if old in first:
                both = f"`{'/'.join(first[old])}` and `{'/'.join(names)}`"
                problems.add_at(line.position("from"), f"`from` in `moved`: `{'/'.join(old)}` would become {both}")
            first[old] = names
            yield _MoveLine(old, names, line.node)

    def _problems(self, line: _MoveLine, block: _Block) -> Iterator[tuple[str, str]]:
        """Yield the errors in an entry, each with the key it is about; the first one counts."""
        reader, is_table = self.reader, isinstance(block, DesiredTable)
        if block is None:
            yield "to", f"is not in the manifest of {reader.catalog}; {self._hint(line)}"
            return
        if block.absent:
            yield "to", f"is `absent: true`, so that nothing can move there; {_IF_APPLIED}"
        if line.origin == line.to:
            folds = f" ({reader.impl} folds case)" if reader.capabilities.folds_case else ""
            yield "to", f"is the same name as `from`{folds}"
        remaining = (reader.tables if is_table else reader.namespaces).get(line.origin)
        if remaining is not None:
            at = remaining.source.exact
            one_block = "what moves has one block, at its new name"
            yield "from", f"is still in the manifest, at {at}; {one_block}; {_IF_APPLIED}"
        depth = self._depth_problem(line.origin, is_table=is_table)
        if depth is not None:
            yield "from", f"({reader.impl}) {depth}"
        if not reader.scope.contains(line.origin):
            yield "from", f"is outside of the catalog's scope: {', '.join(reader.scope.patterns)}"
        for key, names in (("from", line.origin), ("to", line.to)):
            first = self._first.setdefault((key, is_table, names), line.position(key))
            if first != line.position(key):
                yield key, f"is a duplicate, first at {reader.blocks.problems.locate(first)}"
        before = self._earlier_move(line, is_table=is_table)
        if before is not None:
            other, origin = before
            earlier, old, new = reader.blocks.problems.locate(other.node.position), "/".join(origin), "/".join(line.to)
            yield (
                "from",
                (
                    f"is where {earlier} moves `{old}`; write {{from: {old}, to: {new}}} instead, "
                    f"or delete {earlier} if it has been applied"
                ),
            )

    def _earlier_move(self, line: _MoveLine, *, is_table: bool) -> tuple[_MoveLine, Identifier] | None:
        """Return an entry whose target is the old name of ``line``, and the name from which it moves that object."""
        parents = (line.origin[:depth] for depth in range(len(line.origin) - 1, 0, -1))
        earlier = [self._namespaces[parent] for parent in parents if parent in self._namespaces]
        earlier += [glob for glob in self._globs[is_table] if len(glob.to) == len(line.origin)]
        origins = (
            (other, _name_after_move(line.origin, other.to, other.origin))
            for other in earlier
            if other.node is not line.node
        )
        return next(((other, name) for other, name in origins if name and name not in self._origins), None)

    def _hint(self, line: _MoveLine) -> str:
        expected = f"{_IF_APPLIED}, or name a table or a namespace that is in it"
        if len(self.reader.blocks.problems) >= _MAX_HINTS:
            return expected
        onward, target = self._later_moves(line)
        if onward is not None:
            next_move = self.reader.blocks.problems.locate(onward.node.position)
            origin, to = "/".join(line.origin), "/".join(target)
            return f"{next_move} moves it on; write one line for all: {{from: {origin}, to: {to}}}, or {_IF_APPLIED}"
        names = {*self.reader.tables, *self.reader.namespaces} - {line.origin}
        hint = did_you_mean("/".join(line.to), map("/".join, sorted(names)))
        return f"{_IF_APPLIED}; {hint}" if hint else expected

    def _later_moves(self, line: _MoveLine) -> tuple[_MoveLine | None, Identifier]:
        """Follow further moves of the target of ``line``; return the first, None in a cycle, and the last name."""
        first, target, seen = None, line.to, {line.origin}
        while target not in seen:
            seen.add(target)
            steps = (
                (other, _name_after_move(target, other.origin, other.to)) for other in self.lines if other is not line
            )
            onward = next(((other, to) for other, to in steps if to is not None), None)
            if onward is None:
                return first, target
            first, target = first or onward[0], onward[1]
        return None, target

    def _depth_problem(self, origin: Identifier, *, is_table: bool) -> str | None:
        capabilities = self.reader.capabilities
        if is_table:
            problem = capabilities.table_depth_problem(len(origin) - 1)
            return None if problem is None else f"would be a table {problem}"
        if len(origin) <= capabilities.fixed_levels:
            return "is a level that exists already; it is never created, renamed or dropped"
        if capabilities.max_depth is not None and len(origin) > capabilities.max_depth:
            return f"is {len(origin)} levels deep; namespaces have at most {capabilities.max_depth} here"
        return None
