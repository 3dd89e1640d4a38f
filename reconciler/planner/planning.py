"""Plan several catalogs, sources before mirrors, and combine the plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from reconciler.model import locations
from reconciler.model.desired import DesiredTable, Origin, Thresholds
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.ownership import is_reserved_key, recorded_keys, recorded_secrets
from reconciler.model.policies import Policies
from reconciler.model.redaction import is_sensitive, is_stand_in
from reconciler.planner.catalog import CatalogPlan, fingerprint_of
from reconciler.planner.entries import Action, Blocked, Change, Entry, Fingerprint
from reconciler.planner.facts import CatalogInput, Facts
from reconciler.planner.mirrors import NO_STORED_NAMES, PlannedTable, TablesAfterPlan, mirrored, with_bases
from reconciler.planner.notes import with_file
from reconciler.planner.ordering import order
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.placeholders import with_hidden_locations
from reconciler.planner.plan import ManifestRef, Options, Plan, removes_too_much

_NO_OPTIONS = Options()
_NO_PLACES: Mapping[str, str] = {}
_PLACED_BY_SERVICE = (Action.CREATE_TABLE, Action.DECLARE_TABLE)
_EntryT = TypeVar("_EntryT", Change, Blocked)
_Of = TypeVar("_Of", bound=Entry | Fingerprint)
_ItemT = TypeVar("_ItemT")


@dataclass(slots=True)
class Planning:
    """The catalogs planned so far, each after the one it mirrors."""

    _planned: dict[str, tuple[CatalogInput, CatalogPlan]] = field(default_factory=dict)
    _planned_data: dict[str, Storage] = field(default_factory=dict)

    def with_mirror(
        self, source: CatalogInput, stored_names: Mapping[Identifier, Identifier] = NO_STORED_NAMES
    ) -> CatalogInput:
        """Return a catalog with its mirrored and cloned tables; unchanged without a mirror and clones.

        Args:
            source: the catalog, with its own blocks only.
            stored_names: the names that its service stores in another form, by the requested ones.
        """
        mirror, desired = source.desired.mirror, with_bases(source.desired, self._tables_after)
        if mirror is None:
            return source if desired is source.desired else replace(source, desired=desired)
        source_tables = self._tables_after(mirror.origin)
        result = mirrored(desired, mirror, source.capabilities, source_tables, stored_names)
        return replace(source, desired=result.desired, mirrored=result)

    def _tables_after(self, catalog: str) -> TablesAfterPlan:
        planned = self._planned.get(catalog)
        return TablesAfterPlan() if planned is None else tables_after(*planned)

    def with_planned_data(self, source: CatalogInput, facts: Facts | None = None) -> CatalogInput:
        """Return a catalog with the data that plans of other catalogs write, and with ``facts`` if given."""
        return replace(source, facts=source.facts if facts is None else facts, planned_data=self._planned_data)

    def add(self, source: CatalogInput, plan: CatalogPlan) -> None:
        """Add the plan of a catalog; if others mirror it, ``source`` must have its live tables."""
        self._planned[source.desired.name] = source, plan
        self._planned_data.update(planned_data_of(source, plan))

    def plan(
        self,
        manifest: ManifestRef,
        thresholds: Thresholds,
        options: Options = _NO_OPTIONS,
        places: Mapping[str, str] = _NO_PLACES,
    ) -> Plan:
        """Return one plan of all catalogs, ordered: the same bytes for the same input; nothing stays planned here.

        It includes the states of source tables that decide about mirrored ones. There may be millions of entries, so
        each one is let go of when its final form has been made.

        Args:
            manifest: the plan's manifest.
            thresholds: its limits on removals.
            options: how it was planned.
            places: what the plan shows for real locations (see ``placeholders.hide_locations``).
        """
        self._add_source_fingerprints()
        plans = [plan for _, plan in self._planned.values()]
        self._planned.clear()
        outcomes = [plan.outcomes for plan in plans]
        summaries = tuple(sorted((plan.summary for plan in plans), key=attrgetter("name")))
        changes = order(_released(*(catalog.changes for catalog in outcomes)))
        notes = [with_file(note, manifest.files) for catalog in outcomes for note in catalog.notes]
        notes.sort(key=attrgetter("catalog", "message"))
        return Plan(
            manifest=manifest,
            thresholds=thresholds,
            options=options.model_copy(update={"mass_removal": removes_too_much(thresholds, summaries)}),
            catalogs=summaries,
            changes=tuple(with_hidden_locations(changes, places)),
            blocked=_sorted((blocked for catalog in outcomes for blocked in catalog.blocked.values()), places),
            waiting=_sorted((change for catalog in outcomes for change in catalog.waiting), places),
            guards=_sorted((guard for catalog in outcomes for guard in catalog.guards), places),
            notes=tuple(with_hidden_locations(notes, places)),
            fingerprints=_sorted(_released(*(plan.fingerprints for plan in plans)), places),
        )

    def _add_source_fingerprints(self) -> None:
        """Add the fingerprints of source tables that decide about mirrored ones."""
        watched: defaultdict[str, set[Identifier]] = defaultdict(set)
        for name, (source, plan) in reversed(self._planned.items()):
            plan.fingerprints += _source_fingerprints(source, plan, watched[name])
            mirror = source.desired.mirror
            if mirror is not None and mirror.origin in self._planned:
                watched[mirror.origin] |= _source_tables(source, plan, watched[name])
            for origin in _bases(source, plan):
                if origin.catalog in self._planned:
                    watched[origin.catalog].add(origin.identifier)


def _released(*lists: list[_ItemT]) -> Iterator[_ItemT]:
    """Yield the items of ``lists`` and empty these."""
    for items in lists:
        items.reverse()
        while items:
            yield items.pop()


def _sorted(entries: Iterable[_Of], places: Mapping[str, str]) -> tuple[_Of, ...]:
    """Return ``entries`` sorted, with the locations in ``places`` hidden."""
    return tuple(with_hidden_locations(_released(sorted(entries, key=_sort_key)), places))


def _sort_key(entry: Entry | Fingerprint) -> tuple[str, Identifier, str, Identifier]:
    """Return the sort key of an entry; a move has two fingerprints."""
    moved_to = entry.moved_to if isinstance(entry, Fingerprint) else None
    return entry.catalog, entry.identifier, entry.kind, moved_to or ()


def _source_fingerprints(source: CatalogInput, plan: CatalogPlan, watched: Collection[Identifier]) -> list[Fingerprint]:
    """Return the fingerprints of ``watched``, tables that decide about a mirror, that ``plan`` lacks."""
    known = {fingerprint.identifier for fingerprint in plan.fingerprints if fingerprint.kind == "table"}
    context, blocks = CatalogContext.of(source), source.desired.tables
    return [
        fingerprint_of(source, context, "table", identifier, live)
        for identifier in sorted(set(watched) - known)
        for live in (source.live.tables.get(identifier),)
        if live is not None or (block := blocks.get(identifier)) is None or block.refused is None
    ]


def _source_tables(source: CatalogInput, plan: CatalogPlan, watched: Iterable[Identifier]) -> set[Identifier]:
    """Return the source tables that decide about the tables of a mirror's plan and about ``watched``."""
    if source.mirrored is None:
        return set()
    namespaces = [fingerprint.identifier for fingerprint in plan.fingerprints if fingerprint.kind == "namespace"]
    tables = {*watched, *(entry.identifier for entry in plan.outcomes.entries if entry.kind == "table")}
    tables |= set(source.mirrored.witnesses(namespaces))
    return {origin for table in tables for origin in source.mirrored.origins_of(table)}


