"""The tables of a catalog compared in parts, apart from each other, make the plan that all of them make at once."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, Thresholds
from reconciler.model.live import Snapshot, Storage, StorageKind
from reconciler.planner.catalog import compare_namespaces, conclude
from reconciler.planner.comparison import Outcomes
from reconciler.planner.facts import CatalogInput, Facts, PlanOptions, TableFacts, TablesInMemory, storage_questions
from reconciler.planner.moves import pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import ManifestRef
from reconciler.planner.planning import Planning
from tests.states import option_sets, safeguards, situations
from tests.unit.planner.building import plan_alone

REFERENCE = ManifestRef(name="store", digest="", files=())
ABILITIES = st.builds(
    Capabilities,
    one_name_space=st.booleans(),
    table_markers=st.booleans(),
    alter_table=st.booleans(),
    rename_within=st.sampled_from([None, 0, 1]),
    safeguard=safeguards,
)


def text_of(source: CatalogInput, parts: int | None, seed: int) -> str:
    """Return the plan as JSON; made in ``parts`` parts where that is given."""
    if parts is None:
        return plan_alone(source, REFERENCE, Thresholds()).to_json()
    outcomes = Outcomes()
    for part in compared(source, parts, seed):
        outcomes.merge(pickle.loads(part))  # noqa: S301 - made here
    without_tables = replace(
        source, live=replace(source.live, tables={}), facts=Facts(occupants=source.facts.occupants)
    )
    outcomes.merge(compare_namespaces(without_tables))
    planning = Planning()
    planning.add(without_tables, conclude(without_tables, outcomes, TablesInMemory(source.live.tables)))
    return planning.plan(REFERENCE, Thresholds()).to_json()


def compared(source: CatalogInput, parts: int, seed: int) -> list[bytes]:
    """Compare the tables in ``parts`` parts, in any order."""
    shuffle = random.Random(seed)
    context = CatalogContext.of(source)
    found = [Outcomes() for _ in range(parts)]
    tables = [*pairs(context.moves, source.desired.tables, source.live.tables)]
    shuffle.shuffle(tables)
    for pair in tables:
        facts = source.facts.tables.get(pair.desired.id) if pair.desired else None
        shuffle.choice(found).compare(context, pair, facts)
    shuffle.shuffle(found)
    return [pickle.dumps(part) for part in found]


@given(situations(), option_sets, ABILITIES, st.integers(1, 4), st.integers())
def test_parts_make_the_same_plan(
    situation: tuple[DesiredCatalog, Snapshot], options: PlanOptions, abilities: Capabilities, parts: int, seed: int
) -> None:
    wanted, live = situation
    facts = Facts(
        {
            question.table.id: TableFacts(question.location or f"/lake/{question.table.id[-1]}", Storage(kind))
            for question, kind in zip(storage_questions(wanted, live), _kinds(seed), strict=False)
        }
    )
    source = CatalogInput(wanted, live, abilities, "memory", facts, options)
    assert text_of(source, parts, seed) == text_of(source, None, seed)


def _kinds(seed: int) -> list[StorageKind]:
    return random.Random(seed).choices(list(StorageKind), k=20)
