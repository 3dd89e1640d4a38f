"""The planner's input: states, options, its questions, and the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.clones import CloneBase
from reconciler.model.columns import ShownColumn, ShownColumns
from reconciler.model.desired import DesiredCatalog, DesiredTable, Evolve
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot, Storage
from reconciler.model.names import EVERYTHING, NOTHING, Identifier, Scope, address, selecting
from reconciler.model.ownership import (
    CHOSEN_LOCATION,
    REQUESTED_LOCATION,
    clone_of,
    is_request_true,
    origin_of_clone,
    recorded_tags,
)
from reconciler.model.reasons import Why
from reconciler.model.tags import FoundTags
from reconciler.planner.mirrors import MirroredTables
from reconciler.planner.moves import TablePair

PossibleLocations: TypeAlias = Mapping[Identifier, Sequence[str]]
"""Locations of data that may be a new table's, other than its default location."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan.

    ``adopt``: mark unowned objects that equal their block. ``take_over``: claim objects of another manifest.
    ``select``: the part to plan, relative to the catalog; outside it, only missing ancestors of selected objects are
    created. ``recreate_lost``: the tables whose lost data is replaced by an empty dataset.
    """

    adopt: bool = False
    take_over: bool = False
    select: Scope = EVERYTHING
    recreate_lost: Scope = NOTHING


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The columns that a table's entry shows, and those that it should show."""

    shown: ShownColumns
    to_show: ShownColumns

    def __bool__(self) -> bool:
        """Return whether they differ."""
        return len(self.shown) != len(self.to_show) or not all(map(ShownColumn.shows, self.shown, self.to_show))

    def texts(self) -> Iterator[str]:
        """Yield the differences, one clause a column."""
        surplus = {column.name.casefold(): column for column in self.shown}
        differences: list[str] = []
        for column in self.to_show:
            shown = surplus.pop(column.name.casefold(), None)
            if shown is None:
                differences.append(f"`{column.name}` ({column.type}) is missing")
            elif not shown.shows(replace(column, comment=None)):
                differences.append(f"`{column.name}` is {shown.type} instead of {column.type}")
            elif not shown.shows(column):
                differences.append(f"`{column.name}` has another comment")
        differences += [f"`{column.name}` ({column.type}) is not in the data" for column in surplus.values()]
        yield from differences or ["they are in another order"]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What storage holds at a table's ``location``.

    ``problem`` is why the catalog refuses that location, None if it does not. ``entry`` has the columns that its entry
    shows and should show, None if they agree. ``tags`` is None if the block asks for no tags and lancens set none.
    For a clone that is to be made, recognised or followed, ``base`` is the version to clone, or why there is none;
    ``clone`` is the version that the data at ``location`` is a clone of, ``is_begun`` tells that writing it was
    interrupted, and ``written`` is the number of its versions since.
    """

    location: str | None
    storage: Storage
    problem: str | None = None
    entry: EntryColumns | None = None
    tags: FoundTags | None = None
    base: CloneBase | Why | None = None
    clone: CloneBase | None = None
    is_begun: bool = False
    written: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the catalog as a whole answers, once its tables are compared.

    ``occupants``: the objects in namespaces to drop that the snapshot lacks. ``leftovers``: entries that an interrupted
    run of lancens left; the snapshot lacks them, too. ``places``: the targets of locations that are symbolic links, all
    normalised. ``possible_locations``: other locations at which the data of :func:`new_names` may be. ``notes``:
    sentences about columns that new entries cannot show.
    """

    occupants: Mapping[Identifier, Sequence[str]] = field(default_factory=dict)
    leftovers: Sequence[LiveNamespace | LiveTable] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    possible_locations: PossibleLocations = field(default_factory=dict)
    notes: Sequence[str] = ()

    def place_of(self, location: str) -> str:
        """Return the normalised location with symbolic links resolved."""
        normalised = locations.normalise(location)
        return self.places.get(normalised, normalised)


@dataclass(frozen=True, slots=True)
class LiveTables:
    """The live tables of one catalog.

    An engine may keep in memory only those that other objects' changes depend on; then ``counts`` is the number of
    tables in each namespace, and ``selected`` are the globs of the user that match a table.
    """

    tables: Mapping[Identifier, LiveTable]
    counts: Mapping[Identifier, int] | None = None
    selected: Collection[Scope] | None = None

    def count_in(self, namespaces: Collection[Identifier]) -> Mapping[Identifier, int]:
        """Return the number of tables directly in each of ``namespaces``; zero counts may be left out."""
        if self.counts is not None:
            return {namespace: self.counts.get(namespace, 0) for namespace in namespaces}
        return Counter(identifier[:-1] for identifier in self.tables if identifier[:-1] in namespaces)

    def named(self, identifiers: Collection[Identifier]) -> Iterable[LiveTable]:
        """Return the tables among ``identifiers``."""
        return [self.tables[identifier] for identifier in identifiers if identifier in self.tables]

    def at(self, places: Collection[str], facts: Facts) -> Iterable[LiveTable]:
        """Return the tables whose location is one of ``places`` (see ``Facts.place_of``)."""
        return [table for table in self.tables.values() if facts.place_of(table.location) in places]

    def selected_by(self, scopes: Collection[Scope]) -> Collection[Scope]:
        """Return those of ``scopes``, globs of the user, that contain a table."""
        return selecting(scopes, self.tables) if self.selected is None else self.selected


