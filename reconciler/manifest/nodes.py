"""The nodes of a YAML file before any check: mappings, sequences and the text of scalars, with their places."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import TypeAlias

Place: TypeAlias = int
"""File, line and column in one number, as a manifest of a million tables has millions of places."""

LINE_SHIFT, _FILE_SHIFT = 26, 52
_MASK = (1 << 26) - 1


def place_of(file: int, line: int, column: int) -> Place:
    """Return the place of ``line`` and ``column``, both counted from 1, in the file of this number."""
    return file << _FILE_SHIFT | line << LINE_SHIFT | column


def position(place: Place) -> tuple[int, int, int]:
    """Return file number, line and column of ``place``."""
    return place >> _FILE_SHIFT, place >> LINE_SHIFT & _MASK, place & _MASK


class _Placed:
    """A node: ``place`` is the start of its value, ``key_place`` of its key, if it has one."""

    __slots__ = ()

    key_place: Place
    _offset: int
    """From the key to the value; a small integer, which Python caches."""

    @property
    def place(self) -> Place:
        return self.key_place + self._offset


class ScalarNode(_Placed):
    """Text as written; ``is_null`` for YAML's null, which is an empty block where a block is expected."""

    __slots__ = ("_offset", "is_null", "key_place", "text")

    def __init__(self, place: Place, key_place: Place, text: str, is_null: bool) -> None:
        self.key_place = key_place
        self._offset = place - key_place
        self.text = text
        self.is_null = is_null


class Sequence(_Placed, list["Node"]):
    """A list."""

    __slots__ = ("_offset", "key_place")

    def __init__(self, place: Place, key_place: Place) -> None:
        self.key_place = key_place
        self._offset = place - key_place


class Mapping(_Placed, dict[str, "Node"]):
    """A block of keys in the order they are written."""

    __slots__ = ("_offset", "key_place")

    def __init__(self, place: Place, key_place: Place) -> None:
        self.key_place = key_place
        self._offset = place - key_place


Node: TypeAlias = ScalarNode | Sequence | Mapping


def entries_of(node: Node | None) -> dict[str, Node]:
    """Return the entries of a block; empty for null and for any other node."""
    return node if isinstance(node, Mapping) else {}


def is_block(node: Node) -> bool:
    """Return whether ``node`` is a block of keys, possibly empty."""
    return isinstance(node, Mapping) or (isinstance(node, ScalarNode) and node.is_null)


def block_at(node: Node, entries: MappingOf[str, Node]) -> Mapping:
    """Return a block with ``entries`` in the place of ``node``."""
    block = Mapping(node.place, node.key_place)
    block.update(entries)
    return block
