"""What planning asks of the live tables as a whole, wherever they are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.model import locations
from reconciler.model.live import LiveTable
from reconciler.model.names import Identifier, Scope


class LiveTables(Protocol):
    """The live tables of one catalog. A question is asked only when there is something to ask."""

    def count_in(self, namespaces: Collection[Identifier]) -> Mapping[Identifier, int]:
        """Return how many tables are directly in each of ``namespaces``; one without any may be left out."""

    def named(self, identifiers: Collection[Identifier]) -> Iterable[LiveTable]:
        """Return the tables among ``identifiers``."""

    def at(self, places: Collection[str]) -> Iterable[LiveTable]:
        """Return the tables whose location is one of ``places`` (see ``Facts.place_of``)."""

    def any_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table."""


@dataclass(frozen=True, slots=True)
class TablesInMemory:
    """Live tables that are at hand; ``links`` are the ``Facts.places`` of their locations."""

    tables: Mapping[Identifier, LiveTable]
    links: Mapping[str, str] = field(default_factory=dict)

    def count_in(self, namespaces: Collection[Identifier]) -> Mapping[Identifier, int]:
        """Return how many tables are directly in each of ``namespaces``."""
        return Counter(identifier[:-1] for identifier in self.tables if identifier[:-1] in namespaces)

    def named(self, identifiers: Collection[Identifier]) -> Iterable[LiveTable]:
        """Return the tables among ``identifiers``."""
        return [self.tables[identifier] for identifier in identifiers if identifier in self.tables]

    def at(self, places: Collection[str]) -> Iterable[LiveTable]:
        """Return the tables whose location is one of ``places`` (see ``Facts.place_of``)."""
        normalised = ((table, locations.normalise(table.location)) for table in self.tables.values())
        return [table for table, place in normalised if self.links.get(place, place) in places]

    def any_in(self, scope: Scope) -> bool:
        """Return whether ``scope`` contains a table."""
        return any(map(scope.contains, self.tables))
