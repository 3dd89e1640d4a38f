"""What blocks say that do not say it themselves: ``defaults`` of the manifest, of a catalog, of a namespace.

The nearest one wins. Properties merge by key, and ``{unset: true}`` in the place of a value takes a key away again.
Defaults are put into the nodes of blocks before these are read, so that all checks hold for them and every fault is
told where it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.manifest.blocks import BlockReader, entries_of
from reconciler.manifest.models import Block, DefaultsBlock, NamespaceDefaults, TableDefaults
from reconciler.manifest.nodes import Mapping, Node, ScalarNode
from reconciler.model.desired import DesiredTable

_KINDS: MappingOf[str, type[Block]] = {"tables": TableDefaults, "namespaces": NamespaceDefaults}
_PROPERTIES = "properties"

Said: TypeAlias = "tuple[tuple[str, str | Said], ...]"
"""What a table's block says."""
Fault: TypeAlias = Callable[[str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class _Said:
    """The keys of blocks of one kind, and the properties among them key by key."""

    keys: MappingOf[str, Node] = field(default_factory=dict)
    properties: MappingOf[str, Node] = field(default_factory=dict)
    where: Node | None = None

    def __bool__(self) -> bool:
        return bool(self.keys or self.properties)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for the blocks at one place of a manifest."""

    tables: _Said = field(default_factory=_Said)
    namespaces: _Said = field(default_factory=_Said)
    alike: dict[Said | None, DesiredTable] = field(default_factory=dict, compare=False)
    """Tables that took these defaults, by what their blocks say: blocks that say the same ask for the same."""

    def below(self, blocks: BlockReader, node: Node, what: str, fault: Fault) -> Defaults:
        """Return what holds below the block at ``node``, which is called ``what`` in errors.

        ``fault`` says of a property's key and value why no block of the catalog can have it.
        """
        written = entries_of(node).get("defaults")
        if written is None:
            return self
        where = f"the defaults of {what}"
        blocks.read(DefaultsBlock, written, where, tuple(_KINDS))
        return Defaults(
            tables=_overlaid(self.tables, blocks, written, "tables", where, fault),
            namespaces=_overlaid(self.namespaces, blocks, written, "namespaces", where, fault),
        )

    def table(self, blocks: BlockReader, node: Node, what: str) -> Node:
        """Return the node of a table's block with what the defaults add to it."""
        return _filled(self.tables, blocks, node, what)

    def namespace(self, blocks: BlockReader, node: Node, what: str) -> Node:
        """Return the node of a namespace's block with what the defaults add to it: nothing, where it is a path."""
        claimed = any(key in entries_of(node) for key in (_PROPERTIES, "absent", "protect"))
        return _filled(self.namespaces if claimed else _Said(), blocks, node, what)


def _overlaid(above: _Said, blocks: BlockReader, written: Node, kind: str, where: str, fault: Fault) -> _Said:
    node = entries_of(written).get(kind)
    if node is None:
        return above
    what = f"{where} for {kind}"
    kept, unset = _apart(blocks, node, what)
    block = blocks.read(_KINDS[kind], kept, what)
    usable = set() if block is None else block.model_fields_set - {_PROPERTIES}
    keys = {key: value for key, value in entries_of(kept).items() if key in usable}
    properties = dict(entries_of(entries_of(kept).get(_PROPERTIES)))
    said: MappingOf[str, str] = getattr(block, _PROPERTIES, None) or {}
    for key, value in said.items():
        reason = fault(key, value, what)
        if reason is not None:  # told here, once, and not again for every block below
            blocks.faults.at(properties.pop(key).key_place, reason)
    inherited = {key: value for key, value in above.properties.items() if key not in unset}
    return _Said({**above.keys, **keys}, {**inherited, **properties}, entries_of(kept).get(_PROPERTIES) or above.where)


def _filled(said: _Said, blocks: BlockReader, node: Node, what: str) -> Node:
    """Return ``node`` with the keys it does not have; an absent one gets none, and what is no block stays as it is."""
    own, unset = _apart(blocks, node, what)
    entries = entries_of(own)
    if (
        not said
        or _is_absent(entries)
        or not (isinstance(own, Mapping) or (isinstance(own, ScalarNode) and own.is_null))
    ):
        return own
    filled = Mapping(own.place, own.key_place)
    filled.update({**said.keys, **entries})
    properties = entries_of(entries.get(_PROPERTIES))
    inherited = {key: value for key, value in said.properties.items() if key not in unset}
    if inherited and (_PROPERTIES not in entries or isinstance(entries[_PROPERTIES], Mapping) or _is_null(entries)):
        at = entries.get(_PROPERTIES) or said.where or own
        merged = Mapping(at.place, at.key_place)
        merged.update({**inherited, **properties})
        filled[_PROPERTIES] = merged
    return filled


def _is_null(entries: MappingOf[str, Node]) -> bool:
    written = entries[_PROPERTIES]
    return isinstance(written, ScalarNode) and written.is_null


def _apart(blocks: BlockReader, node: Node, what: str) -> tuple[Node, set[str]]:
    """Return ``node`` without the properties that are unset, and their keys."""
    written = entries_of(node).get(_PROPERTIES)
    if written is None:
        return node, set()
    unset = {key for key, value in entries_of(written).items() if isinstance(value, Mapping)}
    if not unset or not isinstance(written, Mapping) or not isinstance(node, Mapping):
        return node, unset
    for key in unset:
        _check_unset(blocks, written[key], key, what)
    kept = Mapping(written.place, written.key_place)
    kept.update({key: value for key, value in written.items() if key not in unset})
    other = Mapping(node.place, node.key_place)
    other.update({**node, _PROPERTIES: kept})
    return other, unset


def _check_unset(blocks: BlockReader, node: Node, key: str, what: str) -> None:
    entries = entries_of(node)
    flag = entries.get("unset")
    if len(entries) != 1 or not isinstance(flag, ScalarNode) or flag.text.lower() != "true":
        blocks.faults.at(
            node.place, f"property `{key}` in {what} is a block of keys; expected text, or `{{unset: true}}` for none"
        )


def _is_absent(entries: MappingOf[str, Node]) -> bool:
    flag = entries.get("absent")
    return isinstance(flag, ScalarNode) and flag.text.lower() != "false"
