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
from reconciler.planner.comparison import TableComparison
from reconciler.planner.facts import Answers, CatalogInput, LiveTables, PlanOptions, TableFacts
from reconciler.planner.moves import pairs
from reconciler.planner.outcome import CatalogContext
from reconciler.planner.plan import ManifestRef
from reconciler.planner.planning import Planning
from tests.states import option_sets, safeguards, situations
from tests.unit.planner.building import plan_alone, questions_on

REFERENCE = ManifestRef(name="store", digest="", files=())
ABILITIES = st.builds(
    Capabilities,
    one_name_space=st.booleans(),
    table_markers=st.booleans(),
    alter_table=st.booleans(),
    rename_within=st.sampled_from([None, 0, 1]),
    safeguard=safeguards,
)


def text_of(source: CatalogInput, answers: Answers) -> str:
    """Return the plan as JSON."""
    return plan_alone(source, answers, REFERENCE, Thresholds()).to_json()


def text_of_parts(source: CatalogInput, answers: Answers, parts: int, seed: int) -> str:
    """Return the plan as JSON, made by comparing the tables in ``parts`` parts, in any order."""
    compared = TableComparison()
    for part in compared_parts(source, answers, parts, seed):
        compared.merge(pickle.loads(part))  # noqa: S301 - made here
    without_tables = replace(source, live=replace(source.live, tables={}))
    tables, namespaces = LiveTables(source.live.tables), compare_namespaces(without_tables)
    planning = Planning()
    planning.add(without_tables, conclude(without_tables, compared.outcomes, namespaces, tables))
    return planning.plan(REFERENCE, Thresholds()).to_json()


def compared_parts(source: CatalogInput, answers: Answers, parts: int, seed: int) -> list[bytes]:
    """Compare the tables apart; some are answered where they are compared, and others in a part of their own."""
    shuffle, context = random.Random(seed), CatalogContext.of(source)
    tables = [*pairs(context.moves, source.desired.tables, source.live.tables)]
    shuffle.shuffle(tables)
    compared = [TableComparison() for _ in range(parts)]
    for pair in tables:
        shuffle.choice(compared).compare(context, [pair])
    asked = TableComparison()
    for part in compared:
        if shuffle.random() < 0.5:
            asked.open += part.open
            part.open = []
    compared.append(asked)
    for part in compared:
        part.answer(context, part.questions(), answers)
    shuffle.shuffle(compared)
    return [pickle.dumps(part) for part in compared]


@given(situations(), option_sets, ABILITIES, st.integers(1, 4), st.integers())
def test_parts_make_the_same_plan(
    situation: tuple[DesiredCatalog, Snapshot], options: PlanOptions, abilities: Capabilities, parts: int, seed: int
) -> None:
    wanted, live = situation
    questions = questions_on(wanted, live, options.select)
    answers = Answers(
        {
            question.table.id: TableFacts(question.location or f"/lake/{question.table.id[-1]}", Storage(kind))
            for question, kind in zip(questions.storage, _kinds(seed, len(questions.storage)), strict=True)
        }
    )
    source = CatalogInput(wanted, live, abilities, "memory", options=options)
    assert text_of_parts(source, answers, parts, seed) == text_of(source, answers)


def _kinds(seed: int, number: int) -> list[StorageKind]:
    return random.Random(seed).choices(list(StorageKind), k=number)
