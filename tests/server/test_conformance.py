"""The conformance kit, spoken by pylance's own client to lancens' server, over one catalog after the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from lance_namespace import LanceNamespace

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.backends.rest import RestBackend
from reconciler.backends.unity import UnityBackend
from reconciler.conformance import AddForeign, ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from reconciler.server.catalogs import ManyCatalogs, OneCatalog
from tests.catalogs.kit import one_of_each_operation
from tests.server.through_pylance import ThroughPylance
from tests.servers.glue import glue_server
from tests.servers.hive import metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.lance_rest import served
from tests.servers.unity import reference
from tests.servers.unity_contract_server import serving
from tests.soak import count, sampled

UNITY_CATALOG = "main"
WAREHOUSE = "ware"
_REMOTE = [("unity", (UNITY_CATALOG,)), ("glue", ()), ("hive", ()), ("iceberg", (WAREHOUSE,))][: count(2, 4)]
"""What needs no JVM; the server calls all backends alike."""
_BELOW_ROOT = "locations_outside_the_root_are_refused"
_ON_A_DIRECTORY = [check for check in checks() if check in one_of_each_operation() or check.name == _BELOW_ROOT]
"""Each operation, and what the server itself refuses where tables stay below a root."""


@dataclass(frozen=True)
class Served:
    """A server over ``behind``, which is below ``prefix`` there."""

    url: str
    behind: Backend
    prefix: Identifier = ()

    def verify(
        self, check: ConformanceCheck, scratch: Path, namespace: Identifier = (), add_foreign: AddForeign | None = None
    ) -> None:
        connect = partial(ThroughPylance, self.url, self.behind, self.prefix)
        verify(
            check,
            connect,
            namespace=(*self.prefix, *namespace),
            scratch=str(scratch),
            add_foreign=add_foreign,
            offer=_client_of,
        )


def _client_of(backend: Backend) -> LanceNamespace:
    assert isinstance(backend, ThroughPylance)
    client: LanceNamespace = backend.client
    return client


@pytest.fixture(scope="module")
def memory() -> Iterator[Served]:
    yield from _over(MemoryBackend(name=uuid.uuid4().hex))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from _over(DirBackend(root=str(tmp_path_factory.mktemp("lake"))))


@pytest.fixture(scope="module")
def one_of_two() -> Iterator[Served]:
    behind = MemoryBackend(name=uuid.uuid4().hex)
    with served(
        ManyCatalogs({"lake": behind, "other": MemoryBackend()}, extra_locations=["/", "shared-memory://"])
    ) as url:
        yield Served(url, behind, ("lake",))


@pytest.fixture(scope="module")
def unity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with reference(tmp_path_factory.mktemp("unity")) as contract, serving(contract) as server:
        contract.add_catalog(UNITY_CATALOG)
        yield from _over(
            UnityBackend(endpoint=server.url, catalog=UNITY_CATALOG, root=str(tmp_path_factory.mktemp("lake")))
        )


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with glue_server(tmp_path_factory.mktemp("glue")) as server:
        yield from _over(registry.connect("glue", server.config()))


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hive")
    with metastore("2.3", folder) as server:
        yield from _over(registry.connect(server.impl, {"uri": server.uri, "root": str(folder / "lake")}))


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("iceberg")
    with iceberg_server(folder, prefix="{warehouse}") as server:
        config = {"endpoint": server.url, "warehouses": WAREHOUSE, "root": str(folder / "lake")}
        yield from _over(registry.connect("iceberg", config))


def _over(behind: Backend) -> Iterator[Served]:
    try:
        with served(OneCatalog(behind, extra_locations=["/", "shared-memory://"])) as url:
            yield Served(url, behind)
    finally:
        behind.close()


def _in_memory(memory: Backend) -> AddForeign:
    assert isinstance(memory, MemoryBackend)

    def add_foreign(_: Backend, identifier: Identifier) -> Callable[[], None]:
        memory.add_foreign(identifier)
        return partial(memory.remove_foreign, identifier)

    return add_foreign


@pytest.mark.parametrize("check", checks(), ids=str)
def test_memory(check: ConformanceCheck, memory: Served, tmp_path: Path) -> None:
    memory.verify(check, tmp_path, add_foreign=_in_memory(memory.behind))


@pytest.mark.soak
@pytest.mark.parametrize("check", _ON_A_DIRECTORY, ids=str)
def test_directory(check: ConformanceCheck, directory: Served, tmp_path: Path) -> None:
    directory.verify(check, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("check", one_of_each_operation(), ids=str)
def test_one_of_several_catalogs(check: ConformanceCheck, one_of_two: Served, tmp_path: Path) -> None:
    one_of_two.verify(check, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("check", sampled(checks(), 4), ids=str)  # their own tests have all, without a server
@pytest.mark.parametrize(("catalog", "above"), _REMOTE)
def test_remote(
    catalog: str, above: Identifier, check: ConformanceCheck, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there: Served = request.getfixturevalue(catalog)
    there.verify(check, tmp_path, namespace=above)


@pytest.mark.soak
@pytest.mark.parametrize(("catalog", "above"), [("directory", ()), ("one_of_two", ()), *_REMOTE])
def test_lancens_own_client_reads_what_is_behind(
    catalog: str, above: Identifier, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there: Served = request.getfixturevalue(catalog)
    space = (*above, f"scanned_{uuid.uuid4().hex[:8]}")
    there.behind.insert_namespace(space, {"owner": "me"})
    place = there.behind.default_location((*space, "t")) or str(tmp_path / "t.lance")
    there.behind.insert_table((*space, "t"), place, {"tier": "gold"})
    client = RestBackend(uri=there.url)
    seen, behind = client.scan(), there.behind.scan()
    depth = len(there.prefix)
    assert {found[depth:]: live.properties for found, live in seen.tables.items()} == {
        found: live.properties for found, live in behind.tables.items()
    }
    assert {found[depth:] for found in seen.namespaces if len(found) > depth and found[:depth] == there.prefix} == set(
        behind.namespaces
    )
    assert seen.tables[*there.prefix, *space, "t"].properties["tier"] == "gold"
    client.close()
