"""Resolve the lines of ``moved``, and pair live tables with their blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.model import locations
from reconciler.model.desired import DesiredCatalog, DesiredMove, DesiredTable, Prune
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier, Scope
from reconciler.model.ownership import is_same_owner, owner_of, recorded_keys, recorded_secrets


@dataclass(frozen=True, slots=True)
class Moves:
    """The ``moved`` lines of one catalog.

    ``by_table`` and ``by_old_table`` are the lines about tables, by new and by old name. ``by_namespace`` and
    ``by_old_namespace`` are the lines about namespaces. Of nested namespaces, the innermost line counts.

    Under ``prune: never``, tables without a block move with their namespace. ``keeper`` is then the manifest's owner
    mark, None otherwise. They move only into ``wanted_namespaces``, the blocks of namespaces, and not to or from
    ``named_tables``, the names of blocks that a line concerns.
    """

    by_table: Mapping[Identifier, DesiredMove]
    by_old_table: Mapping[Identifier, DesiredMove]
    by_namespace: Mapping[Identifier, DesiredMove]
    by_old_namespace: Mapping[Identifier, DesiredMove]
    keeper: str | None = None
    wanted_namespaces: frozenset[Identifier] = frozenset()
    named_tables: frozenset[Identifier] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.by_table or self.by_namespace)

    def origin_of(self, table: Identifier) -> tuple[Identifier, DesiredMove] | None:
        """Return the old name of a table and its ``moved`` line; None if no line has it."""
        line = self.by_table.get(table) or _innermost(self.by_namespace, table)
        if line is None:
            return None
        origin = (*line.origin, *table[len(line.to) :])
        return (origin, line) if self.line_leaving(origin) is line else None

    def target_of(self, table: Identifier) -> Identifier | None:
        """Return the new name of a live table; None if no line moves it."""
        line = self.line_leaving(table)
        return None if line is None else (*line.to, *table[len(line.origin) :])

    def namespace_target_of(self, namespace: Identifier) -> Identifier | None:
        """Return the new name of a live namespace; None if no line moves it."""
        line = _innermost(self.by_old_namespace, (*namespace, ""))
        return None if line is None else (*line.to, *namespace[len(line.origin) :])

    def namespace_origin_of(self, namespace: Identifier) -> Identifier | None:
        """Return the old name of a namespace; None if no line has it."""
        line = _innermost(self.by_namespace, (*namespace, ""))
        origin = None if line is None else (*line.origin, *namespace[len(line.to) :])
        return origin if origin is not None and self.namespace_target_of(origin) == namespace else None

    def block_of_kept(self, table: LiveTable) -> DesiredTable | None:
        """Return a block for a table without one that moves with its namespace; None if it does not move."""
        if self.keeper is None or not is_same_owner(owner_of(table.properties), self.keeper):
            return None
        line, target = self.line_leaving(table.id), self.target_of(table.id)
        if line is None or line.is_table or target is None or target[:-1] not in self.wanted_namespaces:
            return None
        if not self.named_tables.isdisjoint((table.id, target)):
            return None
        properties = {key: table.properties[key] for key in recorded_keys(table.properties) if key in table.properties}
        # Without a probe, no tag is compared, so the tags stay.
        return DesiredTable(
            target, line.source, properties, probe=False, secret_keys=recorded_secrets(table.properties)
        )

    def concerns(self, table: Identifier) -> bool:
        """Return whether a line may move a table of this name, or to this name."""
        return self.line_leaving(table) is not None or (
            table in self.by_table or _innermost(self.by_namespace, table) is not None
        )

    def line_leaving(self, origin: Identifier) -> DesiredMove | None:
        """Return the line that moves a table away from ``origin``; None if none does."""
        return self.by_old_table.get(origin) or _innermost(self.by_old_namespace, origin)


def _has_word(tail: str, name: str) -> bool:
    """Return whether the end of a location has ``name`` as a whole word."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", tail) is not None


NO_MOVES = Moves({}, {}, {}, {})
_NO_HOLDERS: Mapping[Identifier, str] = {}


def _innermost(lines: Mapping[Identifier, DesiredMove], name: Identifier) -> DesiredMove | None:
    """Return the line of the innermost namespace that contains ``name``."""
    candidates = (lines.get(name[:depth]) for depth in range(len(name) - 1, 0, -1))
    return next((line for line in candidates if line is not None), None) if lines else None


