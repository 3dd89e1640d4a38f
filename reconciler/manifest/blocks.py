"""Read nodes as blocks: resolve placeholders, check the structure, report each error at its position."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reconciler.arrow_types import TypeSyntaxError, make_column
from reconciler.manifest.habits import is_meant, key_hint
from reconciler.manifest.models import (
    Block,
    CloneAtBlock,
    ColumnBlock,
    CompactBlock,
    ExpectBlock,
    IndexBlock,
    MaintainBlock,
    MovedBlock,
    NullText,
    OptimizeIndicesBlock,
    SuppressBlock,
    TableCloneBlock,
    TagBlock,
)
from reconciler.manifest.nodes import Mapping, Node, Position, ScalarNode, Sequence, entries_of, is_block
from reconciler.manifest.problems import Problems, expected_keys
from reconciler.manifest.variables import Resolver, TemplateError, is_from_outside
from reconciler.model import display
from reconciler.model.capabilities import Capabilities
from reconciler.model.column_renames import rename_problem
from reconciler.model.columns import COMMENT, Column, Schema
from reconciler.model.desired import Source
from reconciler.model.errors import Problem
from reconciler.model.names import EVERYTHING, Identifier, Scope

BlockT = TypeVar("BlockT", bound=Block)

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain]"

# The blocks nested in another one: their model, how errors call one, and its required keys.
_NESTED: MappingOf[str, tuple[type[Block], str, str]] = {
    "moved": (MovedBlock, "an entry of `moved` in {subject}", "`from` and `to`"),
    "suppress": (SuppressBlock, "an entry of `suppress` in {subject}", "`rule`, `match`, `until` and `reason`"),
    "expect": (ExpectBlock, "`expect` of {subject}", ""),
    "maintain": (MaintainBlock, "`maintain` of {subject}", ""),
    "maintain.compact": (CompactBlock, "`maintain.compact` of {subject}", ""),
    "maintain.indices": (IndexBlock, "an index of {subject}", "the type of the index"),
    "maintain.optimize_indices": (OptimizeIndicesBlock, "`maintain.optimize_indices` of {subject}", ""),
    "at": (CloneAtBlock, "`at` in {subject}", ""),
    "clone": (TableCloneBlock, "the clone of {subject}", "the table to clone, such as `prod/features/users`"),
    "clone.at": (CloneAtBlock, "`at` in the clone of {subject}", ""),
    "schema": (ColumnBlock, "a column of {subject}", "a name and a type"),
    "tags": (TagBlock, "tag {name} of {subject}", "a version"),
    "schemas": (ColumnBlock, "a column of schema {name}", "a name and a type"),
}
# What was expected, by pydantic's type of the error.
_EXPECTED = {
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "text",
    "string_too_short": "text",
    "value_error": "{error}",
    "enum": "{expected}",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
}
# Values of these keys are never templates: `config` is resolved when a connection is made.
_VERBATIM = frozenset({"version", "name", "impl", "config"})
# Each value below these keys is text, where null of YAML is mostly a value that was forgotten.
_TEXTS = frozenset({"metadata", "properties"})
# Values of these keys are names, which are shown: they cannot be secrets.
_NEVER_SECRET = frozenset(
    {
        "at",
        "clone",
        "expect",
        "from",
        "into",
        "kind",
        "maintain",
        "match",
        "moved",
        "names",
        "schema",
        "schemas",
        "scope",
        "select",
        "suppress",
        "tags",
    }
)

_LONGEST_EXCERPT = 80
_MOST_LISTED = 4
# The form of a key's value, where another one was written.
_SHAPES = {
    "schema": ", such as `[{name: id, type: int64}]`",
    "tables": ", each with the name of a table",
    "namespaces": ", each with the name of a namespace",
    "properties": ", such as `{tier: gold}`",
    "catalogs": ", each with the name of a catalog",
    "config": ", such as `{root: ./lake}`",
    "moved": ", such as `[{from: OLD, to: NEW}]`",
    "scope": ", such as `[features/**]`",
    "tags": ", such as `{prod: 42}`",
    "expect": ", such as `{max_age_days: 7}`",
    "maintain": ", such as `{compact: {}}`",
    "compact": ", such as `{}`",
    "optimize_indices": ", such as `{}`",
    "indices": ", such as `{embedding: {type: IVF_PQ}}`",
    "an item of indices": ", such as `{type: BTREE}`",
    "an item of schema": ", such as `{name: id, type: int64}`",
    "MirrorBlock": ", such as `{from: lake}`",
    "CloneBlock": ", such as `{from: prod, at: {tag: prod}}`",
    "clone": ", such as `{of: prod/features/users, at: {tag: prod}}`",
    "at": ", such as `{tag: prod}`",
}


class BlockReader:
    """Reads nodes as blocks, and nodes of columns as schemas.

    Args:
        problems: takes the errors.
        resolver: resolves the placeholders.
        traced: the address of the object for which ``origins`` records which block or defaults set each value.
    """

    def __init__(self, problems: Problems, resolver: Resolver, traced: str | None = None) -> None:
        self.problems = problems
        self.policy = resolver.policy
        self._resolver = resolver
        self._unresolved: set[Position] = set()
        self._schemas: MappingOf[str, Schema | None] | None = {}
        self.traced_address = traced
        self.warnings: dict[Position, Problem] = {}
        self.origins: dict[str, tuple[str, Source]] = {}

    def record_origins(self, block: Node, merged: Node) -> None:
        """Record for each value of ``merged`` in ``origins`` whether ``block`` or the defaults set it."""
        block_entries = {"": entries_of(block), "properties.": entries_of(entries_of(block).get("properties"))}
        for prefix, node in (("", merged), ("properties.", entries_of(merged).get("properties"))):
            for key, value in entries_of(node).items():
                origin = "block" if key in block_entries[prefix] else "defaults"
                self.origins[prefix + key] = origin, self.problems.source(value.key_position)

    def read(self, model: type[BlockT], node: Node, subject: str, skipped: Collection[str] = ()) -> BlockT | None:
        """Return the block at ``node``, called ``subject`` in errors; None when it is not a block.

        The keys in ``skipped`` are left out: the caller reads them. Keys with an error are left out too, so that the
        rest is still checked.
        """
        if not is_block(node):
            self.problems.add_at(
                node.position,
                f"{subject} is {_describe(node)}, expected a block of keys{_SHAPES.get(model.__name__, '')}",
            )
            return None
        plain = {key: self._plain(value, key) for key, value in entries_of(node).items() if key not in skipped}
        try:
            return model.model_validate(plain)
        except ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details:
            self._report(detail, model, node, subject)
        invalid = {str(detail["loc"][0]) for detail in details}
        return model.model_validate({key: value for key, value in plain.items() if key not in invalid})

    def text(self, node: ScalarNode, key: str) -> str | None:
        """Return the text at ``node``, the value of ``key``, with placeholders resolved; None where it is unknown."""
        text = self._resolve(node, key) if "${" in node.text else node.text
        return text if self.is_known(node) else None

    def is_known(self, node: Node) -> bool:
        """Return whether the value of ``node`` is known: its placeholders could be resolved."""
        return node.position not in self._unresolved

    def scope(
        self, patterns: SequenceOf[str] | None, node: Node | None, subject: str, capabilities: Capabilities
    ) -> Scope:
        """Return ``patterns``, read from ``node``, as a scope; everything if they are absent or unknown."""
        items = node if isinstance(node, Sequence) else []
        if patterns is None or node is None or not all(map(self.is_known, items)):
            return EVERYTHING
        for pattern in patterns:
            if "" in pattern.split("/"):
                self.problems.add_at(
                    node.position, f"{subject}: `{pattern}` has an empty name; expected such as analytics/**"
                )
        return Scope(tuple(capabilities.folded(pattern) for pattern in patterns))

    def path(self, text: str, position: Position, subject: str, capabilities: Capabilities) -> Identifier | None:
        """Split ``text`` at slashes into names; for an invalid one, add an error at ``position`` and return None."""
        names = text.split("/")
        if "" in names:
            expected = "expected names joined by a slash, such as features/users"
            self.problems.add_at(position, f"{subject}: `{text}`; {expected}")
            return None
        reasons = [(name, reason) for name in names if (reason := capabilities.name_problem(name)) is not None]
        for name, reason in reasons:
            self.problems.add_at(position, f"{subject}: `{name}` in `{text}`: {reason}")
        return None if reasons else tuple(capabilities.folded(name) for name in names)

    def children(self, node: Node, key: str, subject: str) -> dict[str, Node]:
        """Return the blocks below ``key`` by name; an error where they are not blocks."""
        child = entries_of(node).get(key)
        if child is not None and not is_block(child):
            self.problems.add_at(
                child.position,
                f"`{key}` in {subject} is {_describe(child)}, expected a block of keys{_SHAPES.get(key, '')}",
            )
        return entries_of(child)

    def lacks(self, key: str, model: type[Block], node: Node) -> bool:
        """Return whether the block at ``node`` has neither ``key`` nor one that stands for it, an error of its own."""
        return key not in entries_of(node) and not is_meant(key, model.__name__, entries_of(node))

    # ---- columns

    def columns(self, blocks: SequenceOf[ColumnBlock], node: Node, subject: str) -> Schema:
        """Return the columns in ``blocks``, which were read from the list ``node`` of ``subject``."""
        columns: list[Column] = []
        first: dict[str, Node] = {}
        for block, entry in zip(blocks, node if isinstance(node, Sequence) else (), strict=True):
            name, label = entries_of(entry)["name"], f"column `{block.name}` in {subject}"
            earlier = first.setdefault(block.name, name)
            if earlier is not name:
                self.problems.add_at(
                    name.position, f"{label} is a duplicate, first at {self.problems.locate(earlier.position)}"
                )
            metadata = block.metadata
            if block.comment is not None:
                if COMMENT in metadata:
                    self.problems.add_at(name.position, f"{label} has both `comment` and the metadata `comment`")
                metadata = {**metadata, COMMENT: block.comment}
            try:
                column = make_column(block.name, block.type, block.nullable, metadata)
            except TypeSyntaxError as error:
                self.problems.add_at(name.position, f"{label}: {error}")
                continue
            columns.append(replace(column, renamed_from=block.renamed_from))
        for column in columns:
            problem = rename_problem(column, columns)
            if problem is not None:
                self.problems.add_at(first[column.name].position, f"column `{column.name}` in {subject}: {problem}")
        return tuple(columns)

    def read_schemas(self, blocks: MappingOf[str, SequenceOf[ColumnBlock]], node: Node) -> None:
        """Read ``schemas`` at ``node``, for :meth:`named_schema`; ``blocks`` are the valid schemas by name."""
        self._schemas = None  # the error is reported
        if is_block(node):
            self._schemas = {
                name: self.columns(blocks[name], entry, f"schema {name}") if name in blocks else None
                for name, entry in entries_of(node).items()
            }

    def named_schema(self, node: ScalarNode, subject: str) -> Schema | None:
        """Return the schema that ``node`` names; an error for an unknown name."""
        name = self.text(node, "schema") if self._schemas is not None else None
        if self._schemas is None or name is None:
            return None
        if name not in self._schemas:
            known = (
                expected_keys(name, self._schemas) if self._schemas else "expected a list of columns, or a name there"
            )
            self.problems.add_at(
                node.position, f"`schema` in {subject} is `{name}`, which is not in `schemas`; {known}"
            )
        return self._schemas.get(name)

    # ---- values

    def _plain(self, node: Node, key: str, property_key: str = "") -> Plain:
        """Return the value of ``key``, or of ``property_key`` below it, as text, lists and dicts."""
        if isinstance(node, Mapping):
            return {child: self._plain(value, key, child) for child, value in node.items()}
        if isinstance(node, Sequence):
            return [self._plain(item, key) for item in node]
        if node.is_null:
            if key in _TEXTS and property_key:
                written = f"null, and is written as the text `{node.text}`" if node.text else "empty, and is written so"
                message = f"`{property_key}` in `{key}` is {written}; quote it, or leave the key out"
                self.warnings[node.key_position] = self.problems.source(node.key_position).problem(message)
            return NullText(node.text)
        if "${" not in node.text or key in _VERBATIM:
            return node.text
        return self._resolve(node, key, property_key)

    def _resolve(self, node: ScalarNode, key: str, property_key: str = "") -> str:
        try:
            template = self._resolver.template(node.text)
            self._resolver.hide_redacted(property_key, template)
            if key in _NEVER_SECRET and is_from_outside(node.text):
                raise TemplateError(
                    f"`{key}` is `{node.text}`: values of the environment and of files are secrets, which `{key}` "
                    "cannot hold; pass it as a variable, `${var:name}`"
                )
            if self._resolver.knows(template):
                return self._resolver.text(template, self.problems.folder(node.position))
        except TemplateError as error:
            self.problems.add_at(node.position, str(error))
        self._unresolved.add(node.position)
        return node.text

    # ---- errors

    def _report(self, detail: ErrorDetails, model: type[Block], node: Node, subject: str) -> None:
        location, kind = detail["loc"], detail["type"]
        invalid, key = _node_at(node, location), location[-1]
        nested = _NESTED.get(".".join(map(str, location[: min(2, len(location) - 1)]))) or _NESTED.get(str(location[0]))
        if len(location) > 1 and nested is not None:
            model, label, expected = nested
            label = label.format(subject=subject, name=location[1])
        else:
            label, expected = subject, ""
        key_label = ".".join(str(step + 1) if isinstance(step, int) else step for step in location)
        if kind == "extra_forbidden":
            known = [field.alias or name for name, field in model.model_fields.items()]
            holder = next((name for name in ("metadata", "properties") if name in known), None)
            is_text = key in ("comment", "description") and holder is not None
            expected = f"expected `{holder}: {{{key}: …}}`" if is_text else key_hint(model.__name__, str(key), known)
            self.problems.add_at(invalid.key_position, f"unknown key `{key}` in {label}; {expected}")
        elif kind == "missing" and self.lacks(str(key), model, invalid):
            self.problems.add_at(invalid.position, f"{label} has no `{key}`; expected {expected}")
        elif (
            kind != "missing" and invalid.position not in self._unresolved
        ):  # unresolved placeholders are reported already
            self.problems.add_at(invalid.position, _mismatch(detail, f"`{key_label}` in {subject}", _describe(invalid)))


def _mismatch(detail: ErrorDetails, label: str, shown: str) -> str:
    """Return the message for the invalid value of ``label``."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "too_short":
        return f"{label} is empty; expected at least one entry, or no key at all"
    if isinstance(context.get("error"), TypeSyntaxError):
        return str(context["error"])
    expected = _EXPECTED[kind].format(**context).replace("'", "`")
    if kind == "enum" and expected.count("`") > 2 * _MOST_LISTED:
        expected = display.did_you_mean(
            shown.upper(), re.findall("`[^`]+`", expected), f"expected {expected}", cutoff=0.5
        )
        return f"{label} is {shown}; {expected.replace('``', '`')}"
    shape = ""
    if kind in ("list_type", "dict_type", "model_type"):
        outer, inner = ("", *detail["loc"])[-2:]
        shape = _SHAPES.get(str(inner)) or _SHAPES.get(f"an item of {outer}", "")
        shape += ", with a space after each `-`" if kind == "list_type" and shown.startswith("`-") else ""
    return f"{label} is {shown}, expected {expected}{shape}"


def _describe(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a block of keys"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.is_null else f"`{display.shorten(node.text, _LONGEST_EXCERPT)}`"


def _node_at(node: Node, location: tuple[int | str, ...]) -> Node:
    """Return the node at ``location``, or the innermost one on the way to it."""
    for step in location:
        if isinstance(node, Mapping) and isinstance(step, str):
            inner = node.get(step)
        else:
            inner = node[step] if isinstance(node, Sequence) and isinstance(step, int) and step < len(node) else None
        if inner is None:
            break
        node = inner
    return node
