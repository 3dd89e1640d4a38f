"""Resolve the variables in the names of a file, before it is merged with others."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.manifest.nodes import Mapping, Node, Position, ScalarNode, entries_of
from reconciler.manifest.problems import Problems
from reconciler.manifest.variables import Resolver, TemplateError
from reconciler.model.names import check_name


def expand_names(document: Mapping, problems: Problems, resolver: Resolver) -> None:
    """Replace ``name`` and the names of catalogs, namespaces and tables by those they stand for.

    A name with an error keeps its placeholder, and so does one whose variables ``resolver`` may not resolve.
    """
    expansion, name = _Expansion(problems, resolver), document.get("name")
    if isinstance(name, ScalarNode):
        name.text = expansion.name(name.text, name.position)
    catalogs = document.get("catalogs")
    expansion.keys(catalogs)
    for catalog in entries_of(catalogs).values():
        expansion.keys(entries_of(entries_of(catalog).get("mirror")).get("names"), are_paths=True)
        expansion.below(catalog)


@dataclass(frozen=True, slots=True)
class _Expansion:
    problems: Problems
    resolver: Resolver

    def below(self, block: Node) -> None:
        """Expand the names of everything in the block of a catalog or a namespace."""
        entries = entries_of(block)
        self.keys(entries.get("tables"))
        self.keys(entries.get("namespaces"))
        for child in entries_of(entries.get("namespaces")).values():
            self.below(child)

    def keys(self, node: Node | None, *, are_paths: bool = False) -> None:
        """Expand the keys of a block, in place; ``are_paths`` if a slash joins names in them."""
        if not isinstance(node, Mapping) or not any("${" in key for key in node):
            return
        entries = list(node.items())
        node.clear()
        for key, child in entries:
            name = self.name(key, child.key_position, is_path=are_paths)
            first = node.setdefault(name, child)
            if first is not child:
                shown = self.problems.shown(first.key_position)
                self.problems.at(child.key_position, f"`{name}` is a duplicate, first at {shown}")

    def name(self, text: str, position: Position, *, is_path: bool = False) -> str:
        """Return the name that ``text`` stands for; after an error, ``text`` itself."""
        if "${" not in text:
            return text
        try:
            name = self.resolver.name(text)
        except TemplateError as error:
            self.problems.at(position, f"name `{text}`: {error}")
            return text
        reasons = map(check_name, (name.split("/") if is_path else [name]) if name != text else [])
        reason = next(filter(None, reasons), None)
        if reason is not None:
            self.problems.at(position, f"name `{text}` is `{name}`: {reason}")
        return name if reason is None else text
