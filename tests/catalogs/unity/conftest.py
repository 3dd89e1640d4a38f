"""Unity servers: the reference server where the environment names one, and stand-ins for it and for Databricks'.

One reference server runs for the whole session; each test finds it with the catalog ``main`` and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends.unity import UnityBackend
from tests.servers import s3
from tests.servers.unity import ReferenceServer, reference_server, unity_home
from tests.servers.unity_contract import API, ISSUER, Contract, jwt
from tests.servers.unity_contract_server import UnityServer, serving

CATALOG = "main"
TOKEN = jwt(ISSUER)
SETTINGS = {
    "s3.bucketPath.0": f"s3://{s3.BUCKET}",
    "s3.region.0": "us-east-1",
    "s3.accessKey.0": s3.KEY,
    "s3.secretKey.0": s3.SECRET,
    "s3.sessionToken.0": s3.TOKEN,
}
SESSIONS = {f"s3://{s3.BUCKET}/": {"access_key_id": s3.KEY, "secret_access_key": s3.SECRET, "session_token": s3.TOKEN}}
"""The reference server hands out this session for a bucket; a role it would assume at AWS."""


@dataclass
class Unity:
    """A server with the catalog ``main``, and the way there."""

    server: UnityServer

    @property
    def contract(self) -> Contract | ReferenceServer:
        return self.server.contract

    def config(self, **more: str) -> dict[str, str]:
        return {"endpoint": self.server.url, "catalog": CATALOG, "auth_token": TOKEN, **more}

    def connect(self, **more: str) -> UnityBackend:
        return UnityBackend(**self.config(**more))

    def listed(self, schema: str) -> list[str]:
        """Return the names of a schema's tables as the server lists them, a page of them."""
        query = {"catalog_name": CATALOG, "schema_name": schema}
        page = self.contract.answer("GET", f"{API}/tables", query, None, TOKEN).body
        assert isinstance(page, Mapping)
        return [entry["name"] for entry in page["tables"]]

    def hold(self, *names: str) -> Callable[[], None]:
        """Put a view at a name, and return what takes it away."""
        self.contract.add_table(*names, table_type="VIEW", data_source_format=None)
        return partial(self.contract.remove, *names)

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


def _started(contract: Contract | ReferenceServer) -> Iterator[Unity]:
    contract.clear()
    contract.add_catalog(CATALOG, properties={"region": "eu"})
    with serving(contract) as server:
        yield Unity(server)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer | None]:
    """The real server, None where the environment names none."""
    home = unity_home()
    if home is None:
        yield None
    else:
        with reference_server(home, tmp_path_factory.mktemp("unity"), SETTINGS) as server:
            yield server


@pytest.fixture
def unity(reference: ReferenceServer | None) -> Iterator[Unity]:
    """The reference server."""
    yield from _started(reference or Contract(authorization=True, sessions=SESSIONS))


@pytest.fixture
def stand_in() -> Iterator[Unity]:
    """The stand-in, for what the reference server cannot be brought to: its authorization is on."""
    yield from _started(Contract(authorization=True))


@pytest.fixture(params=["reference", "databricks"])
def either(request: pytest.FixtureRequest, reference: ReferenceServer | None) -> Iterator[Unity]:
    """The reference server and Databricks', one after the other."""
    databricks = request.param == "databricks"
    yield from _started(Contract(databricks=True) if databricks else reference or Contract())


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
