"""Text that others chose is only ever text: it forges no line, moves no cursor, commands no runner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.errors import (
    BlockedError,
    CatalogError,
    ErrorCode,
    InternalError,
    ManifestError,
    Problem,
)
from tests.cli.running import Ran, lancens, shell
from tests.security.hostile import EVIL, FORGED, HostileCatalog, assert_harmless
from tests.servers.scripted import Request, scripted


@pytest.fixture
def catalog() -> Iterator[tuple[HostileCatalog, str]]:
    hostile = HostileCatalog()
    with scripted(hostile.answer()) as server:
        yield hostile, server.url


@pytest.fixture
def manifest(tmp_path: Path, catalog: tuple[HostileCatalog, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest over the hostile catalog: it claims one namespace and one table, and prunes the rest."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lancens.yaml"
    path.write_text(
        "version: 1\nname: feature-store\ncatalogs:\n  lake:\n    impl: rest\n    prune: all\n"
        f"    config: {{uri: '{catalog[1]}'}}\n"
        "    namespaces:\n      plain:\n        tables:\n"
        "          kept: {properties: {tier: gold}}\n          new: {location: 'file:///nowhere/new.lance'}\n"
    )
    return path


def _check(ran: Ran) -> Ran:
    assert_harmless(ran.out)
    assert_harmless(ran.err)
    assert "Traceback" not in ran.err
    return ran


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "--full"],
        ["plan", "--format", "markdown"],
        ["plan", "--format", "html"],
        ["plan", "--format", "json"],
        ["plan", "--take-over", "--allow-mass-removal"],
        ["drift"],
        ["import", "--catalog", "lake"],
        ["apply", "--auto-approve", "--take-over", "--allow-mass-removal"],
        ["validate"],
        ["doctor"],
        ["doctor", "--format", "json"],
        ["release", "lake/**", "--auto-approve"],
    ],
    ids=" ".join,
)
def test_live_names_and_values_are_only_text(
    arguments: list[str], manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = _check(lancens(capsys, *arguments))
    assert ran.out or ran.err


def test_a_catalog_without_a_manifest_is_imported_as_text(
    catalog: tuple[HostileCatalog, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _check(lancens(capsys, "import", "--impl", "rest", "--config", f"uri={catalog[1]}"))


@pytest.mark.parametrize(
    "arguments",
    [
        *(["plan"], ["--debug", "plan"], ["drift"], ["import", "--catalog", "lake"], ["apply", "--auto-approve"]),
        *(["doctor"], ["doctor", "--format", "json"], ["release", "lake/**", "--auto-approve"]),
    ],
    ids=" ".join,
)
def test_what_a_service_says_of_its_failure_is_one_line(
    arguments: list[str], manifest: Path, catalog: tuple[HostileCatalog, str], capsys: pytest.CaptureFixture[str]
) -> None:
    catalog[0].broken = True
    ran = lancens(capsys, *arguments)
    assert_harmless(ran.out)
    assert_harmless(ran.err)
    assert ran.code == 1
    assert "forged" in ran.out + ran.err


def test_what_an_import_leaves_out_is_named_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """No manifest holds such a key; found by the corpus."""

    def answer(request: Request) -> tuple[int, object]:
        names: dict[str, list[str]] = {"namespaces": []} if request.path.endswith("/list") else {"operations": []}
        if "/table/list" in request.path:
            return 200, {"tables": ["t"]}
        return 200, {**names, "location": "s3://lake/t", "properties": {f"{EVIL} ##[error]": "v"}}

    with scripted(answer) as server:
        ran = _check(lancens(capsys, "import", "--impl", "rest", "--config", f"uri={server.url}"))
    assert "is left out" in ran.out


def test_conformance_shows_what_a_hostile_service_answers_as_text(
    catalog: tuple[HostileCatalog, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _check(lancens(capsys, "conformance", "--impl", "rest", "--config", f"uri={catalog[1]}"))


def test_a_saved_plan_and_a_journal_that_somebody_wrote_are_text(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lancens(capsys, "plan", "-o", "plan.json", "--take-over", "--allow-mass-removal")
    for form in ("text", "markdown", "html", "json"):
        _check(lancens(capsys, "show", "plan.json", "--format", form))
    entries: list[dict[str, object]] = [
        {
            "entry": "header",
            "format_version": "1.0",
            "run": EVIL,
            "manifest": EVIL,
            "plan": EVIL,
            "at": EVIL,
            "changes": 1,
        },
        {"entry": "intent", "change": 0, "action": EVIL, "address": EVIL},
        {"entry": "outcome", "change": 1, "action": EVIL, "address": EVIL, "status": "failed", "message": EVIL},
        {"entry": "outcome", "change": 2, "action": EVIL, "address": EVIL, "status": EVIL, "message": EVIL},
    ]
    Path("run.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    ran = _check(lancens(capsys, "show", "run.jsonl"))
    assert "fault of lancens" not in ran.err


_TEXT = json.dumps(EVIL)
_MEMORY = "catalogs: {m: {impl: memory, "


@pytest.mark.parametrize(
    "text",
    [
        f"name: {_TEXT}\ncatalogs: {{}}",
        f"name: x\n{_TEXT}: 1\ncatalogs: {{}}",
        f"name: x\ncatalogs: {{{_TEXT}: {{impl: memory, namespaces: {{a: {{}}}}}}}}",
        f"name: x\ncatalogs: {{m: {{impl: {_TEXT}}}}}",
        f"name: x\n{_MEMORY}tables: {{t: {{schema: [{{name: a, type: {_TEXT}}}]}}}}}}}}",
        f"name: x\ninclude: [{_TEXT}]\ncatalogs: {{}}",
        f"name: x\n{_MEMORY}namespaces: {{n: {{tables: {{{_TEXT}: {{}}}}}}}}}}}}",
        f"name: x\n{_MEMORY}namespaces: {{n: {{properties: {{{_TEXT}: {_TEXT}}}}}}}}}}}",
    ],
)
def test_a_manifest_that_somebody_wrote_is_text(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for escaped in (text, text.replace("\\ud800", "")):
        Path("lancens.yaml").write_text(f"version: 1\n{escaped}\n")
        for command in ("validate", "plan"):
            assert "fault of lancens" not in _check(lancens(capsys, command)).err


def test_file_names_and_arguments_are_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = EVIL.replace("\ud800", "").replace("/", "")[:120]
    Path(name).write_text("version: 2\n")
    for arguments in ([name], ["validate", name], ["show", name], ["plan", "--select", name], ["plan", f"{name}.yaml"]):
        _check(lancens(capsys, *arguments))


def test_no_error_of_ours_can_be_more_lines_than_it_was_made_of() -> None:
    for error in (InternalError(EVIL), CatalogError(EVIL, ErrorCode.INTERNAL)):
        assert_harmless(str(error))
        assert len(str(error).splitlines()) == 1
    assert str(ManifestError([Problem("f", 1, 1, EVIL)])).count("\n") == 1
    assert str(BlockedError([EVIL, "two"])).count("\n") == 2


def test_the_log_of_the_requests_is_text(catalog: tuple[HostileCatalog, str]) -> None:
    ran = shell("--debug", "import", "--impl", "rest", "--config", f"uri={catalog[1]}")
    assert_harmless(ran.out)
    assert_harmless(ran.err)
    assert FORGED not in ran.out.splitlines()
