"""Reading an Iceberg REST catalog, beside lance-namespace-impls: `python -m benchmarks.iceberg [NAMESPACES TABLES]`.

Both read the same catalog on Apache's REST adapter, which gives pages of 100 where none are asked for, through a proxy
that adds 5 ms each way, each in a process of its own, in turns. What is compared is what a plan needs of every table:
name, location and properties. The peer's ListTables loads every table but returns names only, so that it is measured
twice: for the names alone, and with a DescribeTable of each. Times are the medians of the rounds, calls what the
server counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.peer import PEER, environment
from reconciler.backends.iceberg import IcebergBackend
from reconciler.concurrency import in_parallel
from reconciler.state import DEFAULT_PARALLELISM
from tests.servers.iceberg import iceberg_server
from tests.servers.slow_proxy import slow_proxy

ROUNDS = 3
DELAY_SECONDS = 0.005
WAREHOUSE = "ware"
PAGE = 100
BASE = "lancens"
BUSY = "lancens, 32 at once"


def _lancens(url: str, parallelism: int = DEFAULT_PARALLELISM) -> list[Any]:
    backend = IcebergBackend(endpoint=url, warehouses=WAREHOUSE)
    backend.parallelism = parallelism
    return list(backend.scan().tables.values())


def _peer_names(url: str) -> list[Any]:
    return [table for _, table in _peer_tables(_peer(url))]


def _peer_everything(url: str) -> list[Any]:
    from lance_namespace import DescribeTableRequest

    client = _peer(url)
    return [client.describe_table(DescribeTableRequest(id=[*space, table])) for space, table in _peer_tables(client)]


def _peer(url: str) -> Any:
    return import_module("lance_namespace_impls.iceberg").IcebergNamespace(endpoint=url)


def _peer_tables(client: Any) -> list[tuple[list[str], str]]:
    from lance_namespace import ListNamespacesRequest, ListTablesRequest

    spaces = [name.split(".") for name in client.list_namespaces(ListNamespacesRequest(id=[WAREHOUSE])).namespaces]
    return [(space, table) for space in spaces for table in client.list_tables(ListTablesRequest(id=space)).tables]


TASKS: dict[str, Callable[[str], list[Any]]] = {
    BASE: _lancens,
    BUSY: partial(_lancens, parallelism=32),
    "peer, names": _peer_names,
    "peer, everything": _peer_everything,
}


def measure(task: str, url: str) -> None:
    """Do one task once and print how many tables came and the seconds it took."""
    began = perf_counter()
    found = TASKS[task](url)
    print(json.dumps({"tables": len(found), "seconds": perf_counter() - began}))


def _run(task: str, url: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.iceberg", "measure", task, url]
    done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(namespaces: int, tables: int) -> None:
    """Print the table of all tasks."""
    with (
        tempfile.TemporaryDirectory() as folder,
        iceberg_server(Path(folder), prefix="{warehouse}", page=PAGE) as server,
    ):
        _fill(server.url, namespaces, tables)
        results: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
        with slow_proxy(int(server.url.rpartition(":")[2]), DELAY_SECONDS, Path(folder)) as port:
            for _ in range(ROUNDS):
                for task, rounds in results.items():
                    before = len(server.requests())
                    found = _run(task, f"http://127.0.0.1:{port}")
                    rounds.append({**found, "calls": len(server.requests()) - before})
    _report(results, namespaces, tables)


def _fill(url: str, namespaces: int, tables: int) -> None:
    backend = IcebergBackend(endpoint=url, warehouses=WAREHOUSE)
    for space in range(namespaces):
        backend.insert_namespace((WAREHOUSE, f"n{space}"), {})
    every = [(WAREHOUSE, f"n{space}", f"t{table}") for space in range(namespaces) for table in range(tables)]
    in_parallel(lambda table: backend.insert_table(table, f"s3://lake/{'/'.join(table)}", {"tier": "gold"}), every, 8)
    backend.close()


def _report(results: dict[str, list[dict[str, float]]], namespaces: int, tables: int) -> None:
    total = namespaces * tables
    delay = f"{DELAY_SECONDS * 1000:g} ms each way"
    print(f"{total:,} tables in {namespaces} namespaces, {delay}, medians of {ROUNDS} rounds; peer: {PEER}\n")
    print(f"{'who':<20}{'tables':>8}{'of':>8}{'calls':>8}{'seconds':>10}{'ms a table':>12}{'times lancens':>15}")
    costs: dict[str, float] = {}
    for task, rounds in results.items():
        seconds = statistics.median(found["seconds"] for found in rounds)
        read, calls = rounds[0]["tables"], rounds[0]["calls"]
        costs[task] = seconds * 1000 / read
        ratio = costs[task] / costs[BASE]
        print(f"{task:<20}{read:>8}{total:>8}{calls:>8}{seconds:>10.2f}{costs[task]:>12.2f}{ratio:>15.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:4])
    else:
        compare(*(map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (20, 50)))
