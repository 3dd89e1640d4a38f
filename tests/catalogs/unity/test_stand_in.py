"""Replay what Unity Catalog 0.6.0 was asked, and compare the answers.

``tests/servers/recorded/unity-0.6.0*.jsonl`` was recorded from Unity Catalog 0.6.0, in order, from an empty server. A
line holds a request and the answer; ``<x*300>`` is 300 of ``x``, ``raw`` a body that is not JSON, ``HOME`` the server's
own folder, and of an answer that is ``cut`` the file has the beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import servers
from tests.servers.unity import LEFT, ReferenceServer, required_home
from tests.servers.unity_contract import API, Contract
from tests.servers.unity_contract_server import serving
from tests.servers.unity_values import HOME

RECORDINGS = sorted((Path(*servers.__path__) / "recorded").glob("unity-0.6.0*.jsonl"))
VOLATILE = {"id", "schema_id", "table_id", "volume_id", "created_at", "updated_at"}
TOO_LONG = "Value too long for column"
"""The one sentence of these errors that lancens looks for."""


def recording(path: Path) -> Iterator[dict[str, Any]]:
    text = re.sub(r"<(.)\*(\d+)>", lambda run: run[1] * int(run[2]), path.read_text())
    return map(json.loads, text.splitlines())


def comparable(body: object, home: str = "HOME", key: str = "") -> object:
    """Return an answer without what differs from one run to the next, and an error without its wording."""
    if isinstance(body, Mapping):
        compared = {**body, "message": TOO_LONG in body["message"]} if "error_code" in body else body
        return {name: comparable(value, home, name) for name, value in compared.items()}
    if isinstance(body, list):  # other tests leave catalogs on the real server that cannot be removed
        return [
            comparable(entry, home)
            for entry in body
            if not (isinstance(entry, Mapping) and str(entry.get("name")).startswith(LEFT))
        ]
    if key in VOLATILE:
        return type(body).__name__
    return body.replace(home, "HOME") if isinstance(body, str) else body


def beginning(of: object, like: object) -> object:
    """Return as much of an answer as ``like`` has."""
    if isinstance(of, dict) and isinstance(like, dict):
        return {key: beginning(of.get(key), value) for key, value in like.items()}
    if isinstance(of, list) and isinstance(like, list):
        return [beginning(*pair) for pair in zip(of, like, strict=False)]
    return of


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("real", [False, True], ids=["stand-in", "real"])
def test_a_server_answers_as_release_0_6_0_did(real: bool, path: Path, reference: ReferenceServer | None) -> None:
    if real:
        required_home()
    server = reference if real and reference is not None else Contract()
    server.clear()
    home = str(server.directory) if isinstance(server, ReferenceServer) else HOME
    differences = []
    with serving(server) as unity, requests.Session() as session:
        for line in recording(path):
            sent = {"data": line["raw"]} if "raw" in line else {"json": line["body"]}
            asked = session.request(line["method"], unity.url + API + line["path"], params=line["query"], **sent)
            expected = comparable(line["answer"])
            is_json = asked.headers["Content-Type"].startswith("application/json")
            found = comparable(asked.json() if is_json else asked.text, home)
            if line.get("cut"):
                found = beginning(found, expected)
            if (asked.status_code, found) != (line["status"], expected):
                differences.append(
                    f"{str(line)[:400]}\n  expected {line['status']} {str(expected)[:900]}"
                    f"\n  found    {asked.status_code} {str(found)[:900]}"
                )
    assert differences == []


def test_every_recorded_answer_is_replayed() -> None:
    assert [len(list(recording(path))) for path in RECORDINGS] == [218, 369]
