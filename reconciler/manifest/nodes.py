"""What a YAML file says, before anything is checked: mappings, sequences and the text of scalars, with their places."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["LINE_SHIFT", "Mapping", "Node", "Place", "Scalar", "Sequence", "place_of", "position"]

Place: TypeAlias = int
"""File, line and column in one number: a manifest of a million tables has millions of places."""

LINE_SHIFT, _FILE_SHIFT = 26, 52
_MASK = (1 << 26) - 1


def place_of(file: int, line: int, column: int) -> Place:
    """Return the place of ``line`` and ``column``, both counted from 1, in the file of this number."""
    return file << _FILE_SHIFT | line << LINE_SHIFT | column


def position(place: Place) -> tuple[int, int, int]:
    """Return file number, line and column of ``place``."""
    return place >> _FILE_SHIFT, place >> LINE_SHIFT & _MASK, place & _MASK


class _Node:
    """``place`` is where the value starts; ``key_place`` is that of its key, or its own where it has none."""

    __slots__ = ("key_place", "place")

    place: Place
    key_place: Place


class Scalar(_Node):
    """Text as written. ``is_null`` tells that it was not text but YAML's nothing, where a block is expected."""

    __slots__ = ("is_null", "text")

    def __init__(self, place: Place, key_place: Place, text: str, is_null: bool) -> None:
        self.place = place
        self.key_place = key_place
        self.text = text
        self.is_null = is_null


class Sequence(_Node):
    """A list."""

    __slots__ = ("items",)

    def __init__(self, place: Place, key_place: Place) -> None:
        self.place = place
        self.key_place = key_place
        self.items: list[Node] = []


class Mapping(_Node):
    """A block of keys in the order they are written."""

    __slots__ = ("entries",)

    def __init__(self, place: Place, key_place: Place) -> None:
        self.place = place
        self.key_place = key_place
        self.entries: dict[str, Node] = {}


Node: TypeAlias = Scalar | Sequence | Mapping
