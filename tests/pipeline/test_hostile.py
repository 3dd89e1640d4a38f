"""An audit of catalogs whose every name, property, place, error and past run is an attack: reports hold text only."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import lance
import pyarrow as pa
import pytest

from tests.cli.running import Ran, lancens
from tests.security.hostile import EVIL, assert_harmless
from tests.servers.scripted import Request, Scripted, scripted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAG = "</script><script>window.owned=1</script><img src=x onerror=owned()>"
TEXT = EVIL.replace("\ud800", "")
"""Half a character is no text for Spark: what has one is an error of its own."""
FORMULA = '=HYPERLINK("https://evil.example","x")'
LINK = "[x](https://evil.example) ![x](javascript:owned()) @octocat"
NAMES = [TAG, FORMULA, LINK, "::error::forged", "a\x1b[2J\nb\u202ec", "##[error]x", "..", "plain"]
OWNED = "window.owned"


def _catalog(place: Path) -> Iterator[Scripted]:
    places = [TAG, "../../../etc/passwd", f"{LINK}\x1b]8;;https://evil.example\x07", TEXT, "%2e%2e/%00", "a\\..\\b"]

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
                where = places[len(identifier) % len(places)]
                properties = {TEXT: TEXT, TAG: TAG, FORMULA: FORMULA, "lancens.managed-by": TEXT, "lancens.keys": TAG}
                return 200, {"location": f"file://{place}/{where}.lance", "properties": properties}

    with scripted(answer) as server:
        yield server


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Data that no catalog names, in folders that are named like attacks."""
    lake = tmp_path / "lake"
    for name in (FORMULA, TAG, "::error::forged", "\x1b[2J\u202e"):
        made = lake / "made.lance"
        lance.write_dataset(pa.table({TEXT.replace(".", ""): [1]}), str(made))
        made.rename(lake / f"{name.replace('/', '')}.lance")
    (lake / os.fsdecode(b"\xff\xfe.lance/_versions")).mkdir(parents=True)
    return lake


@pytest.fixture
def catalog(lake: Path) -> Iterator[Scripted]:
    yield from _catalog(lake)


@pytest.fixture
def broken() -> Iterator[Scripted]:
    with scripted(lambda _: (400, {"error": EVIL, "code": 13, "detail": f"{LINK}{TAG}"})) as server:
        yield server


class _Page(HTMLParser):
    """Notes what a page has that could act, and what it shows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.acting: list[str] = []
        self.scripts = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.acting += [tag] if tag in ("img", "iframe", "object", "embed", "base") else []
        self.acting += [name for name, _ in attrs if name.startswith("on") or name in ("style", "srcdoc")]
        places = [value or "" for name, value in attrs if name in ("src", "href", "action", "formaction")]
        self.acting += [place for place in places if not place.startswith(("#", "data:image/svg+xml,%3Csvg "))]


def _check(ran: Ran) -> Ran:
    assert_harmless(ran.out)
    assert_harmless(ran.err)
    assert "Traceback" not in ran.err
    assert "fault of lancens" not in ran.err
    return ran


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


def _forge_a_run(history: Path) -> None:
    """Append an earlier run to the history as somebody who may write to it."""
    dataset = lance.dataset(str(history))
    row = dataset.to_table().to_pylist()[0]
    row["run_id"] = f"{TAG}{TEXT}"
    row["coverage"] = [{**row["coverage"][0], "name": TAG, "impl": TEXT}]
    row["by_rule"] = [{**row["by_rule"][0], "rule": f"{TAG}::error::"}]
    row["by_catalog"] = [{**row["by_catalog"][0], "catalog": TEXT}]
    lance.write_dataset(pa.Table.from_pylist([row], schema=dataset.schema), str(history), mode="append")


def test_an_audit_of_hostile_catalogs_is_text(
    catalog: Scripted,
    broken: Scripted,
    spark: SparkSession,
    lake: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n"
        f"  lake:\n    impl: rest\n    config: {{uri: '{catalog.url}', root: '{lake}'}}\n"
        "    namespaces: {plain: {properties: {tier: gold}, tables: {plain: {properties: {tier: gold}}, new: {}}}}\n"
        f"  broken: {{impl: rest, config: {{uri: '{broken.url}'}}}}\n"
    )
    history = ["--history", "history.lance"]

    printed = _check(lancens(capsys, "audit", "--engine", "local", *history))
    _forge_a_run(tmp_path / "history.lance")
    reported = _check(lancens(capsys, "audit", "--engine", "spark", *history, "--out", "report"))
    for ran in (printed, reported):
        assert ran.code == 1, ran.err  # one catalog could not be read
        assert "broken" in ran.err
        assert "forged" in ran.err

    files = {name: (tmp_path / "report" / name).read_text("utf-8") for name in ("audit.json", "audit.sarif")}
    html = (tmp_path / "report/audit.html").read_text("utf-8")
    for name, text in {**files, "audit.html": html}.items():
        acting = {one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs")}
        assert not acting, (name, acting)
        assert "##[" not in text, name
        assert not [line for line in text.splitlines() if line.strip().startswith("::")], name

    page, empty = _Page(html), _Page(html.replace(TAG, ""))
    assert page.acting == []
    assert page.scripts == empty.scripts
    assert OWNED in html  # it is there, as text
    assert f"<script>{OWNED}" not in html

    document = json.loads(files["audit.json"])
    assert {table["name"] for table in document["tables"]} == {"::error::forged", "##[error]x", "plain"}
    assert {finding["rule"] for finding in document["findings"]} >= {"dangling", "unreadable", "missing"}
    assert len(document["history"]) == 3

    [run] = json.loads(files["audit.sarif"])["runs"]
    for result in run["results"]:
        for place in result["locations"]:
            assert place["physicalLocation"]["artifactLocation"]["uri"] == "lancens.yaml"
    for shown in (*run["results"], *run["invocations"][0]["toolExecutionNotifications"]):
        for text in _texts(shown):
            assert text.isprintable(), text
        assert "[x](" not in shown["message"]["text"].replace("\\[x](", "")  # escaped, it is no link
