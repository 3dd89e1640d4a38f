"""Run Unity Catalog's reference server, release 0.6, or the stand-in for it.

No registry has the server's jar. ``LANCENS_UNITY_HOME`` names a folder with ``unitycatalog-server-*.jar`` and the
server's ``etc``; without it, tests run on the stand-in, and those that need the real server are skipped, in CI too.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.servers.jars import jars
from tests.servers.process import HUNG_SECONDS, free_port, running, status_of
from tests.servers.require import tool
from tests.servers.unity_contract import API, Answer, Contract, lance_entry

__all__ = [
    "LEFT",
    "Grants",
    "ReferenceServer",
    "guarded_server",
    "reference",
    "reference_server",
    "required_home",
    "unity_home",
]

_HERE = Path(__file__).parent
_HOME = "LANCENS_UNITY_HOME"
_ATTEMPTS = 200
LEFT = "left-"
"""What the names of catalogs begin with that hold a table twice, which the server cannot remove."""
_ROUTES = ("/catalogs", "/schemas", "/tables")
_MAIN = "io.unitycatalog.server.LoopbackMain"
_FUNCTION = {
    "input_params": {"parameters": []},
    "data_type": "INT",
    "full_data_type": "INT",
    "routine_body": "EXTERNAL",
    "routine_definition": "1",
    "parameter_style": "S",
    "is_deterministic": True,
    "sql_data_access": "NO_SQL",
    "is_null_call": False,
    "security_type": "DEFINER",
    "properties": "null",
}


def unity_home() -> Path | None:
    """Return the folder with the server's jar, None where the environment names none."""
    named = os.environ.get(_HOME)
    return Path(named) if named else None


def required_home() -> Path:
    """Return the folder with the server's jar, or skip the test, in CI too."""
    home = unity_home()
    if home is None:
        pytest.skip(f"needs Unity Catalog's own server, which is on no registry: {_HOME} names its folder")
    return home


@dataclass(frozen=True)
class ReferenceServer:
    """A running server. Tests prepare it with the methods that the stand-in has, each a request or two here."""

    url: str
    directory: Path

    # ---- preparing a test ----------------------------------------------------------------------------------------

    def add_catalog(self, name: str, **details: Any) -> None:
        """Make a catalog, with a place for what the server keeps itself."""
        managed = {"storage_root": (self.directory / "managed").as_uri()}
        self._done("POST", "/catalogs", {"name": name, **managed, **details})

    def add_schema(self, catalog: str, name: str, **properties: str) -> None:
        """Make a schema."""
        self._done("POST", "/schemas", {"name": name, "catalog_name": catalog, "properties": properties})

    def add_lance_table(self, catalog: str, schema: str, name: str) -> None:
        """Make an entry as a Lance client does, with two columns."""
        self.add_table(catalog, schema, name, **lance_entry(schema, name))

    def add_table(self, catalog: str, schema: str, name: str, **details: Any) -> None:
        """Make a table: external, a view, or a managed one, which is of Delta and where the server says."""
        names = {"name": name, "catalog_name": catalog, "schema_name": schema}
        body = {**names, "columns": [], **details}
        if body.get("table_type") == "VIEW":
            body |= {"view_definition": "select 1", "columns": lance_entry(schema, name)["columns"]}
        if body.get("table_type") == "MANAGED":
            staged = self._done("POST", "/staging-tables", names)
            properties = {**(body.get("properties") or {}), "io.unitycatalog.tableId": staged["id"]}
            body |= {"data_source_format": "DELTA", "properties": properties}
            body |= {"storage_location": staged["staging_location"], "columns": lance_entry(schema, name)["columns"]}
        self._done("POST", "/tables", {"table_type": "EXTERNAL", "data_source_format": "TEXT", **body})

    def add_other(self, kind: str, catalog: str, schema: str, name: str) -> None:
        """Make a volume, a function or a model; ``kind`` is the route."""
        body: dict[str, Any] = {"name": name, "catalog_name": catalog, "schema_name": schema}
        if kind == "volumes":
            body |= {"volume_type": "EXTERNAL", "storage_location": f"s3://lake/volumes/{name}"}
        if kind == "functions":
            body = {"function_info": {**body, **_FUNCTION, "specific_name": name}}
        self._done("POST", f"/{kind}", body)

    def double(self, *names: str) -> None:
        """Make a catalog, a schema or a table twice, by two creates at the same moment."""
        route = _ROUTES[len(names) - 1]
        body: dict[str, Any] = {
            "name": names[-1],
            **dict(zip(("catalog_name", "schema_name"), names[:-1], strict=False)),
        }
        if len(names) == 3:
            body |= lance_entry(*names[1:])
        for _ in range(_ATTEMPTS):
            with ThreadPoolExecutor(2) as pool:
                made = list(pool.map(self._post_together, [Barrier(2)] * 2, [route] * 2, [body] * 2))
            if all(answer.status == 200 for answer in made):
                return
            self._done("DELETE", f"{route}/{'.'.join(names)}")
        raise AssertionError(f"no two creates of {names} were at the same moment in {_ATTEMPTS} attempts")

    def _post_together(self, barrier: Barrier, route: str, body: Mapping[str, Any]) -> Answer:
        barrier.wait()
        return self._ask("POST", API + route, body, None)

    def remove(self, catalog: str, schema: str, table: str | None = None) -> None:
        """Remove a schema or a table, as somebody else would in between."""
        if table is None:
            self._done("DELETE", f"/schemas/{catalog}.{schema}?force=true")
        else:
            self._done("DELETE", f"/tables/{catalog}.{schema}.{table}")

    def table(self, catalog: str, schema: str, name: str) -> Mapping[str, Any]:
        """Return an entry as it is kept."""
        return self._done("GET", f"/tables/{catalog}.{schema}.{name}")

    def clear(self) -> None:
        """Remove every catalog with all that is in it; one that holds a table twice cannot go, and steps aside."""
        for catalog in self._done("GET", "/catalogs")["catalogs"]:
            if catalog["name"].startswith(LEFT):
                continue
            route = f"{API}/catalogs/{quote(catalog['name'])}"
            if self._ask("DELETE", f"{route}?force=true", None, None).status != 200:
                assert self._ask("PATCH", route, {"new_name": LEFT + str(uuid.uuid4())}, None).status == 200

    def _done(self, method: str, route: str, body: object = None) -> Mapping[str, Any]:
        answer = self._ask(method, API + route, body, None)
        assert answer.status == 200, (method, route, answer)
        return {} if isinstance(answer.body, str) else answer.body

    # ---- answering -----------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Mapping[str, str], body: object, token: str | None) -> Answer:
        """Return the server's answer to one request."""
        return self._ask(method, f"{path}?{urlencode(query)}" if query else path, body, token)

    def _ask(self, method: str, target: str, body: object, token: str | None) -> Answer:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=HUNG_SECONDS)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        told = response.getheader("Content-Type") or ""
        return Answer(response.status, json.loads(text) if told.startswith("application/json") else text)


