"""Reading a catalog, beside lance-namespace-impls and the bare calls: `python -m benchmarks CATALOG`.

Everybody reads the same tables of the same real server (Glue is moto, as the tests run it), each in a process of its
own, in turns, directly and through a proxy that adds 5 ms to every round trip. lancens scans with 8 threads;
lance-namespace-impls, in an environment of its own, lists the tables of every namespace and describes each, which is
what a plan needs to know, in a loop and with 8 threads; "bare" repeats the calls that lancens made, with 8 threads, and
only reads the answers, which is the least that those calls can take. Seconds begin when the client has been made, and
CPU seconds are the client's; calls are what it sent. Ratios are of the seconds of lancens, for as many tables as a
client shows.
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
from queue import SimpleQueue
from statistics import median
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

ROUNDS = 2
DELAY_SECONDS = 0.005
TABLES_A_NAMESPACE = 250
"""More than a page of 100 tables."""
TABLES = 1_000
MANY = 5_000
WAREHOUSE = "main"
CATALOGS = ("glue", "hive3", "iceberg", "unity")
CLIENTS = {"lancens": "lancens", "peer": "impls", "threads": "impls, 8 threads", "bare": "bare"}
IN_FLIGHT = 8
LIMIT_OVER_BARE = 1.15

Call = tuple[Any, ...]


# ---- in the process that is measured; the peer's has nothing of lancens -------------------------------------------


def measure(catalog: str, client: str, properties: dict[str, str], namespaces: int) -> None:
    """Read the catalog once; print the number of tables and calls, and the seconds."""
    calls: list[Call] = []
    counted = count_requests()
    read = (
        _read_with_peer(catalog, properties, namespaces, IN_FLIGHT if client == "threads" else 1)
        if client in ("peer", "threads")
        else _read_with_lancens(catalog, properties)
    )
    if client == "bare":
        with record_calls(calls):
            read()
        read = _replay_all(calls, properties)
    before, began, used = counted(), perf_counter(), process_time()
    found = read()
    took = {"seconds": perf_counter() - began, "cpu": process_time() - used}
    print(json.dumps({"tables": found, "calls": counted() - before, **took}))


def count_requests() -> Callable[[], int]:
    """Count requests and Thrift messages from now on; return a function for the count."""
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


def _read_with_lancens(catalog: str, properties: dict[str, str]) -> Callable[[], int]:
    from reconciler.backends.glue import GlueBackend
    from reconciler.backends.registry import connect

    backend = connect(catalog, properties)
    backend.parallelism = IN_FLIGHT
    if isinstance(backend, GlueBackend):
        backend._service._client()  # noqa: SLF001 - the others' clients are made by now, too
    return lambda: len(backend.scan().tables)


def _read_with_peer(catalog: str, properties: dict[str, str], namespaces: int, threads: int) -> Callable[[], int]:
    from lance_namespace import DescribeTableRequest, ListNamespacesRequest, ListTablesRequest

    name = {"glue": "Glue", "hive3": "Hive3", "iceberg": "Iceberg", "unity": "Unity"}[catalog]
    if catalog == "unity":
        properties = {"unity.endpoint": properties["endpoint"]}
    make = getattr(import_module(f"lance_namespace_impls.{catalog}"), f"{name}Namespace")
    clients: SimpleQueue[Any] = SimpleQueue()  # Hive's client is for one thread
    for _ in range(threads):
        clients.put(make(**properties))
    root = {"glue": [], "hive3": ["hive"], "iceberg": [WAREHOUSE], "unity": [WAREHOUSE]}[catalog]

    def ask(operation: str, request: Any) -> Any:
        client = clients.get()
        try:
            return getattr(client, operation)(request)
        finally:
            clients.put(client)

    def spaces() -> list[list[str]]:
        if catalog == "hive3":  # it lists what no other of its calls takes
            return [["hive", f"n{number}"] for number in range(namespaces)]
        names = ask("list_namespaces", ListNamespacesRequest(id=root)).namespaces
        return [name.split(".") if catalog == "iceberg" else [*root, name] for name in names]

    def read() -> int:
        with ThreadPoolExecutor(threads) as pool:
            parents = spaces()
            listed = pool.map(lambda space: ask("list_tables", ListTablesRequest(id=space)).tables, parents)
            ids = [[*space, table] for space, tables in zip(parents, listed, strict=True) for table in tables]
            described = pool.map(lambda table: ask("describe_table", DescribeTableRequest(id=table)), ids)
            return sum(table.location is not None for table in described)

    return read


@contextmanager
def record_calls(calls: list[Call]) -> Iterator[None]:
    """Append every request and Thrift call of the block to ``calls``, for a replay."""
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


def _replay_all(calls: list[Call], properties: dict[str, str]) -> Callable[[], int]:
    """Return a function that sends ``calls`` again, concurrently, and counts them."""
    recorded = list(calls)
    send = _thrift_sender(properties["uri"]) if "uri" in properties else http_sender(properties["endpoint"])

    def replay_all() -> int:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return len(list(pool.map(send, recorded)))

    return replay_all


def _thrift_sender(uri: str) -> Callable[[Call], None]:
    """Return a function that sends a recorded Thrift call on a pooled connection."""
    from reconciler.backends.hive.config import HiveConfig
    from reconciler.backends.hive.connection import connect

    config = HiveConfig.model_validate({"uri": uri})
    idle = [connect(config, config.uri[0]) for _ in range(IN_FLIGHT)]

    def send(call: Call) -> None:
        connection = idle.pop()
        getattr(connection.client, call[0])(*call[1])
        idle.append(connection)

    return send


def http_sender(endpoint: str) -> Callable[[Call], None]:
    """Return a function that sends a recorded request and reads the response."""
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
    """A running server with ``namespaces`` full namespaces; ``address`` is a property."""

    address: str
    url: str
    properties: dict[str, str]
    namespaces: int = 0

    def at(self, port: int) -> dict[str, str]:
        """Return the properties for a connection through ``port``."""
        scheme = self.url.partition("://")[0]
        return {**self.properties, self.address: f"{scheme}://127.0.0.1:{port}"}

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def running_server(catalog: str, folder: Path) -> Iterator[tuple[Server, Callable[[int], None]]]:
    """Run a catalog's server; yield it and a function that fills a namespace."""
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
    return [f"t{number}_{table:03}" for table in range(TABLES_A_NAMESPACE)]


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
    """Return the results of all clients, for each number of tables and each delay."""
    from tests.servers.slow_proxy import slow_proxy

    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="lancens-bench-") as name,
        running_server(catalog, Path(name)) as (server, fill),
    ):
        for tables, rounds, delays in ((TABLES, ROUNDS, (0.0, DELAY_SECONDS)), (MANY, 1, (0.0,))):
            while server.namespaces * TABLES_A_NAMESPACE < tables:
                fill(server.namespaces)
                server.namespaces += 1
            for delay in delays:
                with ExitStack() as stack:
                    port = server.port
                    if delay:
                        port = stack.enter_context(slow_proxy(server.port, delay / 2, Path(name)))
                    found = [{client: _run(catalog, client, server, port) for client in CLIENTS} for _ in range(rounds)]
                results = {client: [one[client] for one in found] for client in CLIENTS}
                rows.append({"catalog": catalog, "tables": tables, "delay": delay, "results": results})
    return rows


