"""Resolve the variables in the names of a file, before it is merged with others."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.manifest.nodes import Mapping, Node, Position, ScalarNode, entries_of
from reconciler.manifest.problems import Problems
from reconciler.manifest.variables import Resolver, TemplateError
from reconciler.model.names import check_name


def expand_names(document: Mapping, problems: Problems, resolver: Resolver) -> None:
    """Resolve placeholders in ``name`` and in names of catalogs, namespaces and tables, in place.

    A name with an error keeps its placeholder, and so does one whose variables ``resolver`` may not resolve.
    """
    expander, name = _NameExpander(problems, resolver), document.get("name")
    if isinstance(name, ScalarNode):
        name.text = expander.expand_name(name.text, name.position)
    catalogs = document.get("catalogs")
    expander.expand_keys(catalogs)
    for catalog in entries_of(catalogs).values():
        for key in ("mirror", "clone"):
            expander.expand_keys(entries_of(entries_of(catalog).get(key)).get("names"), are_paths=True)
        expander.expand_below(catalog)


@dataclass(frozen=True, slots=True)
class _NameExpander:
    """Resolves placeholders in names; names with an error keep theirs."""

    problems: Problems
    resolver: Resolver

    def expand_below(self, block: Node) -> None:
        """Expand the names of tables and namespaces in the block of a catalog or a namespace."""
        entries = entries_of(block)
        self.expand_keys(entries.get("tables"))
        self.expand_keys(entries.get("namespaces"))
        for child in entries_of(entries.get("namespaces")).values():
            self.expand_below(child)

    def expand_keys(self, node: Node | None, *, are_paths: bool = False) -> None:
        """Expand the keys of a block, in place; ``are_paths`` if a slash joins names in them."""
        if not isinstance(node, Mapping) or not any("${" in key for key in node):
            return
        entries = list(node.items())
        node.clear()
        for key, child in entries:
            name = self.expand_name(key, child.key_position, is_path=are_paths)
            existing = node.setdefault(name, child)
            if existing is not child:
                earlier = self.problems.locate(existing.key_position)
                self.problems.add_at(child.key_position, f"`{name}` is a duplicate, first at {earlier}")

    def expand_name(self, text: str, position: Position, *, is_path: bool = False) -> str:
        """Return ``text`` with its placeholders resolved; after an error, unchanged."""
        if "${" not in text:
            return text
        try:
            name = self.resolver.name(text)
        except TemplateError as error:
            self.problems.add_at(position, f"name `{text}`: {error}")
            return text
        reasons = map(check_name, (name.split("/") if is_path else [name]) if name != text else [])
        reason = next(filter(None, reasons), None)
        if reason is not None:
            self.problems.add_at(position, f"name `{text}` is `{name}`: {reason}")
        return name if reason is None else text
