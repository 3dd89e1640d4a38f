"""A Glue and an STS for tests: the fixture, and what a test can tell the server and ask it."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.servers.process import HUNG_SECONDS, free_port, running

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

__all__ = ["ACCESS_KEY", "ACCOUNT", "REGION", "SECRET_KEY", "Call", "GlueServer", "glue_server", "one_loader"]

ACCOUNT = "123456789012"
REGION = "us-east-1"
ACCESS_KEY = "AKIAGLUETESTERKEY"
SECRET_KEY = "static-secret-of-the-glue-tests"

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Call:
    """One request the server got, and who signed it for which region."""

    action: str
    body: Mapping[str, Any]
    key: str
    region: str
    token: str | None


class GlueServer:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    def config(self, **more: str) -> dict[str, str]:
        """Return the configuration of a backend that reaches this server."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            **more,
        }

    @cached_property
    def client(self) -> GlueClient:
        """A plain client, as another program would use."""
        import boto3

        return boto3.client(
            "glue",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def reset(self) -> None:
        """Forget the calls, failures and permissions; the objects stay."""
        self._tell("reset")

    def clear(self) -> None:
        """Empty the catalogs too."""
        self._post("/moto-api/reset", {})
        self._tell("clear")

    def calls(self) -> list[Call]:
        """Return what was asked since the last reset."""
        return [Call(**call) for call in self._tell("look")["calls"]]

    def counts(self) -> Counter[str]:
        """Return how often each action was asked for since the last reset."""
        return Counter(call.action.partition(":")[2] for call in self.calls())

    def unfit(self) -> list[str]:
        """Return what botocore's model finds wrong in the server's own answers since the last reset."""
        return [str(fault) for fault in self._tell("look")["unfit"]]

    def fail(
        self, action: str, code: str, message: str = "", *, times: int = 1, skip: int = 0, status: int = 400
    ) -> None:
        """Refuse ``times`` calls of ``action``, ``*`` being every one, after letting ``skip`` of them through."""
        self._fault(action, code=code, message=message, times=times, skip=skip, status=status)

    def lose(self, action: str) -> None:
        """Carry out the next call of ``action``, and answer as if the service were unavailable."""
        self._fault(action, code="ServiceUnavailable", status=503, after=True)

    def answer(self, action: str, raw: str, *, status: int = 200, times: int = 1) -> None:
        """Answer the next calls of ``action`` with ``raw``."""
        self._fault(action, raw=raw, status=status, times=times)

    def _fault(self, action: str, **more: Any) -> None:
        usual = {"code": "", "message": "", "times": 1, "skip": 0, "status": 400, "raw": None, "after": False}
        self._tell("fault", action=action, **{**usual, **more})

    def allow(self, actions: Iterable[str] | None) -> None:
        """Deny every action but these, such as ``glue:GetTable``; None allows all."""
        self._tell("allow", actions=None if actions is None else sorted(actions))

    def add_catalog(self, name: str, given: Mapping[str, Any] | None = None, region: str = REGION) -> None:
        """Make a catalog that CreateCatalog cannot make, such as ``parent/child``."""
        self._tell("catalog", name=name, given=dict(given or {}), region=region)

    def add_tables(
        self, database: str, entries: Sequence[Mapping[str, Any]], catalog: str = ACCOUNT, region: str = REGION
    ) -> None:
        """Make many tables at once, and their database where it is missing."""
        self._tell("tables", catalog=catalog, database=database, entries=list(entries), region=region)

    def add_function(self, database: str, name: str, region: str = REGION) -> None:
        """Make a user-defined function in a database of the root catalog."""
        self._tell("function", database=database, name=name, region=region)

    def _tell(self, do: str, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._post("/_control", {"do": do, **more}))
        return told

    def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        request = urllib.request.Request(  # noqa: S310 -- the address is 127.0.0.1
            self.endpoint + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=HUNG_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())


@contextmanager
def glue_server(directory: Path) -> Iterator[GlueServer]:
    """Run a server, its log in ``directory``."""
    port = free_port()
    server = GlueServer(port)
    command = [sys.executable, "-m", "tests.servers.glue_server", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "MOTO_IAM_LOAD_MANAGED_POLICIES": "false"}

    def answers() -> bool:
        server.reset()
        server.client.get_databases()
        return True

    log = directory / "glue.log"
    with one_loader(), running(command, log, answers, environment=environment, directory=_ROOT):
        server.reset()
        yield server


@contextmanager
def one_loader() -> Iterator[None]:
    """Within this process, let botocore read its models of services once, and not for every client."""
    import botocore.loaders

    with mock.patch("botocore.session.create_loader", cache(botocore.loaders.create_loader)):
        yield
