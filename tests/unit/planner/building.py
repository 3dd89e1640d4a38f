"""Short ways to say what is wanted and what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, Schema
from reconciler.model.desired import (
    DesiredCatalog,
    DesiredNamespace,
    DesiredTable,
    Evolve,
    Prune,
    Source,
    Thresholds,
)
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot, Storage, StorageKind
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.planner.catalog import plan_catalog
from reconciler.planner.facts import (
    Answers,
    CatalogInput,
    Facts,
    PlanOptions,
    Questions,
    StorageQuestion,
    TableFacts,
    open_table,
)
from reconciler.planner.moves import moves_of, pairs
from reconciler.planner.plan import ManifestRef, Plan
from reconciler.planner.planning import Planning

CATALOG = "lake"
MANIFEST = "store"
OWNER = f"{MANIFEST}/{CATALOG}"
OTHER = "another/lake"
USERS: Schema = (Column("user_id", "int64", nullable=False), Column("name", "string"))


def at(line: int = 1) -> Source:
    return Source("lancens.yaml", line, 3)


def identifier(path: str) -> Identifier:
    return tuple(path.split("/"))


def table(
    path: str,
    properties: Mapping[str, str] | None = None,
    *,
    location: str | None = None,
    schema: Schema | None = None,
    evolve: Evolve = Evolve.NEVER,
    probe: bool = True,
    absent: bool = False,
    protect: bool | None = None,
) -> DesiredTable:
    return DesiredTable(
        identifier(path), at(), properties or {}, location, schema, evolve, probe, absent=absent, protect=protect
    )


def claim(
    path: str,
    properties: Mapping[str, str] | None = None,
    *,
    absent: bool = False,
    protect: bool | None = None,
    kind: str | None = None,
) -> DesiredNamespace:
    return DesiredNamespace(identifier(path), at(), properties or {}, True, absent, protect, kind)


def marks(properties: Mapping[str, str], owner: str | None, *, protect: bool = False) -> dict[str, str]:
    if owner is None:
        return dict(properties)
    marked = {ownership.MANAGED_BY: owner, ownership.KEYS: ownership.encode_keys(properties), **properties}
    return {**marked, ownership.PROTECT: "true"} if protect else marked


def live_table(
    path: str,
    properties: Mapping[str, str] | None = None,
    *,
    owner: str | None = None,
    protect: bool = False,
    location: str | None = None,
    extra: Mapping[str, str] | None = None,
) -> LiveTable:
    return LiveTable(
        identifier(path),
        location or f"/data/{path}.lance",
        {**marks(properties or {}, owner, protect=protect), **(extra or {})},
    )


def live_namespace(
    path: str,
    properties: Mapping[str, str] | None = None,
    *,
    owner: str | None = None,
    protect: bool = False,
    kind: str | None = None,
) -> LiveNamespace:
    return LiveNamespace(identifier(path), marks(properties or {}, owner, protect=protect), kind)


def _ancestors(identifiers: Iterable[Identifier]) -> set[Identifier]:
    return {one[:depth] for one in identifiers for depth in range(1, len(one))}


def desired(
    *blocks: DesiredTable | DesiredNamespace, prune: Prune = Prune.OWNED, scope: Scope = EVERYTHING
) -> DesiredCatalog:
    tables = {block.id: block for block in blocks if isinstance(block, DesiredTable)}
    claimed = {block.id: block for block in blocks if isinstance(block, DesiredNamespace)}
    paths = _ancestors([*tables, *claimed]) - set(claimed)
    namespaces = {path: DesiredNamespace(path, at()) for path in sorted(paths)} | claimed
    return DesiredCatalog(CATALOG, OWNER, at(), prune, scope, namespaces, tables)


def live(*objects: LiveTable | LiveNamespace, notes: tuple[str, ...] = ()) -> Snapshot:
    tables = {one.id: one for one in objects if isinstance(one, LiveTable)}
    said = {one.id: one for one in objects if isinstance(one, LiveNamespace)}
    paths = _ancestors([*tables, *said]) - set(said)
    return Snapshot({path: LiveNamespace(path) for path in sorted(paths)} | said, tables, notes)


def stored(kind: StorageKind, location: str = "/data/new.lance", schema: Schema | None = None) -> TableFacts:
    return TableFacts(location, Storage(kind, schema))


def plan_alone(source: CatalogInput, answers: Answers, reference: ManifestRef, thresholds: Thresholds) -> Plan:
    """Plan a catalog that no other one mirrors."""
    planning = Planning()
    planning.add(source, plan_catalog(source, answers))
    return planning.plan(reference, thresholds)


def expected(question: StorageQuestion) -> TableFacts:
    location = question.location or f"/data/{'/'.join(question.table.id)}.lance"
    if question.present_location is None:
        return stored(StorageKind.NOTHING, location)
    if not question.table.probe:
        return stored(StorageKind.UNKNOWN, location)
    return stored(StorageKind.DATASET, location, question.table.schema)


def questions_on(wanted: DesiredCatalog, there: Snapshot, select: Scope = EVERYTHING) -> Questions:
    """Return what the planner asks to compare the tables of a catalog."""
    tables = (open_table(pair, select) for pair in pairs(moves_of(wanted), wanted.tables, there.tables))
    return Questions.about([table for table in tables if table is not None])


def plan_of(
    wanted: DesiredCatalog,
    there: Snapshot,
    *,
    storage: Mapping[str, TableFacts] | None = None,
    occupants: Mapping[str, Sequence[str]] | None = None,
    leftovers: Sequence[LiveNamespace | LiveTable] = (),
    capabilities: Capabilities | None = None,
    options: PlanOptions | None = None,
    thresholds: Thresholds | None = None,
    links: Mapping[str, str] | None = None,
    elsewhere: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """Plan one catalog.

    Unless ``storage`` says otherwise, a table to be made finds nothing at a default location, and another one the data
    that it should have.
    """
    questions = questions_on(wanted, there, (options or PlanOptions()).select).storage
    tables = {question.table.id: expected(question) for question in questions}
    tables |= {identifier(path): facts for path, facts in (storage or {}).items()}
    facts = Facts({identifier(path): names for path, names in (occupants or {}).items()}, leftovers)
    data = {identifier(path): places for path, places in (elsewhere or {}).items()}
    facts = replace(facts, places=links or {}, possible_locations=data)
    source = CatalogInput(wanted, there, capabilities or Capabilities(), "memory", facts, options or PlanOptions())
    reference = ManifestRef(name=MANIFEST, digest="d" * 64, files=("lancens.yaml",))
    return plan_alone(source, Answers(tables), reference, thresholds or Thresholds())


def steps(plan: Plan) -> list[str]:
    """The changes as one line each: action and path."""
    return [f"{change.action} {'/'.join(change.identifier)}" for change in plan.changes]
