"""`lancens maintain` beside writers that append, delete, update, compact and clean up; and killed at any point."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.applier.report import ChangeResult, Event, Status
from reconciler.manifest import Manifest
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.planner.entries import Change
from tests.catalogs.conftest import Doomed
from tests.catalogs.maintained import WIDTH, append, fingerprint, manifest_of, needy, rows
from tests.soak import count, seeded
from tests.torture.disk import DiskFault, is_there
from tests.writing import load_manifest

_FIRST = 100_000


def contents(table: pa.Table) -> dict[int, tuple[str, bytes]]:
    """Return the text and the vector of each row by its id."""
    vectors = table["v"].combine_chunks().flatten().to_numpy().reshape(-1, WIDTH)
    return dict(
        zip(
            table["id"].to_pylist(),
            zip(table["text"].to_pylist(), (one.tobytes() for one in vectors), strict=True),
            strict=True,
        )
    )


class Writers:
    """Others who write one dataset, and the rows that it must have."""

    def __init__(self, place: str, source: random.Random) -> None:
        self._place, self._source, self._next = place, source, _FIRST
        self.busy = threading.Lock()
        self.expected = self.found()
        self.is_there, self.is_doomed, self.writes = True, False, 0

    def found(self) -> dict[int, tuple[str, bytes]]:
        return contents(lance.dataset(self._place).to_table())

    def is_as_written(self) -> bool:
        with self.busy:
            return not self.is_there or self.found() == self.expected

    def write(self) -> None:
        if self.is_doomed:
            Path(self._place).rename(f"{self._place}.dropped")
            self.is_there = False
            return
        dataset = lance.dataset(self._place)
        action = self._source.choice(("append", "append", "delete", "update", "compact", "clean"))
        some = self._source.sample(sorted(self.expected), 3)
        if action == "append":
            append(self._place, 10, self._next)
            self.expected |= contents(rows(10, self._next))
            self._next += 10
        elif action == "delete":
            dataset.delete(f"id in ({', '.join(map(str, some))})")
            self.expected = {one: row for one, row in self.expected.items() if one not in some}
        elif action == "update":
            dataset.update({"text": "'changed'"}, where=f"id in ({', '.join(map(str, some))})")
            self.expected |= {one: ("changed", self.expected[one][1]) for one in some}
        elif action == "compact":
            dataset.optimize.compact_files(max_source_fragments=3)
        else:
            dataset.cleanup_old_versions(older_than=timedelta(seconds=5))
        self.writes += 1


@contextmanager
def writing(writers: Mapping[str, Writers], source: random.Random, jobs: set[str]) -> Iterator[None]:
    """Write all the time in the block, where there are ``jobs`` if any; a write that loses a race is left out.

    What is doomed is dropped during the first of its jobs, since a plan is stale whose dataset goes before.
    """
    ended = threading.Event()
    problems: list[Exception] = []
    lasting = sorted(name for name, one in writers.items() if not one.is_doomed)

    def loop() -> None:
        while not ended.is_set():
            doomed = [name for name in jobs.copy() if writers[name].is_doomed and writers[name].is_there]
            one = writers[source.choice(doomed or sorted(jobs.copy()) or lasting)]
            with one.busy:
                try:
                    if one.is_there:
                        one.write()
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


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_rows_are_those_of_the_writers_after_each_job(tmp_path: Path) -> None:
    """The first of the datasets is dropped during one of its jobs."""
    source, names = seeded("writers"), [f"t{number:03}" for number in range(count(4, 200))]
    places = {name: needy(tmp_path / f"lake/{name}.lance", source.randrange(8, 20)) for name in names}
    writers = {name: Writers(place, source) for name, place in places.items()}
    writers[names[0]].is_doomed = True
    manifest = load_manifest(tmp_path, manifest_of(names))
    jobs, ends, wrong = set[str](), list[ChangeResult](), list[str]()

    def check(event: Event) -> None:
        if isinstance(event, Change):
            jobs.add(event.identifier[-1])
        elif isinstance(event, ChangeResult):
            name = event.change.identifier[-1]
            jobs.discard(name)
            ends.append(event)
            wrong.extend([] if writers[name].is_as_written() else [f"{event.change.action} {name}"])

    with writing(writers, source, jobs):
        for _ in range(2):
            maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal", on_event=check)
    print(f"{sum(one.writes for one in writers.values())} writes beside {len(ends)} jobs")
    assert wrong == []
    assert all(one.is_as_written() for one in writers.values())
    assert sum(end.status is Status.DONE for end in ends) >= len(names)
    failed = [end for end in ends if end.status is Status.FAILED and end.change.identifier[-1] != names[0]]
    assert [end.message for end in failed if "another writer" not in end.message] == []
    assert maintain(plan_maintenance(manifest), manifest, journal=tmp_path / "journal").ok
    assert [(change.address, change.reason) for change in plan_maintenance(manifest).changes] == []
    assert all(one.is_as_written() for one in writers.values())
    assert not [*Path(places[names[0]]).rglob("*.manifest")]
    for name in names[1:]:
        assert "ScalarIndexQuery" in lance.dataset(places[name]).scanner(filter="id = 5").explain_plan()


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


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory, doomed: Doomed) -> int:
    """How many calls of pylance it takes to maintain one dataset."""
    folder = tmp_path_factory.mktemp("calls")
    needy(folder / "lake/a.lance")
    load_manifest(folder, manifest_of(["a"]))
    with chdir(folder):
        _, printed = doomed("after_calls", "maintain", "--auto-approve", calls=0, later=0)
    return int(printed.splitlines()[-1])


@pytest.mark.soak
@pytest.mark.parametrize("number", range(count(3, 20)))
def test_a_killed_run_leaves_equal_rows_and_the_next_one_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doomed: Doomed, calls: int, number: int
) -> None:
    place = needy(tmp_path / "lake/a.lance")
    manifest = load_manifest(tmp_path, manifest_of(["a"]))
    before, source = fingerprint(place), seeded(f"kill {number}")
    point = {"calls": source.randrange(1, calls), "later": source.choice((0, source.uniform(0, 0.03)))}
    monkeypatch.chdir(tmp_path)
    doomed("after_calls", "maintain", "--auto-approve", **point)
    _ends(manifest, place, before)


def _ends(manifest: Manifest, place: str, before: str) -> None:
    """Check that the rows are as they were, also after the next run, which leaves nothing to do."""
    assert fingerprint(place) == before
    assert maintain(plan_maintenance(manifest), manifest, journal=Path(place).parents[1] / "journal").ok
    assert fingerprint(place) == before
    assert plan_maintenance(manifest).is_empty


@pytest.mark.soak
@pytest.mark.skipif(not is_there(), reason="strace is missing, or may not trace here")
@pytest.mark.parametrize("number", range(count(2, 20)))
def test_a_full_disk_leaves_equal_rows_and_the_next_run_ends_it(tmp_path: Path, number: int) -> None:
    place = needy(tmp_path / "lake/a.lance")
    manifest = load_manifest(tmp_path, manifest_of(["a"]))
    before, source = fingerprint(place), seeded(f"full disk {number}")
    calls = source.choice(("mkdir", "renameat", "linkat", "fsync", "mkdir,renameat,linkat"))
    fault = DiskFault(calls, f"error=ENOSPC:when={source.randrange(1, 12)}{source.choice(('', '+'))}")
    command = [*fault.before(tmp_path), sys.executable, "-c", "from reconciler.cli import main; main()", "maintain"]
    done = subprocess.run([*command, "--auto-approve"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, fault
    _ends(manifest, place, before)
