"""Plans and applies beside a script that a team would write by hand: `python -m benchmarks script`.

The script reads the same manifest with PyYAML, and the catalog with boto3 (Glue) or pylance's directory namespace, with
8 threads. It compares locations and properties, prints the differences, and makes them. It has no journal, looks at no
data, knows no owner and checks nothing again before it writes. Whole processes, TABLES tables, each client in turns in
a catalog of its own; the server is moto, and calls are those it got. A plan finds nothing to do. pylance has no call
that updates properties. Ratios are of CPU seconds; the last table has the calls of lancens alone, for each change.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.page import Goal, ProcessUsage, Section, about, run_measured, spread, table

TABLES = 1_000
NAMESPACES = 4
ROUNDS = 2
STEPS = {"create": "gold", "plan": "gold", "update": "silver", "remove": None}
"""The properties that the manifest asks for at each step; None drops all tables."""
CALLS = {"glue": (1.1, 2.1, 2.1), "iceberg": (2.1, 3.1, 3.1)}
"""Goals: at most these calls a create, an update and a removal."""

SCRIPT = """
import json, sys, yaml
from concurrent.futures import ThreadPoolExecutor

path, apply = sys.argv[1], sys.argv[2] == "apply"
lake = yaml.load(open(path), yaml.CSafeLoader)["catalogs"]["lake"]
config, pool = lake["config"], ThreadPoolExecutor(8)
spaces = lake["namespaces"]
wanted = {
    (space, name): (block.get("location"), block["properties"])
    for space, content in spaces.items()
    for name, block in content.get("tables", {}).items()
}
if lake["impl"] == "glue":
    import boto3
    from botocore.config import Config

    glue = boto3.client(
        "glue", endpoint_url=config["endpoint"], region_name=config["region"],
        aws_access_key_id=config["access_key_id"], aws_secret_access_key=config["secret_access_key"],
        config=Config(max_pool_connections=8),
    )
    pages = glue.get_paginator("get_databases").paginate()
    databases = [database["Name"] for page in pages for database in page["DatabaseList"]]

    def tables(space):
        pages = glue.get_paginator("get_tables").paginate(DatabaseName=space)
        return [
            ((space, table["Name"]), (table["StorageDescriptor"]["Location"],
             {key: value for key, value in table["Parameters"].items() if key != "table_type"}))
            for page in pages for table in page["TableList"]
        ]

    def make_space(space):
        glue.create_database(DatabaseInput={"Name": space})

    def entry(name):
        location, properties = wanted[name]
        return {"Name": name[1], "TableType": "EXTERNAL_TABLE", "Parameters": {"table_type": "lance", **properties},
                "StorageDescriptor": {"Location": location}}

    def create(name):
        glue.create_table(DatabaseName=name[0], TableInput=entry(name))

    def update(name):
        glue.update_table(DatabaseName=name[0], TableInput=entry(name))

    def remove(name):
        glue.delete_table(DatabaseName=name[0], Name=name[1])
else:
    import lance_namespace as lance

    lake_ = lance.connect("dir", {"root": config["root"]})
    databases = lake_.list_namespaces(lance.ListNamespacesRequest(id=[])).namespaces

    def tables(space):
        names = lake_.list_tables(lance.ListTablesRequest(id=[space])).tables
        found = pool.map(lambda name: lake_.describe_table(lance.DescribeTableRequest(id=[space, name])), names)
        return [((space, name), (None, table.properties)) for name, table in zip(names, found)]

    def make_space(space):
        lake_.create_namespace(lance.CreateNamespaceRequest(id=[space]))

    def create(name):
        lake_.declare_table(lance.DeclareTableRequest(id=[*name], properties=wanted[name][1]))

    def remove(name):
        lake_.deregister_table(lance.DeregisterTableRequest(id=[*name]))

    update = None
live = {}
for space in databases:
    live.update(tables(space))
new = wanted.keys() - live.keys()
gone = live.keys() - wanted.keys()
changed = [name for name in wanted.keys() & live.keys() if wanted[name] != live[name]]
for sign, names in (("+", new), ("~", changed), ("-", gone)):
    for name in sorted(names):
        print(sign, "/".join(name))
if apply:
    for space in spaces.keys() - set(databases):
        make_space(space)
    for act, names in ((create, new), (update, changed), (remove, gone)):
        list(pool.map(act, names))