def _bases(source: CatalogInput, plan: CatalogPlan) -> Iterator[Origin]:
    """Yield the tables of which entries of a plan are clones by their own blocks."""
    blocks = source.desired.tables
    for entry in plan.outcomes.entries if source.desired.cloned else ():
        block = blocks.get(entry.identifier) if entry.kind == "table" else None
        if block is not None and block.clones is not None and block.mirrors is None:
            yield block.clones.origin


# ---- what a plan leaves for the catalogs that mirror it --------------------------------------------------------------


def tables_after(source: CatalogInput, plan: CatalogPlan) -> TablesAfterPlan:
    """Return the tables that a catalog has once its plan is applied.

    Blocked tables and those of waiting changes are undecided: a live one stays as it is, a new one is as it would be.

    Args:
        source: the catalog, with its live tables.
        plan: its plan.
    """
    outcomes = plan.outcomes
    blocks, policies = source.desired.tables, Policies(source.desired.policies)
    tables: dict[Identifier, PlannedTable] = {}
    for name, live in source.live.tables.items():
        policy = policies.of(name) if name not in blocks else None
        tables[name] = _as_it_is(live, policy.block if policy is not None else blocks.get(name))
    gone: set[Identifier] = set()
    for change in _of_tables(outcomes.changes):
        old_name = change.moved_from or (change.identifier if change.action is Action.DEREGISTER_TABLE else None)
        if old_name is not None:
            tables.pop(old_name, None)
            gone.add(old_name)
        if change.after is not None:
            tables[change.identifier] = replace(_as_planned(source, change), moved_tags=_moved_tags(change))
    undecided: list[Change | Blocked] = [*_of_tables(outcomes.waiting), *_of_tables(outcomes.blocked.values())]
    for entry in undecided:
        present = {entry.moved_from or entry.identifier, entry.identifier} & tables.keys()
        for name in present:
            tables[name] = replace(tables[name], is_undecided=True)
        if entry.identifier not in present and not (isinstance(entry, Change) and entry.after is None):
            tables[entry.identifier] = replace(_as_planned(source, entry), is_undecided=True)
    planned_data = planned_data_of(source, plan)
    for table in tables.values() if planned_data else ():
        storage = planned_data.get(locations.place(table.location)) if table.location is not None else None
        if storage is not None:
            tables[table.id] = replace(table, planned_data=storage)
    return TablesAfterPlan(tables, frozenset(gone - tables.keys()))


