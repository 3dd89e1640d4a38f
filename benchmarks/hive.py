"""Reading a Hive Metastore, beside lance-namespace-impls: `python -m benchmarks.hive [LANCE OTHERS]`.

Both read the same database of the same 3.1.3 server, LANCE Lance tables among OTHERS of other formats, each in a
process of its own, in turns; the peer in an environment of its own, since it needs thrift 0.13. What is compared: the
names of all Lance tables; and all that a plan needs, names, locations and properties. Times are the fastest of the
rounds, elapsed and the client's own CPU; calls are the Thrift messages a client sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ROUNDS = 3
CATALOG, DATABASE = "hive", "lake"


def _connect(who: str, uri: str) -> Any:
    if who == "lancens":
        from reconciler.backends.hive.hive3 import Hive3Backend

        return Hive3Backend(uri=uri)
    return import_module("lance_namespace_impls.hive3").Hive3Namespace(uri=uri)


def _names(client: Any) -> list[str]:
    from lance_namespace import ListTablesRequest

    return list(client.list_tables(ListTablesRequest(id=[CATALOG, DATABASE])).tables)


def _scan(client: Any) -> list[Any]:
    return list(client.scan().tables.values())


def _describe_all(client: Any) -> list[Any]:
    from lance_namespace import DescribeTableRequest

    return [client.describe_table(DescribeTableRequest(id=[CATALOG, DATABASE, name])) for name in _names(client)]


TASKS: dict[tuple[str, str], Callable[[Any], list[Any]]] = {
    ("names", "lancens"): _names,
    ("names", "peer"): _names,
    ("everything", "lancens"): _scan,
    ("everything", "peer"): _describe_all,
}


def measure(task: str, who: str, uri: str) -> None:
    """Do one task once and print how many tables came, the seconds and the calls it took."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol

    calls = []
    begin = TBinaryProtocol.writeMessageBegin

    def counting(self: Any, name: str, *rest: object) -> None:
        calls.append(name)
        begin(self, name, *rest)

    TBinaryProtocol.writeMessageBegin = counting
    client = _connect(who, uri)
    began, used = perf_counter(), process_time()
    found = TASKS[task, who](client)
    took = {"seconds": perf_counter() - began, "cpu": process_time() - used}
    print(json.dumps({"tables": len(found), "calls": len(calls), **took}))


def _peer_python(package: str) -> str:
    """Return the interpreter of an environment with the peer and all it depends on, made once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancens"
    folder = base / f"{package.replace('==', '-')}-hive"
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=base)) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
        name, _, version = package.partition("==")
        install = [str(made / "bin/python"), "-m", "pip", "install", "-q", f"{name}[hive3]=={version}"]
        subprocess.run(install, check=True)
        made.rename(folder)
        made.parent.rmdir()
    return str(folder / "bin/python")


def _fill(uri: str, lance: int, others: int, place: Path) -> None:
    from reconciler.backends.hive.gen.ttypes import Database
    from tests.catalogs.hive.raw import plain_table, raw

    total = lance + others
    with raw(uri) as client:
        client.create_database(Database(name=DATABASE, locationUri=str(place)))
        for number in range(total):
            is_lance = number * lance // total != (number + 1) * lance // total
            parameters = {"EXTERNAL": "TRUE", "table_type": "lance" if is_lance else "iceberg"}
            client.create_table(plain_table((CATALOG, DATABASE, f"table_{number:06}"), str(place / "one"), parameters))


def _run(task: str, who: str, uri: str, python: str) -> dict[str, float]:
    command = [python, "-m", "benchmarks.hive", "measure", task, who, uri]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(lance: int, others: int) -> None:
    """Print the table of all tasks."""
    from benchmarks.peer import PEER
    from tests.servers.hive import metastore

    pythons = {"lancens": sys.executable, "peer": _peer_python(PEER)}
    with tempfile.TemporaryDirectory() as folder, metastore("3.1", Path(folder)) as server:
        _fill(server.uri, lance, others, Path(folder) / "lake")
        rounds = [{key: _run(*key, server.uri, pythons[key[1]]) for key in TASKS} for _ in range(ROUNDS)]
    print(f"{lance:,} Lance tables among {others:,} others on 3.1.3, fastest of {ROUNDS} rounds; peer: {PEER}\n")
    print(f"{'task':<12}{'who':<10}{'tables':>8}{'calls':>8}{'seconds':>10}{'cpu':>8}")
    fastest: dict[tuple[str, str], float] = {}
    for task, who in TASKS:
        results = [found[task, who] for found in rounds]
        fastest[task, who] = seconds = min(result["seconds"] for result in results)
        cpu = min(result["cpu"] for result in results)
        print(f"{task:<12}{who:<10}{results[0]['tables']:>8}{results[0]['calls']:>8}{seconds:>10.3f}{cpu:>8.3f}")
    print()
    for task in ("names", "everything"):
        print(f"{task}: the peer takes {fastest[task, 'peer'] / fastest[task, 'lancens']:.1f} times as long")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*sys.argv[2:5])
    else:
        compare(*(map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (1_000, 5_000)))
