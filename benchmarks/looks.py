"""How often `lancens audit --since-last` looks into storage: `python -m benchmarks.looks [TABLES ...]`.

A simulated lake is audited in full, and then again with `--since-last`, each time after a hundredth of the datasets has
a new version. The stages that merge the entries with the looks of earlier audits, and that look, are lancens' own, and
write and read the real files; the datasets are not there. Calls are counted, not seconds. To see whether a dataset has
a new version takes one listing and the name of one file; a look opens it, and lists all its files.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pyarrow as pa

from benchmarks.page import Goal, Section, table

SIZES = (10_000, 100_000, 1_000_000)
RUNS = 3
MOST = 0.05
"""The looks with ``--since-last`` after a change in a hundredth of the tables, for one look of a full audit."""

_IN_A_TASK = 4_000
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedLake:
    """Entries of ``tables`` tables, the version of each dataset, and the looks of one audit."""

    tables: int
    folder: str
    versions: list[int] = field(default_factory=list)
    looked: set[int] = field(default_factory=set)
    runs: int = 0

    def __post_init__(self) -> None:
        self.versions = [1] * self.tables

    def change(self, share: int) -> None:
        """Commit to one in ``share`` datasets, other ones in each run."""
        for number in range(self.runs % share, self.tables, share):
            self.versions[number] += 1

    def audit(self, rounds: int) -> tuple[int, set[int]]:
        """Audit, and return how many tables are known at their latest version, and the numbers of those looked at."""
        from reconciler.auditor.entries import ENTRIES, merge_entries
        from reconciler.auditor.probe_cache import ProbeCache
        from reconciler.auditor.records import Depth
        from reconciler.auditor.storage_probe import TableProber
        from reconciler.pipeline.schemas import record_batch

        cache = ProbeCache(self.folder, "0" * 32, self.runs, rounds, _BEGAN + timedelta(days=self.runs))
        catalogs = cast(Any, {"lake": SimpleNamespace(options={}, opens_tables=False)})
        remembered = cache.entries(None, ENTRIES).content
        places = defaultdict(list)
        for at, key in enumerate(remembered["key"].to_pylist()):
            places[int(key.rpartition("t")[2]) // _IN_A_TASK].append(at)
        self.looked, found = set(), 0
        with ExitStack() as stack, self._simulated():
            prober = TableProber(catalogs, stack, cache)
            for task, start in enumerate(range(0, self.tables, _IN_A_TASK)):
                rows = map(self._entry, range(start, min(start + _IN_A_TASK, self.tables)))
                batches = [
                    record_batch(rows, ENTRIES),
                    *remembered.take(pa.array(places[task], pa.int64())).to_batches(),
                ]
                merged = [row for batch in merge_entries(batches) for row in batch.to_pylist()]
                stored = prober.probe(merged, Depth.FILES)
                found += sum(
                    one.version == self._version(row["location"]) for row, one in zip(merged, stored, strict=True)
                )
        cache.prune()
        self.runs += 1
        return found, self.looked

    def _entry(self, number: int) -> dict[str, Any]:
        place = f"/lake/t{number}"
        named = {"catalog": "lake", "key": f"ns{number // 1000}$t{number}", "address": f"lake/t{number}"}
        return {**named, "location": place, "data_place": place}

    def _version(self, location: str) -> int:
        return self.versions[int(location.rpartition("t")[2])]

    def _simulated(self) -> Any:
        from reconciler import storage

        return mock.patch.multiple(storage, latest_state=self._state, examine=self._examine)

    def _state(self, location: str, *_: object) -> str:
        return f"version {self._version(location)}"

    def _examine(self, location: str, _options: object, _read: Callable[[Any], Any]) -> Any:
        from reconciler.auditor.records import LocationContent
        from reconciler.model.columns import Column
        from reconciler.model.live import StorageKind
        from reconciler.storage import Files

        self.looked.add(int(location.rpartition("t")[2]))
        columns = (Column("id", "int64"), Column("embedding", "fixed_size_list<float32>[768]"))
        files = Files(bytes=2**20, reclaimable=0, versions=1)
        version = self._version(location)
        return LocationContent(
            StorageKind.DATASET, version=version, rows=9, schema=columns, committed=_BEGAN, files=files
        )


def audits(tables: int, runs: int, share: int = 100) -> Iterator[tuple[int, int, set[int]]]:
    """Yield the tables known with their latest version, and those looked at, of a full audit and of ``runs`` more."""
    from reconciler.auditor.records import ROUNDS

    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as folder:
        lake = SimulatedLake(tables, str(Path(folder, "audits.lance", "_looks")))
        yield 0, *lake.audit(rounds=1)
        for run in range(1, runs + 1):
            lake.change(share)
            yield run, *lake.audit(ROUNDS)


def section(sizes: tuple[int, ...] = SIZES) -> Section:
    """Count in all sizes and return the part of the page."""
    rows, goals = [], []
    for size in sizes:
        full, *others = [len(looked) for _, _, looked in audits(size, RUNS)]
        rows.append([f"{size:,}", f"{full:,}", *(f"{looks:,}" for looks in others), f"{max(others) / full:.3f}"])
        if size == max(sizes):
            goals.append(
                Goal(f"looks of an audit of {size:,} tables since the last, 1% changed", max(others) / full, MOST)
            )
    head = ["tables", "looks in full", *(f"run {run} since" for run in range(1, RUNS + 1)), "most / full"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    return Section("Audits since the last", "python -m benchmarks.looks", f"{about}\n\n{table(head, rows)}", goals)


if __name__ == "__main__":
    print(section(tuple(int(argument.replace(",", "")) for argument in sys.argv[1:]) or SIZES).text)
