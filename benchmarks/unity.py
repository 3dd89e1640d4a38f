"""Reading a Unity catalog, beside lance-namespace-impls: `python -m benchmarks.unity [SCHEMAS TABLES]`.

Both read the same catalog on the same server (the tests' stand-in for Unity's reference server, in a process of its
own), each in a process of its own, in turns. What is compared: the names of all tables; and all that a plan needs,
names, locations and properties. Times are the fastest of the rounds, elapsed and the client's own CPU; calls are what
the server counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from urllib.request import urlopen

from benchmarks.peer import PEER, environment
from tests.servers.process import free_port, running

ROUNDS = 5
CATALOG = "main"


def _connect(who: str, url: str) -> Any:
    if who == "lancens":
        from reconciler.backends.unity import UnityBackend

        return UnityBackend(endpoint=url, catalog=CATALOG)
    return import_module("lance_namespace_impls.unity").UnityNamespace(**{"unity.endpoint": url})


def _names(client: Any) -> list[tuple[str, str]]:
    from lance_namespace import ListNamespacesRequest, ListTablesRequest

    schemas = client.list_namespaces(ListNamespacesRequest(id=[CATALOG])).namespaces
    return [
        (schema, table)
        for schema in schemas
        for table in client.list_tables(ListTablesRequest(id=[CATALOG, schema])).tables
    ]


def _scan(client: Any) -> list[Any]:
    return list(client.scan().tables.values())


def _describe_all(client: Any) -> list[Any]:
    from lance_namespace import DescribeTableRequest

    return [
        client.describe_table(DescribeTableRequest(id=[CATALOG, schema, table])) for schema, table in _names(client)
    ]


TASKS: dict[tuple[str, str], Callable[[Any], list[Any]]] = {
    ("names", "lancens"): _names,
    ("names", "peer"): _names,
    ("everything", "lancens"): _scan,
    ("everything", "peer"): _describe_all,
}


def measure(task: str, who: str, url: str) -> None:
    """Do one task once and print how many tables came and the seconds it took."""
    client = _connect(who, url)
    began, used = perf_counter(), process_time()
    found = TASKS[task, who](client)
    print(json.dumps({"tables": len(found), "seconds": perf_counter() - began, "cpu": process_time() - used}))


def _calls(url: str) -> int:
    with urlopen(f"{url}/calls") as answer:  # noqa: S310 - a server of our own
        return int(answer.read())


def _run(task: str, who: str, url: str) -> dict[str, float]:
    before = _calls(url)
    command = [sys.executable, "-m", "benchmarks.unity", "measure", task, who, url]
    done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return {**result, "calls": _calls(url) - before}


def compare(schemas: int, tables: int) -> None:
    """Print the table of all tasks."""
    total = schemas * tables
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = [
        sys.executable,
        "-m",
        "tests.servers.unity_contract_server",
        str(port),
        CATALOG,
        str(schemas),
        str(tables),
    ]
    with tempfile.TemporaryDirectory() as folder, running(server, Path(folder) / "log", lambda: _calls(url) == 0):
        rounds = [{key: _run(*key, url) for key in TASKS} for _ in range(ROUNDS)]
    print(f"{total:,} tables in {schemas} schemas, fastest of {ROUNDS} rounds; peer: {PEER}\n")
    print(f"{'task':<12}{'who':<10}{'tables':>8}{'of':>8}{'calls':>8}{'seconds':>10}{'cpu':>8}{'ms a table':>12}")
    costs: dict[tuple[str, str], float] = {}
    for task, who in TASKS:
        results = [found[task, who] for found in rounds]
        seconds, cpu = (min(result[key] for result in results) for key in ("seconds", "cpu"))
        read, calls = results[0]["tables"], results[0]["calls"]
        costs[task, who] = each = seconds * 1000 / read
        print(f"{task:<12}{who:<10}{read:>8}{total:>8}{calls:>8}{seconds:>10.3f}{cpu:>8.3f}{each:>12.3f}")
    print()
    for task in ("names", "everything"):
        print(f"{task}: the peer takes {costs[task, 'peer'] / costs[task, 'lancens']:.1f} times as long a table")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:5])
    else:
        compare(*(map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (10, 250)))
