"""Unity servers of the tests' own: the reference server's behaviour, and Databricks'."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.backends.unity import UnityBackend
from tests.servers.unity_contract import ISSUER, Contract, jwt
from tests.servers.unity_contract_server import UnityServer, serving

CATALOG = "main"
TOKEN = jwt(ISSUER)


@dataclass
class Unity:
    """A server with the catalog ``main``, and the way there."""

    server: UnityServer

    @property
    def contract(self) -> Contract:
        return self.server.contract

    def config(self, **more: str) -> dict[str, str]:
        return {"endpoint": self.server.url, "catalog": CATALOG, "auth_token": TOKEN, **more}

    def connect(self, **more: str) -> UnityBackend:
        return UnityBackend(**self.config(**more))

    def fill(self, *counts: int) -> None:
        """Put schemas ``s0``, ``s1``, … into the catalog, with so many Lance tables each."""
        for number, tables in enumerate(counts):
            self.contract.add_schema(CATALOG, f"s{number}", number=str(number))
            for table in range(tables):
                self.contract.add_lance_table(CATALOG, f"s{number}", f"t{table:04}")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of the tests are on this machine, wherever its proxies lead."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def _started(**options: bool) -> Iterator[Unity]:
    contract = Contract(**options)
    contract.add_catalog(CATALOG, properties={"region": "eu"})
    with serving(contract) as server:
        yield Unity(server)


@pytest.fixture
def unity() -> Iterator[Unity]:
    """The reference server, with authorization on."""
    yield from _started(authorization=True)


@pytest.fixture(params=["reference", "databricks"])
def either(request: pytest.FixtureRequest) -> Iterator[Unity]:
    """The reference server and Databricks', one after the other."""
    yield from _started(databricks=request.param == "databricks")


@pytest.fixture
def dataset(tmp_path: Path) -> Callable[[int], str]:
    """Write a Lance dataset of so many rows and return its location."""

    def write(rows: int) -> str:
        import lance
        import pyarrow as pa

        location = str(tmp_path / f"{uuid.uuid4().hex}.lance")
        lance.write_dataset(pa.table({"id": list(range(rows))}), location)
        return location

    return write
