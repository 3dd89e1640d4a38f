"""Replay what Apache Polaris 1.5.0 was asked, one request and answer of each kind, and compare the answers.

Every location was recorded as `/BASE`, of which each request here gets one that had the recorded answer.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import urllib3

from tests import servers
from tests.servers.polaris import Polaris

RECORDED = (Path(*servers.__path__) / "recorded/polaris-1.5.0.jsonl").read_text("utf-8").splitlines()
VOLATILE = {"table-uuid", "last-updated-ms", "timestamp-ms", "created-at", "createTimestamp", "lastUpdateTimestamp"}
GENERIC = {
    "format": "lance",
    "base-location": "file:///BASE",
    "doc": "d",
    "properties": {"table_type": "lance", "k": "v"},
}
Line = dict[str, Any]


def comparable(value: object, key: str = "") -> object:
    """Return an answer without the rest of locations, and without what differs from one run to the next."""
    if isinstance(value, dict):
        return {name: comparable(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if key in VOLATILE:
        return type(value).__name__
    return (
        re.sub(r"index \d+", "index N", re.sub(r"/BASE[^\s'\]]*", "/BASE", value)) if isinstance(value, str) else value
    )


def body_of(line: Line) -> Any:
    """Return the body to send, with a location that had the recorded answer."""
    body, message = copy.deepcopy(line["body"]) or None, str(line["answer"])
    if isinstance(body, dict) and body.get("location"):
        parts = line["request"].split("/")
        within = f"/BASE/{parts[4]}/{parts[6]}"
        outside = "allowed locations" in message
        body["location"] = (
            "/BASE-other/t" if outside else f"{within}/page views" if "Illegal" in message else f"{within}/t"
        )
    return body


def furnish(polaris: Polaris, line: Line) -> None:
    """Put into the stand-in what the real server had when it was asked."""
    parts = [unquote(part) for part in line["request"].partition("?")[0].split("/")[2:]]
    message = str(line["answer"])
    if parts[0] == "management":
        there = {"lake2"} if "overlaps" in message else {name for name in parts[3:4] if line["status"] != 404}
        polaris.warehouses = {name: {"default-base-location": "file:///BASE"} for name in there}
        return
    warehouse, *rest = [*parts[3 if parts[1:2] == ["polaris"] else 2 :], ""]
    polaris.warehouses = {name: {"default-base-location": f"file:///BASE/{name}"} for name in {"ware", warehouse}}
    if "LIST_VIEWS" in message:
        polaris.denied.add("LIST_VIEWS")
    if rest[:2] == ["tables", "rename"]:
        ends = [line["body"]["source"], line["body"]["destination"]][: 1 + ("already exists" in message)]
        for end in ends:
            add_table(polaris, (warehouse, *end["namespace"]), end["name"])
    elif rest[:1] == ["namespaces"] and len(rest) > 2 and "Namespace does not exist" not in message:
        fill(polaris, line, (warehouse, *rest[1].split("\x1f")), rest[2:-1])
    elif "already exists" in message:
        polaris.namespaces[warehouse, *line["body"]["namespace"]] = {}


def fill(polaris: Polaris, line: Line, space: tuple[str, ...], below: list[str]) -> None:
    """Make the namespace that a request is about, with what the answer says is in it."""
    message, answer, body = str(line["answer"]), line["answer"], line["body"] or {}
    location = f"file:///BASE/{'/'.join(space)}"
    properties = answer["properties"] if line["request"].startswith("GET") and not below else {}
    polaris.namespaces[space] = {"team": "ads", **properties, "location": location}
    if "Generic table" in message or ("gen1" in message and "POST" not in line["request"]):
        polaris.generic[*space, "gen1"] = {"name": "gen1", **GENERIC}
    elif "is not empty" in message or "Table already exists" in message:
        add_table(polaris, space, body.get("name", "t"))
    elif below[:1] == ["tables"] and below[1:] and line["status"] != 404:
        add_table(polaris, space, below[1])
        if answer:
            gone = {key: "" for update in body.get("updates", ()) for key in update["removals"]}
            table = answer["metadata"]
            polaris.tables[*space, below[1]] |= {
                "properties": table["properties"] | gone,
                "table-uuid": table["table-uuid"],
                "location": location.removeprefix("file://"),
            }


def add_table(polaris: Polaris, space: tuple[str, ...], name: str) -> None:
    polaris.namespaces.setdefault(space, {})
    field = {"id": 1, "name": "dummy", "required": False, "type": "string"}
    body = {"name": name, "schema": {"type": "struct", "schema-id": 0, "fields": [field]}, "properties": {}}
    polaris.answer("POST", f"/api/catalog/v1/{space[0]}/namespaces/{'%1F'.join(space[1:])}/tables", body)


@pytest.mark.parametrize("line", RECORDED)
def test_the_stand_in_answers_as_polaris_did(line: str, polaris: Polaris) -> None:
    recorded = json.loads(line)
    furnish(polaris, recorded)
    method, _, target = recorded["request"].partition(" ")
    etag = ""
    if recorded["status"] == 304:
        [(name, _)] = polaris.tables.items()
        etag = polaris.etag(name) or ""
    url, headers = polaris.url.removesuffix("/api/catalog") + target, {"If-None-Match": etag}
    body = None if recorded["body"] == "***" else body_of(recorded)
    answer = urllib3.request(method, url, json=body, headers=headers if etag else None, timeout=30, retries=False)
    assert answer.status == recorded["status"]
    if recorded["answer"] != "(credentials cut)":
        found = json.loads(answer.data) if answer.data else ""
        assert comparable(found) == comparable(recorded["answer"])


def test_both_a_change_and_a_removal_leave_half_of_it_done(polaris: Polaris) -> None:
    polaris.namespaces["ware", "ads"] = {"team": "ads", "old": "1"}
    path = "/api/catalog/v1/ware/namespaces/ads/properties"
    status, _ = polaris.answer("POST", path, {"updates": {"team": "new"}, "removals": ["old"]})
    assert (status, polaris.namespaces["ware", "ads"]) == (409, {"team": "new", "old": "1"})
