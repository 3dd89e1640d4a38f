"""Real Iceberg REST catalogs, one of each kind for all tests, and a place of its own in them for every test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.names import Identifier
from tests.servers.iceberg import IcebergServer, iceberg_server
from tests.servers.nessie import NessieServer, nessie_server
from tests.servers.polaris import Polaris, polaris_server
from tests.soak import sampled

CREDENTIAL = "lancens:tests-secret-51d7"

_EVERY = ["apache", "nessie"]

on_one_server = pytest.mark.parametrize("catalog", sampled(_EVERY, 2), indirect=True)
"""For what shows how lancens goes on rather than what a server does."""


@dataclass(frozen=True)
class Catalog:
    """A warehouse of a real server, and how to reach it.

    ``config`` is a whole configuration but for ``root``. ``routes`` is where the server has the warehouse, for calls
    past the backend. ``ignores_location`` is what the server is known to do.
    """

    kind: str
    config: dict[str, str]
    warehouse: str
    routes: str
    root: str
    ignores_location: bool
    headers: dict[str, str] = field(default_factory=dict)

    def connect(self, **config: str) -> IcebergBackend:
        """Return a new connection, with ``config`` on top."""
        return IcebergBackend(**{**self.config, "root": self.root, **config})

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request past the backend; return the decoded answer, None for an empty one."""
        answer = urllib3.request(method, self.routes + path, json=body, headers=self.headers, timeout=30)
        assert answer.status < 300, (answer.status, answer.data[:300])
        return answer.json() if answer.data else None

    def add_iceberg_table(self, namespace: Identifier, name: str) -> None:
        """Make a table that is not a Lance table in a namespace one level below the warehouse."""
        fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        body = {"name": name, "schema": schema, "stage-create": False, "properties": {"theirs": "yes"}}
        self.call("POST", f"/namespaces/{namespace[1]}/tables", body)

    def add_lance_entry(self, namespace: Identifier, name: str, location: str, **properties: str) -> None:
        """Make the entry that a peer makes of a Lance table: all that the specification asks for, and no more."""
        fields = [{"id": 1, "name": "dummy", "required": False, "type": "string"}]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        body = {"name": name, "location": location, "schema": schema, "stage-create": False}
        marked = {"table_type": "lance", **properties}
        self.call("POST", f"/namespaces/{namespace[1]}/tables", {**body, "properties": marked})

    def change_entry(self, namespace: Identifier, name: str, *updates: dict[str, object]) -> None:
        """Commit updates of Iceberg's own to an entry, past the backend."""
        self.call("POST", f"/namespaces/{namespace[1]}/tables/{name}", {"requirements": [], "updates": [*updates]})

    def hold(self, identifier: Identifier) -> Callable[[], None]:
        """Put an Iceberg table at a name, and return what takes it away."""
        self.add_iceberg_table(identifier[:-1], identifier[-1])
        path = f"/namespaces/{identifier[1]}/tables/{identifier[2]}?purgeRequested=false"
        return lambda: self.call("DELETE", path)

    def add_view(self, namespace: Identifier, name: str) -> None:
        """Make a view in a namespace one level below the warehouse."""
        fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
        version = {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1,
            "summary": {},
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            "default-namespace": [namespace[1]],
        }
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        body = {"name": name, "schema": schema, "view-version": version, "properties": {}}
        self.call("POST", f"/namespaces/{namespace[1]}/views", body)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def apache_server(logs: Path) -> Iterator[IcebergServer]:
    """Apache's adapter with a catalog for each warehouse, behind a login, in pages of 100."""
    with iceberg_server(logs, prefix="{warehouse}", client=CREDENTIAL, page=100) as server:
        yield server


@pytest.fixture(scope="session")
def nessie(logs: Path) -> Iterator[NessieServer]:
    with nessie_server(logs) as server:
        yield server


def _apache(server: IcebergServer, tmp_path: Path) -> Catalog:
    warehouse = f"w{uuid.uuid4().hex[:10]}"
    client, _, secret = CREDENTIAL.partition(":")
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
    answer = urllib3.request("POST", f"{server.url}/v1/oauth/tokens?{urlencode(form)}", timeout=30)
    return Catalog(
        "apache",
        {"endpoint": server.url, "credential": CREDENTIAL, "warehouses": warehouse},
        warehouse,
        f"{server.url}/v1/{warehouse}",
        str(tmp_path / "lake"),
        ignores_location=False,
        headers={"Authorization": f"Bearer {answer.json()['access_token']}"},
    )


def _nessie(server: NessieServer, tmp_path: Path) -> Catalog:
    return Catalog(
        "nessie",
        {"endpoint": server.url, "warehouses": server.warehouse, **server.storage},
        server.warehouse,
        f"{server.url}/v1/main%7C{server.warehouse}",
        f"s3://lake/root/{tmp_path.name}",
        ignores_location=True,
    )


@pytest.fixture
def apache(apache_server: IcebergServer, tmp_path: Path) -> Catalog:
    """A new warehouse of Apache's adapter."""
    return _apache(apache_server, tmp_path)


@pytest.fixture
def on_nessie(nessie: NessieServer, tmp_path: Path) -> Catalog:
    """The warehouse of Nessie."""
    return _nessie(nessie, tmp_path)


@pytest.fixture(params=_EVERY)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """The same test on both servers."""
    if request.param == "apache":
        return _apache(request.getfixturevalue("apache_server"), tmp_path)
    return _nessie(request.getfixturevalue("nessie"), tmp_path)


@pytest.fixture
def backend(catalog: Catalog) -> Iterator[IcebergBackend]:
    connected = catalog.connect()
    yield connected
    connected.close()


@pytest.fixture
def space(catalog: Catalog, backend: IcebergBackend) -> Identifier:
    """A new namespace of the test's own, directly below the warehouse."""
    identifier = (catalog.warehouse, f"test_{uuid.uuid4().hex[:10]}")
    backend.insert_namespace(identifier, {})
    return identifier


@pytest.fixture
def polaris() -> Iterator[Polaris]:
    with polaris_server() as running:
        yield running


Connect = Callable[..., IcebergBackend]
