"""What the planner has to be told about the world beyond desired and live state, and the options it plans under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import ShownColumn, ShownColumns
from reconciler.model.desired import DesiredCatalog, DesiredTable
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot, Storage
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.model.ownership import CHOSEN_LOCATION, REQUESTED_LOCATION, is_request_true
from reconciler.planner.mirrors import Mirrored
from reconciler.planner.moves import MovedTable, moves_of, pairs

Stored: TypeAlias = Mapping[Identifier, Sequence[str]]
"""Where else than at their default locations the data of new tables may be."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan.

    ``adopt``: mark unowned objects that equal their block. ``take_over``: claim what another manifest owns.
    ``select``: the part to plan, as seen from inside the catalog; nothing outside it is changed but missing ancestors
    of what is in it.
    """

    adopt: bool = False
    take_over: bool = False
    select: Scope = EVERYTHING


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The columns that the entry of a table shows, and those that it is to show of its data."""

    shown: ShownColumns
    to_show: ShownColumns

    def __bool__(self) -> bool:
        """Return whether they differ."""
        return len(self.shown) != len(self.to_show) or not all(map(ShownColumn.shows, self.shown, self.to_show))

    def texts(self) -> Iterator[str]:
        """Yield what is wrong with those it shows, one clause a column."""
        there = {column.name.casefold(): column for column in self.shown}
        found: list[str] = []
        for column in self.to_show:
            shown = there.pop(column.name.casefold(), None)
            if shown is None:
                found.append(f"`{column.name}` ({column.type}) is missing")
            elif not shown.shows(column):
                found.append(f"`{column.name}` is {shown.type} instead of {column.type}")
        found += [f"`{column.name}` ({column.type}) is not in the data" for column in there.values()]
        yield from found or ["they are in another order"]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What storage holds for one table at ``location``, where it is or would be, and why it cannot be there at all.

    ``entry``: the columns that its entry shows, where they differ from those that the data will have as planned.
    """

    location: str | None
    storage: Storage
    problem: str | None = None
    entry: EntryColumns | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The answers of storage and catalog to the planner's questions.

    ``tables``: for each table of :func:`storage_questions`. ``occupants``: for namespaces that may be dropped, the
    names of what they hold beside the objects of the snapshot. ``leftovers``: entries of lancens' own that an
    interrupted run left, none of which is in the snapshot. ``held``: what has one of the names that
    :func:`names_in_question` and is no Lance table, in words. ``places``: where symbolic links lead the locations that
    they lead elsewhere; both normalised. ``stored``: for tables of :func:`new_names`, where else their data may be.
    """

    tables: Mapping[Identifier, TableFacts] = field(default_factory=dict)
    occupants: Mapping[Identifier, Sequence[str]] = field(default_factory=dict)
    leftovers: Sequence[LiveNamespace | LiveTable] = ()
    held: Mapping[Identifier, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    stored: Stored = field(default_factory=dict)

    def place_of(self, location: str) -> str:
        """Return the form in which two locations of one place are equal, by whatever way they lead there."""
        place = locations.normalise(location)
        return self.places.get(place, place)


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


@dataclass(frozen=True, slots=True)
class CatalogInput:
    """Everything that the plan of one catalog is a function of.

    ``impl`` is for display; ``service`` tells the service and its configuration apart from others, so that a plan
    reviewed for one is not carried out on another. ``mirrored`` is what the catalog is to have of another one, which is
    in ``desired`` already. ``written`` is what the plans of other catalogs write where nothing is yet, by its place.
    """

    desired: DesiredCatalog
    live: Snapshot
    capabilities: Capabilities
    impl: str
    facts: Facts = Facts()
    options: PlanOptions = PlanOptions()
    service: str = ""
    mirrored: Mirrored | None = None
    written: Mapping[str, Storage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorageQuestion:
    """A table whose storage has to be opened; ``location`` None means the catalog's default for it.

    Where ``location`` holds nothing, ``otherwise`` is the place to look at instead. ``live`` is the entry that the
    catalog has of the table already, under the name that it has it under; where that is is taken as it is.
    """

    table: DesiredTable
    location: str | None
    otherwise: str | None = None
    live: LiveTable | None = None

    @property
    def in_force(self) -> str | None:
        """Where the catalog has the table already."""
        return self.live.location if self.live else None

    @property
    def entry(self) -> Identifier | None:
        """The name that the catalog has it under."""
        return self.live.id if self.live else None


def is_relocated(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether the manifest asks for another place than the one in force.

    A service that ignored the location asked for has the request and its answer recorded; asking for it again is no
    change, as long as the entry is where the service put it.
    """
    if desired.location is None or locations.same(desired.location, live.location):
        return False
    return not (has_true_request(live) and locations.same(desired.location, live.properties.get(REQUESTED_LOCATION)))


def has_true_request(live: LiveTable) -> bool:
    """Return whether the marks of the location asked for say how it is (see ``ownership.is_request_true``)."""
    properties = live.properties
    return is_request_true(properties.get(REQUESTED_LOCATION), properties.get(CHOSEN_LOCATION), live.location)


def is_unanswered(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether the location now asked for was asked for before, and the service's answer was not recorded."""
    requested = live.properties.get(REQUESTED_LOCATION)
    return (
        requested is not None and CHOSEN_LOCATION not in live.properties and locations.same(desired.location, requested)
    )


def names_in_question(found: Iterable[MovedTable], select: Scope = EVERYTHING) -> Iterator[Identifier]:
    """Yield the name of every table that would get one which may belong to a table of another kind."""
    for pair in found:
        desired = pair.wanted_in(select) if pair.live is None else None
        if desired is not None:
            yield desired.id


def new_names(
    found: Iterable[MovedTable], select: Scope = EVERYTHING
) -> Iterator[tuple[Identifier, Identifier | None]]:
    """Yield each new table that names no location, with the name that it had before, if any."""
    for pair in found:
        desired = pair.wanted_in(select) if pair.in_force is None else None
        if desired is not None and desired.location is None and desired.probe:
            yield desired.id, pair.former


def storage_question(pair: MovedTable, select: Scope = EVERYTHING) -> StorageQuestion | None:
    """Return what has to be opened before a table can be compared, None when nothing has.

    Storage decides what is planned for the tables to be made, which are registered where data is found, for those to
    be moved, and for the live ones whose schema is given, which must have it.
    """
    desired, live = pair.wanted_in(select), pair.standing
    if desired is None:
        return None
    if live is None:
        return StorageQuestion(desired, desired.location)
    if is_relocated(desired, live):
        # The service may have chosen the place of the entry, or somebody has moved it: data tells which to go on from.
        otherwise = live.location if is_unanswered(desired, live) else None
        return StorageQuestion(desired, desired.location, otherwise, pair.in_force)
    if desired.schema is not None and desired.probe:
        return StorageQuestion(desired, live.location, live=pair.in_force)
    return None


def storage_questions(desired: DesiredCatalog, live: Snapshot, select: Scope = EVERYTHING) -> Iterator[StorageQuestion]:
    """Yield the :func:`storage_question` of every table that has one."""
    for pair in pairs(moves_of(desired), desired.tables, live.tables):
        question = storage_question(pair, select)
        if question is not None:
            yield question
