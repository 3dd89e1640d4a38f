"""Lists of columns: those of one table, and those in `schemas` that tables share by name."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

from reconciler.arrow_types import TypeSyntaxError, make_column
from reconciler.manifest.blocks import BlockReader, entries_of
from reconciler.manifest.faults import Faults, expected_keys
from reconciler.manifest.models import ColumnBlock
from reconciler.manifest.nodes import Node, ScalarNode, Sequence
from reconciler.model.columns import Column, Schema


def read_columns(faults: Faults, blocks: SequenceOf[ColumnBlock], node: Node, what: str) -> Schema:
    """Return the columns in ``blocks``, which were read from the list ``node`` of ``what``; faults are noted."""
    columns: list[Column] = []
    first: dict[str, Node] = {}
    for block, entry in zip(blocks, node if isinstance(node, Sequence) else (), strict=True):
        name_node = entries_of(entry)["name"]
        there = first.setdefault(block.name, name_node)
        if there is not name_node:
            shown = faults.shown(there.place)
            faults.at(name_node.place, f"column `{block.name}` in {what} is a duplicate, first at {shown}")
        try:
            columns.append(make_column(block.name, block.type, block.nullable, block.metadata))
        except TypeSyntaxError as error:
            faults.at(name_node.place, f"column `{block.name}` in {what}: {error}")
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class NamedSchemas:
    """The schemas of a manifest by name; None is one with a fault, or all of them, which is said already."""

    by_name: MappingOf[str, Schema | None] | None = field(default_factory=dict)

    @classmethod
    def read(cls, faults: Faults, blocks: MappingOf[str, SequenceOf[ColumnBlock]], node: Node | None) -> NamedSchemas:
        """Return the schemas that the block ``node`` holds; ``blocks`` are those of it that could be read."""
        if isinstance(node, Sequence) or (isinstance(node, ScalarNode) and not node.is_null):
            return cls(None)
        return cls(
            {
                name: read_columns(faults, blocks[name], entry, f"schema {name}") if name in blocks else None
                for name, entry in entries_of(node).items()
            }
        )

    def find(self, blocks: BlockReader, node: ScalarNode, what: str) -> Schema | None:
        """Return the schema that ``node`` names; a fault where there is none of this name."""
        if self.by_name is None:
            return None
        name = blocks.text(node, "schema")
        if name is None:
            return None
        if name not in self.by_name:
            known = expected_keys(name, self.by_name) if self.by_name else "expected a list of columns, or a name there"
            blocks.faults.at(node.place, f"`schema` in {what} is `{name}`, which is not in `schemas`; {known}")
        return self.by_name.get(name)
