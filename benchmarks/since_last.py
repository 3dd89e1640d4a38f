"""How often `lancens audit --since-last` probes storage: `python -m benchmarks.since_last [TABLES ...]`.

A simulated lake is audited in full, and then again with `--since-last`, each time after a hundredth of the datasets has
a new version. The stages that merge the entries with the probes of earlier audits, and that probe, are lancens' own,
and write and read the real files; the datasets are simulated. Calls are counted, not seconds. To see whether a dataset
has a new version takes one listing and the name of one file; a probe opens it, and lists all its files.
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

SIZES = (10_000, 100_000)
RUNS = 3
MOST = 0.05
"""The limit of probes with ``--since-last`` and 1% changed tables, as a share of a full audit's."""

_TABLES_A_TASK = 4_000
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedLake:
    """Simulated entries and versions of datasets, and the datasets of the last probes."""

    tables: int
    folder: str
    versions: list[int] = field(default_factory=list)
    probed: set[int] = field(default_factory=set)
    runs: int = 0

    def __post_init__(self) -> None:
        self.versions = [1] * self.tables

    def change(self, share: int) -> None:
        """Give one in ``share`` datasets a new version, other ones in each run."""
        for number in range(self.runs % share, self.tables, share):
            self.versions[number] += 1

    def audit(self, rounds: int) -> tuple[int, set[int]]:
        """Audit; return the count of up-to-date tables, and the numbers of probed ones."""
        from reconciler.auditor.entries import ENTRIES, merge_entries
        from reconciler.auditor.probe_cache import ProbeCache
        from reconciler.auditor.storage_probe import TableProber
        from reconciler.pipeline.schemas import record_batch
        from reconciler.storage import Depth

        cache = ProbeCache(self.folder, "0" * 32, self.runs, rounds, _BEGAN + timedelta(days=self.runs))
        catalogs = cast(Any, {"lake": SimpleNamespace(options={}, opens_tables=False)})
        cached = cache.entries(None, ENTRIES).content
        rows_of_task = defaultdict(list)
        for at, key in enumerate(cached["key"].to_pylist()):
            rows_of_task[int(key.rpartition("t")[2]) // _TABLES_A_TASK].append(at)
        self.probed, up_to_date = set(), 0
        with ExitStack() as stack, self._simulated():
            prober = TableProber(catalogs, stack, cache)
            for task, start in enumerate(range(0, self.tables, _TABLES_A_TASK)):
                rows = map(self._entry, range(start, min(start + _TABLES_A_TASK, self.tables)))
                batches = [
                    record_batch(rows, ENTRIES),
                    *cached.take(pa.array(rows_of_task[task], pa.int64())).to_batches(),
                ]
                merged = [row for batch in merge_entries(batches) for row in batch.to_pylist()]
                stored = prober.probe(merged, Depth.FILES)
                up_to_date += sum(
                    content.version == self._version(row["location"])
                    for row, content in zip(merged, stored, strict=True)
                )
        cache.prune()
        self.runs += 1
        return up_to_date, self.probed

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

        self.probed.add(int(location.rpartition("t")[2]))
        columns = (Column("id", "int64"), Column("embedding", "fixed_size_list<float32>[768]"))
        files = Files(bytes=2**20, reclaimable=0, versions=1)
        version = self._version(location)
        return LocationContent(
            StorageKind.DATASET, version=version, rows=9, schema=columns, committed=_BEGAN, files=files
        )


def audits(tables: int, runs: int, share: int = 100) -> Iterator[tuple[int, int, set[int]]]:
    """Yield run, up-to-date count and probed tables of a full audit and ``runs`` more."""
    from reconciler.auditor.records import ROUNDS

    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as folder:
        lake = SimulatedLake(tables, str(Path(folder, "audits.lance", "_looks")))
        yield 0, *lake.audit(rounds=1)
        for run in range(1, runs + 1):
            lake.change(share)
            yield run, *lake.audit(ROUNDS)


def section(sizes: tuple[int, ...] = SIZES) -> Section:
    """Count probes for all sizes and return the section of the page."""
    rows, goals = [], []
    for size in sizes:
        full, *others = [len(probed) for _, _, probed in audits(size, RUNS)]
        rows.append([f"{size:,}", f"{full:,}", *(f"{probes:,}" for probes in others), f"{max(others) / full:.3f}"])
        if size == max(sizes):
            goals.append(
                Goal(f"probes of an audit of {size:,} tables since the last, 1% changed", max(others) / full, MOST)
            )
    head = ["tables", "probes in full", *(f"run {run} since" for run in range(1, RUNS + 1)), "most / full"]
    about = (__doc__ or "").partition("\n\n")[2].strip()
    return Section("Audits since the last", "python -m benchmarks.since_last", f"{about}\n\n{table(head, rows)}", goals)


if __name__ == "__main__":
    print(section(tuple(int(argument.replace(",", "")) for argument in sys.argv[1:]) or SIZES).text)
