from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reconciler import storage
from reconciler.applier.journal import Journal
from reconciler.applier.journal_reader import JournalFolder, describe_journal, list_runs, read_journal
from reconciler.model.errors import ApplyError, PermissionDeniedError, PlanFileError
from reconciler.writing.restoring import removed_blocks
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
    text = describe_journal(read_journal(only_journal(world)))
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
    ended, failed, skipped = describe_journal(read_journal(path)).splitlines()[1:]
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
    ],
)
def test_a_file_that_is_no_journal_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(PlanFileError) as caught:
        read_journal(path)
    assert said in str(caught.value)


HEADER = b'{"entry": "header", "format_version": "1.0", "changes": 1}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"entry": "intent"}\n', ":2: this intent is incomplete"),
        (b"{}\n", ":2: not a line of a journal"),
        (
            b'{"entry": "outcome", "change": 0, "action": "a", "address": "b", "status": "odd"}\n',
            ":2: `odd` is not a status",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_missing_and_the_rest_is_shown(tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(HEADER + line)
    [missing] = read_journal(path).missing
    assert said in missing
    assert said in describe_journal(read_journal(path))


def run_that_removes(world: World) -> Path:
    """Apply a plan that removes three tables, one after the other."""
    world.has(live(*(live_table(name, {"tier": "gold"}, owner=OWNER) for name in "tuv")))
    world.apply(world.plan(desired()))
    return only_journal(world)


def test_every_line_that_is_lost_is_missed(world: World) -> None:
    path = run_that_removes(world)
    lines = path.read_bytes().splitlines(keepends=True)
    assert read_journal(path).missing == []
    assert [run.is_complete for run in list_runs(JournalFolder(str(world.folder)))] == [True]
    for lost in range(len(lines) - 1):  # without the summary, it is the journal of a run that was killed
        path.write_bytes(b"".join(lines[:lost] + lines[lost + 1 :]))
        record = read_journal(path)
        assert record.missing, lines[lost]
        assert not record.finished or "in flight" not in describe_journal(record)
        [run] = list_runs(JournalFolder(str(world.folder)))
        assert (run.is_complete, "; incomplete: " in run.line) == (False, True)
        blocks = removed_blocks(record)
        assert "# Missing from the journal: " in blocks
        assert blocks.count("{location:") + blocks.count("location: ") == (2 if b'"intent"' in lines[lost] else 3)
    path.write_bytes(lines[0] + lines[-1])
    with pytest.raises(PlanFileError, match="which lacks outcomes: 3 done in the"):
        removed_blocks(read_journal(path))


def test_runs_are_in_the_order_of_what_they_say(world: World) -> None:
    path = run_that_removes(world)
    lines = path.read_text().splitlines(keepends=True)
    for name, year in (("0000000a", "2031"), ("ffffffff", "2029"), ("0000000b", "2030")):
        text = "".join(lines[1:] if year == "2030" else lines).replace(path.stem, name)
        (world.folder / f"{name}.jsonl").write_text(re.sub(r'"at": "\d{4}', f'"at": "{year}', text))
    path.unlink()
    runs = list_runs(JournalFolder(str(world.folder)))
    assert [run.line.split()[0] for run in runs] == ["0000000a", "0000000b", "ffffffff"]


class Store:
    """Objects by their URI, as an object store has them."""

    def __init__(self, objects: dict[str, bytes], uri: str) -> None:
        self.objects, self.uri = objects, uri

    def create(self, name: str, content: bytes) -> None:
        self.objects[f"{self.uri}/{name}"] = content

    def read(self, name: str) -> bytes:
        return self.objects[f"{self.uri}/{name}"]

    def names(self) -> list[str]:
        below = (uri.removeprefix(f"{self.uri}/") for uri in self.objects if uri.startswith(f"{self.uri}/"))
        return sorted({name.partition("/")[0] for name in below})


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    objects: dict[str, bytes] = {}
    monkeypatch.setattr("reconciler.storage.ObjectFolder", lambda uri, _options: Store(objects, uri))
    return objects


def test_every_object_that_is_lost_is_missed(world: World, objects: dict[str, bytes]) -> None:
    names = run_in_store(world)
    whole = dict(objects)
    assert read_journal(RUN).missing == []
    for lost in names[:-1]:
        objects.clear()
        objects.update({uri: content for uri, content in whole.items() if uri != lost})
        record = read_journal(RUN)
        assert f"object {lost.rpartition('/')[2]}" in record.missing
        assert "Missing from the journal" in removed_blocks(record)
        assert [run.is_complete for run in list_runs(FOLDER)] == [False], lost
    objects.clear()
    objects.update({names[0]: whole[names[0]], names[-1]: whole[names[-1]], names[1]: whole[names[1]][:40]})
    assert any(":1: not a line of a journal" in one for one in read_journal(RUN).missing)
    assert [run.is_complete for run in list_runs(FOLDER)] == [False]


def test_the_first_object_of_another_run_is_not_taken(world: World, objects: dict[str, bytes]) -> None:
    first, *_ = run_in_store(world)
    objects[first] = objects[first].replace(b"1a2b3c4d", b"4d3c2b1a").replace(b'"store"', b'"other"')
    record = read_journal(RUN)
    assert (record.header, record.missing[1:]) == ({}, ["the header"])
    assert "that of run 4d3c2b1a" in record.missing[0]
    assert removed_blocks(record).count("location: ") == 3
    [run] = list_runs(FOLDER)
    assert (run.is_complete, "other" in run.line) == (False, False)


def test_an_object_that_is_no_journal_fails_nothing(world: World, objects: dict[str, bytes]) -> None:
    run_in_store(world)
    stray = {
        f"{RUN}/.DS_Store": b"x",
        f"{RUN}/00000009.jsonl.bak": b"x",
        "s3://ops/notes.txt": b"x",
        "s3://ops/a/b": b"",
    }
    objects.update(stray)
    assert read_journal(RUN).missing == []
    assert [run.is_complete for run in list_runs(FOLDER)] == [True]


def test_an_object_that_was_never_stored_is_not_missed_once_the_run_has_ended(
    world: World, objects: dict[str, bytes]
) -> None:
    """The store refused it, and what it held is in the next one."""
    *_, last = run_in_store(world)
    objects[last.replace("0000000", "0000001")] = objects.pop(last)
    assert read_journal(RUN).missing == []
    assert [run.is_complete for run in list_runs(FOLDER)] == [True]


FOLDER, RUN = JournalFolder("s3://ops"), "s3://ops/1a2b3c4d"


def run_in_store(world: World) -> list[str]:
    """Store the lines of a local run as objects of two lines, and return their URIs."""
    path = run_that_removes(world)
    lines = path.read_bytes().replace(path.stem.encode(), b"1a2b3c4d").splitlines(keepends=True)
    store, parts = storage.ObjectFolder(RUN, {}), [lines[:1], lines[1:2], lines[2:4], lines[4:6], lines[6:]]
    for number, part in enumerate(parts, start=1):
        store.create(f"{number:08}.jsonl", b"".join(part))
    return [f"{RUN}/{name}" for name in store.names()]


def test_a_folder_that_cannot_hold_a_journal_is_an_error_before_any_change(world: World, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(ApplyError, match=r"/taken: File exists; name another folder with --journal"):
        Journal.open(taken, world.plan(desired(claim("a"))))


def test_only_its_owner_can_read_a_journal(world: World) -> None:
    path = Path(world.apply(world.plan(desired(claim("a")))).journal)
    assert path.stat().st_mode & 0o077 == 0
