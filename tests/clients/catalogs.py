"""Every catalog that clients are tried on, as a running one with an empty root of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.backends import registry
from reconciler.model.names import Identifier
from tests.servers.glue import glue_server
from tests.servers.hive import Version, metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.lance_rest import adapter
from tests.servers.unity import reference
from tests.servers.unity_contract import ISSUER, jwt
from tests.servers.unity_contract_server import serving

__all__ = ["CATALOGS", "Catalog", "running_catalog"]

_UNITY_CATALOG = "main"


@dataclass(frozen=True, slots=True)
class Catalog:
    """How lancens reaches a catalog, and the namespace below which one that holds tables can be made."""

    impl: str
    config: Mapping[str, str]
    above: Identifier = ()

    def new_namespace(self) -> Identifier:
        """Return the identifier of a namespace that is not there."""
        return (*self.above, f"n_{uuid.uuid4().hex[:12]}")


@contextmanager
def _memory(directory: Path) -> Iterator[Catalog]:
    yield Catalog("memory", {"name": uuid.uuid4().hex, "root": str(directory / "lake")})


@contextmanager
def _dir(directory: Path) -> Iterator[Catalog]:
    yield Catalog("dir", {"root": str(directory / "lake")})


@contextmanager
def _rest(directory: Path) -> Iterator[Catalog]:
    root = directory / "lake"
    with adapter(root) as uri:
        yield Catalog("rest", {"uri": uri, "root": str(root), "table_properties": "false"})


@contextmanager
def _glue(directory: Path) -> Iterator[Catalog]:
    with glue_server(directory) as server:
        yield Catalog("glue", server.config(root=str(directory / "lake")))


def _hive(version: Version) -> Callable[[Path], AbstractContextManager[Catalog]]:
    @contextmanager
    def run(directory: Path) -> Iterator[Catalog]:
        with metastore(version, directory) as server:
            config = {"uri": server.uri, "root": str(directory / "lake")}
            if server.impl == "hive2":
                yield Catalog(server.impl, config)
            else:
                backend = registry.connect(server.impl, config)
                backend.insert_namespace(("clients",), {})
                backend.close()
                yield Catalog(server.impl, config, ("clients",))

    return run


@contextmanager
def _iceberg(directory: Path) -> Iterator[Catalog]:
    with iceberg_server(directory, prefix="ware") as server:
        config = {"endpoint": server.url, "root": str(directory / "lake"), "warehouses": "ware"}
        yield Catalog("iceberg", config, ("ware",))


@contextmanager
def _unity(directory: Path) -> Iterator[Catalog]:
    with reference(directory) as contract:
        contract.add_catalog(_UNITY_CATALOG)
        with serving(contract) as server:
            access = {"endpoint": server.url, "catalog": _UNITY_CATALOG, "auth_token": jwt(ISSUER)}
            yield Catalog("unity", {**access, "root": (directory / "lake").as_uri()}, (_UNITY_CATALOG,))


CATALOGS: Mapping[str, Callable[[Path], AbstractContextManager[Catalog]]] = {
    "memory": _memory,
    "dir": _dir,
    "rest": _rest,
    "Glue": _glue,
    "Hive 2.3": _hive("2.3"),
    "Hive 3.1": _hive("3.1"),
    "Hive 4.1": _hive("4.1"),
    "Iceberg REST": _iceberg,
    "Unity": _unity,
}
"""By the name that people give them."""


def running_catalog(name: str, directory: Path) -> AbstractContextManager[Catalog]:
    """Run the catalog until the block ends; ``directory`` is its own."""
    return CATALOGS[name](directory)
