"""Plan several catalogs, sources before mirrors, and combine the plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from reconciler.model import locations
from reconciler.model.desired import DesiredTable, Thresholds
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.names import Identifier
from reconciler.model.ownership import is_reserved_key, recorded_keys, recorded_secrets
from reconciler.model.policies import Policies
from reconciler.model.redaction import is_sensitive, is_stand_in
from reconciler.planner.catalog import CatalogPlan, fingerprint_of
from reconciler.planner.entries import Action, Blocked, Change, Entry, Fingerprint
from reconciler.planner.facts import CatalogInput, Facts
from reconciler.planner.mirrors import NOTHING_KEPT, PlannedTable, TablesAfterPlan, mirrored
from reconciler.planner.ordering import order
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import ManifestRef, Options, Plan, removes_too_much

_NONE_GIVEN = Options()
_PLACED_BY_SERVICE = (Action.CREATE_TABLE, Action.DECLARE_TABLE)
_EntryT = TypeVar("_EntryT", Change, Blocked)
_Of = TypeVar("_Of", bound=Entry | Fingerprint)


@dataclass(slots=True)
class Planning:
    """The catalogs planned so far, each after the one it mirrors."""

    _planned: dict[str, tuple[CatalogInput, CatalogPlan]] = field(default_factory=dict)
    _written: dict[str, Storage] = field(default_factory=dict)

    def with_mirror(
        self, source: CatalogInput, stored_names: Mapping[Identifier, Identifier] = NOTHING_KEPT
    ) -> CatalogInput:
        """Return a catalog with its mirrored tables; unchanged without a mirror.

        Args:
            source: the catalog, with its own blocks only.
            stored_names: the names that its service stores in another form, by the requested ones.
        """
        mirror = source.desired.mirror
        if mirror is None:
            return source
        followed = self._planned.get(mirror.origin)
        source_tables = TablesAfterPlan() if followed is None else tables_after(*followed)
        result = mirrored(source.desired, mirror, source.capabilities, source_tables, stored_names)
        return replace(source, desired=result.desired, mirrored=result)

    def with_written(self, source: CatalogInput, facts: Facts | None = None) -> CatalogInput:
        """Return a catalog with the data that the plans of the others write, and with ``facts`` if they are given."""
        return replace(source, facts=source.facts if facts is None else facts, written=self._written)

    def add(self, source: CatalogInput, plan: CatalogPlan) -> None:
        """Add the plan of a catalog; a mirrored one needs its live tables in ``source``."""
        self._planned[source.desired.name] = source, plan
        self._written.update(written_by(source, plan))

    def plan(self, manifest: ManifestRef, thresholds: Thresholds, options: Options = _NONE_GIVEN) -> Plan:
        """Return one plan of all catalogs, ordered: the same bytes for the same input.

        It includes the states of source tables that decide about mirrored ones.
        """
        watched: defaultdict[str, set[Identifier]] = defaultdict(set)
        for name, (source, plan) in reversed(self._planned.items()):
            plan.fingerprints += _watched(source, plan, watched[name])
            mirror = source.desired.mirror
            if mirror is not None and mirror.origin in self._planned:
                watched[mirror.origin] |= _followed(source, plan, watched[name])
        plans = [plan for _, plan in self._planned.values()]
        outcomes = [plan.outcomes for plan in plans]
        summaries = tuple(sorted((plan.summary for plan in plans), key=attrgetter("name")))
        return Plan(
            manifest=manifest,
            thresholds=thresholds,
            options=options.model_copy(update={"mass_removal": removes_too_much(thresholds, summaries)}),
            catalogs=summaries,
            changes=order(change for catalog in outcomes for change in catalog.changes),
            blocked=_in_order(blocked for catalog in outcomes for blocked in catalog.blocked.values()),
            waiting=_in_order(change for catalog in outcomes for change in catalog.waiting),
            guards=_in_order(guard for catalog in outcomes for guard in catalog.guards),
            notes=tuple(
                sorted((note for catalog in outcomes for note in catalog.notes), key=attrgetter("catalog", "message"))
            ),
            fingerprints=_in_order(fingerprint for plan in plans for fingerprint in plan.fingerprints),
        )


def _in_order(entries: Iterable[_Of]) -> tuple[_Of, ...]:
    return tuple(sorted(entries, key=_place_of))


def _place_of(entry: Entry | Fingerprint) -> tuple[str, Identifier, str, Identifier]:
    """Return the sort key of an entry; a move has two fingerprints."""
    moved_to = entry.moved_to if isinstance(entry, Fingerprint) else None
    return entry.catalog, entry.identifier, entry.kind, moved_to or ()


def _watched(source: CatalogInput, plan: CatalogPlan, watched: Collection[Identifier]) -> list[Fingerprint]:
    """Return fingerprints of the tables in ``watched`` that the plan lacks."""
    known = {fingerprint.identifier for fingerprint in plan.fingerprints if fingerprint.kind == "table"}
    context, blocks = CatalogContext.of(source), source.desired.tables
    return [
        fingerprint_of(source, context, "table", identifier, live)
        for identifier in sorted(set(watched) - known)
        for live in (source.live.tables.get(identifier),)
        if live is not None or (block := blocks.get(identifier)) is None or block.refused is None
    ]


def _followed(source: CatalogInput, plan: CatalogPlan, watched: Iterable[Identifier]) -> set[Identifier]:
    """Return the source tables that decide about the plan's tables and ``watched``."""
    if source.mirrored is None:
        return set()
    namespaces = [fingerprint.identifier for fingerprint in plan.fingerprints if fingerprint.kind == "namespace"]
    tables = {*watched, *(entry.identifier for entry in plan.outcomes.entries if entry.kind == "table")}
    tables |= set(source.mirrored.witnesses(namespaces))
    return {origin for table in tables for origin in source.mirrored.origins_of(table)}


