"""`kill -9` in the middle of an apply on real datasets: run it again and it ends the same, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import DescribeTableRequest, LanceNamespace
from lance_namespace.errors import NamespaceNotFoundError, TableNotFoundError

from tests.catalogs.test_real_input import files_of, tables_of
from tests.cli.running import lancens
from tests.soak import count, seeded

TABLES = 300
MANIFEST = "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces:\n"


def write_manifest(folder: Path) -> set[tuple[str, ...]]:
    """A manifest of 300 tables: datasets to create, data to register, names to declare."""
    lines = [MANIFEST]
    wanted: set[tuple[str, ...]] = set()
    for namespace in range(3):
        lines.append(f"      n{namespace}:\n        tables:\n")
        for number in range(namespace, TABLES, 3):
            block = ("{schema: [{name: id, type: int64}]}", f"{{location: ./lake/raw/{number % 10}.lance}}", "{}")[
                number % 3
            ]
            lines.append(f"          t{number:03}: {block}\n")
            wanted.add((f"n{namespace}", f"t{number:03}"))
    (folder / "lancens.yaml").write_text("".join(lines))
    return wanted


def killed(lives: int) -> None:
    """Apply what the manifest here says, and kill the process after so many changes."""
    apply = [sys.executable, "-u", "-c", "from reconciler.cli import main; main()", "apply", "--auto-approve"]
    with subprocess.Popen(apply, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        seen: list[str] = []
        for line in process.stderr:
            seen.append(line)
            if sum("✓" in line for line in seen) >= lives:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL, seen


def place_of(client: LanceNamespace, namespace: str, name: str) -> str | None:
    """Return where pylance's own client finds a table, None where it finds none."""
    try:
        return client.describe_table(DescribeTableRequest(id=[namespace, name])).location
    except (TableNotFoundError, NamespaceNotFoundError):
        return None


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(5, 50)))
def test_killed_at_a_random_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], round_: int
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = write_manifest(tmp_path)
    for number in range(10):
        lance.write_dataset(pa.table({"id": [number]}), tmp_path / f"lake/raw/{number}.lance")
    before = files_of(tmp_path / "lake")
    lives = seeded(f"kill {round_}").randrange(1, TABLES)

    killed(lives)

    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    client = lance_namespace.connect("dir", {"root": str(tmp_path / "lake")})
    assert set(tables_of(client)) == wanted
    for number in range(0, TABLES, 3):
        described = client.describe_table(DescribeTableRequest(id=["n0", f"t{number:03}"]))
        assert lance.dataset(described.location).count_rows() == 0
    after = files_of(tmp_path / "lake")
    assert {name: after.get(name) for name in before} == before


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(1, 10)))
def test_killed_while_tables_get_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], round_: int
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"t{number:03}" for number in range(TABLES)]
    tables = "".join(f"          {name}: {{schema: [{{name: id, type: int64}}]}}\n" for name in names[:20])
    tables += "".join(f"          {name}: {{}}\n" for name in names[20:])
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(f"{MANIFEST}      old:\n        tables:\n{tables}")
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    client = lance_namespace.connect("dir", {"root": str(tmp_path / "lake")})
    places = {name: place_of(client, "old", name) for name in names}
    for name in names[:20]:
        lance.write_dataset(pa.table({"id": list(range(50))}), places[name], mode="append")
    before = files_of(tmp_path / "lake")
    moved = MANIFEST.replace("    namespaces:", "    moved: [{from: old, to: new}]\n    namespaces:")
    manifest.write_text(f"{moved}      new:\n        tables:\n{tables}")
    killed(seeded(f"kill moves {round_}").randrange(1, TABLES))

    there = {name: [place for one in ("old", "new") if (place := place_of(client, one, name))] for name in names}
    assert there == {name: [place] for name, place in places.items()}
    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    assert {name: place_of(client, "new", name) for name in names} == places
    assert [lance.dataset(places[name]).count_rows() for name in names[:20]] == [50] * 20
    after = files_of(tmp_path / "lake")
    assert {name: after.get(name) for name in before} == before
