"""A catalog whose every name, property and place is an attack, audited: the reports hold text and nothing else."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.cli.running import Ran, shell
from tests.security.hostile import EVIL, assert_harmless
from tests.servers.lance_rest import Request, Scripted, scripted

TAG = "</script><script>window.owned=1</script><img src=x onerror=owned()>"
TEXT = EVIL.replace("\ud800", "")
"""Half a character is no text for Spark: a namespace with one is an error of its own."""
FORMULA = '=HYPERLINK("https://evil.example","x")'
NAMES = [TAG, FORMULA, "::error::forged", "a\x1b[2J\nb\u202ec", "##[error]x", "plain"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Scripted]:
    place = tmp_path / "lake"
    place.mkdir()
    (place / f"{FORMULA.replace('/', '')}\x1b[2J<script>.lance").mkdir()

    def answer(request: Request) -> tuple[int, object]:
        if request.path == "/ListOperations":
            return 200, {"operations": []}
        _, _, kind, identifier, *rest = request.path.split("/")
        match kind, rest:
            case "namespace", ["list"]:
                return 200, {"namespaces": NAMES if unquote(identifier) == "$" else []}
            case "namespace", ["table", "list"]:
                return 200, {"tables": [] if unquote(identifier) == "$" else NAMES}
            case _:
                properties = {TEXT: TEXT, TAG: TAG, FORMULA: FORMULA, "lancens.managed-by": TEXT}
                return 200, {"location": f"file://{place}/{TAG}.lance", "properties": properties}

    with scripted(answer) as server:
        yield server


class _Page(HTMLParser):
    """Notes what a page has that could act."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag] if tag in ("img", "iframe", "object", "embed", "base", "form") else []
        self.found += [name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "").lower()]
        self.found += [value or "" for name, value in attrs if name in ("src", "href") and "evil" in (value or "")]


def _check(ran: Ran) -> None:
    assert_harmless(ran.out)
    assert_harmless(ran.err)
    assert "Traceback" not in ran.err
    assert "fault of lancens" not in ran.err


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, one in value.items():
                yield from (key, *_texts(one))
        case list():
            for one in value:
                yield from _texts(one)


def test_an_audit_of_a_hostile_catalog_is_text(catalog: Scripted, java: None, tmp_path: Path) -> None:
    reach = ["--impl", "rest", "--config", f"uri={catalog.url}", "--config", f"root={tmp_path}/lake"]
    ran = shell("audit", *reach, "--out", "report", "--history", "history.lance", folder=tmp_path)
    _check(ran)
    assert ran.code in (0, 1), ran.err
    for name in ("audit.json", "audit.sarif", "audit.html"):
        text = (tmp_path / "report" / name).read_text("utf-8")
        acting = {one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs")}
        assert not acting, (name, acting)
    page = _Page()
    html = (tmp_path / "report/audit.html").read_text("utf-8")
    page.feed(html)
    assert page.found == []
    assert "window.owned" in html  # it is there, as text
    assert "<script>window.owned" not in html
    sarif = json.loads((tmp_path / "report/audit.sarif").read_text("utf-8"))
    for result in sarif["runs"][0]["results"]:
        for text in _texts(result["message"]):
            assert "\n::" not in text
            assert "<script>" not in text.replace("\\<", "") or "`" in text
    document = json.loads((tmp_path / "report/audit.json").read_text("utf-8"))
    assert document["totals"]["tables"] == len(NAMES) ** 2
    _check(shell("audit", *reach, folder=tmp_path))


def test_an_inventory_of_a_hostile_catalog_is_text(catalog: Scripted, java: None, tmp_path: Path) -> None:
    (tmp_path / "lancens.yaml").write_text(
        f"version: 1\nname: shop\ncatalogs: {{c: {{impl: rest, config: {{uri: '{catalog.url}'}}}}}}\n"
    )
    ran = shell("inventory", folder=tmp_path)
    _check(ran)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["name"] for row in rows if row["kind"] == "table"} >= {TAG, FORMULA}