@dataclass(frozen=True)
class Grants:
    """The users of a server whose authorization is on, and what they may do. Whoever made the server may do all."""

    server: ReferenceServer

    def ask(self, method: str, target: str, body: object, token: str | None = None) -> Answer:
        """Send a request, as the administrator unless with another token."""
        answer = self.server._ask(method, target, body, token or self._key("token.txt").decode().strip())
        assert answer.status in (200, 201), (method, target, answer)
        return answer

    def user(self, email: str) -> str:
        """Make a user; return a token of theirs, signed as the server signs those that it gives."""
        name = {"displayName": email, "emails": [{"value": email, "primary": True}]}
        self.ask("POST", "/api/1.0/unity-control/scim2/Users", name)
        key = serialization.load_der_private_key(self._key("private_key.der"), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        head = {"kid": self._key("key_id.txt").decode().strip(), "alg": "RS512", "typ": "JWT"}
        told = {"sub": email, "iss": "internal", "iat": int(time.time()), "jti": str(uuid.uuid4()), "type": "ACCESS"}
        signed = ".".join(_in_a_token(json.dumps(part).encode()) for part in (head, told))
        return f"{signed}.{_in_a_token(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA512()))}"

    def grant(self, email: str, kind: str, name: str, *privileges: str) -> None:
        """Let a user do something with a ``catalog``, ``schema`` or ``table``."""
        changes = [{"principal": email, "add": [*privileges], "remove": []}]
        self.ask("PATCH", f"{API}/permissions/{kind}/{name}", {"changes": changes})

    def _key(self, name: str) -> bytes:
        return (self.server.directory / "etc/conf" / name).read_bytes()


def _in_a_token(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@contextmanager
def guarded_server(home: Path, directory: Path) -> Iterator[Grants]:
    """Run the server of ``home`` with its authorization on until the block ends."""
    on = {"server.authorization": "enable", "server.allowed-issuers": "http://127.0.0.1:1", "server.audiences": "*"}
    with reference_server(home, directory, on) as server:
        yield Grants(server)


@contextmanager
def reference_server(
    home: Path, directory: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[ReferenceServer]:
    """Run the server of ``home`` until the block ends; ``directory`` is its own, with its state and its log.

    ``settings`` take the place of those in ``server.properties``.
    """
    jar = next(home.glob("unitycatalog-server-*.jar"), None)
    assert jar is not None, f"{_HOME} names a folder without unitycatalog-server-*.jar: {home}"
    java = tool("java")
    (directory / "etc/db").mkdir(parents=True)
    (directory / "etc/conf").mkdir()
    for file in (home / "etc/conf").iterdir():
        shutil.copyfile(file, directory / "etc/conf" / file.name)
    properties = directory / "etc/conf/server.properties"
    kept = [line for line in properties.read_text().splitlines() if line.partition("=")[0] not in settings]
    properties.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in settings.items()), ""]))
    port, inner = free_port(), free_port()
    path = f"{jar}:{jars(_HERE / 'unity-pom.xml')}/*"
    command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, _MAIN]
    server = ReferenceServer(f"http://127.0.0.1:{port}", directory)

    def answers() -> bool:
        return status_of("GET", f"{server.url}{API}/catalogs") in (200, 401)

    with running(
        [*command, str(port), str(inner)],
        directory / "unity.log",
        answers,
        directory=directory,
    ):
        yield server


@contextmanager
def reference(directory: Path) -> Iterator[Contract | ReferenceServer]:
    """Run the real server where the environment names one, or give the stand-in; neither has a catalog yet."""
    home = unity_home()
    if home is None:
        yield Contract()
    else:
        with reference_server(home, directory) as server:
            yield server
