"""Requests a second of `lancens serve` beside pylance's RestAdapter: `python -m benchmarks.serve [CLIENTS SECONDS]`.

Both serve a directory with the same tables, each in a process of its own; `lancens serve` serves a memory catalog as
well, which shows what the server itself costs. The same clients, in processes of their own, do the same work on each
in turns: read a namespace, list its tables, read one of them.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import urllib3

from benchmarks.page import Section, spread, table

NAMESPACES = 10
TABLES = 20
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
def _running(*command: str) -> Iterator[str]:
    """Run a server that prints its URL; yield the URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


def _fill(url: str, root: str) -> None:
    from reconciler.backends.rest import RestBackend

    backend = RestBackend(uri=url, root=root, table_properties="false")
    for number in range(NAMESPACES):
        backend.insert_namespace((f"n{number}",), {"owner": "me"})
        for index in range(TABLES):
            backend.insert_table((f"n{number}", f"t{index}"), f"{root}/n{number}/t{index}.lance", {})


def _send_requests(url: str, seconds: float, number: int) -> tuple[int, int]:
    """Send requests for ``seconds``; return the number of responses and of wrong ones."""
    parts = urlsplit(url)
    pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, retries=False, timeout=30)
    done = wrong = 0
    until = perf_counter() + seconds
    while perf_counter() < until:
        space = f"n{(number + done) % NAMESPACES}"
        table = f"{space}%24t{done % TABLES}"
        answers = [
            pool.request("POST", f"/v1/namespace/{space}/describe", json={}),
            pool.request("GET", f"/v1/namespace/{space}/table/list"),
            pool.request("POST", f"/v1/table/{table}/describe", json={}),
        ]
        done += len(answers)
        wrong += sum(answer.status != 200 for answer in answers)
        wrong += len(answers[1].json()["tables"]) != TABLES
    return done, wrong


def _run_clients(url: str, clients: int, seconds: float) -> tuple[int, int]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda number: _send_requests(url, seconds, number), range(clients)))
    return sum(done for done, _ in found), sum(wrong for _, wrong in found)


def _measure(url: str, clients: int, seconds: float) -> tuple[float, int]:
    """Return the requests a second and the number of wrong responses."""
    share = max(1, clients // PROCESSES)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        pool.starmap(_run_clients, [(url, 1, 0.1)] * PROCESSES)  # the processes have started by then
        began = perf_counter()
        found = pool.starmap(_run_clients, [(url, share, seconds)] * PROCESSES)
        took = perf_counter() - began
    return sum(done for done, _ in found) / took, sum(wrong for _, wrong in found)


def section(clients: int = 64, seconds: float = 5.0) -> Section:
    """Measure and return the section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        scratch = str(Path(folder) / "scratch")
        with (
            _running(ADAPTER, lake) as adapter,
            _running(LANCENS, "serve", "--port", "0", "--impl", "dir", "--config", f"root={lake}") as directory,
            _running(LANCENS, "serve", "--port", "0", "--impl", "memory", "--config", f"root={scratch}") as memory,
        ):
            _fill(adapter, lake)
            _fill(memory, scratch)
            servers = {"RestAdapter, dir": adapter, "lancens serve, dir": directory, "lancens serve, memory": memory}
            rounds = [{name: _measure(url, clients, seconds) for name, url in servers.items()} for _ in range(ROUNDS)]
    base = statistics.median(found["RestAdapter, dir"][0] for found in rounds)
    rows = []
    for name in servers:
        rates = [found[name][0] for found in rounds]
        wrong = sum(found[name][1] for found in rounds)
        rows.append([name, f"{statistics.median(rates) / base:.2f}", spread(rates, 0), f"{wrong}"])
    about = (__doc__ or "").partition("\n\n")[2].strip()
    head = ["server", "of RestAdapter", "requests a second", "wrong answers"]
    text = f"{about}\n\n{clients} clients, {NAMESPACES * TABLES} tables, {ROUNDS} rounds of {seconds:g} s:\n\n"
    return Section("Serving", "python -m benchmarks.serve", text + table(head, rows))


if __name__ == "__main__":
    given = sys.argv[1:]
    print(section(int(given[0]) if given else 64, float(given[1]) if len(given) > 1 else 5.0).text)
