"""Catalogs of up to ten million tables: `python -m benchmarks.simulation [TABLES ...]`.

No disk here holds so many directories, so the catalog and its storage are computed when a task asks
(`benchmarks/simulated`). All that follows is what runs on a real one: units, frames, rules, relations, the search for
orphans among as many directories, and the report. `inventory`, `plan` and `audit` run on Spark with two cores and a
driver heap of 4 GiB, each in processes of its own, within a limit of time. `deep` is an audit of datasets 12
directories below the root; `since-last` is the second audit of the same lake with `--since-last`.

Reported are the seconds and the CPU seconds of all processes, their calls to storage, and the peaks of resident memory:
of the driver's Python, of the JVM (which on one machine is driver and executor) and of the largest Python worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.fleet import LANCENS, process_tree

SIZES = (1_000_000, 2_000_000, 4_000_000, 10_000_000)
SECONDS = 7_200
CALLS = ("directories", "versions", "probes")
"""The calls to storage that are counted: a listing, the name of the latest version, an opened dataset."""
SPARK = ("--engine", "spark", "--master", "local[2]", "--spark-conf", "spark.driver.memory=4g")
_AUDIT = ("audit", "--out", "report", "--skip-rule", "unmanaged")
_AGAIN = (*_AUDIT, "--history", "audits.lance", "--since-last")
COMMANDS: Mapping[str, Sequence[tuple[str, ...]]] = {
    "inventory": [("inventory", "-o", "inventory.parquet")],
    "plan": [("plan", "--format", "json", "-o", "plan.json")],
    "audit": [_AUDIT],
    "deep": [_AUDIT],
    "since-last": [_AGAIN, _AGAIN],
}
"""The commands of each measurement, of which the last is measured."""
_DEEP = 12
MANIFEST = """\
version: 1
name: store
catalogs:
  lake:
    impl: simulated
    config: {{tables: {tables}}}
    policies: [{{match: "**", properties: {{tier: gold}}}}]
"""


def prepare(folder: Path, tables: int, levels: int = 2) -> dict[str, str]:
    """Write the manifest; return environment variables that load the simulation."""
    (folder / "lancens.yaml").write_text(MANIFEST.format(tables=tables))
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(f"import simulated_backend\n\nsimulated_backend.simulate({tables})\n")
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (folder / "site", here / "simulated", here.parent)))
    of_python = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    (folder / "calls").mkdir()
    return {**os.environ, **of_python, "SIMULATED_LEVELS": str(levels), "SIMULATED_CALLS": str(folder / "calls")}


@dataclass
class Peaks:
    """The peaks of resident memory in MiB, and the CPU seconds of each process.

    The processes of Spark do not all wait for those that they started, so each is asked.
    """

    mib: dict[str, int] = field(default_factory=lambda: {"driver": 0, "java": 0, "worker": 0})
    seconds: dict[int, float] = field(default_factory=dict)

    def sample(self, driver: int) -> None:
        """Update the peaks from a process and its descendants."""
        with suppress(OSError):  # one ended while it was looked at
            for process in list(process_tree(driver)):
                with suppress(OSError, IndexError):
                    self._add(process, driver)

    def _add(self, process: int, driver: int) -> None:
        name, _, times = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
        self.seconds[process] = sum(map(int, times.split()[11:13])) / os.sysconf("SC_CLK_TCK")
        status = Path(f"/proc/{process}/status").read_text()
        kind = "driver" if process == driver else "java" if name == "java" else "worker"
        self.mib[kind] = max(self.mib[kind], int(status.partition("VmRSS:")[2].split()[0]) >> 10)


def run(folder: Path, command: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    """Run one command and return the cells of its row."""
    peaks, started = Peaks(), perf_counter()
    for earlier in (folder / "calls").iterdir():
        earlier.unlink()
    with (
        (folder / "stderr").open("w+") as stderr,
        subprocess.Popen(
            [*LANCENS, *command, *SPARK], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=stderr
        ) as process,
    ):
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.5):
                peaks.sample(process.pid)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            code = -1
        done.set()
        watcher.join()
        stderr.seek(0)
        print(stderr.read(), file=sys.stderr)
    seconds, cpu = f"{perf_counter() - started:,.0f}", f"{sum(peaks.seconds.values()):,.0f}"
    calls = [f"{(folder / 'calls' / name).stat().st_size:,}" for name in CALLS]
    ended = f"ended with {code} after {seconds}" if code else seconds
    return [ended, cpu, *calls, *(f"{mib:,}" for mib in peaks.mib.values())]


def main(sizes: tuple[int, ...], commands: tuple[str, ...]) -> None:
    """Print a table with a row for each size and command."""
    print(f"| tables | command | s | CPU s | {' | '.join(CALLS)} | driver MiB | JVM MiB | worker MiB |")
    print(f"|---:|---|{'---:|' * (5 + len(CALLS))}")
    for tables in sizes:
        for name in commands:
            with tempfile.TemporaryDirectory(prefix="lancens-bench-") as place:
                folder = Path(place)
                environment = prepare(folder, tables, _DEEP if name == "deep" else 2)
                cells = [run(folder, command, environment) for command in COMMANDS[name]][-1]
            print(f"| {tables:,} | `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    numbers = tuple(int(text.replace(",", "").replace("_", "")) for text in sys.argv[1:] if text not in COMMANDS)
    main(numbers or SIZES, tuple(text for text in sys.argv[1:] if text in COMMANDS) or tuple(COMMANDS))
