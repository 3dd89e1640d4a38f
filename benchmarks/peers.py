"""Reading a catalog, beside lance-namespace-impls and the bare calls: `python -m benchmarks.peers [CATALOG ...]`.

Everybody reads the same tables of the same real server (Glue is moto, as the tests run it), each in a process of its
own, in turns, directly and through a proxy that adds 5 ms to every round trip. lancens scans;
lance-namespace-impls, in an environment of its own, lists the tables of every namespace and describes each, which is
what a plan needs to know; "bare" repeats the calls that lancens made, from as many threads, and only reads the answers,
which is the least that those calls can take. Seconds begin when the client has been made; calls are what a client sent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

ROUNDS = 3
DELAY_SECONDS = 0.005
A_NAMESPACE = 250
"""More than a page of the services that give pages of 100."""
TABLES = 1_000
MANY = 5_000
WAREHOUSE = "main"
CATALOGS = ("glue", "hive3", "iceberg", "unity")
WHO = ("lancens", "peer", "bare")
IN_FLIGHT = 8
MOST_OVER_BARE = 1.15

Call = tuple[Any, ...]


# ---- in the process that is measured; the peer's has nothing of lancens -------------------------------------------


def measure(catalog: str, who: str, properties: dict[str, str], namespaces: int) -> None:
    """Read everything once and print how many tables came, the calls and the seconds it took."""
    calls: list[Call] = []
    counted = _count()
    read = _peer(catalog, properties, namespaces) if who == "peer" else _lancens(catalog, properties)
    if who == "bare":
        with recording(calls):
            read()
        read = _replayed(calls, properties)
    before, began, used = counted(), perf_counter(), process_time()
    found = read()
    took = {"seconds": perf_counter() - began, "cpu": process_time() - used}
    print(json.dumps({"tables": found, "calls": counted() - before, **took}))


def _count() -> Callable[[], int]:
    """Count the requests and the Thrift messages that this process sends from now on."""
    import http.client

    sent: list[None] = []

    def counting(owner: Any, name: str) -> None:
        genuine = getattr(owner, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            sent.append(None)
            return genuine(*args, **kwargs)

        setattr(owner, name, count)

    counting(http.client.HTTPConnection, "putrequest")
    try:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    except ImportError:
        pass
    else:
        counting(TBinaryProtocol, "writeMessageBegin")
    return lambda: len(sent)


def _lancens(catalog: str, properties: dict[str, str]) -> Callable[[], int]:
    from reconciler.backends.registry import connect

    backend = connect(catalog, properties)
    backend.parallelism = IN_FLIGHT
    return lambda: len(backend.scan().tables)


def _peer(catalog: str, properties: dict[str, str], namespaces: int) -> Callable[[], int]:
    from lance_namespace import DescribeTableRequest, ListNamespacesRequest, ListTablesRequest

    name = {"glue": "Glue", "hive3": "Hive3", "iceberg": "Iceberg", "unity": "Unity"}[catalog]
    if catalog == "unity":
        properties = {"unity.endpoint": properties["endpoint"]}
    client = getattr(import_module(f"lance_namespace_impls.{catalog}"), f"{name}Namespace")(**properties)
    root = {"glue": [], "hive3": ["hive"], "iceberg": [WAREHOUSE], "unity": [WAREHOUSE]}[catalog]

    def spaces() -> list[list[str]]:
        if catalog == "hive3":  # it lists what no other of its calls takes
            return [["hive", f"n{number}"] for number in range(namespaces)]
        names = client.list_namespaces(ListNamespacesRequest(id=root)).namespaces
        return [name.split(".") if catalog == "iceberg" else [*root, name] for name in names]

    def read() -> int:
        found = 0
        for space in spaces():
            for table in client.list_tables(ListTablesRequest(id=space)).tables:
                found += client.describe_table(DescribeTableRequest(id=[*space, table])).location is not None
        return found

    return read


@contextmanager
def recording(calls: list[Call]) -> Iterator[None]:
    """Add every request and every Thrift call of the block to ``calls``, ready to be made again."""
    from urllib3.connectionpool import HTTPConnectionPool

    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client

    send = HTTPConnectionPool.urlopen

    def urlopen(pool: Any, method: str, url: str, body: Any = None, headers: Any = None, **more: Any) -> Any:
        calls.append((method, url, body, dict(headers or {})))
        return send(pool, method, url, body, headers, **more)

    def recorded(name: str, method: Any) -> Any:
        def call(client: Any, *args: Any) -> Any:
            calls.append((name, args))
            return method(client, *args)

        return call

    with ExitStack() as stack:
        stack.enter_context(patch.object(HTTPConnectionPool, "urlopen", urlopen))
        for name in dir(Client):
            if name.startswith("get"):
                stack.enter_context(patch.object(Client, name, recorded(name, getattr(Client, name))))
        yield


def _replayed(calls: list[Call], properties: dict[str, str]) -> Callable[[], int]:
    """Return what makes ``calls`` again, as many at once as lancens does; it returns how many there were."""
    recorded = list(calls)
    send = _ask_metastore(properties["uri"]) if "uri" in properties else replay(properties["endpoint"])

    def again() -> int:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return len(list(pool.map(send, recorded)))

    return again


def _ask_metastore(uri: str) -> Callable[[Call], None]:
    """Return what makes a recorded Thrift call again, on one of as many connections as are in use."""
    from reconciler.backends.hive.config import HiveConfig
    from reconciler.backends.hive.connection import connect

    config = HiveConfig.model_validate({"uri": uri})
    idle = [connect(config, config.uri[0]) for _ in range(IN_FLIGHT)]

    def send(call: Call) -> None:
        connection = idle.pop()
        getattr(connection.client, call[0])(*call[1])
        idle.append(connection)

    return send


def replay(endpoint: str) -> Callable[[Call], None]:
    """Return what sends a recorded request again and reads its answer."""
    import urllib3

    parts = urlsplit(endpoint)
    pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, maxsize=IN_FLIGHT, retries=False)

    def send(call: Call) -> None:
        method, url, body, headers = call
        answer = pool.urlopen(method, url, body=body, headers=headers)
        if answer.data:
            json.loads(answer.data)

    return send


# ---- servers --------------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A running server with ``namespaces`` full of tables; ``address`` is the property that says where it is."""

    address: str
    url: str
    properties: dict[str, str]
    namespaces: int = 0

    def at(self, port: int) -> dict[str, str]:
        """Return the properties that reach it through ``port``."""
        scheme = self.url.partition("://")[0]
        return {**self.properties, self.address: f"{scheme}://127.0.0.1:{port}"}

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def serving(catalog: str, folder: Path) -> Iterator[tuple[Server, Callable[[int], None]]]:
    """Run the server of a catalog; yields it, and what fills the namespace of a number."""
    if catalog == "glue":
        from tests.servers.glue import glue_server

        with glue_server(folder) as glue:
            yield Server("endpoint", glue.endpoint, glue.config()), lambda number: _fill_glue(glue, number)
    elif catalog == "hive3":
        from tests.catalogs.hive.raw import raw
        from tests.servers.hive import metastore

        with metastore("3.1", folder) as hive, raw(hive.uri) as client:
            yield Server("uri", hive.uri, {"uri": hive.uri}), lambda number: _fill_hive(client, folder, number)
    elif catalog == "iceberg":
        from tests.servers.iceberg import iceberg_server

        with iceberg_server(folder, prefix="{warehouse}", page=100) as iceberg:
            server = Server("endpoint", iceberg.url, {"endpoint": iceberg.url, "warehouses": WAREHOUSE})
            yield server, lambda number: _fill_iceberg(server, number)
    else:
        from tests.servers.unity import reference_server, unity_home

        home = unity_home()
        if home is None:
            raise FileNotFoundError("Unity's reference server is not here: LANCENS_UNITY_HOME names its folder")
        with reference_server(home, folder) as unity:
            unity.add_catalog(WAREHOUSE)
            server = Server("endpoint", unity.url, {"endpoint": unity.url, "catalog": WAREHOUSE})
            yield server, lambda number: _fill_unity(unity, number)


