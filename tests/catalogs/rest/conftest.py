"""Lance namespace servers: pylance's adapter and lancens' own, each over a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.backends.dir import DirBackend
from reconciler.backends.rest import RestBackend
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from tests.servers.lance_rest import adapter, served

TOKEN = "tests-token-8c21f0a7d4"


@dataclass(frozen=True)
class Server:
    """A server over the directory ``root``, and the configuration that suits it."""

    kind: str
    config: dict[str, str]
    root: Path

    def connect(self, **more: str) -> RestBackend:
        return RestBackend(**{**self.config, **more})


def _adapter(root: Path) -> Iterator[Server]:
    with adapter(root) as url:
        yield Server("adapter", {"uri": url, "root": str(root), "table_properties": "false"}, root)


def _serve(root: Path) -> Iterator[Server]:
    settings = Settings(tokens=Tokens(read_write=[TOKEN]))
    with served(OneCatalog(DirBackend(root=str(root))), settings) as url:
        yield Server("serve", {"uri": url, "root": str(root), "auth_token": TOKEN}, root)


@pytest.fixture
def pylance_adapter(tmp_path: Path) -> Iterator[Server]:
    """pylance's RestAdapter over an empty directory."""
    yield from _adapter(tmp_path / "lake")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Server]:
    """lancens' server over an empty directory, which asks for a token."""
    yield from _serve(tmp_path / "lake")


@pytest.fixture(scope="module", params=["adapter", "serve"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same tests on both servers, one directory for all of them."""
    start = _adapter if request.param == "adapter" else _serve
    yield from start(tmp_path_factory.mktemp("lake"))
