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

    ``keeper`` is the manifest if it keeps tables without a block (``prune: never``): these move with their namespace to
    one of ``homes``, unless the name is in ``listed``. Otherwise they are pruned where they are.

    ``tables`` and ``origins`` are the lines about tables, by new and by old name; ``namespaces`` and ``left`` are the
    lines about namespaces. Of nested namespaces, the innermost line counts.
    """

    tables: Mapping[Identifier, DesiredMove]
    origins: Mapping[Identifier, DesiredMove]
    namespaces: Mapping[Identifier, DesiredMove]
    left: Mapping[Identifier, DesiredMove]
    keeper: str | None = None
    homes: frozenset[Identifier] = frozenset()
    listed: frozenset[Identifier] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.tables or self.namespaces)

    def origin_of(self, table: Identifier) -> tuple[Identifier, DesiredMove] | None:
        """Return the old name of a table and its ``moved`` line; None if no line has it."""
        line = self.tables.get(table) or _longest(self.namespaces, table)
        if line is None:
            return None
        origin = (*line.origin, *table[len(line.to) :])
        return (origin, line) if self.line_from(origin) is line else None

    def target_of(self, table: Identifier) -> Identifier | None:
        """Return the new name of a live table; None if no line moves it."""
        line = self.line_from(table)
        return None if line is None else (*line.to, *table[len(line.origin) :])

    def namespace_target_of(self, namespace: Identifier) -> Identifier | None:
        """Return the new name of a live namespace; None if no line moves it."""
        line = _longest(self.left, (*namespace, ""))
        return None if line is None else (*line.to, *namespace[len(line.origin) :])

    def namespace_origin_of(self, namespace: Identifier) -> Identifier | None:
        """Return the old name of a namespace; None if no line has it."""
        line = _longest(self.namespaces, (*namespace, ""))
        origin = None if line is None else (*line.origin, *namespace[len(line.to) :])
        return origin if origin is not None and self.namespace_target_of(origin) == namespace else None

    def kept(self, table: LiveTable) -> DesiredTable | None:
        """Return a block for a table that moves with its namespace; None if it does not."""
        owner = owner_of(table.properties)
        if self.keeper is None or table.id in self.listed or not is_same_owner(owner, self.keeper):
            return None
        line, target = self.line_from(table.id), self.target_of(table.id)
        if line is None or line.is_table or target is None or target in self.listed or target[:-1] not in self.homes:
            return None
        properties = {key: table.properties[key] for key in recorded_keys(table.properties) if key in table.properties}
        # Without a question to storage, its tags stay.
        return DesiredTable(
            target, line.source, properties, probe=False, secret_keys=recorded_secrets(table.properties)
        )

    def concerns(self, table: Identifier) -> bool:
        """Return whether a line may move a table of this name, or to this name."""
        return self.line_from(table) is not None or (
            table in self.tables or _longest(self.namespaces, table) is not None
        )

    def line_from(self, origin: Identifier) -> DesiredMove | None:
        """Return the line that moves a table away from ``origin``; None if none does."""
        return self.origins.get(origin) or _longest(self.left, origin)


def _holds(tail: str, name: str) -> bool:
    """Return whether ``name`` is in the end of a location, and not within a longer word."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", tail) is not None


NO_MOVES = Moves({}, {}, {}, {})
_NOTHING_HELD: Mapping[Identifier, str] = {}


def _longest(lines: Mapping[Identifier, DesiredMove], name: Identifier) -> DesiredMove | None:
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
    if not moves.namespaces or desired.prune is not Prune.NEVER:
        return moves
    homes = frozenset(name for name, block in desired.namespaces.items() if not block.absent)
    return replace(moves, keeper=desired.owner, homes=homes, listed=frozenset(filter(moves.concerns, desired.tables)))


@dataclass(frozen=True, slots=True)
class TablePair:
    """A table's block, its entry, and its entry under the old name, where they exist.

    ``line`` is the ``moved`` line with the old name. ``held`` describes an object with the block's name that is no
    Lance table; empty if there is none.
    """

    desired: DesiredTable | None
    live: LiveTable | None
    origin: LiveTable | None = None
    line: DesiredMove | None = None
    held: str = ""

    @property
    def renamed(self) -> LiveTable | None:
        """The entry to compare with the block, under the new name."""
        if self.live is None and self.origin is not None and self.desired is not None:
            return replace(self.origin, id=self.desired.id)
        return self.live

    @property
    def former(self) -> Identifier | None:
        """The old name of the block's table, whether an entry has it or not."""
        return (*self.line.origin, *self.desired.id[len(self.line.to) :]) if self.line and self.desired else None

    @property
    def forgets_location(self) -> bool:
        """Whether the table has moved, and only its entry knows where its data is.

        A line with stars also covers tables that never moved. Their location holds the new name, not the old one.
        """
        desired, live, former = self.desired, self.live, self.former
        if desired is None or live is None or former is None or self.origin is not None:
            return False
        if desired.location is not None or desired.mirrors is not None:
            return False
        tail = "/".join(locations.names_in(live.location)[-len(live.id) :])
        old, new = set(former).difference(live.id), set(live.id).difference(former)
        return any(_holds(tail, name) for name in old) or not all(_holds(tail, name) for name in new)

    @property
    def in_force(self) -> LiveTable | None:
        """The entry under its present name."""
        return self.live or self.origin

    @property
    def there(self) -> list[LiveTable]:
        """The entries under both names."""
        return [live for live in (self.live, self.origin) if live is not None]

    def is_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains the table, by its new name or its old one."""
        table = self.desired or self.live
        return table is not None and (
            scope.contains(table.id) or (self.origin is not None and scope.contains(self.origin.id))
        )

    def wanted_in(self, scope: Scope) -> DesiredTable | None:
        """Return the block if ``scope`` has it and it is neither absent nor refused."""
        desired = self.desired
        if desired is None or desired.absent or desired.refused is not None or not self.is_in(scope):
            return None
        return desired


def pairs(
    moves: Moves,
    blocks: Mapping[Identifier, DesiredTable],
    live: Mapping[Identifier, LiveTable],
    held: Mapping[Identifier, str] = _NOTHING_HELD,
) -> Iterator[TablePair]:
    """Yield every table of ``blocks`` and ``live`` once, moved ones with both names.

    ``held`` describes objects with the names of blocks, or old names of moved ones, that are no Lance tables.
    """
    taken: set[Identifier] = set()
    moves_any = bool(moves)  # asked once: there may be a million blocks
    for identifier, desired in blocks.items():
        move = moves.origin_of(identifier) if moves_any and not desired.absent else None
        if move is None:
            # Only a mirror asks for a name that a table leaves: what has it is not what is asked for.
            leaves = desired.refused is not None and moves.target_of(identifier) in blocks
            yield TablePair(desired, None if leaves else live.get(identifier), held=held.get(identifier, ""))
            continue
        before, line = move
        origin = live.get(before)
        if origin is not None:
            taken.add(before)
        by = held.get(identifier, "")
        if origin is None and before in held:
            by = by or f"{'/'.join(before)}: {held[before]}"  # creating the new name would leave the table behind
        yield TablePair(desired, live.get(identifier), origin, line, by)
    for identifier, table in live.items() if moves.keeper else ():
        keeper = moves.kept(table) if identifier not in taken else None
        move = moves.origin_of(keeper.id) if keeper is not None else None
        if keeper is not None and move is not None:
            taken |= {identifier, keeper.id}
            yield TablePair(keeper, live.get(keeper.id), table, move[1])
    for identifier, table in live.items():
        if identifier not in blocks and identifier not in taken:
            yield TablePair(None, table)
