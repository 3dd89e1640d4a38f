"""What catalogs of several kinds are tested over: servers that the files of this folder share, and storage in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.catalogs.iceberg.scripted import scripted_catalog
from tests.catalogs.vending import wrong_environment
from tests.forked import ForkedCall, forking_server
from tests.servers.glue import glue_server
from tests.servers.hive import Version, metastore
from tests.servers.iceberg import iceberg_server
from tests.servers.moto_s3 import s3_application, serving
from tests.servers.s3 import GuardedS3, guarded_s3
from tests.servers.scripted import Scripted

StartOnce = Callable[[str], str]


@dataclass(frozen=True)
class Doomed:
    """Runs ``lancens`` in a fork in the current folder, which is first prepared by :mod:`tests.catalogs.doomed`."""

    address: str

    def __call__(self, prepare: str, *arguments: str, **options: object) -> tuple[int | None, str]:
        """Return the exit code, None where it was killed, and what it has printed."""
        call = ForkedCall(self.address, Path.cwd(), arguments, f"tests.catalogs.doomed:{prepare}", options)
        return call.run()

    def killed(self, lives: int) -> None:
        """Apply what the manifest here says, and kill the process after so many changes."""
        code, printed = self("after_changes", "apply", "--auto-approve", lives=lives)
        assert code is None, printed


@pytest.fixture(scope="session")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    with forking_server(tmp_path_factory.mktemp("forked")) as address:
        yield Doomed(address)


@pytest.fixture(scope="session")
def start_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartOnce]:
    """Start a server where it is first asked for; return how it is reached."""
    with ExitStack() as servers:
        addresses: dict[str, str] = {}

        def start(kind: str) -> str:
            if kind not in addresses:
                folder = tmp_path_factory.mktemp(kind)
                match kind:
                    case "hive2" | "hive3":
                        version: Version = "2.3" if kind == "hive2" else "3.1"
                        addresses[kind] = servers.enter_context(metastore(version, folder)).uri
                    case "iceberg":
                        addresses[kind] = servers.enter_context(iceberg_server(folder, prefix="{warehouse}")).url
                    case "glue":
                        addresses[kind] = servers.enter_context(glue_server(folder)).endpoint
            return addresses[kind]

        yield start


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 that takes whatever key it is asked with."""
    with serving(s3_application()) as address:
        yield address


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedS3]:
    """An S3 that takes one key, which is not that of the environment."""
    wrong_environment(monkeypatch)
    with guarded_s3() as server:
        yield server


@pytest.fixture
def script() -> Iterator[Scripted]:
    """A server that answers as a test tells it to; it begins as an Iceberg REST catalog."""
    with scripted_catalog() as running:
        yield running