def _names(number: int) -> list[str]:
    return [f"t{number}_{table:03}" for table in range(A_NAMESPACE)]


def _fill_glue(glue: Any, number: int) -> None:
    glue.add_tables(
        f"n{number}",
        [
            {
                "Name": name,
                "TableType": "EXTERNAL_TABLE",
                "Parameters": {"table_type": "lance", "tier": "gold"},
                "StorageDescriptor": {"Location": f"s3://lake/n{number}/{name}.lance"},
            }
            for name in _names(number)
        ],
    )


def _fill_hive(client: Any, folder: Path, number: int) -> None:
    from reconciler.backends.hive.gen.ttypes import Database
    from tests.catalogs.hive.raw import plain_table

    client.create_database(Database(name=f"n{number}", locationUri=str(folder / "lake")))
    parameters = {"EXTERNAL": "TRUE", "table_type": "lance", "tier": "gold"}
    for name in _names(number):
        client.create_table(plain_table(("hive", f"n{number}", name), str(folder / "lake/one"), parameters))


def _fill_unity(unity: Any, number: int) -> None:
    from reconciler.model.concurrency import in_parallel

    unity.add_schema(WAREHOUSE, f"n{number}")
    in_parallel(lambda name: unity.add_lance_table(WAREHOUSE, f"n{number}", name), _names(number), IN_FLIGHT)


