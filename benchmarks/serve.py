"""`lancens serve` beside pylance's RestAdapter, by CPU: `python -m benchmarks.serve [CLIENTS SECONDS]`.

Both serve the same directories, of three sizes, each in a process of its own. The same clients, in processes of their
own, do the same work on each in turns: read a namespace, list the first tables in it, read one of them. CPU seconds are
the server's, user and system.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

import urllib3

from benchmarks.page import Goal, Section, spread, table

NAMESPACES = 10
SIZES = (200, 1_000, 100_000)
PAGE = 20
GOAL = 1.2
PROCESSES = 2
ROUNDS = 3

ADAPTER = """
import sys, time
from lance.namespace import RestAdapter
with RestAdapter("dir", {"root": sys.argv[1]}, port=0) as adapter:
    print(f"http://127.0.0.1:{adapter.port}", flush=True)
    while True:
        time.sleep(60)
"""
LANCENS = "from reconciler.cli import main; main()"


@contextmanager
def _running(*command: str) -> Iterator[tuple[str, int]]:
    """Run a server that prints its URL; yield the URL and the process."""
    process = subprocess.Popen(
        [sys.executable, "-c", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait(30)


def _cpu_seconds(process: int) -> float:
    """Return what a running process has taken, all of its threads included."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fill(root: str, tables: int) -> None:
    """Enter tables in a new directory by one commit."""
    from reconciler.backends.dir.manifest import DirManifest
    from reconciler.backends.dir.rows import NAMESPACE, TABLE, Row, StoredLocations

    names = [f"n{number % NAMESPACES}$t{number // NAMESPACES}" for number in range(tables)]
    rows = [Row(f"n{number}", NAMESPACE, metadata='{"owner":"me"}') for number in range(NAMESPACES)]
    rows += [Row(name, TABLE, f"{name}.lance") for name in names]
    DirManifest(StoredLocations(root), {}).update(lambda contents: (contents.put(*rows), None))


def _send_requests(url: str, tables: int, seconds: float, number: int) -> tuple[int, int]:
    """Send requests for ``seconds``; return the number of responses and of wrong ones."""
    parts = urlsplit(url)
    pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, retries=False, timeout=30)
    done = wrong = 0
    until = perf_counter() + seconds
    while perf_counter() < until:
        space = f"n{(number + done) % NAMESPACES}"
        table = f"{space}%24t{done % (tables // NAMESPACES)}"
        answers = [
            pool.request("POST", f"/v1/namespace/{space}/describe", json={}),
            pool.request("GET", f"/v1/namespace/{space}/table/list?limit={PAGE}"),
            pool.request("POST", f"/v1/table/{table}/describe", json={}),
        ]
        done += len(answers)
        wrong += sum(answer.status != 200 for answer in answers)
        wrong += len(answers[1].json()["tables"]) != PAGE
    return done, wrong


def _run_clients(url: str, tables: int, clients: int, seconds: float) -> tuple[int, int]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda number: _send_requests(url, tables, seconds, number), range(clients)))
    return sum(done for done, _ in answers), sum(wrong for _, wrong in answers)


class Measurement(NamedTuple):
    """The requests a second and a CPU second of a server, and the number of wrong responses."""

    rate: float
    by_cpu: float
    wrong: int


def _measure(url: str, process: int, tables: int, clients: int, seconds: float) -> Measurement:
    share = max(1, clients // PROCESSES)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        pool.starmap(_run_clients, [(url, tables, 1, 0.1)] * PROCESSES)  # the processes have started by then
        began, cpu_before = perf_counter(), _cpu_seconds(process)
        answers = pool.starmap(_run_clients, [(url, tables, share, seconds)] * PROCESSES)
        took, cpu = perf_counter() - began, _cpu_seconds(process) - cpu_before
    done = sum(done for done, _ in answers)
    return Measurement(done / took, done / cpu, sum(wrong for _, wrong in answers))


def _measure_in_turns(tables: int, clients: int, seconds: float) -> dict[str, list[Measurement]]:
    """Return the rounds of each server on a directory of ``tables`` tables."""
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        _fill(lake, tables)
        serve = (LANCENS, "serve", "--port", "0", "--impl", "dir", "--config", f"root={lake}")
        with _running(ADAPTER, lake) as adapter, _running(*serve) as lancens:
            servers = {"RestAdapter": adapter, "lancens serve": lancens}
            rounds = [
                {name: _measure(*server, tables, clients, seconds) for name, server in servers.items()}
                for _ in range(ROUNDS)
            ]
    return {name: [measured[name] for measured in rounds] for name in servers}


def section(clients: int = 64, seconds: float = 3.0) -> Section:
    """Measure and return the section of the page."""
    rows, goals = [], []
    for tables in SIZES:
        measured = _measure_in_turns(tables, clients, seconds)
        by_cpu = {name: statistics.median(found.by_cpu for found in rounds) for name, rounds in measured.items()}
        goals.append(
            Goal(
                f"serve, {tables:,} tables: CPU a request / RestAdapter",
                by_cpu["RestAdapter"] / by_cpu["lancens serve"],
                GOAL,
            )
        )
        for name, rounds in measured.items():
            rows.append(
                [
                    f"{name}, {tables:,}",
                    f"{by_cpu[name] / by_cpu['RestAdapter']:.2f}",
                    spread([found.by_cpu for found in rounds], 0),
                    spread([found.rate for found in rounds], 0),
                    f"{sum(found.wrong for found in rounds)}",
                ]
            )
    about = (__doc__ or "").partition("\n\n")[2].strip()
    head = ["server, tables", "of RestAdapter", "requests a CPU second", "requests a second", "wrong answers"]
    text = f"{about}\n\n{clients} clients, pages of {PAGE}, {ROUNDS} rounds of {seconds:g} s:\n\n{table(head, rows)}"
    return Section("Serving", "python -m benchmarks.serve", text, goals)


if __name__ == "__main__":
    given = sys.argv[1:]
    print(section(int(given[0]) if given else 64, float(given[1]) if len(given) > 1 else 3.0).text)
