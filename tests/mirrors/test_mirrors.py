"""Mirrors over real servers: a directory of real datasets, followed from catalog to catalog, and followed again.

``make soak`` takes a thousand tables, ``make test`` a sample. The servers of one test stop before the next one starts;
Nessie's is among the tests of Iceberg, where its server runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.manifest import Manifest
from reconciler.model.names import Identifier
from reconciler.model.ownership import MIRROR
from reconciler.planner.plan import Plan
from tests.plans import blocked
from tests.servers.glue import glue_server
from tests.servers.hive import metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.unity import reference
from tests.servers.unity_contract import ISSUER, jwt
from tests.servers.unity_contract_server import serving
from tests.soak import count
from tests.writing import load_manifest

ROWS = 5
ODD = ("with-dash", "with space", "dotted.name")
"""Names that a directory has and Hive and Unity refuse."""


@dataclass
class Lake:
    """A directory of datasets, and catalogs that follow it."""

    folder: Path
    tables: int
    catalogs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = self._place("t0000")
        lance.write_dataset(pa.table({"id": range(ROWS)}), str(first))
        for name in (*(f"t{number:04}" for number in range(1, self.tables)), *ODD):
            shutil.copytree(first, self._place(name))

    def _place(self, name: str) -> Path:
        return self.folder / f"lake/{name}.lance"

    def add(self, name: str) -> None:
        shutil.copytree(self._place("t0000"), self._place(name))

    def rename(self, name: str, to: str) -> None:
        self._place(name).rename(self._place(to))

    def follow(self, name: str, impl: str, config: Mapping[str, str], **mirror: object) -> None:
        self.catalogs[name] = {"impl": impl, "config": dict(config), "mirror": mirror}

    def manifest(self, tier: str = "gold") -> Manifest:
        own = {"impl": "dir", "config": {"root": str(self.folder / "lake")}, "prune": "never"}
        own["tables"] = {"t0001": {"properties": {"tier": tier, "password": "hunter22"}}}
        return load_manifest(self.folder, {"lake": own, **self.catalogs})

    def apply(self, manifest: Manifest, *, skip_blocked: bool = False) -> Plan:
        """Apply once, from a saved plan, and see that nothing but what is blocked is left."""
        plan = reconciler.plan(manifest)
        saved = Plan.from_json(plan.to_json())
        report = reconciler.apply(saved, manifest, journal=self.folder / "journal", skip_blocked=skip_blocked)
        assert report.ok, [(one.change.address, one.message) for one in report.results if one.message][:5]
        again = reconciler.plan(manifest)
        assert [change.address for change in again.changes] == []
        assert blocked(again) == blocked(plan)
        return plan

    def backend(self, name: str) -> Backend:
        one = self.catalogs[name]
        return registry.connect(one["impl"], one["config"])

    def assert_followed(self, name: str, into: Identifier, *, without: tuple[str, ...] = ()) -> None:
        """See that a catalog has every table at its place, and that pylance opens the same rows through it."""
        backend = self.backend(name)
        found = backend.scan(self.manifest().catalogs[name].desired.scope).tables
        wanted = {path.name.removesuffix(".lance"): path for path in (self.folder / "lake").glob("*.lance")}
        places = {name: path for name, path in wanted.items() if name not in without}
        assert {table[-1]: Path(live.location.removeprefix("file:")) for table, live in found.items()} == {
            key: Path(f"{path}") for key, path in places.items()
        }
        assert {live.properties[MIRROR] for live in found.values()} == {self.catalogs[name]["mirror"]["from"]}
        assert not [live for live in found.values() if "password" in live.properties]
        connected = reconciler.connect(self.catalogs[name]["impl"], self.catalogs[name]["config"])
        for table in sorted(found)[:5]:
            assert table[:-1] == into
            through = lance.dataset(namespace_client=connected, table_id=[*table])
            assert through.to_table() == lance.dataset(str(places[table[-1]])).to_table()
        backend.close()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, count(30, 1000))


@pytest.fixture
def stack(lake: Lake) -> Iterator[ExitStack]:
    for name in ("hive", "glue", "iceberg", "unity"):
        (lake.folder / name).mkdir()
    with ExitStack() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def refused(plan: Plan, catalog: str) -> dict[str, str]:
    """Name and remedy of each table of a catalog that is blocked."""
    return {one.identifier[-1]: one.remedy for one in plan.blocked if one.catalog == catalog}


@pytest.mark.soak
def test_from_a_directory_to_hive_to_glue_to_iceberg(lake: Lake, stack: ExitStack) -> None:
    hive = stack.enter_context(metastore("2.3", lake.folder / "hive"))
    glue = stack.enter_context(glue_server(lake.folder / "glue"))
    iceberg = stack.enter_context(iceberg_server(lake.folder / "iceberg"))
    lake.follow("hive", hive.impl, {"uri": hive.uri}, **{"from": "lake", "into": ["mirrored"]})
    lake.follow("glue", "glue", glue.config(), **{"from": "hive", "names": {"mirrored": "from_hive"}})
    config = {"endpoint": iceberg.url, "warehouses": "ware"}
    lake.follow("iceberg", "iceberg", config, **{"from": "glue", "into": ["ware"]})

    remedies = refused(reconciler.plan(lake.manifest()), "hive")
    assert "`names: {with-dash: with_dash}`" in remedies["with-dash"]
    assert sorted(remedies) == sorted(ODD)
    lake.catalogs["hive"]["mirror"]["names"] = {name: name.translate({45: 95, 32: 95, 46: 95}) for name in ODD[:2]}
    plan = lake.apply(lake.manifest(), skip_blocked=True)
    assert list(refused(plan, "hive")) == [ODD[2]]
    assert sum(change.mirror_of is not None for change in plan.changes) == 3 * (lake.tables + 2)

    lake.add("added")
    lake.rename("t0002", "renamed")
    plan = lake.apply(lake.manifest(tier="silver"), skip_blocked=True)
    assert sorted({(change.catalog, str(change.action)) for change in plan.changes if change.catalog != "lake"}) == [
        (name, action)
        for name in ("glue", "hive", "iceberg")
        for action in ("deregister-table", "register-table", "update-table")
    ]
    for name, into in (("hive", ("mirrored",)), ("glue", ("from_hive",)), ("iceberg", ("ware", "from_hive"))):
        backend = lake.backend(name)
        tables = backend.scan(lake.manifest().catalogs[name].desired.scope).tables
        assert {table[:-1] for table in tables} == {into}
        assert "t0002" not in {table[-1] for table in tables}
        assert {"added", "renamed", "with_dash", "with_space"} <= {table[-1] for table in tables}
        assert tables[*into, "t0001"].properties["tier"] == "silver"
        assert not [live for live in tables.values() if "password" in live.properties]
        connected = reconciler.connect(lake.catalogs[name]["impl"], lake.catalogs[name]["config"])
        for table in ("t0000", "renamed", "with_dash"):
            through = lance.dataset(namespace_client=connected, table_id=[*into, table])
            assert through.to_table()["id"].to_pylist() == list(range(ROWS))
        backend.close()


@pytest.mark.soak
def test_from_a_directory_to_unity(lake: Lake, stack: ExitStack) -> None:
    contract = stack.enter_context(reference(lake.folder / "unity"))
    contract.clear()
    contract.add_catalog("main")
    server = stack.enter_context(serving(contract))
    config = {"endpoint": server.url, "catalog": "main", "auth_token": jwt(ISSUER)}
    lake.follow("unity", "unity", config, **{"from": "lake", "into": ["main", "mirrored"]})
    plan = lake.apply(lake.manifest(), skip_blocked=True)
    assert sorted(refused(plan, "unity")) == ["dotted.name", "with space"]
    lake.assert_followed("unity", ("main", "mirrored"), without=("dotted.name", "with space"))

    lake.add("added")
    lake.rename("t0002", "renamed")
    plan = lake.apply(lake.manifest(tier="silver"), skip_blocked=True)
    assert sorted(
        (str(change.action), change.identifier[-1]) for change in plan.changes if change.catalog == "unity"
    ) == [
        ("deregister-table", "t0002"),
        ("register-table", "added"),
        ("register-table", "renamed"),
    ]
    said = "unity/main/mirrored/t0001 differs from what it mirrors (tier)"
    assert any(said in note.message for note in plan.notes), plan.notes
    lake.assert_followed("unity", ("main", "mirrored"), without=("dotted.name", "with space"))
