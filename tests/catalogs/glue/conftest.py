"""The server of this folder's tests, empty for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reconciler.backends import registry
from reconciler.backends.glue import GlueBackend
from tests.servers.glue import GlueServer, glue_server

Connect = Callable[..., GlueBackend]


@pytest.fixture(scope="session")
def running_glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GlueServer]:
    with glue_server(tmp_path_factory.mktemp("glue")) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def glue(running_glue: GlueServer) -> Iterator[GlueServer]:
    """The server, empty; whatever it answered has to be something that Glue can answer."""
    running_glue.clear()
    running_glue.reset()
    yield running_glue
    assert running_glue.unfit() == []


@pytest.fixture
def connect(glue: GlueServer) -> Iterator[Connect]:
    """Make backends that reach the server."""
    made: list[GlueBackend] = []

    def make(**more: str) -> GlueBackend:
        backend = registry.connect("glue", glue.config(**more))
        assert isinstance(backend, GlueBackend)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(connect: Connect) -> GlueBackend:
    return connect()