@dataclass(frozen=True, slots=True)
class CatalogInput:
    """Everything that determines the plan of one catalog.

    ``impl`` is for display; ``service`` identifies the service and its configuration, so that a plan reviewed for one
    is not applied to another. ``mirrored`` is the mirror's part of ``desired``. ``planned_data`` is the data that plans
    of other catalogs write, by location.
    """

    desired: DesiredCatalog
    live: Snapshot
    capabilities: Capabilities
    impl: str
    facts: Facts = Facts()
    options: PlanOptions = PlanOptions()
    service: str = ""
    mirrored: MirroredTables | None = None
    planned_data: Mapping[str, Storage] = field(default_factory=dict)

    def selected(self, selection: Scope) -> Scope:
        """Return the part of ``selection``, globs of addresses, that is about this catalog."""
        selected = selection.below(self.desired.name)
        return selected.folded() if self.capabilities.folds_case else selected


@dataclass(frozen=True, slots=True)
class StorageQuestion:
    """A table whose storage must be opened; ``location`` None: the default one.

    If ``location`` holds nothing, ``otherwise`` is opened instead. ``live`` is the table's entry, under the name it has
    now.
    """

    table: DesiredTable
    location: str | None
    otherwise: str | None = None
    live: LiveTable | None = None

    @property
    def present_location(self) -> str | None:
        """The location of the table's entry; None if it has none."""
        return self.live.location if self.live else None

    @property
    def recorded_tags(self) -> frozenset[str]:
        """The tags that lancens set, by the table's entry."""
        return recorded_tags(self.live.properties) if self.live else frozenset()

    @property
    def may_grow(self) -> bool:
        """Whether columns may be added to the data."""
        table = self.table
        return self.live is not None and table.schema is not None and table.evolve is Evolve.ADDITIVE


def is_relocated(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether the manifest asks for another location than the entry has.

    If the service chose another location than requested, both are recorded; requesting the same again is no change
    while the entry stays where the service put it.
    """
    if desired.location is None or locations.same(desired.location, live.location):
        return False
    return not (has_true_request(live) and locations.same(desired.location, live.properties.get(REQUESTED_LOCATION)))


def has_true_request(live: LiveTable) -> bool:
    """Return whether the recorded request is true (``ownership.is_request_true``)."""
    properties = live.properties
    return is_request_true(properties.get(REQUESTED_LOCATION), properties.get(CHOSEN_LOCATION), live.location)


def is_unanswered(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether this location was requested before without a recorded answer."""
    requested = live.properties.get(REQUESTED_LOCATION)
    return (
        requested is not None and CHOSEN_LOCATION not in live.properties and locations.same(desired.location, requested)
    )


def is_recorded_clone(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether an entry is marked as the clone that a block asks for, of any version, if it asks for one."""
    clone = desired.clones
    made_of = origin_of_clone(clone_of(live.properties))
    return clone is None or made_of == address(clone.origin.catalog, clone.origin.identifier)


def is_followed(desired: DesiredTable, live: LiveTable) -> bool:
    """Return whether an entry is that of a clone whose block asks for another one once the tag has moved."""
    clone = desired.clones
    return clone is not None and clone.at.follow and is_recorded_clone(desired, live)


def new_names(
    tables: Iterable[TablePair], select: Scope = EVERYTHING
) -> Iterator[tuple[Identifier, Identifier | None]]:
    """Yield the name of each new table without a location, with its old name if a line moves it."""
    for pair in tables:
        desired = pair.block_in(select) if pair.present_entry is None else None
        if desired is not None and desired.location is None and desired.probe and desired.clones is None:
            yield desired.id, pair.former_name


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table that is compared once its questions are answered.

    ``storage`` is None if only its name is in question.
    """

    pair: TablePair
    storage: StorageQuestion | None


def open_table(pair: TablePair, select: Scope = EVERYTHING) -> OpenTable | None:
    """Return a table with its questions; None if it can be compared without an answer."""
    desired = pair.block_in(select)
    if desired is None:
        return None
    question = _storage_question(pair, desired)
    return None if question is None and pair.live is not None else OpenTable(pair, question)


def _storage_question(pair: TablePair, desired: DesiredTable) -> StorageQuestion | None:
    """Return what storage must be opened to compare a table; None if nothing must be.

    Storage decides about new tables (data is registered), about relocations, and about live tables with a schema or
    with tags.
    """
    live = pair.entry_to_compare
    if live is None:
        return StorageQuestion(desired, desired.location)
    if is_relocated(desired, live):
        # The service may have chosen the place of the entry, or somebody has moved it: data tells which to go on from.
        otherwise = live.location if is_unanswered(desired, live) else None
        return StorageQuestion(desired, desired.location, otherwise, pair.present_entry)
    has_tags = bool(desired.tags or recorded_tags(live.properties))
    if not is_recorded_clone(desired, live) or is_followed(desired, live):
        return StorageQuestion(desired, live.location, live=pair.present_entry)
    if (desired.schema is not None or has_tags) and desired.probe:
        return StorageQuestion(desired, live.location, live=pair.present_entry)
    return None


@dataclass(frozen=True, slots=True)
class Questions:
    """What must be known to compare some tables.

    Args:
        storage: the tables whose storage must be opened.
        names: the names of new tables, which objects of another kind may have.
    """

    storage: Sequence[StorageQuestion]
    names: Sequence[Identifier]

    @classmethod
    def about(cls, tables: Collection[OpenTable]) -> Questions:
        """Return the questions about ``tables``; there may be none."""
        storage = [table.storage for table in tables if table.storage is not None]
        new = (table.pair.desired for table in tables if table.pair.live is None)
        return cls(storage, [desired.id for desired in new if desired is not None])


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to :class:`Questions`.

    Args:
        tables: what storage holds for each table of ``Questions.storage``.
        name_holders: the objects with one of ``Questions.names`` that are no Lance tables, in words.
    """

    tables: Mapping[Identifier, TableFacts] = field(default_factory=dict)
    name_holders: Mapping[Identifier, str] = field(default_factory=dict)
