"""Unchecked nodes of a YAML file: mappings, sequences and texts of scalars, with their positions."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import TypeAlias

Position: TypeAlias = int
"""File, line and column in one number, as a manifest of a million tables has millions of positions."""

LINE_SHIFT, _FILE_SHIFT = 26, 52
_MASK = (1 << 26) - 1


def position_of(file: int, line: int, column: int) -> Position:
    """Return the position of ``line`` and ``column``, both counted from 1, in the file of this number."""
    return file << _FILE_SHIFT | line << LINE_SHIFT | column


def split_position(position: Position) -> tuple[int, int, int]:
    """Return file number, line and column of ``position``."""
    return position >> _FILE_SHIFT, position >> LINE_SHIFT & _MASK, position & _MASK


class _Positioned:
    """A node: ``position`` is the start of its value, ``key_position`` of its key, if it has one."""

    __slots__ = ()

    key_position: Position
    _offset: int
    """From the key to the value; a small integer, which Python caches."""

    @property
    def position(self) -> Position:
        return self.key_position + self._offset


class ScalarNode(_Positioned):
    """Text as written; ``is_null`` for YAML's null, which is an empty block where a block is expected."""

    __slots__ = ("_offset", "is_null", "key_position", "text")

    def __init__(self, position: Position, key_position: Position, text: str, is_null: bool) -> None:
        self.key_position = key_position
        self._offset = position - key_position
        self.text = text
        self.is_null = is_null


class Sequence(_Positioned, list["Node"]):
    """A list."""

    __slots__ = ("_offset", "key_position")

    def __init__(self, position: Position, key_position: Position) -> None:
        self.key_position = key_position
        self._offset = position - key_position


class Mapping(_Positioned, dict[str, "Node"]):
    """A block of keys in the order they are written."""

    __slots__ = ("_offset", "key_position")

    def __init__(self, position: Position, key_position: Position) -> None:
        self.key_position = key_position
        self._offset = position - key_position


Node: TypeAlias = ScalarNode | Sequence | Mapping


def entries_of(node: Node | None) -> dict[str, Node]:
    """Return the entries of a block; empty for null and for any other node."""
    return node if isinstance(node, Mapping) else {}


def is_block(node: Node) -> bool:
    """Return whether ``node`` is a block of keys, possibly empty."""
    return isinstance(node, Mapping) or (isinstance(node, ScalarNode) and node.is_null)


def block_at(node: Node, entries: MappingOf[str, Node]) -> Mapping:
    """Return a block with ``entries`` that replaces ``node``."""
    block = Mapping(node.position, node.key_position)
    block.update(entries)
    return block
