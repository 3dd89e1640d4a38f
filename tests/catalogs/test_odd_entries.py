"""Entries without what a Lance table needs: the same note, and the same block, in each catalog.

Glue's are in ``glue/test_scan.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.model.names import Identifier
from reconciler.model.reasons import NoteCode, ReasonCode
from tests.catalogs.iceberg import scripted as iceberg
from tests.servers import lance_rest
from tests.servers.unity_contract import Contract
from tests.servers.unity_contract_server import serving
from tests.writing import load_manifest

Catalog = tuple[dict[str, Any], Identifier]
"""The block of a catalog without namespaces, and its namespace with the tables."""

LOCATION = "s3://lake/good"
MARKS = {"table_type": "lance", "lancens.managed-by": "store/lake", "lancens.keys": "[]"}


@contextmanager
def rest() -> Iterator[Catalog]:
    def answer(request: lance_rest.Request) -> tuple[int, object]:
        described = {"good": {"location": LOCATION, "properties": MARKS}, "nowhere": {"properties": MARKS}}
        name = request.path.removeprefix("/v1/table/a%24").removesuffix("/describe")
        if request.path.endswith("/table/list"):
            return 200, {"tables": ["good", "nowhere", "gone"] if "/a/" in request.path else []}
        if request.path.endswith("/list"):
            return 200, {"namespaces": [] if "/a/" in request.path else ["a"]}
        if "/namespace/" in request.path:
            return 200, {"properties": {}}
        return (200, described[name]) if name in described else (404, {"code": 4, "error": "no"})

    with lance_rest.scripted(answer) as server:
        yield {"impl": "rest", "config": {"uri": server.url, "max_retries": "0"}}, ("a",)


@contextmanager
def unity() -> Iterator[Catalog]:
    with serving(Contract()) as server:
        contract = server.contract
        assert isinstance(contract, Contract)
        contract.add_catalog("main")
        contract.add_schema("main", "a")
        for name, place in (("good", {"storage_location": LOCATION}), ("nowhere", {})):
            contract.add_table("main", "a", name, table_type="EXTERNAL", properties=MARKS, **place)
        yield {"impl": "unity", "config": {"endpoint": server.url, "catalog": "main"}}, ("main", "a")


@contextmanager
def iceberg_rest() -> Iterator[Catalog]:
    with iceberg.scripted() as script:
        names = [{"namespace": ["a"], "name": name} for name in ("good", "nowhere", "gone")]
        tables = "GET /v1/ware/namespaces/a/tables"
        nowhere = {"metadata": {"table-uuid": "u2", "properties": MARKS}}
        script.routes |= {
            "GET /v1/config": iceberg.Answer({"overrides": {"prefix": "ware"}, "defaults": {}}),
            "GET /v1/ware/namespaces": lambda request: iceberg.Answer(
                {"namespaces": [] if "parent=" in request.query else [["a"]]}
            ),
            "GET /v1/ware/namespaces/a": iceberg.Answer({"properties": {}}),
            tables: iceberg.Answer({"identifiers": names}),
            f"{tables}/good": iceberg.Answer(iceberg.table(LOCATION, **MARKS)),
            f"{tables}/nowhere": iceberg.Answer(nowhere),
            f"{tables}/gone": iceberg.error(404, "NoSuchTableException"),
        }
        yield {"impl": "iceberg", "config": {"endpoint": script.url, "max_retries": "0"}}, ("ware", "a")


@pytest.mark.parametrize("catalog", [rest, unity, iceberg_rest], ids=lambda one: one.__name__)
def test_an_odd_entry_is_in_the_way_of_its_own_block_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: Callable[[], AbstractContextManager[Catalog]]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with catalog() as (block, namespace):

        def planned(*tables: str) -> reconciler.Plan:
            level: dict[str, Any] = {"tables": {name: {"location": LOCATION + name, "probe": False} for name in tables}}
            level["tables"]["good"] = {}
            for name in reversed(namespace):
                level = {"namespaces": {name: level}}
            return reconciler.plan(load_manifest(tmp_path, {"lake": {**block, **level}}))

        odd = ["nowhere"] if block["impl"] == "unity" else ["nowhere", "gone"]
        beside = planned()
        assert (beside.changes, beside.blocked) == ((), ())
        told = sorted(note.message for note in beside.notes if note.code is NoteCode.SCAN)
        addresses = ["$".join((*namespace, name)) for name in sorted(odd)]
        assert [f"`{address}` is left out: " in note for note, address in zip(told, addresses, strict=True)] == [
            True for _ in odd
        ]
        named = planned(*odd)
        assert {one.identifier[-1]: one.code for one in named.blocked} == dict.fromkeys(odd, ReasonCode.NAME_HELD)