"""
LANCENS = "from reconciler.cli import main; main()"


def write_manifest(folder: Path, impl: str, config: Mapping[str, str], tier: str | None, tables: int) -> Path:
    """Write a manifest of ``tables`` tables with a property, or of namespaces alone."""
    blocks: dict[str, Any] = {f"n{number}": {} for number in range(NAMESPACES)}
    for number in range(tables if tier else 0):
        location = {} if impl == "dir" else {"location": f"s3://lake/t{number}.lance"}
        block = {**location, "properties": {"tier": tier}, "probe": False}
        blocks[f"n{number % NAMESPACES}"].setdefault("tables", {})[f"t{number}"] = block
    namespaces = {"main": {"namespaces": blocks}} if impl == "iceberg" else blocks
    path = folder / "lancens.yaml"
    catalogs = {"lake": {"impl": impl, "config": dict(config), "namespaces": namespaces}}
    path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": catalogs}))
    return path


def run_steps(
    client: str, impl: str, config: Mapping[str, str], counted: Callable[[], int]
) -> dict[str, tuple[ProcessUsage, int]]:
    """Make all steps with a client; return the usage and the calls of each."""
    used = {}
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        for step, tier in STEPS.items():
            if step == "update" and (impl, client) == ("dir", "script"):
                continue
            folder = Path(name)
            settings = {"root": str(folder / "lake")} if impl == "dir" else config
            path = str(write_manifest(folder, impl, settings, tier, TABLES))
            verb = "plan" if step == "plan" else "apply"
            more = [] if step == "plan" else ["--auto-approve", "--allow-mass-removal", "--no-probe"]
            command = ["-c", SCRIPT, path, verb] if client == "script" else ["-c", LANCENS, verb, path, *more]
            before = counted()
            usage = run_measured([sys.executable, *command], directory=folder)
            used[step] = usage, counted() - before
    return used


@contextmanager
def iceberg_catalog() -> Iterator[dict[str, str]]:
    """Run an Iceberg REST server; yield the configuration of a backend."""
    from tests.servers.iceberg import iceberg_server

    with (
        tempfile.TemporaryDirectory(prefix="lancens-bench-") as name,
        iceberg_server(Path(name), prefix="{warehouse}", page=100) as server,
    ):
        yield {"endpoint": server.url, "warehouses": "main"}


def calls_of_changes(impl: str, config: Mapping[str, str], tables: int) -> list[float]:
    """Return the calls a create, an update and a removal, those of the checks before among them."""
    import reconciler
    from benchmarks.peers import count_requests

    counted, calls = count_requests(), []
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name:
        for tier in ("gold", "silver", None):
            manifest = reconciler.load(write_manifest(Path(name), impl, config, tier, tables))
            plan = reconciler.plan(manifest, allow_mass_removal=True)
            before = counted()
            report = reconciler.apply(plan, manifest, journal=Path(name, "journal"), allow_mass_removal=True)
            assert report.ok, report.results
            calls.append((counted() - before) / tables)
    return calls


def section(rounds: int = ROUNDS, catalogs: Iterable[str] = ("glue", "dir")) -> Section:
    """Measure and return the section of the page."""
    from tests.servers.glue import glue_server

    lines, goals, called = [], [], []
    with tempfile.TemporaryDirectory(prefix="lancens-bench-") as name, glue_server(Path(name)) as server:
        for impl in catalogs:
            runs: dict[str, list[dict[str, tuple[ProcessUsage, int]]]] = {"script": [], "lancens": []}
            for _ in range(rounds):
                for client, measured in runs.items():
                    server.clear()
                    server.reset()
                    measured.append(run_steps(client, impl, server.config(), lambda: server.counts().total()))
            for step in STEPS:
                cpu = {who: [run[step][0].cpu for run in made if step in run] for who, made in runs.items()}
                for client, made in runs.items():
                    if cpu[client]:
                        lines.append(
                            [
                                f"{impl}, {step}",
                                client,
                                f"{median(cpu[client]) / median(cpu['script']):.2f}" if cpu["script"] else "",
                                spread(cpu[client]),
                                spread(run[step][0].seconds for run in made),
                                f"{made[0][step][1] / TABLES:.3f}" if impl == "glue" else "",
                            ]
                        )
        server.clear()
        for impl, limits in CALLS.items():
            calls = []
            if impl == "glue":
                calls = calls_of_changes(impl, server.config(), TABLES)
            else:
                with iceberg_catalog() as config:
                    calls = calls_of_changes(impl, config, TABLES // 5)
            called.append([impl, *(f"{number:.3f}" for number in calls)])
            kinds = zip(("a create", "an update", "a removal"), calls, limits, strict=True)
            goals += [Goal(f"{impl}: calls of {kind}", number, limit) for kind, number, limit in kinds]
    head = ["catalog, step", "client", "CPU ratio", "CPU s", "s", "calls a table"]
    text = f"{about(__doc__).replace('TABLES', f'{TABLES:,}')}\n\n{table(head, lines)}\n\n"
    text += table(["calls of", "a create", "an update", "a removal"], called)
    return Section("A script by hand", "python -m benchmarks script", text, goals)


if __name__ == "__main__":
    print(section(1, sys.argv[1:] or ("glue", "dir")).text)
