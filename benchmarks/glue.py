"""Reading a Glue Data Catalog, beside lance-namespace-impls: `python -m benchmarks.glue [DATABASES TABLES]`.

Both read the same databases of the account's own catalog (the peer knows no other) on the same server, moto as the
tests run it, in a process of its own; each reader runs in a process of its own, in turns. What is compared: the names
of all tables; and all that a plan needs, names, locations and properties. Times are the fastest of the rounds and
begin when the client has been made; calls are what the server counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.peer import PEER, environment
from tests.servers.glue import GlueServer, glue_server

ROUNDS = 3


def _connect(who: str, properties: dict[str, str]) -> Any:
    if who == "lancens":
        from reconciler.backends.glue import GlueBackend

        return GlueBackend(**properties)
    return import_module("lance_namespace_impls.glue").GlueNamespace(**properties)


def _names(client: Any) -> list[tuple[str, str]]:
    from lance_namespace import ListNamespacesRequest, ListTablesRequest

    databases = client.list_namespaces(ListNamespacesRequest(id=[])).namespaces
    return [
        (database, table)
        for database in databases
        for table in client.list_tables(ListTablesRequest(id=[database])).tables
    ]


def _scan(client: Any) -> list[Any]:
    return list(client.scan().tables.values())


def _describe_all(client: Any) -> list[Any]:
    from lance_namespace import DescribeTableRequest

    return [client.describe_table(DescribeTableRequest(id=[*names])) for names in _names(client)]


TASKS: dict[tuple[str, str], Callable[[Any], list[Any]]] = {
    ("names", "lancens"): _names,
    ("names", "peer"): _names,
    ("everything", "lancens"): _scan,
    ("everything", "peer"): _describe_all,
}


def measure(task: str, who: str, properties: str) -> None:
    """Do one task once and print how many tables came and the seconds it took."""
    client = _connect(who, json.loads(properties))
    began = perf_counter()
    found = TASKS[task, who](client)
    print(json.dumps({"tables": len(found), "seconds": perf_counter() - began}))


def _run(task: str, who: str, server: GlueServer) -> dict[str, float]:
    server.reset()
    command = [sys.executable, "-m", "benchmarks.glue", "measure", task, who, json.dumps(server.config())]
    done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return {**result, "calls": server.counts().total()}


def _fill(server: GlueServer, databases: int, tables: int) -> None:
    def fill(number: int) -> None:
        database = f"database_{number:03}"
        server.client.create_database(DatabaseInput={"Name": database})
        for index in range(tables):
            server.client.create_table(
                DatabaseName=database,
                TableInput={
                    "Name": f"table_{index:05}",
                    "TableType": "EXTERNAL_TABLE",
                    "Parameters": {"table_type": "lance", "owner": "ml-platform", "tier": "gold"},
                    "StorageDescriptor": {"Location": f"s3://lake/{database}/table_{index:05}.lance"},
                },
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(databases)))


def compare(databases: int, tables: int) -> None:
    """Print the table of all tasks."""
    total = databases * tables
    with tempfile.TemporaryDirectory() as folder, glue_server(Path(folder)) as server:
        _fill(server, databases, tables)
        rounds = [{key: _run(*key, server) for key in TASKS} for _ in range(ROUNDS)]
    print(f"{total:,} tables in {databases} databases, fastest of {ROUNDS} rounds; peer: {PEER}\n")
    print(f"{'task':<12}{'who':<10}{'tables':>8}{'calls':>8}{'seconds':>10}")
    for (task, who), result in rounds[0].items():
        seconds = min(found[task, who]["seconds"] for found in rounds)
        print(f"{task:<12}{who:<10}{result['tables']:>8}{result['calls']:>8}{seconds:>10.2f}")
    print()
    for task in ("names", "everything"):
        ours, theirs = ([found[task, who] for found in rounds] for who in ("lancens", "peer"))
        calls = theirs[0]["calls"] / ours[0]["calls"]
        seconds = min(found["seconds"] for found in theirs) / min(found["seconds"] for found in ours)
        print(f"{task}: the peer makes {calls:.1f} times the calls and takes {seconds:.1f} times as long")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:5])
    else:
        compare(*(map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (30, 100)))
