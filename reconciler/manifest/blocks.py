"""Nodes to blocks: placeholders resolved, structure checked, every fault in plain words at its place."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from typing import TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reconciler.manifest.faults import Faults, expected_keys
from reconciler.manifest.models import Block, ColumnBlock, ColumnError, ExpectBlock, MovedBlock, Nothing
from reconciler.manifest.nodes import Mapping, Node, Place, ScalarNode, Sequence
from reconciler.manifest.variables import (
    Placeholder,
    Resolver,
    Template,
    TemplateError,
    is_from_outside,
    parse_template,
)
from reconciler.model.capabilities import Capabilities
from reconciler.model.limits import folded, name_problem
from reconciler.model.names import EVERYTHING, Identifier, Scope

BlockT = TypeVar("BlockT", bound=Block)

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain]"

_NESTED: MappingOf[str, type[Block]] = {"moved": MovedBlock, "expect": ExpectBlock}
_SHAPES = {
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "list_type": "a list",
    "string_type": "text",
}
# Values of these keys are never templates: `config` is resolved when a connection is made.
_VERBATIM = frozenset({"version", "name", "impl", "config"})
# Values of these keys are shown, and are names rather than values: none of them can be a secret.
_SHOWN = frozenset({"expect", "from", "into", "kind", "moved", "names", "schema", "schemas", "scope", "select"})


def entries_of(node: Node | None) -> dict[str, Node]:
    """Return the entries of a block; nothing, and what is not a block, has none."""
    return node if isinstance(node, Mapping) else {}


class BlockReader:
    """Reads blocks; ``resolver`` looks up what placeholders stand for."""

    def __init__(self, faults: Faults, resolver: Resolver) -> None:
        self.faults = faults
        self.policy = resolver.policy
        self._resolver = resolver
        self._unresolved: set[Place] = set()
        self.used: set[str] = set()
        """The names of the variables that templates use, given or not."""

    def read(self, model: type[BlockT], node: Node, what: str, apart: Collection[str] = ()) -> BlockT | None:
        """Return the block at ``node``, called ``what`` in errors; None when there is no block.

        The keys in ``apart`` are left out: the caller reads what is below them. Keys with a fault are left out too,
        once it is noted, so that the rest is still checked.
        """
        if isinstance(node, ScalarNode) and node.is_null:
            return model()
        if not isinstance(node, Mapping):
            self.faults.at(node.place, f"{what} is {_shape(node)}, expected a block of keys")
            return None
        plain = {key: self._plain(value, key) for key, value in node.items() if key not in apart}
        try:
            return model.model_validate(plain)
        except ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details:
            self._explain(detail, model, node, what)
        faulty = {str(detail["loc"][0]) for detail in details}
        return model.model_validate({key: value for key, value in plain.items() if key not in faulty})

    def text(self, node: ScalarNode, key: str) -> str | None:
        """Return the text at ``node``, the value of ``key``, with placeholders resolved; None where it is unknown."""
        text = self._resolved(node, key) if "${" in node.text else node.text
        return text if self.is_known(node) else None

    def is_known(self, node: Node) -> bool:
        """Return whether what stands at ``node`` is known: its placeholders may be looked up and stand for a text."""
        return node.place not in self._unresolved

    def scope(self, patterns: SequenceOf[str] | None, node: Node | None, what: str, able: Capabilities) -> Scope:
        """Return the globs at ``node``, called ``what`` in errors; everything where they are not given or not known."""
        items = node if isinstance(node, Sequence) else []
        if patterns is None or node is None or not all(map(self.is_known, items)):
            return EVERYTHING
        for pattern in patterns:
            if "" in pattern.split("/"):
                self.faults.at(node.place, f"{what}: `{pattern}` has an empty name; expected such as analytics/**")
        return Scope(tuple(folded(able, pattern) for pattern in patterns))

    def path(self, text: str, place: Place, what: str, able: Capabilities) -> Identifier | None:
        """Return the names that ``text`` joins by slashes; None, and a fault at ``place``, where one cannot be."""
        names = text.split("/")
        if "" in names:
            expected = "expected names joined by a slash, such as features/users"
            self.faults.at(place, f"{what}: `{text}`; {expected}")
            return None
        reasons = [(name, reason) for name in names if (reason := name_problem(able, name)) is not None]
        for name, reason in reasons:
            self.faults.at(place, f"{what}: `{name}` in `{text}`: {reason}")
        return None if reasons else tuple(folded(able, name) for name in names)

    def children(self, node: Node, key: str, what: str) -> dict[str, Node]:
        """Return the blocks below ``key``, by name; a fault when there is something else."""
        child = entries_of(node).get(key)
        if child is None or isinstance(child, Mapping) or (isinstance(child, ScalarNode) and child.is_null):
            return entries_of(child)
        self.faults.at(child.place, f"`{key}` in {what} is {_shape(child)}, expected a block of keys")
        return {}

    def _plain(self, node: Node, key: str) -> Plain:
        """Return the value of ``key``, or of a key below it, as plain values."""
        if isinstance(node, Mapping):
            return {child: self._plain(value, key) for child, value in node.items()}
        if isinstance(node, Sequence):
            return [self._plain(item, key) for item in node]
        if node.is_null:
            return Nothing(node.text)
        if "${" not in node.text or key in _VERBATIM:
            return node.text
        return self._resolved(node, key)

    def _resolved(self, node: ScalarNode, key: str) -> str:
        try:
            template = self.template(node.text)
            if key in _SHOWN and is_from_outside(node.text):
                raise TemplateError(
                    f"`{key}` is `{node.text}`, and what comes from the environment or a file is a secret, which "
                    f"`{key}` cannot be; give it with `${{var:name}}`"
                )
            if self._resolver.knows(template):
                return self._resolver.text(template, self.faults.folder(node.place))
        except TemplateError as error:
            self.faults.at(node.place, str(error))
        self._unresolved.add(node.place)
        return node.text

    def template(self, text: str) -> Template:
        """Return the template in ``text``, taking note of the variables it uses.

        Raises:
            TemplateError: it is none.
        """
        template = parse_template(text)
        self.used.update(part.name for part in template if isinstance(part, Placeholder) and part.scheme == "var")
        return template

    # ---- errors

    def _explain(self, detail: ErrorDetails, model: type[Block], node: Mapping, what: str) -> None:
        location = detail["loc"]
        kind = detail["type"]
        if kind == "extra_forbidden":
            key = str(location[-1])
            owner = model if len(location) == 1 else _NESTED.get(str(location[0]), ColumnBlock)
            found = _node_at(node, location)
            where = what if len(location) == 1 else _entry_of(what, location)
            self.faults.at(found.key_place, f"unknown key `{key}` in {where}; {expected_keys(key, _keys(owner))}")
            return
        found = _node_at(node, location)
        label = f"`{location[0]}`" if len(location) == 1 else f"`{_dotted(location)}`"
        if kind == "missing":
            where = _entry_of(what, location)
            expected = "`from` and `to`" if location[0] == "moved" else "a name and a type"
            self.faults.at(found.place, f"{where} has no `{location[-1]}`; expected {expected}")
        elif found.place in self._unresolved:
            return  # what it stands for is not known; that is said already
        elif kind == "value_error" and isinstance(detail["ctx"]["error"], ColumnError):
            self.faults.at(found.place, str(detail["ctx"]["error"]))
        elif kind == "value_error":
            shown = f" `{found.text}`" if isinstance(found, ScalarNode) else f" {_shape(found)}"
            reason = detail["msg"].removeprefix("Value error, ")
            self.faults.at(found.place, f"{label} in {what} is{shown}, {reason}")
        elif kind in _SHAPES:
            self.faults.at(found.place, f"{label} in {what} is {_shape(found)}, expected {_SHAPES[kind]}")
        elif kind == "enum":
            self._not_a_choice(found, label, what, detail)
        elif kind == "too_short":
            self.faults.at(found.place, f"{label} in {what} is empty; expected at least one entry, or no key at all")
        else:
            text = found.text if isinstance(found, ScalarNode) else _shape(found)
            self.faults.at(found.place, f"{label} in {what} is `{text}`, expected {_bounds(detail)}")

    def _not_a_choice(self, found: Node, label: str, what: str, detail: ErrorDetails) -> None:
        choices = [choice.strip("'") for choice in str(detail["ctx"]["expected"]).replace(" or ", ", ").split(", ")]
        expected = ", ".join(f"`{choice}`" for choice in choices)
        shown = f"`{found.text}`" if isinstance(found, ScalarNode) else _shape(found)
        self.faults.at(found.place, f"{label} in {what} is {shown}, expected one of {expected}")


def _entry_of(what: str, location: tuple[int | str, ...]) -> str:
    """Return what an entry of a list is called whose place in the block ``what`` is ``location``."""
    if location[0] == "moved":
        return f"an entry of `moved` in {what}"
    if location[0] == "expect":
        return f"`expect` of {what}"
    return f"a column of schema {location[1]}" if location[0] == "schemas" else f"a column of {what}"


def _bounds(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if "ge" in context:
        return f"{context['ge']} or more"
    return f"{context['le']} or less"


def _shape(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a block of keys"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.is_null else f"the text `{node.text}`"


def _node_at(node: Node, location: tuple[int | str, ...]) -> Node:
    """Return the node at ``location``, or the innermost one on the way that is there."""
    for step in location:
        if isinstance(node, Mapping) and isinstance(step, str):
            inner = node.get(step)
        else:
            inner = node[step] if isinstance(node, Sequence) and isinstance(step, int) and step < len(node) else None
        if inner is None:
            break
        node = inner
    return node


def _dotted(location: tuple[int | str, ...]) -> str:
    return ".".join(str(step + 1) if isinstance(step, int) else step for step in location)


def _keys(model: type[Block]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
