"""`lancens validate`, as the hook of pre-commit runs it, and as strict as a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cli.running import lancens

ROOT = Path(__file__).parents[2]
LAKE = "catalogs:\n  lake: {impl: dir, config: {root: ./lake}"
MANIFEST = f"version: 1\nname: shop\ninclude: [teams/*.yaml]\n{LAKE}}}\n"
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture(autouse=True)
def manifests(folder: Path) -> None:
    for name in ("lancens.yaml", "prod/lancens.yaml"):
        path = folder / name
        (path.parent / "teams").mkdir(parents=True)
        path.write_text(MANIFEST)
        (path.parent / "teams/ads.yaml").write_text("catalogs: {lake: {tables: {ads: {}}}}\n")
    (folder / "other").mkdir()
    (folder / "other/values.yaml").write_text("a: b\n")


@pytest.mark.parametrize(
    ("changed", "broken", "checked"),
    [
        (["teams/ads.yaml"], "teams/ads.yaml", 0),
        (["prod/teams/ads.yaml"], "prod/teams/ads.yaml", 1),
        (["prod/lancens.yaml", "prod/teams/ads.yaml"], None, 2),
        (["other/values.yaml"], None, 1),
        (["lancens.yaml"], "prod/teams/ads.yaml", 1),
    ],
)
def test_a_changed_include_has_its_manifest_checked(
    capsys: pytest.CaptureFixture[str], changed: list[str], broken: str | None, checked: int
) -> None:
    if broken is not None:
        Path(broken).write_text("catalogs: {lake: {tables: {ads: {propertys: {}}}}}\n")
    assert re.search(HOOK.get("files", ""), changed[0])
    program, *arguments = HOOK["entry"].split()
    assert program == "lancens"
    ran = lancens(capsys, *arguments, *changed)
    found = broken in changed
    assert ran.code == int(found), ran.err
    assert (f"{broken}:1:34: unknown key `propertys`" in ran.err) == found
    assert ran.out.count("shop is valid") == checked
    documents = lancens(capsys, *arguments, *changed, "--format", "json").out.splitlines()
    assert [json.loads(line)["valid"] for line in documents] == [True] * checked + [False] * found


def test_a_hook_that_finds_no_manifest_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lancens.yaml").rename(folder / "prod.yaml")
    ran = lancens(capsys, *HOOK["entry"].split()[1:], "prod.yaml", "other/values.yaml")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("Nothing was checked: no lancens.yaml ")


@pytest.mark.parametrize("command", ["validate", "plan", "drift", "list"])
def test_every_command_refuses_what_validate_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    entry = "{rule: orphn, match: '**', until: 2027-06-30, reason: later}"
    (folder / "lancens.yaml").write_text(MANIFEST.replace("./lake}", f"./lake}}, suppress: [{entry}]"))
    refused = lancens(capsys, command)
    assert refused.code == 1
    assert "`rule` in `suppress` is `orphn`" in refused.err
    assert "lancens.yaml:5:" in refused.err
