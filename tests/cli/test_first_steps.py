"""What a new user types in the first ten minutes, and the commands that only that needs."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from tests.cli.running import Ran, lancens


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder called ``shop`` with two datasets in ``lake``."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    for name in ("users", "orders"):
        lance.write_dataset(pa.table({"id": [1, 2]}), f"lake/{name}.lance")
    return tmp_path / "shop"


def done(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Ran:
    ran = lancens(capsys, *arguments)
    assert ran.code == code, ran
    return ran


def owners(folder: Path) -> dict[str, str | None]:
    snapshot = registry.connect("dir", {"root": str(folder / "lake")}).scan()
    return {"/".join(key): one.properties.get("lancens.managed-by") for key, one in snapshot.tables.items()}


def test_the_first_ten_minutes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Init, import, adopt, edit, plan, apply, drift, remove and bring back; the data is there all the time."""
    manifest = Path("lancens.yaml")
    assert "Wrote lancens.yaml" in done(capsys, "init").err
    assert "2 tables in lake are not managed" in done(capsys, "plan").out

    assert "0 namespaces, 2 tables" in done(capsys, "import", "--append", "lancens.yaml").err
    assert "No changes." in done(capsys, "plan").out
    done(capsys, "apply", "--adopt", "--auto-approve")
    assert owners(folder) == {"users": "shop/lake", "orders": "shop/lake"}

    manifest.write_text(
        manifest.read_text().replace(
            "      users: {}\n",
            "      users: {properties: {tier: gold}}\n      clicks: {schema: [{name: at, type: date32}]}\n",
        )
    )
    planned = done(capsys, "plan", "-o", "plan.json").out
    assert "+ tier: gold" in planned
    assert "Plan: 1 to create, 0 to declare, 1 to " in planned
    done(capsys, "apply", "plan.json", "--auto-approve")
    done(capsys, "drift")

    registry.connect("dir", {"root": str(folder / "lake")}).remove_table(("orders",))
    assert "orders" in done(capsys, "drift", code=2).out
    done(capsys, "apply", "--auto-approve")
    done(capsys, "drift")

    whole = manifest.read_text()
    manifest.write_text(whole.replace("      orders: {}\n", ""))
    assert "- orders" in done(capsys, "plan").out
    done(capsys, "apply", "--auto-approve")
    assert "orders" not in owners(folder)
    assert lance.dataset("lake/orders.lance").count_rows() == 2

    manifest.write_text(whole)
    assert "orders  register" in done(capsys, "plan").out
    done(capsys, "apply", "--auto-approve")
    assert owners(folder) == dict.fromkeys(("users", "orders", "clicks"), "shop/lake")
    assert lance.dataset("lake/orders.lance").count_rows() == 2
    assert done(capsys, "plan").out.splitlines()[-1].startswith("No changes.")


# ---- init


@pytest.mark.parametrize("impl", registry.names())
def test_a_first_manifest_is_valid_for_every_implementation(
    folder: Path, capsys: pytest.CaptureFixture[str], impl: str
) -> None:
    done(capsys, "init", "--impl", impl, "-o", "first.yaml")
    assert "1 catalog, 0 namespaces, 0 tables" in done(capsys, "validate", "first.yaml").out
    [catalog] = reconciler.load("first.yaml").catalogs.values()
    assert catalog.impl == impl


@pytest.mark.parametrize("impl", registry.names())
def test_each_commented_key_of_a_first_manifest_can_be_used(
    folder: Path, capsys: pytest.CaptureFixture[str], impl: str
) -> None:
    done(capsys, "init", "--impl", impl, "-o", "first.yaml")
    text = Path("first.yaml").read_text().replace("config: {}", "config:")
    config, _, rest = text.partition("    config:\n")
    for line in re.findall(r"^    # {3}(\S+: \S.*)$", config, re.MULTILINE):
        Path("first.yaml").write_text(f"{config}    config:\n      {line}\n{rest}")
        refused = lancens(capsys, "validate", "first.yaml").err
        assert refused == "" or "env:" not in refused, line


def test_init_overwrites_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lancens.yaml").write_text("mine")

    assert "lancens.yaml exists" in done(capsys, "init", code=1).err
    assert Path("lancens.yaml").read_text() == "mine"


