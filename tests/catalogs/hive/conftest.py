"""The metastores, each started once."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.hive.entries import wire_name
from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model.names import Identifier
from tests.catalogs.hive.raw import raw
from tests.clock import simulated_time
from tests.servers.hive import Metastore, Version, metastore, sql_schema
from tests.servers.require import tool
from tests.soak import count

Connect = Callable[..., Hive2Backend]


_VERSIONS: Mapping[str, Version] = {"2.3": "2.3", "4.1": "4.1", "3.1 with its SQL schema": "3.1", "3.1": "3.1"}
EVERY = [*_VERSIONS][: count(3, 4)]
"""In production, Hive's schema tool sets up 3.1, so that the 3.1 that does it alone is left to a soak."""

newest = pytest.mark.parametrize("server", EVERY[1:2] if count(1, 4) == 1 else EVERY, indirect=True, scope="session")
"""For what is tested on other catalogs too, and shows how lancens goes on rather than what a metastore does."""

oldest_and_newest = pytest.mark.parametrize("server", EVERY[: count(2, 4)], indirect=True, scope="session")
"""For what depends on which files a metastore deletes by itself: 2.3 has no catalogs, and 4.1 has."""


@pytest.fixture(scope="session")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Metastore]]:
    """Start the metastore of a version where it is first asked for: pytest goes back and forth between versions."""
    with ExitStack() as servers:
        started: dict[str, Metastore] = {}

        def start(name: str) -> Metastore:
            if name not in started:
                directory, version = tmp_path_factory.mktemp("metastore"), _VERSIONS[name]
                if name != version:
                    running = metastore(version, directory, database=sql_schema(), auto_create=False)
                else:
                    running = metastore(version, directory)
                started[name] = servers.enter_context(running)
            return started[name]

        yield start


@pytest.fixture(scope="session", params=EVERY)
def server(request: pytest.FixtureRequest, start_once: Callable[[str], Metastore]) -> Metastore:
    """A running metastore of each version."""
    return start_once(request.param)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls are tried again at once: a test that cuts them off is not to wait for a server that never comes back.

    Nor is the end of a second waited for in which a test has changed an entry.
    """
    monkeypatch.setattr("reconciler.backends.hive.metastore.PAUSES", (0.0, 0.0))
    with simulated_time():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """The root of a test's own."""
    return str(tmp_path / "lake")


@pytest.fixture
def config(server: Metastore, lake: str) -> Mapping[str, str]:
    """The configuration of a backend for the server."""
    return {"uri": server.uri, "root": lake}


@pytest.fixture
def connect(server: Metastore, config: Mapping[str, str]) -> Iterator[Connect]:
    """Make backends for the server, with more configuration where given; they are closed at the end."""
    made: list[Backend] = []

    def make(**more: str) -> Hive2Backend:
        backend = registry.connect(server.impl, {**config, **more})
        assert isinstance(backend, Hive2Backend)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(connect: Connect) -> Hive2Backend:
    """A backend for the server."""
    return connect()


@pytest.fixture(scope="session")
def above(server: Metastore) -> Identifier:
    """What stands above databases: nothing, or a catalog made for all tests."""
    if server.impl == "hive2":
        return ()
    with raw(server.uri) as client:
        from reconciler.backends.hive.gen.ttypes import Catalog, CreateCatalogRequest

        if "shared" not in client.get_catalogs().names:
            client.create_catalog(CreateCatalogRequest(Catalog("shared", "", f"{server.directory}/shared")))
    return ("shared",)


@pytest.fixture
def database(server: Metastore, above: Identifier, backend: Hive2Backend) -> Iterator[Identifier]:
    """A new, empty database; with the entries left in it, it goes at the end."""
    name = (*above, f"db_{uuid.uuid4().hex[:12]}")
    backend.insert_namespace(name, {})
    yield name
    with raw(server.uri) as client:
        if name[-1] in client.get_databases(f"@{name[0]}#*" if above else "*"):
            client.drop_database(wire_name(name), False, True)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1 and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stub"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
