"""What a hostile manifest can read: of the environment, of the disk, and by what errors say."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import lancens

SECRET = "hunter2-hunter2"
TEMPLATE = """\
version: 1
name: shop
{include}catalogs:
  lake:
    impl: dir
    config: {{root: ./lake{config}}}
    {catalog}
    namespaces:
      a:
        tables:
          t: {{{table}}}
"""


def manifest(table: str = "", *, include: str = "", config: str = "", catalog: str = "prune: owned") -> str:
    return TEMPLATE.format(table=table, include=include, config=config, catalog=catalog)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GH_PAT", SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/token").write_text(f"{SECRET}\n")
    (tmp_path / "outside/part.yaml").write_text("catalogs: {lake: {namespaces: {stolen: {}}}}\n")
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "token").write_text(f"{SECRET}\n")
    (folder / "link").symlink_to(tmp_path / "outside/token")
    (folder / "links").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(folder)
    return folder


@dataclass(frozen=True)
class Result:
    exit_code: int
    output: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def running(*arguments: str) -> Result:
        ran = lancens(capsys, *arguments)
        return Result(ran.code, ran.out + ran.err)

    return running


def files_of(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.suffix in (".json", ".html"))


@pytest.mark.parametrize("source", ["${env:GH_PAT}", "${file:token}"])
@pytest.mark.parametrize(
    "table",
    [
        "properties: {{note: '{0}'}}",
        "properties: {{note: 'x{0}y'}}",
        "location: '/elsewhere/{0}'",
        "location: 's3://key:{0}@bucket/t'",
        "location: 's3://bucket/t?sig={0}'",
        'location: "a\\u0007{0}"',
        "schema: '{0}'",
        "schema: [{{name: '{0}', type: int64}}]",
        "schema: [{{name: id, type: '{0}'}}]",
        "schema: [{{name: id, type: int64, nullable: '{0}'}}]",
        "schema: [{{name: id, type: int64, metadata: {{note: '{0}'}}}}]",
        "protect: '{0}'",
        "evolve: '{0}'",
        "probe: '{0}'",
        "absent: '{0}'",
        "properties: '{0}'",
    ],
)
def test_no_value_from_outside_is_shown_whatever_it_stands_for(
    run: Run, checkout: Path, source: str, table: str
) -> None:
    (checkout / "lancens.yaml").write_text(manifest(table.format(source)))
    for arguments in (
        ["validate"],
        ["plan", "-o", "plan.json"],
        ["plan", "--format", "html", "--full"],
        ["plan", "--format", "markdown", "--full"],
        ["plan", "--full"],
        ["drift"],
        ["--debug", "plan"],
    ):
        ran = run(*arguments)
        assert SECRET not in ran.output, arguments
    assert SECRET not in files_of(checkout)


@pytest.mark.parametrize(
    "catalog", ["prune: '${env:GH_PAT}'", "scope: ['${env:GH_PAT}/**']", "scope: ['a/**', '${file:token}']"]
)
def test_nor_in_what_a_catalog_says(run: Run, checkout: Path, catalog: str) -> None:
    (checkout / "lancens.yaml").write_text(manifest(catalog=catalog))
    for command in ("validate", "plan"):
        assert SECRET not in run(command).output


@pytest.mark.parametrize(
    "config",
    [
        ", unknown: '${env:GH_PAT}'",
        ", dir.root: '${env:GH_PAT}'",
        ", storage.x: '${env:GH_PAT}', storage.y: '${env:NO}'",
    ],
)
def test_nor_in_an_error_about_config(run: Run, checkout: Path, config: str) -> None:
    (checkout / "lancens.yaml").write_text(manifest(config=config))
    for command in ("validate", "plan"):
        assert SECRET not in run(command).output


@pytest.mark.parametrize(
    ("impl", "config"),
    [
        ("rest", "uri: 'ftp://${env:GH_PAT}'"),
        ("rest", "uri: 'http://x:${env:GH_PAT}@host'"),
        ("rest", "uri: 'http://127.0.0.1:9/${env:GH_PAT}', max_retries: 0"),
        ("dir", "root: 's3://key:${env:GH_PAT}@bucket'"),
        ("unity", "endpoint: '${env:GH_PAT}', catalog: main"),
        ("unity", "endpoint: 'http://127.0.0.1:9', catalog: '/${env:GH_PAT}'"),
        ("iceberg", "endpoint: '${env:GH_PAT}'"),
        ("glue", "region: '${env:GH_PAT}'"),
    ],
)
def test_nor_in_an_error_about_where_a_catalog_is(run: Run, checkout: Path, impl: str, config: str) -> None:
    (checkout / "lancens.yaml").write_text(
        f"version: 1\nname: shop\ncatalogs: {{c: {{impl: {impl}, config: {{{config}}}}}}}\n"
    )
    for command in ("validate", "plan"):
        assert SECRET not in run(command).output
    assert run("plan").exit_code == 1


@pytest.mark.parametrize(
    "path", ["../outside/token", "link", "links/token", "{absolute}", "/proc/self/environ", "x/../../outside/token"]
)
@pytest.mark.parametrize("place", ["config", "properties"])
def test_no_file_outside_of_the_manifests_folder_is_read(run: Run, checkout: Path, path: str, place: str) -> None:
    path = path.format(absolute=checkout.parent / "outside/token")
    text = (
        manifest(f"properties: {{a: '${{file:{path}}}'}}")
        if place == "properties"
        else manifest(config=f", storage.a: '${{file:{path}}}'")
    )
    (checkout / "lancens.yaml").write_text(text)
    refused = run("plan")
    assert refused.exit_code == 1
    assert "folder; --allow-outside" in refused.output
    assert SECRET not in refused.output
    if path != "x/../../outside/token":
        assert run("plan", "--allow-outside").exit_code == 0


@pytest.mark.parametrize(
    "pattern",
    [
        "../outside/part.yaml",
        "links/part.yaml",
        "links/*.yaml",
        "/usr/**",
        "../**/*.yaml",
        "*/../../outside/*.yaml",
        "/etc/passwd",
        "../nothing-there.yaml",
    ],
)
def test_no_include_leads_out_of_the_manifests_folder(run: Run, checkout: Path, pattern: str) -> None:
    (checkout / "lancens.yaml").write_text(manifest(include=f"include: ['{pattern}']\n"))
    refused = run("validate")
    assert refused.exit_code == 1
    assert f"include `{pattern}` leads out" in refused.output
    assert "stolen" not in refused.output
    if pattern in ("../outside/part.yaml", "links/part.yaml"):
        assert run("validate", "--allow-outside").exit_code == 0


def test_no_link_in_a_folder_leads_out_of_it(run: Run, checkout: Path) -> None:
    (checkout / "lancens.yaml").write_text(manifest())
    (checkout / "more.yaml").symlink_to("../outside/token")
    refused = run("validate", ".")
    assert refused.exit_code == 1
    assert "more.yaml: leads out" in refused.output
    assert SECRET not in refused.output


def test_a_link_in_a_checkout_is_not_written_through(run: Run, checkout: Path) -> None:
    """What is written has another name until it is whole."""
    (checkout / "lancens.yaml").write_text(manifest())
    (checkout / ".plan.json.partial").symlink_to("../outside/token")
    assert run("plan", "-o", "plan.json").exit_code == 0
    assert (checkout.parent / "outside/token").read_text() == f"{SECRET}\n"
    assert not (checkout / "plan.json").is_symlink()


def test_a_glob_of_many_stars_is_matched_at_once(run: Run, checkout: Path) -> None:
    """Each star was tried with each length: twenty of them took hours."""
    stars = "*a" * 30
    text = manifest(catalog=f"scope: ['{stars}b/**', '{'a' * 200}/**']").replace("      a:\n", f"      {'a' * 200}:\n")
    (checkout / "lancens.yaml").write_text(text)
    assert run("validate").exit_code == 0


def test_each_path_that_is_named_brings_its_own_folder(run: Run, checkout: Path) -> None:
    (checkout / "lancens.yaml").write_text(manifest("properties: {a: '${file:token}'}"))
    (checkout.parent / "outside/more.yaml").write_text(
        "catalogs: {lake: {namespaces: {b: {properties: {a: '${file:token}'}}}}}\n"
    )
    assert run("plan", "lancens.yaml", "../outside/more.yaml").exit_code == 0


def test_validate_looks_nothing_up(run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "lancens.yaml").write_text(
        manifest("properties: {a: '${env:NOT_SET_ANYWHERE}', b: '${file:not-there}'}, protect: '${env:ALSO_NOT}'")
    )
    opened: list[str] = []
    monkeypatch.setattr(os, "environ", Watched(opened))
    assert run("validate").exit_code == 0
    assert not {"NOT_SET_ANYWHERE", "ALSO_NOT", "GH_PAT"} & set(opened)


class Watched(dict[str, str]):
    """An environment that notes what is asked for."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__(os.environ)
        self._asked = asked

    def get(self, key: str, default: object = None) -> str | None:  # type: ignore[override]
        self._asked.append(key)
        return super().get(key)


def test_only_the_variables_that_are_allowed_are_read(run: Run, checkout: Path) -> None:
    (checkout / "lancens.yaml").write_text(manifest("properties: {a: '${env:GH_PAT}'}"))
    assert run("plan", "--allow-env", "GH_PAT").exit_code == 0
    for allowed in ("OTHER", ""):
        refused = run("plan", "--allow-env", allowed)
        assert refused.exit_code == 1
        assert "`GH_PAT` is not one" in refused.output
