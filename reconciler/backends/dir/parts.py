"""The part of ``__manifest`` that a scan is about, so that one namespace of a large catalog costs what is in it.

A scope of literal names (:class:`~reconciler.model.names.ChildrenOf`, :class:`~reconciler.model.names.Only`) becomes a
filter that Lance applies while it reads. Names are compared as text, never as patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from reconciler.backends.dir.contents import ManifestRows
from reconciler.model.names import DELIMITER, ChildrenOf, Identifier, Only, Scope, check_name, join

_MOST_NAMESPACES = 40
_MOST_NAMES = 1_000
"""A filter of more takes longer than reading every row."""

_AFTER_DELIMITER = chr(ord(DELIMITER) + 1)


@dataclass(frozen=True)
class Part:
    """``whole`` are namespaces that all children are wanted of; ``named`` are objects that are wanted themselves."""

    scope: Scope
    whole: frozenset[Identifier]
    named: frozenset[Identifier]

    @cached_property
    def above(self) -> frozenset[Identifier]:
        """The namespaces above what is wanted, which a scan tells of as well; without the root."""
        inside = chain(self.named, ((*namespace, "") for namespace in self.whole))
        return frozenset(found[:depth] for found in inside for depth in range(1, len(found)))

    @property
    def is_about_root(self) -> bool:
        """Whether something directly under the root can be wanted."""
        return () in self.whole or any(len(name) == 1 for name in self.named)

    @property
    def row_filter(self) -> str | None:
        """The filter for the rows that the answer depends on, None for all of them.

        What is directly under the root depends on every row: a directory there is no table when an entry, in whatever
        namespace, is in it.
        """
        if self.is_about_root or len(self.whole) > _MOST_NAMESPACES or len(self.named) > _MOST_NAMES:
            return None
        return " OR ".join([*map(_below, self.whole), *map(_is, self.named | self.above)]) or "false"

    def rows_of(self, contents: ManifestRows) -> ManifestRows:
        """Return the rows that a scan shows, or has a note about."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parents = [*map(join, self.whole), *(join(parent) for parent in contents.parents if self._has_note(parent))]
        names = map(join, self.named | self.above)
        directly = pc.is_in(contents.parent_of_each, value_set=pa.array(parents, pa.string()))
        itself = pc.is_in(contents.objects.column("object_id"), value_set=pa.array(names, pa.string()))
        return ManifestRows(contents.places, contents.objects.filter(pc.or_(directly, itself)))

    def _has_note(self, parent: Identifier) -> bool:
        """Return whether the scope is about what cannot be shown because of a name in ``parent``."""
        fault = first_fault(parent)
        return fault is not None and self.scope.contains(parent[: fault + 1])

    def beside(self, known: Iterable[Identifier]) -> str | None:
        """Return the filter for what else tells whether the namespaces above exist that are not ``known`` to.

        None where that is known of all, or was in the rows of :attr:`row_filter`.
        """
        return " OR ".join(map(_below, self.above.difference(self.whole, known))) or None


def part_of(scope: Scope) -> Part | None:
    """Return the part that a scope of literal names is about, None for patterns: they are about the whole."""
    if isinstance(scope, ChildrenOf):
        return Part(scope, scope.namespaces, frozenset())
    if isinstance(scope, Only):
        return Part(scope, frozenset(), scope.identifiers)
    return None


def first_fault(identifier: Identifier) -> int | None:
    """Return the position of the first name that no identifier can hold, None when all can be shown."""
    return next((at for at, name in enumerate(identifier) if check_name(name) is not None), None)


def namespaces_in_use(contents: ManifestRows) -> set[Identifier]:
    """Return the namespaces that something is in, whether they have an entry of their own or not."""
    return {parent[:depth] for parent in contents.parents for depth in range(1, len(parent[: first_fault(parent)]) + 1)}


def _below(namespace: Identifier) -> str:
    """Return the filter for everything below ``namespace``: a range, as every identifier there begins alike."""
    text = join(namespace)
    return f"(object_id >= {_quoted(text + DELIMITER)} AND object_id < {_quoted(text + _AFTER_DELIMITER)})"


def _is(identifier: Identifier) -> str:
    return f"object_id = {_quoted(join(identifier))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
