"""Answers that are cut, stalled or damaged: they are retried, or reported as a failure of the service."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import reconciler
from reconciler.backends.glue import client
from reconciler.model.errors import CatalogError, ErrorCode
from tests.catalogs.glue.seeding import databases, lance_table, tables
from tests.clock import simulated_time
from tests.servers.fault_proxy import BODY_FAULTS, Call, Decide, Fault, FaultProxy, fault_proxy
from tests.servers.glue import GlueServer
from tests.writing import load_manifest


@pytest.fixture
def proxy(glue: GlueServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    monkeypatch.setattr(client, "READ_SECONDS", 1)
    databases(glue, ["web"])
    tables(glue, "web", [lance_table(f"t{number}") for number in range(5)])
    with simulated_time(), fault_proxy(urlsplit(glue.endpoint).port or 0, "http") as running:
        yield running


def _once(fault: Fault, number: int) -> Decide:
    return lambda call: fault if call.number == number else None


def test_plans_get_over_answers_that_are_cut_or_damaged(glue: GlueServer, proxy: FaultProxy, tmp_path: Path) -> None:
    manifest = load_manifest(tmp_path, {"lake": {"impl": "glue", "config": {**glue.config(), "endpoint": proxy.url}}})
    reconciler.plan(manifest)
    calls = len(proxy.calls)
    assert calls >= 3
    for fault, broken in product(BODY_FAULTS, range(calls)):
        proxy.reset(_once(fault, broken))
        plan = reconciler.plan(manifest)
        assert [summary.tables for summary in plan.catalogs] == [5]
        assert len(proxy.calls) > calls


@pytest.mark.parametrize("fault", BODY_FAULTS)
def test_what_never_comes_whole_is_a_failure_of_the_service(
    glue: GlueServer, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    manifest = load_manifest(tmp_path, {"lake": {"impl": "glue", "config": {**glue.config(), "endpoint": proxy.url}}})
    proxy.reset(lambda _: fault)
    with pytest.raises(CatalogError) as told:
        reconciler.plan(manifest)
    assert told.value.code is ErrorCode.SERVICE_UNAVAILABLE
    assert "(glue): GetCatalogs on" in str(told.value)
    assert len(proxy.calls) >= 5


@pytest.mark.parametrize("fault", [Fault.BROKEN_OFF, Fault.STALLED, Fault.DAMAGED, Fault.LOST])
def test_a_write_whose_answer_is_damaged_is_done_once(
    glue: GlueServer, proxy: FaultProxy, tmp_path: Path, fault: Fault
) -> None:
    from reconciler.backends import registry

    backend = registry.connect("glue", glue.config(endpoint=proxy.url))
    lost: list[str] = []

    def once(call: Call) -> Fault | None:
        if not call.action.startswith(("Create", "Delete")) or call.action in lost:
            return None
        lost.append(call.action)
        return fault

    proxy.reset(once)
    made = backend.insert_table(("web", "new"), "s3://lake/new.lance", {"k": "v"})
    assert backend.load_table(("web", "new")) == made
    assert backend.remove_table(("web", "new")).location == "s3://lake/new.lance"
    assert lost == ["CreateTable", "DeleteTable"]