def _fill_iceberg(server: Server, number: int) -> None:
    from reconciler.backends.registry import connect
    from reconciler.model.concurrency import in_parallel

    backend = connect("iceberg", server.properties)
    space = (WAREHOUSE, f"n{number}")
    backend.insert_namespace(space, {})
    in_parallel(
        lambda name: backend.insert_table((*space, name), f"s3://lake/n{number}/{name}", {"tier": "gold"}),
        _names(number),
        IN_FLIGHT,
    )
    backend.close()


# ---- the comparison -------------------------------------------------------------------------------------------------


def compare(catalog: str) -> list[dict[str, Any]]:
    """Return a row for each number of tables and delay, with what each of :data:`WHO` came to."""
    from tests.servers.slow_proxy import slow_proxy

    rows = []
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name, serving(catalog, Path(name)) as (server, fill):
        for tables, rounds, delays in ((TABLES, ROUNDS, (0.0, DELAY_SECONDS)), (MANY, 1, (0.0,))):
            while server.namespaces * A_NAMESPACE < tables:
                fill(server.namespaces)
                server.namespaces += 1
            for delay in delays:
                with ExitStack() as stack:
                    port = server.port
                    if delay:
                        port = stack.enter_context(slow_proxy(server.port, delay / 2, Path(name)))
                    found = [{who: _run(catalog, who, server, port) for who in WHO} for _ in range(rounds)]
                results = {who: [one[who] for one in found] for who in WHO}
                rows.append({"catalog": catalog, "tables": tables, "delay": delay, "results": results})
    return rows


def _run(catalog: str, who: str, server: Server, port: int) -> dict[str, float]:
    from benchmarks.environments import PEERS

    python = str(PEERS / "python") if who == "peer" else sys.executable
    properties = json.dumps(server.at(port))
    command = [python, "-m", "benchmarks.peers", "measure", catalog, who, properties, str(server.namespaces)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"tables": 0, "calls": 0, "seconds": float("nan"), "error": last[0]}  # type: ignore[dict-item]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def section(catalogs: tuple[str, ...] = CATALOGS) -> Any:
    """Measure all of them and return the part of the page."""
    from benchmarks.page import Goal, Section, spread, table

    head = ["catalog, tables, delay", "impls / lancens", "lancens / bare", "lancens s", "impls s", "bare s"]
    head += ["calls", "impls calls", "impls tables"]
    lines, goals = [], []
    measured, left_out = [], []
    for catalog in catalogs:
        try:
            measured += compare(catalog)
        except (FileNotFoundError, TimeoutError, RuntimeError) as error:  # its server is not to be had here
            left_out.append(f"- {catalog} was not measured: {str(error).splitlines()[0]}")
    for row in measured:
        ours, theirs, bare = (row["results"][who] for who in WHO)
        seconds = {who: median(one["seconds"] for one in row["results"][who]) for who in WHO}
        short = [one for one in ours if one["tables"] != row["tables"]]
        if short:
            raise AssertionError(f"{row['catalog']}: lancens read {short[0]} of {row['tables']} tables")
        got = theirs[0]["tables"]
        over = seconds["lancens"] / seconds["bare"]
        delay = f"{row['delay'] * 1000:g} ms"
        lines.append(
            [
                f"{row['catalog']}, {row['tables']:,}, {delay}",
                f"{seconds['peer'] / max(got, 1) * row['tables'] / seconds['lancens']:.1f}",
                f"{over:.2f}",
                *(spread(one["seconds"] for one in row["results"][who]) for who in WHO),
                f"{ours[0]['calls']:,}",
                f"{theirs[0]['calls']:,}",
                f"{got:,} of {row['tables']:,}" if got else f"none: {theirs[0].get('error', '')}",
            ]
        )
        more = (median(one["cpu"] for one in found) for found in (ours, bare))
        why = "CPU seconds of the client: {:.2f} of {:.2f} s, the bare calls {:.2f} of {:.2f} s; no call more".format(
            *(number for who, cpu in zip(("lancens", "bare"), more, strict=True) for number in (cpu, seconds[who]))
        )
        what = f"{row['catalog']}: scan of {row['tables']:,} tables at {delay}, against the bare calls"
        goals.append(Goal(what, over, MOST_OVER_BARE, why))
    text = (__doc__ or "").partition("\n\n")[2].strip()
    text += "\n\nTables that lance-namespace-impls (`impls`) does not show are lost: its times are compared by the "
    text += "tables it has.\n\n"
    text += "\n\n".join(filter(None, (table(head, lines), "\n".join(left_out))))
    return Section("Reading a catalog", "python -m benchmarks.peers", text, goals)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]))
    else:
        print(section(tuple(sys.argv[1:]) or CATALOGS).text)
