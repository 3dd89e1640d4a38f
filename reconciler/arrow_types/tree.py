"""The tree of an Arrow type; ``str()`` of a node is its canonical text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
PLAIN = frozenset(
    {
        *("null", "bool", *INTEGERS, "float16", "float32", "float64"),
        *("string", "large_string", "binary", "large_binary", "date32", "date64"),
    }
)
UNITS = {
    "time32": ("s", "ms"),
    "time64": ("us", "ns"),
    "timestamp": ("s", "ms", "us", "ns"),
    "duration": ("s", "ms", "us", "ns"),
}
DECIMALS = {"decimal128": 38, "decimal256": 76}
"""The decimal types, and their most digits."""
KNOWN_EXTENSIONS = {
    "bfloat16": "lance.bfloat16",
    "bool8": "arrow.bool8",
    "json": "arrow.json",
    "uuid": "arrow.uuid",
}
"""The short names of extension types, and their names in Arrow."""
BLOB = "blob"
"""Lance's type for large binary values that are read lazily; ``large_binary`` with a mark in older datasets."""
WORD = re.compile(r"[^\W\d]\w*")
"""A name that needs no backticks."""


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without children; ``arguments`` are its numbers, or unit and zone."""

    name: str
    arguments: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        if self.name in DECIMALS:
            return f"{self.name}({self.arguments[0]}, {self.arguments[1]})"
        if self.name == "timestamp" and len(self.arguments) == 2:
            return f"timestamp[{self.arguments[0]}, tz={self.arguments[1]}]"
        return f"{self.name}[{self.arguments[0]}]" if self.arguments else self.name


@dataclass(frozen=True, slots=True)
class ChildField:
    """A field below the top level; its metadata is not in the text."""

    name: str
    type: ArrowType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{_quote_name(self.name)}: {self.type_text()}"

    def type_text(self) -> str:
        """Return the text of the type, with ``not null`` where it is required."""
        return f"{self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of any length; ``item.name`` is shown only where it is not ``item``."""

    item: ChildField
    name: str = "list"

    def __str__(self) -> str:
        return f"{self.name}<{self.item.type_text() if self.item.name == 'item' else self.item}>"


@dataclass(frozen=True, slots=True)
class FixedSizeListType:
    """A list whose items are always named ``item`` and nullable in Lance."""

    item: ArrowType
    size: int

    def __str__(self) -> str:
        return f"fixed_size_list<{self.item}>[{self.size}]"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in order."""

    children: tuple[ChildField, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.children))}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys, never null, and values."""

    key: ArrowType
    value: ChildField

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value.type_text()}>"


@dataclass(frozen=True, slots=True)
class DictionaryType:
    """Values stored once; ``indices`` is the integer type of the references."""

    values: ArrowType
    indices: str

    def __str__(self) -> str:
        return f"dictionary<values={self.values}, indices={self.indices}>"


@dataclass(frozen=True, slots=True)
class ExtensionType:
    """A user-defined type over ``storage``."""

    name: str
    storage: ArrowType
    metadata: str = ""

    def __str__(self) -> str:
        metadata = f", {json.dumps(self.metadata, ensure_ascii=False)}" if self.metadata else ""
        return f"extension<{self.name}, {self.storage}{metadata}>"


@dataclass(frozen=True, slots=True)
class ForeignType:
    """A type of a live dataset that no manifest can declare, as pyarrow writes it."""

    text: str

    def __str__(self) -> str:
        return self.text


ArrowType: TypeAlias = (
    ScalarType | ListType | FixedSizeListType | StructType | MapType | DictionaryType | ExtensionType | ForeignType
)


def _quote_name(name: str) -> str:
    return name if WORD.fullmatch(name) else f"`{name.replace('`', '``')}`"
