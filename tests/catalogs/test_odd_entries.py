"""Entries without what a Lance table needs: the same notes, and the same blocks, in each catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.hive.gen.ttypes import Database, GetTablesRequest, GetTablesResult
from reconciler.model.names import Identifier
from reconciler.model.reasons import NoteCode, ReasonCode
from tests.catalogs.glue.seeding import databases, lance_table, tables
from tests.catalogs.hive.raw import plain_table
from tests.catalogs.iceberg.scripted import error, scripted_catalog, table
from tests.servers.glue import glue_server
from tests.servers.hive_stub import Stub, stub
from tests.servers.scripted import Answer, Request, scripted
from tests.servers.unity_contract import Contract
from tests.servers.unity_contract_server import serving
from tests.writing import load_manifest

Catalog = tuple[dict[str, Any], Identifier, Collection[str]]
"""The block of a catalog without namespaces, its namespace with the tables, and the names that it only lists."""

THEIRS = {"table_type": "lance"}
OURS = {**THEIRS, "lancens.managed-by": "store/lake", "lancens.keys": "[]"}
WITHOUT_LOCATION = {"ours": OURS, "theirs": THEIRS}
LISTED = ("good", *WITHOUT_LOCATION, "gone")


@contextmanager
def rest(folder: Path) -> Iterator[Catalog]:
    def answer(request: Request) -> tuple[int, object]:
        described: dict[str, object] = {name: {"properties": marks} for name, marks in WITHOUT_LOCATION.items()}
        described["good"] = {"location": f"{folder}/good", "properties": OURS}
        name = request.path.removeprefix("/v1/table/a%24").removesuffix("/describe")
        if request.path.endswith("/table/list"):
            return 200, {"tables": LISTED if "/a/" in request.path else []}
        if request.path.endswith("/list"):
            return 200, {"namespaces": [] if "/a/" in request.path else ["a"]}
        if "/namespace/" in request.path:
            return 200, {"properties": {}}
        return (200, described[name]) if name in described else (404, {"code": 4, "error": "no"})

    with scripted(answer) as server:
        yield {"impl": "rest", "config": {"uri": server.url, "max_retries": "0"}}, ("a",), ["gone"]


@contextmanager
def unity(folder: Path) -> Iterator[Catalog]:
    with serving(Contract()) as server:
        contract = server.contract
        assert isinstance(contract, Contract)
        contract.add_catalog("main")
        contract.add_schema("main", "a")
        contract.add_table(
            "main", "a", "good", table_type="EXTERNAL", properties=OURS, storage_location=f"file://{folder}/good"
        )
        for name, marks in WITHOUT_LOCATION.items():
            contract.add_table("main", "a", name, table_type="EXTERNAL", properties=marks)
        yield {"impl": "unity", "config": {"endpoint": server.url, "catalog": "main"}}, ("main", "a"), []


@contextmanager
def glue(folder: Path) -> Iterator[Catalog]:
    with glue_server(folder) as server:
        databases(server, ["a"])
        tables(server, "a", [lance_table("good", f"{folder}/good", Parameters=OURS)])
        tables(
            server,
            "a",
            [lance_table(name, StorageDescriptor={}, Parameters=WITHOUT_LOCATION[name]) for name in WITHOUT_LOCATION],
        )
        yield {"impl": "glue", "config": server.config()}, ("a",), []


@contextmanager
def dir_(folder: Path) -> Iterator[Catalog]:
    backend = DirBackend(root=str(folder))
    backend.insert_namespace(("a",), {})
    for name, marks in {"good": OURS, **WITHOUT_LOCATION}.items():
        backend.insert_table(("a", name), f"{folder}/{name}", marks)
    cleared = {"location": "CAST(NULL AS string)"}
    lance.dataset(f"{folder}/__manifest").update(cleared, "object_id in ('a$ours', 'a$theirs')")
    yield {"impl": "dir", "config": {"root": str(folder)}}, ("a",), []


class _Metastore(Stub):
    """A metastore with one database; a real one keeps no table without a location, only views."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def get_databases(self, pattern: str) -> list[str]:
        return ["a"]

    def get_database(self, name: str) -> Database:
        return Database(name=name, parameters={})

    def get_table_names_by_filter(self, *_: object) -> list[str]:
        return ["good", *WITHOUT_LOCATION]

    def get_table_objects_by_name_req(self, request: GetTablesRequest) -> GetTablesResult:
        marks = {"good": {**OURS, "EXTERNAL": "TRUE"}, **WITHOUT_LOCATION}
        entries = [
            plain_table(("a", name), f"{self.folder}/good", marks[name]) for name in marks if name in request.tblNames
        ]
        for entry in entries:
            entry.sd.location = entry.sd.location if entry.tableName == "good" else None
        return GetTablesResult(entries)


