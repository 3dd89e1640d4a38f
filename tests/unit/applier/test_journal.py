from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.applier.journal import Journal
from reconciler.applier.journal_reader import describe_journal, read_journal
from reconciler.model.errors import ApplyError, PermissionDeniedError, PlanFileError
from tests.unit.applier.world import Crash, World
from tests.unit.planner.building import OWNER, claim, desired, live, live_table, marks, table


def only_journal(world: World) -> Path:
    [path] = world.folder.iterdir()
    return path


def test_every_write_is_announced_with_the_whole_object_and_then_accounted_for(world: World) -> None:
    extra = {"numFiles": "3", "aws_secret": "hunter2"}
    world.has(live(live_table("t", {"tier": "gold"}, owner=OWNER, extra=extra)))
    plan = world.plan(desired(claim("a"), table("t", {"tier": "silver"})))
    report = world.apply(plan)
    lines = [json.loads(line) for line in Path(report.journal).read_text().splitlines()]
    assert [line["entry"] for line in lines] == ["header", "intent", "outcome", "intent", "outcome", "summary"]
    header, made, _, update, outcome, summary = lines
    assert (header["plan"], header["manifest"], header["changes"]) == (plan.digest(), "store", 2)
    assert (made["address"], made["before"]) == ("lake/a", None)
    before = update["before"]
    assert before["location"] == "/data/t.lance"
    assert before["properties"].pop("aws_secret").startswith("(redacted ")
    assert before["properties"] == {**marks({"tier": "gold"}, OWNER), "numFiles": "3"}
    assert (outcome["change"], outcome["action"], outcome["status"]) == (1, "update-table", "done")
    assert (summary["done"], summary["failed"], summary["interrupted"]) == (2, 0, False)
    assert "hunter2" not in Path(report.journal).read_text()


def test_a_change_that_is_done_already_announces_nothing(world: World) -> None:
    plan = world.plan(desired(claim("a")))
    world.apply(plan)
    again = world.apply(plan)
    record = read_journal(again.journal)
    assert not record.intents
    assert record.outcomes[0]["status"] == "already"


def test_the_journal_of_a_killed_run_tells_what_was_in_flight(world: World) -> None:
    world.ledger.crash_after = 2
    plan = world.plan(desired(claim("a"), claim("b"), claim("c")))
    with pytest.raises(Crash):
        world.apply(plan)
    record = read_journal(only_journal(world))
    assert [intent["address"] for intent in record.in_flight] == ["lake/b"]
    assert not record.finished
    text = describe_journal(only_journal(world))
    assert "Ended: 1 done, of 3 changes. " in text
    assert "? lake/b  create-namespace: in flight" in text


def test_a_torn_last_line_is_not_counted(world: World) -> None:
    path = Path(world.apply(world.plan(desired(claim("a")))).journal)
    whole = path.read_bytes()
    for end in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:end])
        record = read_journal(path)
        assert len(record.intents) >= len(record.outcomes)


def test_failures_are_described_with_their_reason(world: World) -> None:
    world.refuse("insert_namespace a", PermissionDeniedError("memory: not you"))
    path = Path(world.apply(world.plan(desired(table("a/t")))).journal)
    ended, failed, skipped = describe_journal(path).splitlines()[1:]
    assert ended.startswith("Ended: 1 failed, 1 skipped, ")
    assert failed.split() == ["✗", "lake/a", "create-namespace:", "failed,", "memory:", "not", "you"]
    assert skipped.startswith("  · lake/a/t  declare-table: skipped, ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a journal"),
        (b"{}\n", ":1: not a line of a journal"),
        (b'{"entry": "summary"}\n', "is not a journal"),
        (b"\xff\xfe\n", ":1: not a line of a journal"),
        (b'{"entry": "header", "format_version": "2.0"}\n', "journal format 2.0; this lancens reads 1.0"),
        (b'{"entry": "header", "format_version": "1.0"}\n{"entry": "intent"}\n', ":2: this intent is incomplete"),
    ],
)
def test_a_file_that_is_no_journal_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(PlanFileError) as caught:
        read_journal(path)
    assert said in str(caught.value)


def test_a_folder_that_cannot_hold_a_journal_is_an_error_before_any_change(world: World, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(ApplyError, match="name another folder with --journal"):
        Journal.open(taken, world.plan(desired(claim("a"))))


def test_only_its_owner_can_read_a_journal(world: World) -> None:
    path = Path(world.apply(world.plan(desired(claim("a")))).journal)
    assert path.stat().st_mode & 0o077 == 0