def _run(catalog: str, client: str, server: Server, port: int) -> dict[str, Any]:
    from benchmarks.environments import PEERS

    python = str(PEERS / "python") if client in ("peer", "threads") else sys.executable
    properties = json.dumps(server.at(port))
    command = [python, "-m", "benchmarks.peers", "measure", catalog, client, properties, str(server.namespaces)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"tables": 0, "calls": 0, "seconds": float("nan"), "cpu": float("nan"), "error": last[0]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def section(catalogs: tuple[str, ...] = tuple(CATALOGS)) -> Any:
    """Measure the catalogs and return the section of the page."""
    from benchmarks.page import Goal, Section, about, spread, table

    lines, goals, measured, left_out = [], [], [], []
    for catalog in catalogs:
        try:
            measured += compare(catalog)
        except (FileNotFoundError, TimeoutError, RuntimeError) as error:  # its server is not to be had here
            left_out.append(f"{catalog} was not measured: {str(error).splitlines()[0]}")
    for row in measured:
        results = row["results"]
        seconds = {client: median(run["seconds"] for run in runs) for client, runs in results.items()}
        cpu = {client: median(run["cpu"] for run in runs) for client, runs in results.items()}
        read = results["lancens"][0]["tables"]
        if read != row["tables"]:
            raise AssertionError(f"{row['catalog']}: lancens read {read} of {row['tables']} tables")
        what = f"{row['catalog']}, {row['tables']:,}, {row['delay'] * 1000:g} ms"
        for client, runs in results.items():
            shown = row["tables"] if client == "bare" else runs[0]["tables"]
            ratio = seconds[client] / max(shown, 1) * row["tables"] / seconds["lancens"]
            lines.append(
                [
                    what,
                    CLIENTS[client],
                    f"{ratio:.2f}" if shown else runs[0]["error"],
                    spread(run["seconds"] for run in runs),
                    spread(run["cpu"] for run in runs),
                    f"{runs[0]['calls']:,}",
                    f"{shown:,}",
                ]
            )
        why = (
            f"CPU seconds of the client: {cpu['lancens']:.2f} of {seconds['lancens']:.2f} s, "
            f"the bare calls {cpu['bare']:.2f} of {seconds['bare']:.2f} s; no call more"
        )
        goals.append(
            Goal(f"{what}: scan against the bare calls", seconds["lancens"] / seconds["bare"], LIMIT_OVER_BARE, why)
        )
    head = ["catalog, tables, delay", "client", "ratio", "s", "CPU s", "calls", "tables"]
    text = "\n\n".join([about(__doc__), *([table(head, lines)] if lines else []), *left_out])
    names = " ".join(catalogs)
    return Section(f"Reading a catalog: {', '.join(catalogs)}", f"python -m benchmarks {names}", text, goals)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]))
    else:
        print(section(tuple(sys.argv[1:]) or CATALOGS).text)
