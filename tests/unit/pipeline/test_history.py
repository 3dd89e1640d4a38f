"""Runs kept over time: whole or not at all, and none lost."""

from __future__ import annotations

import shutil
from datetime import timedelta
from itertools import count
from multiprocessing.synchronize import Barrier, Semaphore
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler.auditor import history
from reconciler.auditor.document import AuditDocument
from reconciler.model.errors import LancensError
from tests.processes import writers
from tests.unit.pipeline.documents import NOW, run, small_document

SECRET = "hunter2-correct-horse"


def document(run_id: str, hours: int = 0) -> AuditDocument:
    finished = NOW + timedelta(hours=hours)
    return small_document().model_copy(update={"run_id": run_id, "finished": finished})


def ids(uri: Path) -> list[str]:
    return [found.run_id for found in history.read(str(uri), {})]


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "history.lance"


def test_nothing_there_is_a_history_without_runs(uri: Path) -> None:
    assert history.read(str(uri), {}) == []
    assert not uri.exists()


def test_a_run_is_read_as_it_was_appended(uri: Path) -> None:
    history.append(str(uri), document("a"), {})
    assert history.read(str(uri), {}) == [document("a").summary()]


def test_runs_are_read_as_they_were_appended_whatever_their_clocks_said(uri: Path) -> None:
    for run_id, hours in (("a", 2), ("b", 1), ("c", 3)):
        history.append(str(uri), document(run_id, hours), {})
    assert ids(uri) == ["a", "b", "c"]


def test_every_run_is_one_commit(uri: Path) -> None:
    for run_id in "abc":
        history.append(str(uri), document(run_id), {})
    assert [lance.dataset(str(uri), version=version).count_rows() for version in (1, 2, 3)] == [1, 2, 3]
    assert lance.dataset(str(uri)).version == 3


def test_what_was_counted_can_be_queried(uri: Path) -> None:
    history.append(str(uri), document("a"), {})
    (row,) = lance.dataset(str(uri)).to_table(filter="totals.findings.error >= 3 AND NOT complete").to_pylist()
    assert {"rule": "dangling", "error": 1, "warning": 0, "note": 0} in row["by_rule"]
    assert [catalog["namespaces_unread"] for catalog in row["coverage"]] == [0, 1]


