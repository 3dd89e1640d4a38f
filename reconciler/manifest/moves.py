"""The ``moved`` of a catalog: which tables and namespaces have another name now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from reconciler.manifest.blocks import entries_of
from reconciler.manifest.catalogs import CatalogReader
from reconciler.manifest.models import MovedBlock
from reconciler.manifest.nodes import Node, Place, Sequence
from reconciler.model.desired import DesiredMove, DesiredNamespace, DesiredTable
from reconciler.model.limits import table_depth_problem
from reconciler.model.names import Identifier


def read_moves(reader: CatalogReader, moved: list[MovedBlock], node: Node) -> tuple[DesiredMove, ...]:
    """Return the moves that a catalog's block asks for, in no particular order; what is wrong goes to the faults.

    Args:
        reader: what read everything else of the catalog.
        moved: the entries of ``moved``.
        node: the catalog's block.
    """
    written = entries_of(node).get("moved")
    items = written if moved and isinstance(written, Sequence) else []  # a faulty list is read as none
    return tuple(_Moves(reader, dict(_ends(reader, moved, items))).checked())


@dataclass(frozen=True, slots=True)
class _Ends:
    """The two names of one entry, folded as the catalog folds them, and where they are written."""

    origin: Identifier
    to: Identifier
    origin_place: Place
    to_place: Place
    entry: Place


def _ends(reader: CatalogReader, moved: list[MovedBlock], items: list[Node]) -> Iterator[tuple[int, _Ends]]:
    """Yield the entries whose names can be names at all."""
    for number, (block, item) in enumerate(zip(moved, items, strict=True)):
        entries = entries_of(item)
        origin_place, to_place = entries["from"].place, entries["to"].place
        where, able = f"in `moved` ({reader.impl})", reader.capabilities
        origin = reader.blocks.path(block.origin, origin_place, f"`from` {where}", able)
        to = reader.blocks.path(block.to, to_place, f"`to` {where}", able)
        if origin is not None and to is not None:
            yield number, _Ends(origin, to, origin_place, to_place, item.place)


@dataclass
class _Moves:
    """The entries of one catalog, checked against its blocks and against each other."""

    reader: CatalogReader
    entries: dict[int, _Ends]
    _first: dict[tuple[str, bool, Identifier], Place] = field(default_factory=dict)

    def checked(self) -> Iterator[DesiredMove]:
        """Yield what the entries without a fault ask for."""
        for ends in self.entries.values():
            block = self._to(ends)
            if block is not None and self._is_possible(ends, block):
                source = self.reader.blocks.faults.source(ends.entry)
                yield DesiredMove(ends.origin, ends.to, source, isinstance(block, DesiredTable))

    def _to(self, ends: _Ends) -> DesiredTable | DesiredNamespace | None:
        """Return what has the new name; a table, where a namespace has it, too."""
        reader, shown = self.reader, "/".join(ends.to)
        block = reader.tables.get(ends.to) or reader.namespaces.get(ends.to)
        if block is None:
            onward = self._onward(ends)
            if onward:
                where = reader.blocks.faults.shown(onward[0].entry)
                origin, to = "/".join(ends.origin), "/".join(onward[-1].to)
                hint = f"{where} moves it on; write one line for all: {{from: {origin}, to: {to}}}"
            else:
                known = ["/".join(names) for names in (*reader.tables, *reader.namespaces)]
                nearest = get_close_matches(shown, known, n=1)
                hint = f"did you mean `{nearest[0]}`?" if nearest else "expected a table or a namespace that is in it"
            reader.fault(
                ends.to_place, f"`to` in `moved`: `{shown}` is not in the manifest of {reader.catalog}; {hint}"
            )
        elif block.absent:
            reader.fault(ends.to_place, f"`to` in `moved`: `{shown}` is `absent: true`, so that nothing can move there")
            return None
        return block

    def _onward(self, ends: _Ends) -> list[_Ends]:
        """Return the entries that move on what ``ends`` moves, one after the other; none where they go in a circle."""
        by_origin = {other.origin: other for other in self.entries.values()}
        found, seen = [ends], {ends.origin, ends.to}
        while (after := by_origin.get(found[-1].to)) is not None:
            if after.to in seen:
                return []
            found.append(after)
            seen.add(after.to)
        return found[1:]

    def _is_possible(self, ends: _Ends, block: DesiredTable | DesiredNamespace) -> bool:
        problem = self._problem(ends, block)
        if problem is not None:
            self.reader.fault(*problem)
        return problem is None

    def _problem(self, ends: _Ends, block: DesiredTable | DesiredNamespace) -> tuple[Place, str] | None:
        """Return what is wrong with one entry, and where; None when nothing is."""
        reader, is_table = self.reader, isinstance(block, DesiredTable)
        shown = "/".join(ends.origin)
        if ends.origin == ends.to:
            folds = f" ({reader.impl} folds case)" if reader.capabilities.folds_case else ""
            return ends.to_place, f"`from` and `to` in `moved` are one name: `{shown}`{folds}"
        there = (reader.tables if is_table else reader.namespaces).get(ends.origin)
        if there is not None:
            where = f"{there.source}:{there.source.column}"
            return ends.origin_place, (
                f"`from` in `moved`: `{shown}` is still in the manifest, at {where}; what moves has one block, at its "
                "new name"
            )
        depth = self._depth_problem(ends.origin, is_table=is_table)
        if depth is not None:
            return ends.origin_place, f"`from` in `moved`: `{shown}` ({reader.impl}) {depth}"
        if not reader.scope.contains(ends.origin):
            scope = ", ".join(reader.scope.patterns)
            return ends.origin_place, f"`from` in `moved`: `{shown}` is outside of the catalog's scope: {scope}"
        for key, names, place in (("from", ends.origin, ends.origin_place), ("to", ends.to, ends.to_place)):
            first = self._first.setdefault((key, is_table, names), place)
            if first != place:
                said = reader.blocks.faults.shown(first)
                return place, f"`{key}` in `moved`: `{'/'.join(names)}` is a duplicate, first at {said}"
        return None

    def _depth_problem(self, origin: Identifier, *, is_table: bool) -> str | None:
        able = self.reader.capabilities
        if is_table:
            problem = table_depth_problem(able, len(origin) - 1)
            return None if problem is None else f"would be a table {problem}"
        if len(origin) <= able.fixed_levels:
            return "is a level that is there already; it is never made, renamed or dropped"
        if able.max_depth is not None and len(origin) > able.max_depth:
            return f"is {len(origin)} levels deep; namespaces have at most {able.max_depth} here"
        return None
