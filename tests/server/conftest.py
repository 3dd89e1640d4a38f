"""A server over the memory backend, new for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from reconciler.backends.memory import MemoryBackend
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings
from tests.server.client import Api
from tests.servers.lance_rest import served

Serve = Callable[..., str]


@pytest.fixture
def memory() -> MemoryBackend:
    backend = MemoryBackend(name=uuid.uuid4().hex)
    backend.insert_namespace(("a",), {"owner": "me"})
    backend.insert_table(("a", "t"), "s3://lake/t.lance", {"tier": "gold"})
    return backend


@pytest.fixture
def serve(memory: MemoryBackend) -> Iterator[Serve]:
    """Start servers over the memory backend and return their addresses."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(served(OneCatalog(memory), Settings(**settings)))


@pytest.fixture
def api(serve: Serve) -> Iterator[Api]:
    """A client of a server with the settings that are the default."""
    client = Api(serve())
    yield client
    client.close()