def test_an_unknown_implementation_is_named_with_its_neighbour(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean `hive3`?" in done(capsys, "init", "--impl", "hiwe3", code=1).err


def test_the_specifications_hive_is_told_which_it_is_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = done(capsys, "init", "--impl", "hive", code=1).err
    assert "write `hive2` for databases" in told
    assert "or `hive3`" in told


# ---- standard input and variables


def test_a_manifest_comes_from_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        'version: 1\nname: shop\ncatalogs: {lake: {impl: dir, config: {root: "${var:where}"}, tables: {users: {}}}}\n'
    )
    Path("vars.yaml").write_text("where: ./elsewhere\n")
    Path("prod.yaml").write_text("# production\nwhere: ./lake\n")

    def piped(content: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    piped(text)
    planned = done(capsys, "plan", "-", "--var-file", "vars.yaml", "--var-file", "prod.yaml")
    assert "No changes." in planned.out
    piped(text)
    assert "No changes." in done(capsys, "plan", "-", "--var", "where=./lake", "--var-file", "vars.yaml").out
    piped(text.replace("users: {}", "users: 1"))
    assert done(capsys, "validate", "-", "--var", "where=x", code=1).err.startswith("-:3:")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [secret]\n", "vars.yaml:1:1: variable `a` is not text; expected `a: value`"),
        ("a: 1\na: 2\n", "vars.yaml:2:1: `a` is a duplicate"),
        ("- a\n", "vars.yaml:1:1: a list at the top"),
    ],
)
def test_a_bad_file_of_variables_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    Path("vars.yaml").write_text(content)

    refused = done(capsys, "validate", "--var-file", "vars.yaml", code=1)
    assert said in refused.err
    assert "secret" not in refused.err
    missing = done(capsys, "validate", "--var-file", "none.yaml", code=1).err
    assert "none.yaml cannot be read" in missing


# ---- release


def managed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        "    namespaces: {eu: {properties: {owner: ml}}}\n"
        "    tables: {users: {properties: {tier: gold}}, orders: {protect: true}}\n"
    )
    done(capsys, "apply", "--adopt", "--auto-approve")


def test_marks_are_taken_off_and_everything_else_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed(capsys)
    refused = done(capsys, "release", "lake/users", code=1)
    assert "- managed-by: shop/lake" in refused.out
    assert "pass --auto-approve to release" in refused.err

    released = done(capsys, "release", "lake/**", "--auto-approve")
    assert "protected: --protected releases it too" in released.out
    snapshot = registry.connect("dir", {"root": str(folder / "lake")}).scan()
    assert snapshot.tables["users",].properties == {"tier": "gold"}
    assert snapshot.namespaces["eu",].properties == {"owner": "ml"}
    assert snapshot.tables["orders",].properties["lancens.protect"] == "true"
    journals = [path.read_text().splitlines() for path in Path(".lancens").glob("*.jsonl")]
    intents = [{one["address"] for one in map(json.loads, lines) if one["entry"] == "intent"} for lines in journals]
    assert {"lake/eu", "lake/users"} in intents

    done(capsys, "release", "lake/orders", "--protected", "--auto-approve")
    assert owners(folder) == {"users": None, "orders": None}
    Path("lancens.yaml").write_text("version: 1\nname: shop\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n")
    assert "No changes." in done(capsys, "plan").out  # nothing is pruned that nobody manages


def test_a_glob_that_releases_nothing_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed(capsys)

    assert "`lake/nothing` matches nothing" in done(capsys, "release", "lake/nothing", "--auto-approve", code=1).err


# ---- completion


def completed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("_LANCENS_COMPLETE", "bash_complete")
        environment.setenv("COMP_WORDS", " ".join(("lancens", *words)))
        environment.setenv("COMP_CWORD", str(len(words)))
        ran = lancens(capsys)
    return [line.partition(",")[2] for line in ran.out.splitlines()]


def test_implementations_and_addresses_are_completed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed(capsys)

    assert completed(capsys, "import", "--impl", "hi") == ["hive2", "hive3"]
    assert completed(capsys, "plan", "--select", "lake/") == ["lake/**", "lake/eu", "lake/orders", "lake/users"]
    assert completed(capsys, "release", "lake/o") == ["lake/orders"]


def test_what_a_terminal_listed_is_completed_without_a_manifest(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    managed(capsys)
    lance.write_dataset(pa.table({"id": [1]}), "lake/other.lance")
    done(capsys, "list")
    assert not (folder / "cache").exists()
    with monkeypatch.context() as terminal:
        terminal.setattr("reconciler.cli.recent.is_interactive", lambda: True)
        done(capsys, "list")
        Path("lancens.yaml").write_text(Path("lancens.yaml").read_text().replace("orders:", "returns:"))
        done(capsys, "plan")
    Path("lancens.yaml").unlink()
    assert completed(capsys, "show", "lake/o") == ["lake/o", "lake/orders", "lake/other"]
    assert completed(capsys, "plan", "--select", "lake/r") == ["lake/returns"]
    assert [path.stat().st_mode & 0o777 for path in (folder / "cache/lancens").iterdir()] == [0o600]


# ---- a first look without a manifest


def test_an_audit_of_a_mistyped_root_is_refused_and_not_clean(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = done(capsys, "audit", "--impl", "dir", "--config", "root=./lak", code=1)
    assert refused.err.startswith(f"main (dir): the root {folder}/lak does not exist. Nothing was read")
    assert refused.out == ""
