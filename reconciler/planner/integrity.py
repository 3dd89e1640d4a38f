"""Verify a saved plan by replanning from its recorded state.

The planner runs again on the recorded states of the plan's objects, and must make the same plan. An edited plan
therefore carries out nothing that the manifest does not ask for. ``reconciler.applier`` compares the recorded states
with the live ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TypeAlias

from pydantic import BaseModel

from reconciler.model import locations, ownership
from reconciler.model.columns import Column, Schema, with_metadata
from reconciler.model.desired import DesiredCatalog, DesiredNamespace, DesiredTable, Thresholds
from reconciler.model.display import count
from reconciler.model.errors import PlanFileError, StalePlanError
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, Snapshot, Storage, StorageKind
from reconciler.model.names import Identifier, address
from reconciler.model.policies import Policies
from reconciler.model.reasons import ReasonCode
from reconciler.model.redaction import is_stand_in, redact_value
from reconciler.model.tags import FoundTags
from reconciler.planner.catalog import CatalogPlan, compare_namespaces, conclude
from reconciler.planner.clones import recorded_clone
from reconciler.planner.comparison import TableComparison, entry_columns
from reconciler.planner.entries import Action, Blocked, Change, Entry, Fingerprint, Key
from reconciler.planner.facts import Answers, CatalogInput, Facts, LiveTables, Questions, StorageQuestion, TableFacts
from reconciler.planner.maintenance import MaintainedTable, UpkeepBlocks, plan_jobs
from reconciler.planner.mirrors import waves, with_sources
from reconciler.planner.moves import moves_of, pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.placeholders import hide_locations, location_hider, restore_locations
from reconciler.planner.plan import CatalogSummary, ManifestRef, Plan, removes_too_much
from reconciler.planner.planning import Planning
from reconciler.planner.views import ObjectView

_Entries: TypeAlias = Sequence[Entry] | Sequence[Fingerprint]


@dataclass(frozen=True, slots=True)
class RecordedCatalog:
    """The recorded states of one catalog, as an input to the planner.

    ``compared`` is the comparison of the plan's tables, ``questions`` what it asks about those that are still open.
    ``namespaces`` are the names of namespaces in the plan, existing or not. ``columns`` are the recorded columns of
    data, ``entries`` the plan's changes and blocked entries, both by table.
    """

    source: CatalogInput
    compared: TableComparison
    questions: Questions
    namespaces: Sequence[Identifier]
    columns: Mapping[Identifier, Schema]
    entries: Mapping[Identifier, Change | Blocked]


@dataclass(frozen=True, slots=True)
class PresentLocations:
    """Where the tables in question are now, and the targets of symbolic links (``Facts.places``)."""

    tables: Mapping[Identifier, TableFacts]
    links: Mapping[str, str]


def check_catalogs(
    plan: Plan, manifest: ManifestRef, thresholds: Thresholds, catalogs: Mapping[str, tuple[str, DesiredCatalog]]
) -> None:
    """Check what a plan says of its manifest, without a connection.

    Args:
        plan: from a file, or just made.
        manifest: the reference of the loaded manifest.
        thresholds: those of the manifest.
        catalogs: the implementation and the desired state of every catalog of the manifest.

    Raises:
        PlanFileError: the plan does not match the manifest.
    """
    if plan.manifest.name != manifest.name:
        raise _edited_error("it names another manifest")
    if plan.thresholds != thresholds:
        raise _edited_error("its `thresholds` are not the manifest's")
    concerned = plan.concerned
    times = Counter(summary.name for summary in plan.catalogs)
    for summary in plan.catalogs:
        if summary.name not in catalogs or times[summary.name] > 1:
            raise _edited_error(f"`{summary.name}` is not a catalog of the manifest, or is there twice")
        impl, desired = catalogs[summary.name]
        if summary.impl != impl:
            raise _edited_error(f"`{summary.name}` is `impl: {impl}`")
        if not plan.options.maintain:  # which counts the datasets that it looks at
            _check_summary(summary, desired, is_concerned=summary.name in concerned)
    for name in sorted(concerned - times.keys()):
        raise _edited_error(f"it changes `{name}`, of which it read nothing")
    fingerprinted = {fingerprint.catalog for fingerprint in plan.fingerprints}
    sources = {name: desired.sources for name, (_, desired) in catalogs.items()}
    for name in sorted(fingerprinted - with_sources(sources, concerned)):
        raise _edited_error(f"it has a fingerprint of `{name}`, where it changes nothing")


def _check_summary(summary: CatalogSummary, desired: DesiredCatalog, *, is_concerned: bool) -> None:
    if summary.desired_objects != len(desired.tables) + len(desired.namespaces):
        raise _edited_error(f"its `desired_objects` of `{summary.name}` are not those of the manifest")
    if (summary.mirrored_tables is None) != (desired.mirror is None):
        raise _edited_error(f"its `mirrored_tables` of `{summary.name}` do not tell whether there is a `mirror`")
    if summary.removed_tables and not is_concerned:
        raise _edited_error(f"its `removed_tables` of `{summary.name}` are not those that it deregisters")


def _recorded_catalog(plan: Plan, source: CatalogInput, leftovers: Collection[Key]) -> RecordedCatalog:
    """Return the states of a catalog that ``plan`` records, with the tables compared as far as possible."""
    desired = source.desired
    listed: tuple[Change | Blocked, ...] = (*plan.changes, *plan.waiting, *plan.blocked)
    entries = {entry.identifier: entry for entry in listed if entry.catalog == desired.name and entry.kind == "table"}
    blocked = [entry for entry in entries.values() if isinstance(entry, Blocked)]
    fingerprints = [entry for entry in plan.fingerprints if entry.catalog == desired.name]
    left = [entry for entry in fingerprints if entry.key in leftovers]
    tables = {entry.identifier: entry for entry in fingerprints if entry.kind == "table" and entry.key not in leftovers}
    namespaces = {
        entry.identifier: entry for entry in fingerprints if entry.kind == "namespace" and entry.key not in leftovers
    }
    moves = moves_of(desired)
    # Where a table leaves a name, a mirror may ask for one of this name.
    block_names = {key: moves.target_of(key) or key for key in tables}
    policies = Policies(desired.policies)

    def block_of(key: Identifier) -> DesiredTable | None:
        policy = policies.of(key) if block_names[key] not in desired.tables else None
        return desired.tables.get(block_names[key]) or (policy.block if policy else None)

    live = Snapshot(
        {key: _live_namespace(entry, desired.namespaces.get(key)) for key, entry in namespaces.items() if entry.view},
        {key: _live_table(entry, block_of(key)) for key, entry in tables.items() if entry.view},
        odd={
            entry.identifier: OddEntry(entry.held_by, desired.owner)
            for entry in blocked
            if entry.code is ReasonCode.ENTRY_DAMAGED
        },
    )
    facts = Facts(
        occupants={entry.identifier: ("something",) for entry in fingerprints if entry.occupied},
        leftovers=[
            (_live_table if entry.kind == "table" else _live_namespace)(entry, None) for entry in left if entry.view
        ],
        possible_locations={
            entry.identifier: (entry.unreferenced,) for entry in blocked if entry.unreferenced is not None
        },
    )
    name_holders = {entry.identifier: entry.held_by for entry in blocked if entry.held_by}
    blocks = {key: block for key, block in desired.tables.items() if key in tables or block.refused is not None}
    source = replace(source, live=live, facts=facts)
    context, comparison = CatalogContext.of(source), TableComparison(is_whole=True)
    comparison.compare(context, pairs(moves, blocks, live.tables, name_holders))
    return RecordedCatalog(
        source,
        comparison,
        comparison.questions(),
        tuple(namespaces),
        {
            block_names[key]: entry.view.columns
            for key, entry in tables.items()
            if entry.view and entry.view.columns is not None
        },
        entries,
    )


def replan(
    saved: Plan,
    manifest: ManifestRef,
    thresholds: Thresholds,
    catalogs: Mapping[str, tuple[CatalogInput, Collection[Key]]],
    locate_tables: Callable[[RecordedCatalog], PresentLocations],
    shown: Mapping[str, str],
) -> Plan:
    """Replan a saved plan; return it with real locations and with the secret values of its changes.

    Args:
        saved: from a file, or just made.
        manifest: the reference of the loaded manifest.
        thresholds: those of the manifest.
        catalogs: the catalogs that the plan changes and those they mirror, without live state and facts, each with the
            leftovers of interrupted runs that the plan removes and the catalog confirms.
        locate_tables: returns the current locations of the tables in question and symbolic links; opens no storage.
        shown: what the plan shows for resolved locations (see ``placeholders.hide_locations``).

    Raises:
        PlanFileError: the replanned changes or fingerprints differ.
        StalePlanError: they differ, and so do locations that the catalog decides about.
    """
    plan = restore_locations(saved, shown)
    sources = {name: source for name, (source, _) in catalogs.items()}
    moved: list[str] = []
    derived = (
        _replan_jobs(plan, manifest, thresholds, sources)
        if plan.options.maintain
        else _replan_changes(plan, manifest, thresholds, catalogs, locate_tables, moved)
    )
    if next(_errors(plan, derived), None) is not None:
        if moved:
            raise StalePlanError(
                f"{count(len(moved), 'location')} changed since it was made", *map(location_hider(shown), moved)
            )
        # The plan shows all forms of a location as one.
        for error in _errors(saved, hide_locations(derived, shown)):
            raise _edited_error(error)
    return plan.model_copy(update={"changes": derived.changes})


def _replan_changes(
    plan: Plan,
    manifest: ManifestRef,
    thresholds: Thresholds,
    catalogs: Mapping[str, tuple[CatalogInput, Collection[Key]]],
    locate_tables: Callable[[RecordedCatalog], PresentLocations],
    moved: list[str],
) -> Plan:
    """Return the plan of `apply` in the recorded states; add the locations to ``moved`` that it is not based on."""
    planning = Planning()
    for name in chain.from_iterable(waves({name: source.desired for name, (source, _) in catalogs.items()})):
        source, leftovers = catalogs[name]
        stored_names = {
            entry.identifier: entry.kept_as
            for entry in plan.blocked
            if entry.catalog == name and entry.kept_as is not None
        }
        recorded = _recorded_catalog(
            plan, planning.with_planned_data(planning.with_mirror(source, stored_names)), leftovers
        )
        present = locate_tables(recorded)
        moved += _changed_locations(recorded, present.tables)
        planning.add(*_replan_catalog(recorded, present))
    return planning.plan(manifest, thresholds, plan.options)


def _replan_jobs(
    plan: Plan, manifest: ManifestRef, thresholds: Thresholds, sources: Mapping[str, CatalogInput]
) -> Plan:
    """Return the jobs of `maintain` that the manifest asks for in the recorded states."""
    blocked = {entry.key: entry for entry in plan.blocked}
    upkeep_blocks = {name: UpkeepBlocks(source.desired, source.options.select) for name, source in sources.items()}
    contexts = {name: CatalogContext.of(source) for name, source in sources.items()}
    tables: list[MaintainedTable] = []
    for recorded in plan.fingerprints:
        live, entry = _live_table(recorded, None), blocked.get(recorded.key)
        block = upkeep_blocks[recorded.catalog].block_of(live) if recorded.catalog in sources else None
        if block is not None:
            kind = entry.storage if entry is not None else None
            unread = Storage(kind or StorageKind.UNKNOWN, detail=entry.detail if entry else "")
            tables.append(MaintainedTable(contexts[recorded.catalog], block, live, recorded.upkeep or unread))
    return plan_jobs(manifest, thresholds, plan.options, plan.catalogs, tables)


def _changed_locations(recorded: RecordedCatalog, present: Mapping[Identifier, TableFacts]) -> Iterator[str]:
    """Yield a line for each location that the catalog chooses or takes otherwise than when the plan was made."""
    for question in recorded.questions.storage:
        entry, facts = recorded.entries.get(question.table.id), present[question.table.id]
        if entry is None:
            continue
        planned, now = (locations.redact(text) or "none" for text in (entry.destination, facts.location))
        if question.location is None and not locations.same(entry.destination, facts.location):
            yield f"  {entry.address}   default location   planned on {planned}, now {now}"
        elif isinstance(entry, Change) and facts.problem is not None:
            yield f"  {entry.address}   location   {now} is refused now: {facts.problem}"


def _replan_catalog(recorded: RecordedCatalog, present: PresentLocations) -> tuple[CatalogInput, CatalogPlan]:
    """Return the plan of a catalog in its recorded states, and the input that it was made from."""
    source, questions, outcomes = recorded.source, recorded.questions, recorded.compared.outcomes
    source = replace(source, facts=replace(source.facts, places=present.links))
    tables = {
        question.table.id: _recorded_facts(recorded, question, present.tables[question.table.id])
        for question in questions.storage
    }
    recorded.compared.answer(CatalogContext.of(source), questions, Answers(tables))
    namespaces = compare_namespaces(source, recorded.namespaces)
    return source, conclude(source, outcomes, namespaces, LiveTables(source.live.tables))


def _recorded_facts(recorded: RecordedCatalog, question: StorageQuestion, facts: TableFacts) -> TableFacts:
    """Return what storage held when the plan was made, as far as it is recorded.

    Without recorded columns, data had those of the block; so did data of a table that the plan does not mention. The
    entry tells which of two locations was opened.
    """
    identifier, mirrored = question.table.id, recorded.source.mirrored
    entry, columns = recorded.entries.get(identifier), recorded.columns.get(identifier)
    kind = entry.storage or StorageKind.UNKNOWN if entry else StorageKind.DATASET
    detail, cleanup = "", None
    if isinstance(entry, Blocked):
        columns, detail, cleanup = entry.columns or columns, entry.detail, entry.cleanup
    elif entry is not None and entry.action is Action.REGISTER_TABLE and entry.after is not None:
        columns = entry.after.columns
    of_base = entry.clone.columns if entry is not None and entry.clone is not None else None
    if isinstance(entry, Change) and entry.clone is not None:
        columns = of_base
    declared, name = question.table.schema, address(recorded.source.desired.name, identifier)
    schema, base_schema = (
        declared if known is None else _with_desired_metadata(known, declared or (), name)
        for known in (columns, of_base)
    )
    schema = schema if kind is StorageKind.DATASET else None
    shown = entry_columns(entry) if isinstance(entry, Change) else None
    tags = entry.tags if entry else FoundTags(question.table.tags)
    if question.otherwise is not None and not _is_relocation(entry, question):
        facts = TableFacts(question.otherwise, facts.storage)
    planned_data = mirrored.planned_data.get(identifier) if mirrored else None
    version = entry.dataset if isinstance(entry, Change) else None
    storage = planned_data or Storage(kind, schema, detail, cleanup, version)
    facts = replace(facts, storage=storage, entry=shown, tags=tags)
    return recorded_clone(question.table, entry, facts, base_schema)


def _is_relocation(entry: Change | Blocked | None, question: StorageQuestion) -> bool:
    """Return whether a table would leave its location in the catalog."""
    if isinstance(entry, Blocked):
        return not locations.same(entry.location, question.otherwise)
    return entry is not None and entry.action is Action.RELOCATE_TABLE


# ---- recorded states -------------------------------------------------------------------------------------------------


def _live_table(fingerprint: Fingerprint, desired: DesiredTable | None) -> LiveTable:
    view = fingerprint.view or ObjectView()
    properties = _properties(fingerprint, view, desired.properties if desired else {})
    return LiveTable(fingerprint.identifier, view.location or "", properties, view.managed_versioning)


def _live_namespace(fingerprint: Fingerprint, desired: DesiredNamespace | None) -> LiveNamespace:
    view = fingerprint.view or ObjectView()
    return LiveNamespace(
        fingerprint.identifier, _properties(fingerprint, view, desired.properties if desired else {}), view.kind
    )


def _properties(fingerprint: Fingerprint, view: ObjectView, desired: Mapping[str, str]) -> dict[str, str]:
    """Return the properties from which ``view`` was made."""
    secret = {*fingerprint.secret_keys, *view.secret_keys}
    marks = {
        **ownership.owner_marks(view.managed_by, view.policy),
        ownership.KEYS: ownership.encode_keys(view.keys, view.secret_keys) if view.keys else None,
        ownership.DATA: "true" if view.data else None,
        ownership.MIRROR: view.mirror,
        ownership.CLONE: view.clone,
        ownership.TAGS: ownership.encode_tags(view.tag_keys) or None,
        ownership.PROTECT: "true" if view.protect else None,
        ownership.REQUESTED_LOCATION: view.requested_location,
        ownership.CHOSEN_LOCATION: view.chosen_location,
    }
    restored = _with_desired_values(view.properties, desired, fingerprint.stand_in_address, secret)
    return {**view.safeguards, **restored, **{key: value for key, value in marks.items() if value is not None}}


def _with_desired_metadata(columns: Schema, desired: Schema, table: str) -> Schema:
    """Return the columns of data with desired values in place of stand-ins; a column may have its old name."""
    metadata = {column.name: column.metadata for column in desired}
    by_old_name = {column.renamed_from: column.metadata for column in desired}

    def restored(column: Column) -> Mapping[str, str]:
        shown = _with_desired_values(column.metadata, metadata.get(column.name, {}), table)
        return _with_desired_values(shown, by_old_name.get(column.name, {}), table)

    return with_metadata(columns, restored)


def _with_desired_values(
    shown: Mapping[str, str], desired: Mapping[str, str], address: str, secret: Collection[str] = ()
) -> dict[str, str]:
    """Return ``shown`` with desired values in place of their stand-ins."""
    return {
        key: desired[key]
        if is_stand_in(value) and key in desired and redact_value(key, desired[key], address, secret) == value
        else value
        for key, value in shown.items()
    }


# ---- comparing -------------------------------------------------------------------------------------------------------


def _errors(plan: Plan, derived: Plan) -> Iterator[str]:
    """Yield the differences of a saved plan from ``derived``, the one that is made again."""
    for saved, replanned, state in (
        (plan.changes, derived.changes, "changed"),
        (plan.blocked, derived.blocked, "blocked"),
        (plan.waiting, derived.waiting, "waiting"),
        (plan.fingerprints, derived.fingerprints, "in a recorded state"),
    ):
        yield from _entry_errors(saved, replanned, state)
    removed = {summary.name: summary.removals for summary in derived.catalogs}
    for summary in plan.catalogs:
        if summary.removals != removed.get(summary.name, (0, 0, 0, 0)):
            yield f"its `removed_tables` of `{summary.name}` are not those that it deregisters"
    if plan.options.mass_removal != removes_too_much(plan.thresholds, plan.catalogs):
        yield "its `mass_removal` is not what its counts come to"
    changed, guards = {change.key for change in plan.changes}, {guard.key: guard for guard in plan.guards}
    for key, guard in guards.items():
        if key in changed:
            yield f"{guard.address} is changed although it is protected"
    for guard in derived.guards:
        if guard.key not in guards:
            yield f"it does not say that {guard.address} is protected"


def _entry_errors(entries: _Entries, derived: _Entries, state: str) -> Iterator[str]:
    for entry, expected in zip_longest(entries, derived):
        if entry is None or expected is None or entry.key != expected.key:
            yield _first_misplaced(entries, derived, state)
            return
        field = _difference(entry, expected)
        if field is not None:
            yield f"`{field}` of {entry.address} is not what the manifest and the recorded states ask for"


def _first_misplaced(entries: _Entries, derived: _Entries, state: str) -> str:
    """Return the first surplus or missing entry; otherwise that the order differs."""
    have, need = Counter(entry.key for entry in entries), Counter(entry.key for entry in derived)
    for catalog, _, identifier in sorted((have - need).keys()):
        return f"{address(catalog, identifier)} is {state}, which the manifest and the recorded states do not ask for"
    for catalog, _, identifier in sorted((need - have).keys()):
        return f"it does not say that {address(catalog, identifier)} is {state}"
    return f"what is {state} is in another order"


def _difference(saved: BaseModel, replanned: BaseModel) -> str | None:
    """Return a field in which the saved forms differ; None if there is none.

    The source line may differ: the manifest's lines may have moved.
    """
    if saved == replanned:  # true of most, and saves writing both
        return None
    shown, expected = (document.model_dump(mode="json", exclude={"source"}) for document in (saved, replanned))
    if shown == expected:
        return None
    return next((key for key in shown if shown[key] != expected[key]), None)


def _edited_error(error: str) -> PlanFileError:
    return PlanFileError(f"the plan was edited or damaged: {error}. Make the plan again. Nothing was changed.")