def moves_of(desired: DesiredCatalog) -> Moves:
    """Return the moves of a catalog."""
    tables = [line for line in desired.moves if line.is_table]
    namespaces = [line for line in desired.moves if not line.is_table]
    moves = Moves(
        {line.to: line for line in tables},
        {line.origin: line for line in tables},
        {line.to: line for line in namespaces},
        {line.origin: line for line in namespaces},
    )
    if not moves.by_namespace or desired.prune is not Prune.NEVER:
        return moves
    wanted_namespaces = frozenset(name for name, block in desired.namespaces.items() if not block.absent)
    named_tables = frozenset(filter(moves.concerns, desired.tables))
    return replace(moves, keeper=desired.owner, wanted_namespaces=wanted_namespaces, named_tables=named_tables)


@dataclass(frozen=True, slots=True)
class TablePair:
    """A table's block, its entry, and its entry under the old name, where they exist.

    ``live`` is the entry under the block's name, ``origin`` the one under the old name, which the ``moved`` line
    ``line`` gives. ``name_holder`` describes an object with the block's name that is no Lance table; empty if there is
    none.
    """

    desired: DesiredTable | None
    live: LiveTable | None
    origin: LiveTable | None = None
    line: DesiredMove | None = None
    name_holder: str = ""

    @property
    def entry_to_compare(self) -> LiveTable | None:
        """The entry to compare with the block; a moved one is given the block's name."""
        if self.live is None and self.origin is not None and self.desired is not None:
            return replace(self.origin, id=self.desired.id)
        return self.live

    @property
    def former_name(self) -> Identifier | None:
        """The old name by the ``moved`` line, whether an entry has it or not; None without a line."""
        return (*self.line.origin, *self.desired.id[len(self.line.to) :]) if self.line and self.desired else None

    @property
    def is_located_by_entry(self) -> bool:
        """Whether the table has moved and only its entry, not its block, tells where its data is.

        A line with stars also covers tables that never moved. Their location contains the new name, not the old one.
        """
        desired, live, former = self.desired, self.live, self.former_name
        if desired is None or live is None or former is None or self.origin is not None:
            return False
        if desired.location is not None or desired.mirrors is not None:
            return False
        tail = "/".join(locations.names_in(live.location)[-len(live.id) :])
        old, new = set(former).difference(live.id), set(live.id).difference(former)
        return any(_has_word(tail, name) for name in old) or not all(_has_word(tail, name) for name in new)

    @property
    def present_entry(self) -> LiveTable | None:
        """The entry under its present name."""
        return self.live or self.origin

    @property
    def entries(self) -> list[LiveTable]:
        """The live entries under both names."""
        return [live for live in (self.live, self.origin) if live is not None]

    def is_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains the table, by its new name or its old one."""
        table = self.desired or self.live
        return table is not None and (
            scope.contains(table.id) or (self.origin is not None and scope.contains(self.origin.id))
        )

    def block_in(self, scope: Scope) -> DesiredTable | None:
        """Return the block if ``scope`` has it and it is neither absent nor refused."""
        desired = self.desired
        if desired is None or desired.absent or desired.refused is not None or not self.is_in(scope):
            return None
        return desired


def pairs(
    moves: Moves,
    blocks: Mapping[Identifier, DesiredTable],
    live: Mapping[Identifier, LiveTable],
    name_holders: Mapping[Identifier, str] = _NO_HOLDERS,
) -> Iterator[TablePair]:
    """Yield every table of ``blocks`` and ``live`` once, moved ones with both names.

    ``name_holders`` describes objects that are no Lance tables, by name: that of a block, or the old one of a move.
    """
    paired: set[Identifier] = set()
    moves_any = bool(moves)  # asked once: there may be a million blocks
    for identifier, desired in blocks.items():
        move = moves.origin_of(identifier) if moves_any and not desired.absent else None
        if move is None:
            # Only a mirror asks for a name that a table moves away from: the entry there is not the mirrored table.
            leaves = desired.refused is not None and moves.target_of(identifier) in blocks
            entry, holder = None if leaves else live.get(identifier), name_holders.get(identifier, "")
            yield TablePair(desired, entry, name_holder=holder)
            continue
        old_name, line = move
        origin, holder = live.get(old_name), name_holders.get(identifier, "")
        if origin is not None:
            paired.add(old_name)
        elif old_name in name_holders:  # creating the new name would leave the table behind
            holder = holder or f"{'/'.join(old_name)}: {name_holders[old_name]}"
        yield TablePair(desired, live.get(identifier), origin, line, holder)
    for identifier, table in live.items() if moves.keeper else ():
        block = moves.block_of_kept(table) if identifier not in paired else None
        move = moves.origin_of(block.id) if block is not None else None
        if block is not None and move is not None:
            paired |= {identifier, block.id}
            yield TablePair(block, live.get(block.id), table, move[1])
    for identifier, table in live.items():
        if identifier not in blocks and identifier not in paired:
            yield TablePair(None, table)
