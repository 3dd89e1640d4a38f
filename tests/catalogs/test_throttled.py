"""Services that allow 20 requests a second, and say no more than that a request was too many."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.http.rate_limit import Clock
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from tests.catalogs.iceberg import scripted as iceberg
from tests.clock import simulated_time
from tests.servers.scripted import Request, scripted
from tests.servers.unity_contract import Contract
from tests.soak import in_full
from tests.writing import load_manifest

Answer: TypeAlias = tuple[int, object]

TABLES = [f"t{number:03}" for number in range(400)]


class Throttle:
    """Refuses all requests above ``rate`` a second, after a burst of as many."""

    def __init__(self, answer: Callable[[Request], Answer], rate: int, refusal: Answer) -> None:
        self._answer, self._rate, self._refusal = answer, rate, refusal
        self._clock = Clock()
        self._began_at = self._filled_at = self._clock.monotonic()
        self._tokens = float(rate)
        self.accepted = self.refused = 0

    def __call__(self, request: Request) -> Answer:
        now = self._clock.monotonic()
        self._tokens = min(self._rate, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            self.refused += 1
            return self._refusal
        self._tokens -= 1
        self.accepted += 1
        return self._answer(request)

    @property
    def share(self) -> float:
        """The share of the allowed requests that were sent until now."""
        return self.accepted / ((self._clock.monotonic() - self._began_at) * self._rate)

    def check(self) -> None:
        """Check how much of the rate was used, and how many requests were refused."""
        assert self.share >= 0.85
        assert 0 < self.refused <= (self.accepted + self.refused) / 10


def _rest(request: Request) -> Answer:
    if request.path == "/ListOperations":
        return 404, b""
    if request.path.endswith("/table/list"):
        return 200, {"tables": TABLES if "/a/" in request.path else []}
    if request.path.endswith("/list"):
        return 200, {"namespaces": [] if "/a/" in request.path else ["a"]}
    if "/namespace/" in request.path:
        return 200, {}
    return 200, {"location": f"s3://lake/{request.path.split('/')[3]}"}


def _iceberg(request: Request) -> Answer:
    if request.path == "/v1/config":
        return 200, {"defaults": {}, "overrides": {"prefix": "ware"}}
    if request.path == "/v1/ware/namespaces":
        return 200, {"namespaces": [] if "parent" in request.query else [["a"]]}
    if request.path == "/v1/ware/namespaces/a":
        return 200, {"namespace": ["a"], "properties": {}}
    if request.path == "/v1/ware/namespaces/a/tables":
        return 200, {"identifiers": [{"namespace": ["a"], "name": name} for name in TABLES]}
    return 200, iceberg.table(f"s3://lake/{request.path.rpartition('/')[2]}")


def _unity() -> Callable[[Request], Answer]:
    contract = Contract()
    contract.add_catalog("main")
    for name in TABLES:
        contract.add_schema("main", name)
        contract.add_lance_table("main", name, name)

    def answer(request: Request) -> Answer:
        answered = contract.answer(request.method, request.path, dict(parse_qsl(request.query)), request.body, None)
        body = answered.body
        return answered.status, body.encode() if isinstance(body, str) else body

    return answer


IN_A: dict[str, Any] = {"a": {"tables": {name: {} for name in TABLES}}}
SERVICES: dict[str, tuple[Callable[[Request], Answer], str, dict[str, str], dict[str, Any]]] = {
    "rest": (_rest, "uri", {}, IN_A),
    "iceberg": (_iceberg, "endpoint", {"warehouses": "ware"}, {"ware": {"namespaces": IN_A}}),
    "unity": (_unity(), "endpoint", {}, {"main": {"namespaces": {name: {"tables": {name: {}}} for name in TABLES}}}),
}


def plan_tables(folder: Path, impl: str, parallelism: int) -> Throttle:
    """Plan 400 tables; return the service."""
    answer, key, config, namespaces = SERVICES[impl]
    throttle = Throttle(answer, 20, (429, {"error": {"message": "too many", "type": "TooMany", "code": 429}}))
    with scripted(throttle) as server:
        catalog = {"impl": impl, "config": {key: server.url, **config}, "namespaces": namespaces}
        plan = reconciler.plan(load_manifest(folder, {"lake": catalog}), parallelism=parallelism)
    assert [summary.tables for summary in plan.catalogs] == [len(TABLES)]
    return throttle


@pytest.mark.parametrize("impl", SERVICES)
def test_a_plan_of_400_tables_uses_what_a_service_allows(tmp_path: Path, impl: str) -> None:
    with simulated_time():  # which stands still while several requests are on their way
        plan_tables(tmp_path, impl, 1).check()


def write_to_glue(parallelism: int) -> Throttle:
    """Create 200 tables; return the service."""
    throttle = Throttle(lambda _: (200, {}), 10, (400, {"__type": "ThrottlingException", "message": "Rate exceeded"}))
    with scripted(throttle) as server:
        keys = {"region": "us-east-1", "access_key_id": "AKIA123", "secret_access_key": "s3cr3t"}
        with closing(registry.connect("glue", {"endpoint": server.url, **keys})) as backend:
            written = [("a", name) for name in TABLES[:200]]
            in_parallel(lambda table: backend.insert_table(table, "s3://b/t", {}), written, parallelism)
    assert throttle.accepted == 200
    return throttle


def test_writes_to_glue_use_what_it_allows() -> None:
    with simulated_time():
        write_to_glue(1).check()


@pytest.mark.soak
@in_full
@pytest.mark.parametrize("impl", SERVICES)
def test_plans_use_what_a_service_allows_in_real_time(tmp_path: Path, impl: str) -> None:
    plan_tables(tmp_path, impl, DEFAULT_PARALLELISM).check()


@pytest.mark.soak
@in_full
def test_writes_to_glue_use_what_it_allows_in_real_time() -> None:
    write_to_glue(DEFAULT_PARALLELISM).check()
