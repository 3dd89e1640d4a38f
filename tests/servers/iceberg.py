"""Apache Iceberg's own REST catalog adapter as a server (see ``IcebergServer.java``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.class_data import class_data
from tests.servers.jars import jars
from tests.servers.process import free_port, running, status_of
from tests.servers.require import tool

__all__ = ["IcebergServer", "iceberg_server"]

_HERE = Path(__file__).parent
_REQUEST = re.compile(r"^(?:GET|HEAD|POST|DELETE) /", re.MULTILINE)


@dataclass(frozen=True)
class IcebergServer:
    """A running server; ``log`` has a line for every request."""

    url: str
    log: Path

    def requests(self) -> list[str]:
        """Return every request so far, as ``GET /v1/config?warehouse=ware``."""
        return [line for line in self.log.read_text("utf-8").splitlines() if _REQUEST.match(line)]

    def revoke_tokens(self) -> None:
        """Make every token that was given out worthless."""
        assert status_of("POST", f"{self.url}/test/revoke") == 200


@contextmanager
def iceberg_server(
    directory: Path, *, prefix: str = "", prefix_in: str = "overrides", client: str = "", page: int | None = None
) -> Iterator[IcebergServer]:
    """Run the adapter until the block ends; the options are those of ``IcebergServer.java``."""
    java = tool("java")
    library = jars(_HERE / "iceberg-pom.xml")
    port = free_port()
    settings = {"port": port, "prefix": prefix, "prefixIn": prefix_in, "client": client, "page": page or ""}
    options = [f"-D{key}={value}" for key, value in settings.items()]
    command = [java, "-Xmx256m", *class_data("iceberg"), *options]
    command += ["-cp", f"{library}/*", str(_HERE / "IcebergServer.java")]
    server = IcebergServer(f"http://127.0.0.1:{port}", directory / f"iceberg-{port}.log")

    def answers() -> bool:
        server.revoke_tokens()
        return True

    with running(command, server.log, answers):
        yield server
