from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import reconciler
from tests.cli.running import lancens

MANIFEST = """\
version: 1
name: feature-store
defaults:
  tables:
    properties: {team: ads}
    protect: true
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        tables:
          users:
            schema: [{name: a, type: int64}]
            properties: {tier: gold, api_token: hunter2hunter2}
          clicks: {properties: {team: web}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose manifest is applied, beside a manifest of one table of another owner."""
    place = tmp_path_factory.mktemp("made")
    other = MANIFEST.replace("feature-store", "else").replace("features:", "others:").replace("clicks", "imps")
    for name, text, select in (("lancens.yaml", MANIFEST, ()), ("other.yaml", other, ("lake/others/**",))):
        (place / name).write_text(text, encoding="utf-8")
        loaded = reconciler.load(place / name)
        assert reconciler.apply(reconciler.plan(loaded, select=select), loaded).ok
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of it, which is the current folder."""
    place = shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(place)
    return place


def addresses(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    ran = lancens(capsys, "list", "--format", "json", *arguments)
    assert ran.code == 0, ran.err
    return [one["address"] for one in json.loads(ran.out)]


def test_tables_are_listed_by_glob_and_owner(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owned = ["lake/features/clicks", "lake/features/users"]
    assert addresses(capsys) == [*owned, "lake/others/imps", "lake/others/users"]
    assert addresses(capsys, "--owned") == owned
    assert addresses(capsys, "lake/*/users") == ["lake/features/users", "lake/others/users"]
    assert addresses(capsys, "--unmanaged") == []
    lancens(capsys, "release", "lake/features/clicks", "--protected", "--auto-approve")
    assert addresses(capsys, "--unmanaged") == ["lake/features/clicks"]


def test_what_is_blocked_is_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert addresses(capsys, "--blocked") == []
    assert "lake/others/users" in addresses(capsys, "--blocked", "--manifest", _taking(folder))


def _taking(folder: Path) -> str:
    """Return a manifest that names what another one manages."""
    path = folder / "taking.yaml"
    path.write_text(MANIFEST.replace("features:", "others:"), encoding="utf-8")
    return str(path)


def test_each_format_has_the_same_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = lancens(capsys, "list", "lake/features/**").out.splitlines()
    rows = list(csv.DictReader(io.StringIO(lancens(capsys, "list", "lake/features/**", "--format", "csv").out)))
    assert text[-1] == "2 of 4 tables"
    assert [line.split()[0] for line in text[:-1]] == [row["address"] for row in rows]
    assert [line.split()[1] for line in text[:-1]] == [row["location"] for row in rows]
    assert {(row["owner"], row["protect"]) for row in rows} == {("feature-store/lake", "true")}
    assert all(line.endswith("protected") for line in text[:-1])


def test_a_namespace_or_catalog_stands_for_what_is_below_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = ["lake/features/clicks", "lake/features/users"]
    assert addresses(capsys, "lake/features") == below
    assert addresses(capsys, "lake/features", "lake/others/imps") == [*below, "lake/others/imps"]
    assert len(addresses(capsys, "lake")) == 4
    blocked = addresses(capsys, "lake/others", "--blocked", "--manifest", _taking(folder))
    assert blocked == addresses(capsys, "lake/others/**", "--blocked", "--manifest", _taking(folder))
    assert "lake/others/users" in blocked


def test_a_glob_that_matches_no_table_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "list", "lake/nowhere/**")
    assert ran.code == 1
    assert "lake/nowhere/**" in ran.err


def test_an_object_is_shown_with_what_writes_each_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = folder / "lancens.yaml"
    manifest.write_text(MANIFEST.replace("tier: gold", "tier: silver"), encoding="utf-8")
    ran = lancens(capsys, "show", "lake/features/users", "--why")
    found = written(ran.out)
    assert found["protect"] == ("true", "(defaults, lancens.yaml:6)")
    assert found["properties.team"] == ("ads", "(defaults, lancens.yaml:5)")
    assert found["properties.tier"] == ("silver", "(block, lancens.yaml:16)")
    assert ran.out.splitlines()[-1].startswith("plan: update")
    assert "hunter2" not in ran.out
    clicks = written(lancens(capsys, "show", "lake/features/clicks", "--why").out)
    assert clicks["properties.team"] == ("web", "(block, lancens.yaml:17)")


def test_a_table_without_a_block_is_shown_with_its_policies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = """\
    config: {root: ./lake}
    policies:
      - {match: "**", properties: {owner: platform, tier: bronze}, expect: {max_versions: 9}}
      - {match: "features/c*", properties: {owner: ads, api_token: hunter2hunter2}}
"""
    text = MANIFEST.replace("    config: {root: ./lake}\n", policies)
    (folder / "lancens.yaml").write_text(text.replace("          clicks: {properties: {team: web}}\n", ""))
    lancens(capsys, "release", "lake/features/clicks", "--protected", "--auto-approve")
    ran = lancens(capsys, "show", "lake/features/clicks", "--why")
    found = written(ran.out)
    assert found["properties.owner"] == ("ads", "(policy features/c*, lancens.yaml:13)")
    assert found["properties.tier"] == ("bronze", "(policy **, lancens.yaml:12)")
    assert found["expect.max_versions"] == ("9", "(policy **, lancens.yaml:12)")
    assert "hunter2" not in ran.out
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0
    path = folder / "lancens.yaml"
    path.write_text(path.read_text().replace("tier: bronze", "tier: silver"))
    assert lancens(capsys, "plan", "-o", "plan.json").code == 0
    assert "hunter2" not in (folder / "plan.json").read_text()
    assert lancens(capsys, "apply", "plan.json", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0
    assert lancens(capsys, "release", "lake/features/clicks", "--auto-approve").code == 0
    live = {
        one["key"]
        for one in json.loads(lancens(capsys, "show", "lake/features/clicks", "--format", "json").out)["live"]
    }
    assert "properties.owner" in live
    assert not any("lancens." in key for key in live)


def written(shown: str) -> dict[str, tuple[str, str]]:
    """Return the desired values that `show --why` prints, each with what writes it."""
    lines = shown.partition("\ndesired\n")[2].partition("\nlive\n")[0].splitlines()
    found = (line.strip().partition(": ") for line in lines)
    return {key: (text.partition("    ")[0], text.partition("    ")[2]) for key, _, text in found}


def test_an_object_is_shown_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(lancens(capsys, "show", "lake/others/users", "--format", "json").out)
    assert found["desired"] is None
    assert {"key": "properties.lancens.managed-by", "text": "else/lake", "origin": "", "source": None} in found["live"]
    assert "hunter2" not in json.dumps(found)


@pytest.mark.parametrize("address", ["lake/features/nobody", "nowhere/a", "lake/"])
def test_an_address_of_nothing_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
    ran = lancens(capsys, "show", address)
    assert (ran.code, ran.out) == (1, "")


def test_a_glob_needs_no_values_of_other_catalogs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.yaml").write_text(
        f"{MANIFEST}  prod: {{impl: dir, config: {{root: '${{env:LANCENS_TEST_UNSET}}'}}}}\n"
    )
    ran = lancens(capsys, "list", "lake/**", "--manifest", "more.yaml")
    assert (ran.code, "lake/features/users" in ran.out) == (0, True)