# ---- what a plan leaves for the catalogs that mirror it --------------------------------------------------------------


def tables_after(source: CatalogInput, plan: CatalogPlan) -> TablesAfterPlan:
    """Return the tables that a catalog has once its plan is applied.

    Blocked objects stay as they are, or appear as they would have been; they wait, as do changes that wait for them.

    Args:
        source: the catalog, with its live tables.
        plan: its plan.
    """
    outcomes = plan.outcomes
    blocks, policies = source.desired.tables, Policies(source.desired.policies)
    tables: dict[Identifier, PlannedTable] = {}
    for name, live in source.live.tables.items():
        policy = policies.of(name) if name not in blocks else None
        tables[name] = _live(live, policy.block if policy is not None else blocks.get(name))
    gone: set[Identifier] = set()
    for change in _of_tables(outcomes.changes):
        old_name = change.moved_from or (change.identifier if change.action is Action.DEREGISTER_TABLE else None)
        if old_name is not None:
            tables.pop(old_name, None)
            gone.add(old_name)
        if change.after is not None:
            tables[change.identifier] = _made(source, change)
    undecided: list[Change | Blocked] = [*_of_tables(outcomes.waiting), *_of_tables(outcomes.blocked.values())]
    for entry in undecided:
        present = {entry.moved_from or entry.identifier, entry.identifier} & tables.keys()
        for name in present:
            tables[name] = replace(tables[name], waits=True)
        if entry.identifier not in present and not (isinstance(entry, Change) and entry.after is None):
            tables[entry.identifier] = replace(_made(source, entry), waits=True)
    written = written_by(source, plan)
    for table in tables.values() if written else ():
        storage = written.get(locations.place(table.location)) if table.location is not None else None
        if storage is not None:
            tables[table.id] = replace(table, written=storage)
    return TablesAfterPlan(tables, frozenset(gone - tables.keys()))


def written_by(source: CatalogInput, plan: CatalogPlan) -> Mapping[str, Storage]:
    """Return the data that the plan writes, or knows to be written, by location."""
    known = source.mirrored.written if source.mirrored else {}
    written: dict[str, Storage] = {}
    for change in _of_tables(plan.outcomes.changes):
        after = change.after
        if after is None or after.location is None:
            continue
        if after.columns and change.storage is StorageKind.NOTHING:
            written[locations.place(after.location)] = Storage(StorageKind.DATASET, after.columns, change.address)
        elif change.identifier in known:
            written[locations.place(after.location)] = known[change.identifier]
    return written


def _of_tables(entries: Iterable[_EntryT]) -> Iterator[_EntryT]:
    return (entry for entry in entries if entry.kind == "table")


def _live(table: LiveTable, block: DesiredTable | None) -> PlannedTable:
    keys = recorded_keys(table.properties) | (block.properties.keys() if block else set())
    secret = recorded_secrets(table.properties).union(block.secret_keys if block else ())
    return PlannedTable(table.id, table.location, _taken_over(table.properties, keys, secret))


def _made(source: CatalogInput, entry: Change | Blocked) -> PlannedTable:
    """Return a table as the plan makes it, or would if it could."""
    block = source.desired.tables.get(entry.identifier)
    secret = block.secret_keys if block else frozenset[str]()  # those of the change were secret before, too
    if isinstance(entry, Blocked):
        location = entry.unreferenced or entry.location
        properties: Mapping[str, str] = block.properties if block else {}
    else:
        is_chosen = source.capabilities.ignores_location and entry.action in _PLACED_BY_SERVICE
        location = entry.after.location if entry.after and not is_chosen else None
        properties = entry.after.properties if entry.after else {}
        secret |= set(entry.after.secret_keys) if entry.after else set()
    return PlannedTable(entry.identifier, location, _taken_over(properties, properties, secret))


def _taken_over(properties: Mapping[str, str], keys: Iterable[str], secret: Collection[str]) -> dict[str, str]:
    """Return the properties that a mirror copies: no marks, reserved keys, secrets."""
    return {
        key: value
        for key in sorted(keys)
        if (value := properties.get(key)) is not None
        and key not in secret
        and not (is_reserved_key(key) or is_sensitive(key, value) or is_stand_in(value))
    }