def test_the_first_run_of_somebody_else_that_comes_meanwhile_stays(uri: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine: Any = lance.fragment.write_fragments

    def meanwhile(*given: object, **named: object) -> object:
        monkeypatch.setattr(lance.fragment, "write_fragments", genuine)
        history.append(str(uri), document("theirs"), {})
        return genuine(*given, **named)

    monkeypatch.setattr(lance.fragment, "write_fragments", meanwhile)
    history.append(str(uri), document("ours", 1), {})
    assert ids(uri) == ["theirs", "ours"]


def test_a_history_that_would_clean_itself_up_is_left_alone(uri: Path) -> None:
    history.append(str(uri), document("a"), {})
    lance.dataset(str(uri)).update_config({"lance.auto_cleanup.interval": "3"})
    with pytest.raises(LancensError, match=r"lance\.auto_cleanup\.interval"):
        history.append(str(uri), document("b", 1), {})
    assert [known["version"] for known in lance.dataset(str(uri)).versions()] == [1, 2]
    lance.dataset(str(uri)).delete_config_keys(["lance.auto_cleanup.interval"])
    history.append(str(uri), document("b", 1), {})
    assert ids(uri) == ["a", "b"]


def _append_at_once(uri: str, name: str, start: Barrier) -> None:
    start.wait()
    for number in range(5):
        history.append(uri, document(f"{name}-{number}"), {})


def _append_for_ever(uri: str, appended: Semaphore) -> None:
    for number in count():
        history.append(uri, document(f"run-{number}"), {})
        appended.release()


@pytest.mark.end_to_end
def test_what_two_processes_append_at_once_is_all_there(uri: Path) -> None:
    context = writers()
    start = context.Barrier(2)
    processes = [context.Process(target=_append_at_once, args=(str(uri), name, start)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(ids(uri)) == [f"{name}-{number}" for name in "ab" for number in range(5)]


@pytest.mark.end_to_end
def test_a_run_that_is_killed_shows_nothing_of_itself(uri: Path) -> None:
    context = writers()
    appended = context.Semaphore(0)
    process = context.Process(target=_append_for_ever, args=(str(uri), appended))
    process.start()
    assert all(appended.acquire(timeout=60) for _ in range(3))
    process.kill()
    process.join()
    there = ids(uri)
    assert len(there) >= 3
    assert sorted(there) == sorted(f"run-{number}" for number in range(len(there)))
    history.append(str(uri), document("next", 1), {})
    assert ids(uri) == [*there, "next"]


def test_a_first_run_that_was_cut_off_is_no_obstacle(uri: Path) -> None:
    from lance.fragment import write_fragments

    schema = pa.schema({"run_id": pa.string()}, metadata=history.schema().metadata)
    write_fragments(pa.table({"run_id": ["cut off"]}, schema=schema), str(uri))
    [file] = (uri / "data").iterdir()
    (uri / "data/cut.lance").write_bytes(file.read_bytes()[:20])
    (uri / "data/.tmpAbCdEf").write_bytes(file.read_bytes()[:20])  # as pylance names a local file until it is whole
    assert history.read(str(uri), {}) == []
    history.append(str(uri), document("a"), {})
    assert ids(uri) == ["a"]


def test_a_dataset_of_something_else_is_refused_and_left_alone(uri: Path) -> None:
    lance.write_dataset(pa.table({"run_id": ["x"]}), str(uri))
    for use in (lambda: history.read(str(uri), {}), lambda: history.append(str(uri), document("a"), {})):
        with pytest.raises(LancensError, match="dataset that is not an audit history"):
            use()
    assert lance.dataset(str(uri)).version == 1


def test_a_later_history_is_not_read_wrongly(uri: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FORMAT_VERSION", 2)
    history.append(str(uri), document("a"), {})
    monkeypatch.undo()
    with pytest.raises(LancensError, match="version 2, this lancens knows 1"):
        history.read(str(uri), {})


def test_an_earlier_history_is_refused_before_the_audit_reads_from_it(uri: Path) -> None:
    history.append(str(uri), document("a"), {})
    lance.dataset(str(uri)).drop_columns(["findings"])
    for use in (lambda: history.read(str(uri), {}), lambda: history.append(str(uri), document("b"), {})):
        with pytest.raises(LancensError, match="no column `findings`"):
            use()


def test_a_damaged_run_is_named(uri: Path) -> None:
    history.append(str(uri), document("a"), {})
    lance.dataset(str(uri)).update({"manifest": "NULL"})
    with pytest.raises(LancensError, match="damaged at manifest"):
        history.read(str(uri), {})


@pytest.mark.parametrize("content", ["a folder", "a folder of data", "data without versions", "a file"])
def test_a_place_with_other_files_is_refused(uri: Path, content: str) -> None:
    if content.startswith("a folder"):
        folder = uri / "data" if content == "a folder of data" else uri
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
    elif content == "data without versions":
        lance.write_dataset(pa.table({"run_id": ["mine"]}), str(uri))
        shutil.rmtree(uri / "_versions")
    else:
        uri.write_text("mine", encoding="utf-8")
    with pytest.raises(LancensError, match=r"history\.lance cannot be used as ") as caught:
        history.append(str(uri), document("a"), {})
    assert "\n" not in str(caught.value)


def test_data_that_cannot_be_read_now_is_not_taken_for_a_run_that_was_cut_off(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise OSError("403 Forbidden")

    lance.write_dataset(pa.table({"run_id": ["mine"]}), str(uri))
    shutil.rmtree(uri / "_versions")
    monkeypatch.setattr(lance.file.LanceFileSession, "open_reader", forbidden)
    with pytest.raises(LancensError, match="403 Forbidden"):
        history.append(str(uri), document("a"), {})
    assert not (uri / "_versions").exists()


def test_no_error_shows_a_secret(tmp_path: Path) -> None:
    with pytest.raises(LancensError) as caught:
        history.append(f"nosuch://key:{SECRET}@host/history?sig={SECRET}", document("a"), {"token": SECRET})
    assert SECRET not in str(caught.value)
    assert "nosuch://(redacted)@host/history" in str(caught.value)


def test_the_trend_is_of_one_manifest_and_ends_with_this_run() -> None:
    earlier = [run(1), run(2, manifest="another"), run(3, complete=False)]
    shown = history.with_trend(small_document(), [*earlier, small_document().summary()])
    assert [found.run_id for found in shown.history] == ["run-001", "run-003", small_document().run_id]


def test_the_trend_of_a_long_history_is_its_end() -> None:
    shown = history.with_trend(small_document(), [run(number) for number in range(1_000)])
    assert len(shown.history) == 201
    assert shown.history[-2].run_id == "run-999"
