"""Merge the ``defaults`` of the manifest, a catalog and a namespace into the blocks below them.

The nearest one wins. Properties merge by key; ``{unset: true}`` instead of a value removes a key. Defaults are merged
as nodes before a block is read, so that all checks hold for them and every error has its own position.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reconciler.manifest.blocks import BlockReader
from reconciler.manifest.models import Block, DefaultsBlock, NamespaceDefaults, TableDefaults
from reconciler.manifest.nodes import Mapping, Node, ScalarNode, block_at, entries_of, is_block

_KINDS: MappingOf[str, type[Block]] = {"tables": TableDefaults, "namespaces": NamespaceDefaults}
_PROPERTIES = "properties"
_NOTHING = Mapping(0, 0)

BlockText: TypeAlias = "tuple[tuple[str, str | BlockText], ...]"
"""The keys and texts of a table's block."""
PropertyProblem: TypeAlias = Callable[[str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults at one level of a manifest, as a block for each kind."""

    tables: Mapping = field(default_factory=lambda: _NOTHING)
    namespaces: Mapping = field(default_factory=lambda: _NOTHING)
    tables_by_text: dict[BlockText | None, tuple[Any, ...]] = field(default_factory=dict, compare=False)
    """The fields of tables with these defaults, by the text of their blocks: equal blocks give equal tables."""

    def below(self, blocks: BlockReader, node: Node, subject: str, problem: PropertyProblem) -> Defaults:
        """Return the defaults below the block at ``node``, called ``subject`` in errors.

        ``problem`` returns why the catalog accepts no property with a key and value.
        """
        defaults_node = entries_of(node).get("defaults")
        if defaults_node is None:
            return self
        label = f"the defaults of {subject}"
        blocks.read(DefaultsBlock, defaults_node, label, tuple(_KINDS))
        return Defaults(
            tables=_merge_level(self.tables, blocks, defaults_node, "tables", label, problem),
            namespaces=_merge_level(self.namespaces, blocks, defaults_node, "namespaces", label, problem),
        )

    def table(self, blocks: BlockReader, node: Node, subject: str) -> Node:
        """Return a table's block with the defaults."""
        return _apply_defaults(self.tables, *_split_unset(blocks, node, subject))

    def namespace(self, blocks: BlockReader, node: Node, subject: str) -> Node:
        """Return a namespace's block with the defaults, unless it only leads to other blocks."""
        is_managed = any(key in entries_of(node) for key in (_PROPERTIES, "absent", "protect"))
        return _apply_defaults(self.namespaces if is_managed else _NOTHING, *_split_unset(blocks, node, subject))


def _merge_level(
    above: Mapping, blocks: BlockReader, defaults_node: Node, kind: str, label: str, problem: PropertyProblem
) -> Mapping:
    node = entries_of(defaults_node).get(kind)
    if node is None:
        return above
    subject = f"{label} for {kind}"
    block_node, unset = _split_unset(blocks, node, subject)
    block = blocks.read(_KINDS[kind], block_node, subject)
    usable = set() if block is None else block.model_fields_set
    usable_entries = {key: value for key, value in entries_of(block_node).items() if key in usable}
    if _PROPERTIES in usable_entries:
        properties = dict(entries_of(usable_entries[_PROPERTIES]))
        for key, value in getattr(block, _PROPERTIES).items():
            reason = problem(key, value, subject)
            if reason is not None:  # reported once, and not for every block below
                blocks.problems.add_at(properties.pop(key).key_position, reason)
        usable_entries[_PROPERTIES] = block_at(usable_entries[_PROPERTIES], properties)
    return _merge(above, block_at(block_node, usable_entries), unset)


def _apply_defaults(defaults: Mapping, node: Node, unset: set[str]) -> Node:
    """Return the block at ``node`` with the defaults; an absent one takes none."""
    absent = entries_of(node).get("absent")
    is_absent = isinstance(absent, ScalarNode) and absent.text.lower() != "false"
    return _merge(defaults, node, unset) if defaults and is_block(node) and not is_absent else node


def _merge(above: Mapping, node: Node, unset: set[str]) -> Mapping:
    """Return the block at ``node`` with the keys of ``above`` that it lacks."""
    entries = entries_of(node)
    merged = block_at(node, {**above, **entries})
    properties = entries.get(_PROPERTIES)
    inherited = {key: value for key, value in entries_of(above.get(_PROPERTIES)).items() if key not in unset}
    if inherited and properties is not None and is_block(properties):
        merged[_PROPERTIES] = block_at(properties, {**inherited, **entries_of(properties)})
    return merged


def _split_unset(blocks: BlockReader, node: Node, subject: str) -> tuple[Node, set[str]]:
    """Split off the properties of a block that are ``{unset: true}``; return the rest, and their keys."""
    properties = entries_of(node).get(_PROPERTIES)
    unset = {key: value for key, value in entries_of(properties).items() if isinstance(value, Mapping)}
    if properties is None or not unset:
        return node, set()
    for key, value in unset.items():
        flag = value.get("unset")
        if len(value) != 1 or not isinstance(flag, ScalarNode) or flag.text.lower() != "true":
            expected = "expected text, or `{unset: true}` for none"
            blocks.problems.add_at(value.position, f"property `{key}` in {subject} is a block of keys; {expected}")
    remaining = {key: value for key, value in entries_of(properties).items() if key not in unset}
    return block_at(node, {**entries_of(node), _PROPERTIES: block_at(properties, remaining)}), set(unset)
