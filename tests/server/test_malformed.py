"""Requests that no client should send: each gets a 4xx, and the server goes on as if nothing had been."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.client import Api
from tests.server.command import resident_kilobytes, started
from tests.soak import count, seeded

ROUTES = [
    "/v1/namespace/a/describe",
    "/v1/namespace/a/create",
    "/v1/namespace/a/drop",
    "/v1/table/a%24t/describe",
    "/v1/table/a%24t/declare",
    "/v1/table/a%24t/register",
    "/CreateNamespace",
    "/AlterTable",
    "/AlterNamespace",
    "/ListTables",
]
VALUES: list[object] = [
    1,
    -1,
    True,
    0.5,
    [],
    [[]],
    {"a": 1},
    {"a": None},
    "\ud800",
    10**30,
    ["a", 1],
    [None],
    "x" * 300,
]
KEYS = ["id", "properties", "mode", "location", "set_properties", "unset_properties", "limit", "behavior"]


def _http(method: str, path: str, body: bytes = b"", headers: tuple[str, ...] = ()) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body


def _json(path: str, body: bytes) -> bytes:
    return _http("POST", path, body, ("Content-Type: application/json",))


def _noise(dice: random.Random) -> bytes:
    return bytes(dice.randrange(256) for _ in range(dice.randrange(1, 200))) + b"\r\n\r\n"


def _no_route(dice: random.Random) -> bytes:
    path = "".join(dice.choice("abv1/%$.+-~0") for _ in range(dice.randrange(1, 40))).replace("%", "%25")
    return _http(dice.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "BREW"]), f"/x{path}")


def _other_method(dice: random.Random) -> bytes:
    return _http(dice.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "GET"]), dice.choice(ROUTES))


def _no_json(dice: random.Random) -> bytes:
    whole = json.dumps({"id": ["a"], "properties": {"k": "v"}}).encode()
    cut = whole[: dice.randrange(1, len(whole))]
    return _json(dice.choice(ROUTES), dice.choice([cut, b"\xff\xfe", b"[" * 50_000, b'{"a":' * 5_000, b"nul", b"'"]))


def _other_json(dice: random.Random) -> bytes:
    return _json(dice.choice(ROUTES), json.dumps(dice.choice([[], 1, "text", True, [{}]])).encode())


def _no_type(dice: random.Random) -> bytes:
    kinds = ("Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: ;;")
    return _http("POST", dice.choice(ROUTES), b"{}", (dice.choice(kinds),))


def _wrong_value(dice: random.Random) -> bytes:
    identifier = dice.choice([*filter(None, VALUES), ["no$"], [""], ["a\x00b"], ["..", "x"]])
    body = {dice.choice(KEYS): dice.choice(VALUES), "id": identifier}
    return _json(dice.choice(ROUTES), json.dumps(body).encode())


def _wrong_name(dice: random.Random) -> bytes:
    name = dice.choice(["%ff", "%00", "a%24%24b", "%24a", "a%2Fb", "x" * 400, "..", "%ed%a0%80", "%0d%0aX: y", "%7f"])
    return _json(f"/v1/table/{name}/declare", b'{"location": "s3://lake/x"}')


def _wrong_query(dice: random.Random) -> bytes:
    query = dice.choice(
        ["limit=x", "limit=0", "limit=-3", "limit=99999999999999", "include_declared=maybe", "limit=%ff"]
    )
    return _http("GET", f"/v1/namespace/a/table/list?{query}&delimiter=%24")


def _wrong_delimiter(dice: random.Random) -> bytes:
    return _http("POST", f"/v1/table/a%24t/describe?delimiter={'x' * dice.randrange(17, 200)}")


def _wrong_length(dice: random.Random) -> bytes:
    length = dice.choice(["x", "-1", "1, 2", "0x10", ""])
    return f"POST /ListTables HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()


def _wrong_head(dice: random.Random) -> bytes:
    return dice.choice(
        [
            b"GET /healthz HTTP/banana\r\nHost: localhost\r\n\r\n",
            b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
            b"GET /ListTables HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
            b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /ListTables HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: banana\r\n\r\n",
            b"POST /ListTables HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        ]
    )


def _no_stream(dice: random.Random) -> bytes:
    query = dice.choice(
        ["", "?mode=maybe", "?properties=x", "?properties=[]", '?properties={"a":1}', "?mode=overwrite"]
    )
    return _http("POST", f"/v1/table/a%24new/create{query}", b"ARROW1" * dice.randrange(0, 9))


def _rows(dice: random.Random) -> bytes:
    return _json(f"/v1/table/a%24t/{dice.choice(['query', 'insert', 'delete', 'index/x/drop', 'drop'])}", b"{}")


def _other_catalog(dice: random.Random) -> bytes:
    return _json(f"/v1/namespace/{dice.randrange(10**9)}/describe", b"{}")


KINDS: list[Callable[[random.Random], bytes]] = [
    _noise,
    _no_route,
    _other_method,
    _no_json,
    _other_json,
    _no_type,
    _wrong_value,
    _wrong_name,
    _wrong_query,
    _wrong_delimiter,
    _wrong_length,
    _wrong_head,
    _no_stream,
    _rows,
    _other_catalog,
]


BUSY = "HTTP/1.1 503 Service Unavailable"


def _status(api: Api, request: bytes) -> str:
    """Send ``request`` on a connection of its own and return what the answer's first line says."""
    with socket.create_connection((api.host, api.port), timeout=30) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may be answered before it is read to its end
            connection.sendall(request)
        try:
            return connection.recv(64).decode("latin-1").partition("\r\n")[0]
        except ConnectionResetError:
            return "reset"


@pytest.mark.soak
def test_malformed_requests_are_4xx_each_and_the_server_lives(tmp_path: Path) -> None:
    dice = seeded("malformed requests")
    with started("--impl", "memory", "--timeout", "5", folder=tmp_path) as (process, url):
        api = Api(url)
        assert api("POST", "/CreateNamespace", {"id": ["a"]}).status == 200
        assert api("POST", "/v1/table/a%24t/declare", {"location": "s3://lake/t"}).status == 200
        # The first request that reads a stream of rows loads pylance and PyArrow: 120 MB that are no leak. On a busy
        # machine, that takes longer than a request may.
        while (answer := _status(api, _http("POST", "/v1/table/a%24new/create", b"ARROW1" * 8))) == BUSY:
            pass
        assert answer.startswith("HTTP/1.1 400")
        total, before = count(600, 10_000), 0
        for number in range(total):
            if number == total // 2:
                before = resident_kilobytes(process)
            kind = KINDS[number % len(KINDS)]
            request = kind(dice)
            said = _status(api, request)
            assert said.startswith("HTTP/1.1 4"), (kind.__name__, request[:300], said)
        assert api("POST", "/ListNamespaces", {}).json == {"namespaces": ["a"]}
        assert api("POST", "/ListTables", {"id": ["a"]}).json == {"tables": ["t"]}
        assert resident_kilobytes(process) < before + 50_000
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 100
    assert "Traceback" not in (tmp_path / "serve.log").read_text()
    assert "unforeseen" not in (tmp_path / "serve.log").read_text()
