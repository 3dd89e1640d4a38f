"""`lancens maintain` beside writers that append, delete, update, compact and clean up; and killed at any point."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from reconciler.applier.report import ChangeResult, Event, Status
from reconciler.operations.maintain import maintain, plan_maintenance
from tests.catalogs.maintained import append, fingerprint, manifest_of, needy, rows
from tests.soak import count, seeded
from tests.writing import load_manifest

_FIRST = 100_000


class Writers:
    """Others who write one dataset, and the rows that it must have: ids with texts."""

    def __init__(self, place: str, source: random.Random) -> None:
        self._place, self._source, self._next = place, source, _FIRST
        self.busy = threading.Lock()
        self.expected = self.found()

    def found(self) -> dict[int, str]:
        table = lance.dataset(self._place).to_table(columns=["id", "text"])
        return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))

    def write(self) -> None:
        dataset = lance.dataset(self._place)
        action = self._source.choice(("append", "append", "delete", "update", "compact", "clean"))
        some = self._source.sample(sorted(self.expected), 3)
        if action == "append":
            table = rows(10, self._next)
            append(self._place, 10, self._next)
            self.expected |= dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
            self._next += 10
        elif action == "delete":
            dataset.delete(f"id in ({', '.join(map(str, some))})")
            self.expected = {one: text for one, text in self.expected.items() if one not in some}
        elif action == "update":
            dataset.update({"text": "'changed'"}, where=f"id in ({', '.join(map(str, some))})")
            self.expected |= dict.fromkeys(some, "changed")
        elif action == "compact":
            dataset.optimize.compact_files(max_source_fragments=3)
        else:
            dataset.cleanup_old_versions(older_than=timedelta(seconds=5))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write all the time in the block; a write that loses a race is left out."""
        ended = threading.Event()
        problems: list[Exception] = []

        def loop() -> None:
            while not ended.is_set():
                with self.busy:
                    try:
                        self.write()
                    except (OSError, RuntimeError) as error:
                        if "conflict" not in str(error).lower() and "concurrent" not in str(error).lower():
                            problems.append(error)

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert problems == []


def test_rows_are_those_of_the_writers_after_each_job(tmp_path: Path) -> None:
    place = needy(tmp_path / "lake/a.lance", fragments=30)
    manifest = load_manifest(tmp_path, manifest_of(["a"]))
    writers = Writers(place, seeded("writers"))

    def check(event: Event) -> None:
        if isinstance(event, ChangeResult):
            with writers.busy:
                assert writers.found() == writers.expected

    ends: list[ChangeResult] = []
    with writers.writing():
        for _ in range(count(2, 20)):
            report = maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", on_event=check)
            ends += report.results
    assert writers.found() == writers.expected
    assert any(end.status is Status.DONE for end in ends)
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert plan_maintenance(manifest).is_empty


def test_no_commit_cleans_up_while_others_take_the_next_version(tmp_path: Path) -> None:
    place, interval = needy(tmp_path / "lake/a.lance"), 3
    configuration = {"lance.auto_cleanup.interval": str(interval), "lance.auto_cleanup.older_than": "1000d"}
    lance.dataset(place).update_config(configuration)  # type: ignore[arg-type]
    first = lance.dataset(place).version + 1
    manifest = load_manifest(tmp_path, manifest_of(["a"]))
    ended = threading.Event()

    def write() -> None:
        number = _FIRST
        while not ended.is_set():
            append(place, 1, number)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(count(4, 40)):
            maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal")
    finally:
        ended.set()
        thread.join()
    dataset = lance.dataset(place)
    of_cleaning = [version for version in range(first, dataset.version + 1) if version % interval == 0]
    operations = {
        type(made.operation).__name__ for version in of_cleaning if (made := dataset.read_transaction(version))
    }
    assert operations <= {"Append"}
    assert {one["version"] for one in dataset.versions()} == set(range(1, dataset.version + 1))


_KILLED = """
import os, random, sys, threading
from reconciler.cli import main
seconds = float(sys.argv[1])
threading.Timer(seconds, lambda: os.kill(os.getpid(), 9)).start()
main(["maintain", "--auto-approve"])
"""


@pytest.mark.parametrize("number", range(count(2, 20)))
def test_a_killed_run_leaves_equal_rows_and_the_next_one_ends_it(tmp_path: Path, number: int) -> None:
    place = needy(tmp_path / "lake/a.lance", fragments=20)
    manifest = load_manifest(tmp_path, manifest_of(["a"]))
    before = fingerprint(place)
    seconds = seeded(f"kill {number}").uniform(0.3, 3)
    subprocess.run([sys.executable, "-c", _KILLED, str(seconds)], cwd=tmp_path, capture_output=True, check=False)
    assert fingerprint(place) == before
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert fingerprint(place) == before
    assert plan_maintenance(manifest).is_empty
