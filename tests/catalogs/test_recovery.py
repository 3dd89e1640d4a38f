"""Losses on Hive 3.1, Glue and a directory: each ends with every table under its name, where its data is."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.planner.plan import Plan
from tests.catalogs.conftest import StartOnce
from tests.catalogs.hive.files import digests
from tests.cli.running import lancens
from tests.servers.glue import GlueServer
from tests.writing import blocks_of, write_dataset, write_manifest

_VALUES = {"properties": {"owner": "ml", "tier": "gold"}}


@dataclass
class Shop:
    """Four tables with rows in one namespace, one of them renamed and one elsewhere, under a manifest."""

    folder: Path
    impl: str
    config: Mapping[str, str]
    home: Identifier
    backend: Backend
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    moved: list[dict[str, str]] = field(default_factory=list)
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def manifest(self) -> Path:
        return self.folder / "lancens.yaml"

    def name(self, table: str) -> Identifier:
        return (*self.home, table)

    def write(self) -> Path:
        tree = blocks_of({self.name(table): block for table, block in self.blocks.items()})
        return write_manifest(
            self.folder, {"main": {"impl": self.impl, "config": dict(self.config), "moved": self.moved, **tree}}
        )

    def plan(self) -> Plan:
        return reconciler.plan(reconciler.load(self.manifest), allow_mass_removal=True)

    def apply(self) -> Plan:
        made, loaded = self.plan(), reconciler.load(self.manifest)
        assert not made.blocked, [(one.address, one.reason) for one in made.blocked]
        assert reconciler.apply(made, loaded, journal=self.folder / "journal", allow_mass_removal=True).ok
        return made

    def open(self) -> Shop:
        """Apply the manifest, write rows, rename a table, and keep where its data stays."""
        place = str(self.folder / "elsewhere" / "far.lance")
        if self.impl == "dir":
            place = str(self.folder / "lake" / "elsewhere" / "far.lance")
        write_dataset(Path(place))
        column = {"name": "id", "type": "int64"}
        self.blocks = {
            "users": {"schema": [column], "protect": True, **_VALUES},
            "old_name": {"schema": [column], **_VALUES},
            "clicks": {"schema": [column]},
            "far": {"location": place},
        }
        self.write()
        self.apply()
        for table in ("users", "old_name", "clicks"):
            write_dataset_rows(self.backend.load_table(self.name(table)).location)
        self.blocks["customers"] = self.blocks.pop("old_name")
        around = "/".join(self.home)
        self.moved = [{"from": f"{around}/old_name", "to": f"{around}/customers"}]
        self.write()
        self.apply()
        self.data = digests(self.folder)
        return self

    def keep_locations(self) -> None:
        self.blocks["customers"]["location"] = self.backend.load_table(self.name("customers")).location
        self.moved = []
        self.write()

    def lose_catalog(self) -> None:
        """Take every entry and namespace out of the catalog, as if its database were lost; the data stays."""
        if self.impl == "dir":
            shutil.rmtree(self.folder / "lake" / "__manifest")
            return
        for table in [one for one in self.backend.scan().tables if one[: len(self.home)] == self.home]:
            self.backend.remove_table(table)
        self.backend.remove_namespace(self.home)

    def check(self, *tables: str) -> None:
        """Check that tables open by their names, nothing is left to do, and no file was touched."""
        client = reconciler.connect(self.impl, dict(self.config))
        for table in tables or self.blocks:
            assert lance.dataset(namespace_client=client, table_id=[*self.name(table)]).count_rows() == 3, table
        assert self.plan().changes == ()
        now = digests(self.folder)
        assert {path: now.get(path) for path in self.data if _is_data(path)} == {
            path: digest for path, digest in self.data.items() if _is_data(path)
        }


def write_dataset_rows(location: str) -> None:
    import pyarrow as pa

    lance.write_dataset(pa.table({"id": [1, 2, 3]}), locations.normalise(location), mode="append")


def _is_data(path: str) -> bool:
    return "__manifest" not in path and any(part in path for part in ("/data/", "/_versions/"))


@pytest.fixture(params=["dir", "hive3", "glue"])
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, start_once: StartOnce, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)
    root, space = str(tmp_path / "lake"), f"r{uuid.uuid4().hex[:10]}"
    match request.param:
        case "dir":
            config = {"root": root}
        case "hive3":
            config = {"uri": start_once("hive3"), "root": root}
        case _:
            config = GlueServer(int(start_once("glue").rpartition(":")[2])).config(root=root)
            for key in ("access_key_id", "secret_access_key"):  # an imported manifest takes them from here
                monkeypatch.setenv(f"LANCENS_MAIN_{key.upper()}", config[key])
    backend = registry.connect(request.param, config)
    home = ("hive", space) if request.param == "hive3" else (space,)
    opened = Shop(tmp_path, request.param, config, home, backend).open()
    yield opened
    opened.lose_catalog()  # what stays on the server would be imported by other tests
    backend.close()


# ---- the catalog is lost ---------------------------------------------------------------------------------------------


def test_a_lost_catalog_comes_back_from_the_manifest(shop: Shop) -> None:
    shop.keep_locations()
    shop.lose_catalog()
    plan = shop.apply()

    assert {str(change.action) for change in plan.changes if change.kind == "table"} == {"register-table"}
    shop.check()
    restored = shop.backend.load_table(shop.name("customers"))
    assert {"owner": "ml", "tier": "gold"}.items() <= restored.properties.items()


def test_a_renamed_table_is_blocked_until_its_block_names_its_data(shop: Shop) -> None:
    place = shop.backend.load_table(shop.name("customers")).location
    shop.lose_catalog()

    [blocked] = shop.plan().blocked
    assert (blocked.identifier, blocked.code) == (shop.name("customers"), ReasonCode.UNREFERENCED_DATA)
    assert locations.same(blocked.unreferenced, place)
    shop.blocks["customers"]["location"] = blocked.unreferenced
    shop.moved = []
    shop.write()
    shop.apply()
    shop.check()


def test_a_lost_catalog_comes_back_from_storage(shop: Shop) -> None:
    tables = ["users", "old_name", "clicks"]  # the directory of the renamed table has its old name
    if shop.impl != "dir":
        write_dataset(shop.folder / "lake" / f"{shop.home[-1]}.db" / "from_spark")  # the layout of Hive's own warehouse
        tables.append("from_spark")
    shop.lose_catalog()
    catalog = {"impl": shop.impl, "config": dict(shop.config)}
    shop.manifest.write_text(json.dumps({"version": 1, "name": "found", "catalogs": {"main": catalog}}))
    select = [f"main/{'/'.join(shop.home)}/**"]
    shop.manifest.write_text(reconciler.import_(reconciler.load(shop.manifest), from_storage=True, select=select))

    desired = reconciler.load(shop.manifest).catalogs["main"].desired
    assert set(desired.tables) == set(map(shop.name, tables))
    shop.apply()
    shop.check(*tables)


def test_the_manifest_names_renamed_tables_and_storage_the_rest(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.keep_locations()
    del shop.blocks["clicks"]  # as if a job had made it
    shop.write()
    shop.lose_catalog()
    shop.apply()
    select = f"main/{'/'.join(shop.home)}/**"
    added = lancens(capsys, "import", "--from-storage", "--append", shop.manifest, "--select", select, shop.manifest)

    assert added.code == 0, added.err
    assert shop.name("old_name") not in reconciler.load(shop.manifest).catalogs["main"].desired.tables
    shop.apply()
    shop.check("users", "customers", "clicks", "far")


# ---- other losses ----------------------------------------------------------------------------------------------------


def test_a_lost_manifest_is_written_again(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.manifest.unlink()
    settings = [part for key, value in shop.config.items() for part in ("--config", f"{key}={value}")]
    select = ("--select", f"main/{'/'.join(shop.home)}", "--select", f"main/{'/'.join(shop.home)}/**")
    made = lancens(
        capsys,
        "import",
        "--impl",
        shop.impl,
        *settings,
        "--name",
        "store",
        "--catalog",
        "main",
        "--with-schema",
        *select,
        "-o",
        shop.manifest,
    )

    assert made.code == 0, made.err
    loaded = reconciler.load(shop.manifest)
    assert loaded.name == "store"
    users = loaded.catalogs["main"].desired.tables[shop.name("users")]
    assert (users.properties, [column.name for column in users.schema or ()]) == (_VALUES["properties"], ["id"])
    shop.check("users", "customers", "clicks", "far")


def test_a_wrong_apply_is_reverted(shop: Shop) -> None:
    shop.keep_locations()
    right = shop.manifest.read_text("utf-8")
    for table in ("customers", "clicks", "far"):
        del shop.blocks[table]
    shop.write()
    wrong = shop.apply()
    assert [str(change.action) for change in wrong.changes] == ["deregister-table"] * 3

    shop.manifest.write_text(right, "utf-8")
    plan = shop.apply()
    assert [str(change.action) for change in plan.changes] == ["register-table"] * 3
    shop.check("users", "customers", "clicks", "far")
