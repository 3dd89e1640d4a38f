"""Which jobs a dataset needs, and what keeps lancens from them."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.desired import DesiredTable, Source
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.maintenance import (
    IndexType,
    LaterNeed,
    LiveIndex,
    Maintain,
    Upkeep,
    WantedCompaction,
    WantedIndex,
)
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action, Blocked, Change, Note
from reconciler.planner.maintenance import jobs_of, with_dependencies

WANTED = Maintain(WantedCompaction(2), (WantedIndex("id", IndexType.BTREE),), 10)
TABLE = DesiredTable(("a", "t"), Source("lancens.yaml", 3), maintain=WANTED)
LIVE = LiveTable(("a", "t"), "s3://lake/t.lance")
INDEX = LiveIndex("id_idx", "BTree", ("id",), 90, 1000)
NEEDY = Upkeep(100, 5, 3, 3000, (), {"id": 800}, {}, "c")
WELL = replace(NEEDY, mergeable=2, indices=(INDEX,))


def planned(found: Upkeep | Storage, live: LiveTable = LIVE) -> list[object]:
    kinds = {Change: "action", Blocked: "code", Note: "code"}
    return [getattr(one, kinds[type(one)]) for one in jobs_of("lake", TABLE, live, found)]


def test_a_limit_is_what_a_dataset_may_have() -> None:
    assert planned(WELL) == []
    assert planned(NEEDY) == [Action.COMPACT, Action.BUILD_INDEX]
    assert planned(replace(WELL, rows=101)) == [Action.OPTIMIZE_INDEX]


def test_an_index_waits_for_compactions_that_take_rows_out_of_it() -> None:
    late, vectors = replace(INDEX, name="z", type="ZoneMap"), replace(INDEX, name="v", rows=0, metric="l2")
    need = LaterNeed(5, 3, 3000, {"z": 101})
    after = [Action.COMPACT, Action.OPTIMIZE_INDEX]
    assert planned(replace(WELL, rows=101, indices=(INDEX, late), later=(need,))) == [Action.OPTIMIZE_INDEX, *after]
    assert planned(replace(NEEDY, rows=101, indices=(INDEX, late), later=(need,)))[:2] == after
    assert planned(replace(WELL, rows=101, indices=(replace(INDEX, rows=101), late))) == [Action.OPTIMIZE_INDEX]
    assert planned(replace(WELL, vectors={"id": 7}, indices=(INDEX, replace(late, rows=50), vectors))) == [
        Action.OPTIMIZE_INDEX,
        NoteCode.TOO_FEW_ROWS,
    ]
    both = replace(WELL, rows=101, indices=(INDEX, late))
    wanted = replace(TABLE, maintain=Maintain(max_unindexed_rows=10))
    assert len(jobs_of("lake", wanted, LIVE, both)) == 2


@pytest.mark.parametrize(
    ("found", "live", "code"),
    [
        (Storage(StorageKind.DENIED, detail="403"), LIVE, ReasonCode.STORAGE_DENIED),
        (Storage(StorageKind.NOTHING), LIVE, ReasonCode.STORAGE_UNREADABLE),
        (NEEDY, replace(LIVE, managed_versioning=True), ReasonCode.SERVICE_COMMITS),
        (NEEDY, replace(LIVE, location="hf://lake/t.lance"), ReasonCode.UNBOUND_COMMIT),
        (replace(NEEDY, cleanup=AutoCleanup("5", 8)), LIVE, ReasonCode.CLEANUP_DUE),
        (replace(NEEDY, elsewhere=("s3://other/t.lance",)), LIVE, ReasonCode.COPIES_ELSEWHERE),
        (replace(WELL, indices=(replace(INDEX, type="Bitmap"),)), LIVE, ReasonCode.OTHER_INDEX),
    ],
)
def test_what_lancens_must_not_do_is_blocked(found: Upkeep | Storage, live: LiveTable, code: ReasonCode) -> None:
    assert planned(found, live) == [code]


def test_a_table_that_need_not_be_opened_is_not_blocked() -> None:
    assert [*jobs_of("lake", replace(TABLE, probe=False), LIVE, Storage(StorageKind.DENIED, detail="403"))] == []


def test_what_is_in_the_way_of_no_job_is_not_told() -> None:
    assert planned(WELL, replace(LIVE, managed_versioning=True)) == []
    assert planned(replace(WELL, cleanup=AutoCleanup("1", 8), cleanable=5)) == [NoteCode.CLEANABLE]


def test_a_call_opens_the_location_that_pylance_knows() -> None:
    live = replace(LIVE, location="s3a://lake/t.lance")
    [note] = jobs_of("lake", TABLE, live, replace(WELL, cleanable=5))
    [other] = jobs_of("lake", TABLE, live, replace(WELL, indices=(replace(INDEX, type="Bitmap"),)))
    assert isinstance(note, Note)
    assert isinstance(other, Blocked)
    for one in (note, other):
        assert one.params["code"].startswith('lance.dataset("s3://lake/t.lance").')


@pytest.mark.parametrize("column", ["it's", "a`b", 'a"b', "a\nb"])
def test_the_call_that_replaces_an_index_names_any_column(column: str) -> None:
    table = replace(TABLE, maintain=Maintain(indices=(WantedIndex(column, IndexType.BTREE),)))
    stored = replace(WELL, indices=(replace(INDEX, type="Bitmap", columns=(column,)),))
    [blocked] = jobs_of("lake", table, LIVE, stored)
    assert isinstance(blocked, Blocked)
    code = str(blocked.params["code"])
    assert code.isprintable()
    assert "`" not in code  # the remedy stands in backticks
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert eval(ast.unparse(call.args[0])) == column  # noqa: S307


def test_jobs_of_one_dataset_run_one_after_the_other() -> None:
    jobs = [one for one in jobs_of("lake", TABLE, LIVE, NEEDY) if isinstance(one, Change)]
    others = [one.model_copy(update={"identifier": ("a", "u")}) for one in jobs]
    assert [one.depends_on for one in with_dependencies([*jobs, *others])] == [(), (0,), (), (2,)]
