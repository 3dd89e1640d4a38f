"""Hold what lancens asks Unity Catalog, Polaris and Gravitino to what the real servers have been asked.

The conformance kit, a doctor and the life of a manifest run against the stand-ins. The recordings in `tests/servers`
must hold each request, by its method, route, parameters and the keys of its body; they have no headers. What a stand-in
granted, the real server must have granted. ``UNSEEN`` names the requests that no real server has been seen to answer,
and why they stay.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.http.backend import HttpBackend
from reconciler.conformance import run
from reconciler.model.errors import BackendError
from reconciler.operations.doctor import doctor
from tests import servers
from tests.servers.gravitino import Gravitino
from tests.servers.polaris import polaris_server
from tests.servers.scripted import Request, scripted
from tests.servers.unity_contract import API, Answer, Contract
from tests.servers.unity_contract_server import serving
from tests.writing import write_manifest

Note: TypeAlias = Callable[[str, str, Any, int], None]
"""Called with the method, target, body and status of a request."""


class Exchange(NamedTuple):
    """A request without what a caller chooses, and the status of its answer."""

    kind: str
    keys: frozenset[str]
    status: int


ROUTES = frozenset(
    re.findall(
        r"\S+",
        "api catalog v1 config oauth tokens namespaces tables views properties rename polaris generic-tables lance "
        "namespace table list create describe exists drop declare register deregister ListOperations catalogs schemas "
        "volumes functions models temporary-table-credentials",
    )
)
TOLD = frozenset(
    re.findall(
        r"\S+",
        "action behavior data_source_format delimiter force format include_declared mode operation purgeRequested "
        "snapshots stage-create table_type type",
    )
)
"""The parameters and keys whose values are compared too."""
MAPS = ("properties", "updates")
NAMED = ("tables", "generic-tables")
"""What comes behind these is a name, unless tables are renamed."""

_LISTS = {
    "GET api/catalog/v1/*/namespaces?pageSize&pageToken&parent": "granted too; that of a missing one is recorded",
    "GET api/catalog/polaris/v1/*/namespaces/*/generic-tables?pageSize&pageToken": "recorded without pages, and "
    "Polaris's OpenAPI document has both parameters",
    "POST api/catalog/v1/*/namespaces/*/properties removals removals=[] updates updates={}": "removals alone were "
    "granted too; those beside updates are recorded, which Polaris refuses",
}
_PAGED = "recorded without `max_results`, which Unity's source takes here as it does in its other lists"
UNSEEN: Mapping[str, Mapping[str, str]] = {
    "unity": {
        "GET volumes?catalog_name&max_results&schema_name": _PAGED,
        "GET functions?catalog_name&max_results&schema_name": _PAGED,
        "GET models?catalog_name&max_results&schema_name": _PAGED,
        "POST temporary-table-credentials": "not recorded; Unity's OpenAPI document has it",
        "POST tables columns.type_scale": "recorded with `type_precision`; Unity's OpenAPI document has both",
        "POST tables columns.partition_index columns.type_interval_type columns.type_scale": (
            "a move copies each column as the service returns it, and Unity's OpenAPI document takes all of its fields"
        ),
    },
    "polaris": _LISTS,
    "generic": {
        **_LISTS,
        "POST api/catalog/polaris/v1/*/namespaces/*/generic-tables doc": "Polaris's OpenAPI document requires no `doc`",
        "DELETE api/catalog/polaris/v1/*/namespaces/*/generic-tables/*": "Polaris's OpenAPI document has it",
    },
    "gravitino": {
        "POST lance/v1/table/*/describe?delimiter=$ vend_credentials": "Lance's OpenAPI document has it",
    },
}


class Service(NamedTuple):
    """A stand-in that is running: how it is reached, and the namespace to work in."""

    impl: str
    config: dict[str, str]
    namespace: str


def exchange(method: str, target: str, body: Any, status: int) -> Exchange:
    path, _, query = target.partition("?")
    parts = ["", *filter(None, map(unquote, path.split("/")))]
    route = "/".join(
        part if part in ROUTES and (before not in NAMED or part == "rename") else "*"
        for before, part in itertools.pairwise(parts)
    )
    given = parse_qsl(query, keep_blank_values=True)
    asked = "&".join(sorted({f"{key}={value}" if key in TOLD else key for key, value in given}))
    return Exchange(f"{method} {route}{'?' if asked else ''}{asked}", frozenset(keys_of(body)), status)


def keys_of(body: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of a body, with those of what it holds."""
    if isinstance(body, list):
        yield from (key for one in body for key in keys_of(one, prefix))
        if not body:
            yield f"{prefix}=[]"
    elif isinstance(body, Mapping) and prefix.rpartition(".")[2] in MAPS:
        yield prefix if body or prefix == "properties" else f"{prefix}={{}}"
    elif isinstance(body, Mapping):
        for key, value in body.items():
            yield from keys_of(value, f"{prefix}.{key}".removeprefix("."))
    elif prefix:
        yield f"{prefix}={body}" if prefix.rpartition(".")[2] in TOLD else prefix


