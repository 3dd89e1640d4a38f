"""Lines that are on disk before their writer continues."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import pytest

from reconciler.applier.journal import DurableLines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines"


@pytest.fixture
def lines(path: Path) -> Iterator[DurableLines]:
    made = DurableLines(FileIO(str(path), "ab"))
    yield made
    made.close()


def test_lines_of_many_threads_are_all_there_and_share_their_way_to_the_disk(
    path: Path, lines: DurableLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    genuine, everyone = os.fsync, threading.Barrier(21)

    def fsync(descriptor: int) -> None:
        if not synced:
            everyone.wait()  # the rest has been written meanwhile, or waits to be
        synced.append(descriptor)
        genuine(descriptor)

    def append(number: int) -> None:
        if number:
            everyone.wait()
        lines.append(f"{number}\n".encode())

    monkeypatch.setattr("os.fsync", fsync)
    with ThreadPoolExecutor(21) as pool:
        list(pool.map(append, range(21)))
    assert sorted(map(int, path.read_text().split())) == list(range(21))
    assert len(synced) < 21


def test_a_line_that_does_not_fit_leaves_nothing_of_itself(
    path: Path, lines: DurableLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.append(b"one\n")
    genuine = os.write

    def write(descriptor: int, data: bytes) -> int:
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return genuine(descriptor, data[:2])

    with monkeypatch.context() as patch:
        patch.setattr("os.write", write)
        with pytest.raises(OSError, match="No space left"):
            lines.append(b"two\n")
    lines.append(b"three\n")
    assert path.read_text() == "one\nthree\n"


def test_lines_that_did_not_reach_the_disk_are_taken_back_and_all_who_wrote_them_are_told(
    path: Path, lines: DurableLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.append(b"one\n")
    genuine, others = os.fsync, ThreadPoolExecutor(2)
    told: list[Future[None]] = []

    def fsync(descriptor: int) -> None:
        monkeypatch.setattr("os.fsync", genuine)
        told.extend(others.submit(lines.append, f"lost {number}\n".encode()) for number in range(2))
        while path.read_text().count("\n") < 4:
            threading.Event().wait(0.001)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(OSError, match="Input/output"):
        lines.append(b"lost\n")
    others.shutdown()
    assert [str(one.exception()) for one in told] == ["[Errno 5] Input/output error"] * 2
    lines.append(b"two\n")
    assert path.read_text() == "one\ntwo\n"
