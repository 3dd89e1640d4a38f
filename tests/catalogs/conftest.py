"""Storage in S3, which catalogs of several kinds are tested over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.catalogs.vending import wrong_environment
from tests.servers.s3 import GuardedS3, guarded_s3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 that takes whatever key it is asked with."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedS3]:
    """An S3 that takes one key, which is not that of the environment."""
    wrong_environment(monkeypatch)
    with guarded_s3() as server:
        yield server