def recorded(name: str) -> Iterator[Exchange]:
    for path in sorted((Path(*servers.__path__) / "recorded").glob(f"{name}*.jsonl")):
        for line in map(json.loads, path.read_text("utf-8").splitlines()):
            method, _, target = (line.get("request") or line["method"]).partition(" ")
            if not target:
                query = "&".join(f"{key}={value}" for key, value in line["query"].items())
                target = f"{line['path']}{'&' if '?' in line['path'] else '?'}{query}"
            yield exchange(method, target, line["body"], line["status"])


def unseen(sent: Iterable[Exchange], known: Sequence[Exchange]) -> Iterator[str]:
    """Yield each kind of request that was not recorded, with the keys of its body that were never or always there."""
    for kind, keys, status in sent:
        like = [one.keys for one in known if one.kind == kind and (status >= 400 or one.status == status)]
        strange = (keys - frozenset().union(*like)) | (like[0].intersection(*like) - keys if like else set())
        if strange or not like:
            yield " ".join([kind, *sorted(strange)]) if like else kind


# ---- the stand-ins ---------------------------------------------------------------------------------------------------


@contextmanager
def unity(_: Path, note: Note) -> Iterator[Service]:
    class Noted(Contract):
        def answer(self, method: str, path: str, query: Mapping[str, str], body: object, token: str | None) -> Answer:
            answer = super().answer(method, path, query, body, token)
            asked = "&".join(f"{key}={value}" for key, value in query.items())
            note(method, f"{path.removeprefix(API)}?{asked}", body, answer.status)
            return answer

    contract = Noted()
    contract.add_catalog("main")
    with serving(contract) as running:
        yield Service("unity", {"endpoint": running.url, "catalog": "main"}, "main")


@contextmanager
def polaris(folder: Path, note: Note, **more: str) -> Iterator[Service]:
    with polaris_server() as running, pytest.MonkeyPatch.context() as patch:
        running.place(folder / "base")
        answering = running.answer

        def answer(method: str, target: str, body: Any = None, etag: str = "") -> tuple[int, object]:
            status, content = answering(method, target, body, etag)
            note(method, target, body, status)
            return status, content

        patch.setattr(running, "answer", answer)
        yield Service("iceberg", {"endpoint": running.url, "warehouses": "ware", "credential": "a:b", **more}, "ware")


@contextmanager
def generic(folder: Path, note: Note) -> Iterator[Service]:
    with polaris(folder, note, tables="generic") as running:
        yield running


@contextmanager
def gravitino(_: Path, note: Note) -> Iterator[Service]:
    metalake = Gravitino()
    metalake.spaces = {("lakehouse",): {"in-use": "true"}}

    def answer(request: Request) -> tuple[int, object]:
        status, content = metalake(request)
        note(request.method, f"{request.path}?{request.query}", request.body, status)
        return status, content

    with scripted(answer) as running:
        yield Service("rest", {"uri": f"{running.url}/lance"}, "lakehouse")


# ---- what lancens asks -----------------------------------------------------------------------------------------------


def live(service: Service, folder: Path) -> None:
    """Have a doctor look, create tables, change and move them, and take them away."""

    def manifest(tier: str, tables: Mapping[str, str], **more: Any) -> reconciler.Manifest:
        schema = [{"name": "id", "type": "int64"}, {"name": "price", "type": "decimal128(9, 2)", "nullable": False}]
        blocks = {
            name: {"location": str(folder / f"base/ads/{place}"), "schema": schema, "properties": {"tier": tier}}
            for name, place in tables.items()
        }
        ads = {"properties": {"tier": tier, "of": "ads"} if tier == "gold" else {"tier": tier}, "tables": blocks}
        space = {service.namespace: {"namespaces": {"ads": ads}}}
        lake = {"impl": service.impl, "config": service.config, "namespaces": space, **more}
        return reconciler.load(write_manifest(folder, {"lake": lake}))

    def apply(wanted: reconciler.Manifest) -> None:
        journal = folder / "journal"
        report = reconciler.apply(reconciler.plan(wanted), wanted, journal=journal, skip_blocked=True)
        assert report.ok, report.results

    first = manifest("gold", {"a": "a", "b": "b"})
    assert not [check for check in doctor(first) if check.status == "failed"]
    apply(first)
    with closing(registry.connect(service.impl, service.config)) as backend, suppress(BackendError):
        assert isinstance(backend, HttpBackend)
        backend.vended_credentials((service.namespace, "ads", "a"), writes=True)
    apply(manifest("free", {"a": "a", "b": "b"}))
    address = f"{service.namespace}/ads"
    apply(manifest("free", {"c": "b"}, moved=[{"from": f"{address}/b", "to": f"{address}/c"}]))
    apply(manifest("free", {}))


@pytest.mark.parametrize("start", [unity, polaris, generic, gravitino])
def test_each_request_is_one_that_the_real_server_has_answered(
    start: Callable[[Path, Note], Any], tmp_path: Path
) -> None:
    sent: set[Exchange] = set()

    def note(method: str, target: str, body: Any, status: int) -> None:
        sent.add(exchange(method, target, body, status))

    with start(tmp_path, note) as service:
        report = run(service.impl, service.config, namespace=[service.namespace], scratch=str(tmp_path / "scratch"))
        assert not [result for result in report.results if result.failed]
        live(service, tmp_path)
    known = [*recorded("polaris" if start is generic else start.__name__)]
    assert set(unseen(sent, known)) == set(UNSEEN[start.__name__])