def planned_data_of(source: CatalogInput, plan: CatalogPlan) -> Mapping[str, Storage]:
    """Return the data that the plan writes, or knows to be written by another plan, by location."""
    known = source.mirrored.planned_data if source.mirrored else {}
    planned_data: dict[str, Storage] = {}
    for change in _of_tables(plan.outcomes.changes):
        after = change.after
        if after is None or after.location is None:
            continue
        if (after.columns or change.clone) and change.storage is StorageKind.NOTHING:
            planned_data[locations.place(after.location)] = Storage(StorageKind.DATASET, after.columns, change.address)
        elif change.identifier in known:
            planned_data[locations.place(after.location)] = known[change.identifier]
    return planned_data


def _of_tables(entries: Iterable[_EntryT]) -> Iterator[_EntryT]:
    return (entry for entry in entries if entry.kind == "table")


def _as_it_is(table: LiveTable, block: DesiredTable | None) -> PlannedTable:
    keys = recorded_keys(table.properties) | (block.properties.keys() if block else set())
    secret = recorded_secrets(table.properties).union(block.secret_keys if block else ())
    return PlannedTable(table.id, table.location, _copied_properties(table.properties, keys, secret))


def _moved_tags(change: Change) -> Mapping[str, str | None]:
    before, after = (dict(view.tags or {}) if view else {} for view in (change.before, change.after))
    return {name: after.get(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _as_planned(source: CatalogInput, entry: Change | Blocked) -> PlannedTable:
    """Return the table of ``entry`` as the plan makes it, or would make it."""
    block = source.desired.tables.get(entry.identifier)
    secret = block.secret_keys if block else frozenset[str]()  # a change also has keys that were secret before
    if isinstance(entry, Blocked):
        location = entry.unreferenced or entry.location
        properties: Mapping[str, str] = block.properties if block else {}
    else:
        is_chosen = source.capabilities.ignores_location and entry.action in _PLACED_BY_SERVICE
        location = entry.after.location if entry.after and not is_chosen else None
        properties = entry.after.properties if entry.after else {}
        secret |= set(entry.after.secret_keys) if entry.after else set()
    return PlannedTable(entry.identifier, location, _copied_properties(properties, properties, secret))


def _copied_properties(properties: Mapping[str, str], keys: Iterable[str], secret: Collection[str]) -> dict[str, str]:
    """Return those of ``keys`` that a mirror copies, with values: no reserved keys and no secrets."""
    return {
        key: value
        for key in sorted(keys)
        if (value := properties.get(key)) is not None
        and key not in secret
        and not (is_reserved_key(key) or is_sensitive(key, value) or is_stand_in(value))
    }