@contextmanager
def hive(folder: Path) -> Iterator[Catalog]:
    with stub(_Metastore(folder)) as served:
        yield {"impl": "hive2", "config": {"uri": f"thrift://127.0.0.1:{served.port}"}}, ("a",), []


@contextmanager
def iceberg_rest(folder: Path) -> Iterator[Catalog]:
    with scripted_catalog() as script:
        names = [{"namespace": ["a"], "name": name} for name in LISTED]
        listing = "GET /v1/ware/namespaces/a/tables"
        script.routes |= {
            "GET /v1/config": Answer({"overrides": {"prefix": "ware"}, "defaults": {}}),
            "GET /v1/ware/namespaces": lambda request: Answer(
                {"namespaces": [] if "parent=" in request.query else [["a"]]}
            ),
            "GET /v1/ware/namespaces/a": Answer({"properties": {}}),
            listing: Answer({"identifiers": names}),
            f"{listing}/good": Answer(table(f"{folder}/good", **OURS)),
            f"{listing}/gone": error(404, "NoSuchTableException"),
        }
        for name, marks in WITHOUT_LOCATION.items():
            script.routes[f"{listing}/{name}"] = Answer({"metadata": {"table-uuid": name, "properties": marks}})
        yield {"impl": "iceberg", "config": {"endpoint": script.url, "max_retries": "0"}}, ("ware", "a"), ["gone"]


@pytest.mark.parametrize("catalog", [dir_, rest, unity, glue, hive, iceberg_rest], ids=lambda one: one.__name__)
def test_an_odd_entry_is_blocked_where_it_is_ours_or_a_block_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: Callable[[Path], AbstractContextManager[Catalog]]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    lance.write_dataset(pa.table({"n": [1]}), tmp_path / "good")
    with catalog(tmp_path) as (block, namespace, gone):
        odd = {*WITHOUT_LOCATION, *gone}

        def manifest(*names: str, followed: bool = False, **more: Any) -> reconciler.Manifest:
            blocks: dict[str, Any] = {name: {"location": f"{tmp_path}/{name}", "probe": False} for name in names}
            level: dict[str, Any] = {"tables": {**blocks, "good": {}}}
            for name in reversed(namespace):
                level = {"namespaces": {name: level}}
            catalogs = {"lake": {**block, **level, **more}}
            mirror = (
                {"copy": {"impl": "memory", "config": {"name": str(tmp_path)}, "mirror": {"from": "lake"}}}
                if followed
                else {}
            )
            return load_manifest(tmp_path, catalogs | mirror)

        def blocked(plan: reconciler.Plan) -> dict[str, ReasonCode]:
            return {entry.address: entry.code for entry in plan.blocked}

        address = "/".join(("", *namespace, ""))
        beside = reconciler.plan(manifest())
        assert (beside.changes, blocked(beside)) == ((), {f"lake{address}ours": ReasonCode.ENTRY_DAMAGED})
        told = sorted(
            note.message.partition(" is left out: ")[0] for note in beside.notes if note.code is NoteCode.SCAN
        )
        assert told == [f"`{'$'.join((*namespace, name))}`" for name in sorted(odd)]
        named = reconciler.plan(manifest(*odd))
        assert blocked(named) == {f"lake{address}{name}": ReasonCode.NAME_HELD for name in odd}
        for name in sorted(odd):
            lines = [{"from": "/".join((*namespace, name)), "to": "/".join((*namespace, "new"))}]
            assert blocked(reconciler.plan(manifest("new", moved=lines)))[f"lake{address}new"] is ReasonCode.NAME_HELD
        followed = reconciler.plan(manifest(followed=True))
        assert blocked(followed) == {
            f"lake{address}ours": ReasonCode.ENTRY_DAMAGED,
            f"copy{address}ours": ReasonCode.SOURCE_BLOCKED,
        }
        report = reconciler.apply(followed, manifest(followed=True), skip_blocked=True)
        assert f"copy{address}good" in {result.change.address for result in report.results if result.status == "done"}
