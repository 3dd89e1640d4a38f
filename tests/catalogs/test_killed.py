"""`kill -9` in the middle of an apply on real datasets: run it again and it ends the same, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import DescribeTableRequest, LanceNamespace
from lance_namespace.errors import NamespaceNotFoundError, TableNotFoundError

from reconciler.backends import registry
from tests.catalogs.test_real_input import files_of, tables_of
from tests.cli.running import lancens
from tests.servers.hive import metastore
from tests.soak import count, seeded

TABLES = 300
EVOLVING = 30
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


@pytest.fixture(params=["dir", "hive2"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """An implementation, and the configuration of a catalog of it."""
    config = {"root": str(tmp_path / "lake")}
    if request.param == "dir":
        yield request.param, config
        return
    with metastore("2.3", tmp_path / "metastore") as server:
        yield request.param, {**config, "uri": server.uri}


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(1, 10)))
def test_killed_while_tables_get_other_columns(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    catalog: tuple[str, dict[str, str]],
    round_: int,
) -> None:
    """Columns are added to data and others may be null, while properties of the entries change."""
    monkeypatch.chdir(tmp_path)
    impl, config = catalog
    head = f"version: 1\nname: store\ncatalogs:\n  lake:\n    impl: {impl}\n    config: {json.dumps(config)}\n"
    head += "    namespaces:\n"
    names = [f"t{number:03}" for number in range(EVOLVING)]
    key, more = "{name: id, type: int64, nullable: false}", "{name: id, type: int64}, {name: age, type: int32}"

    def write(columns: str, tier: str) -> None:
        block = f"{{evolve: additive, properties: {{tier: {tier}}}, schema: [{columns}]}}"
        tables = "".join(f"          {name}: {block}\n" for name in names)
        (tmp_path / "lancens.yaml").write_text(f"{head}      n:\n        tables:\n{tables}")

    def there() -> dict[str, str]:
        with closing(registry.connect(impl, config)) as backend:
            found = backend.scan().tables.values()
        return {table.id[-1]: table.location.removeprefix("file:") for table in found}

    write(key, "silver")
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    places = there()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for place in places.values():
        lance.write_dataset(pa.table({"id": range(1000)}, schema=schema), place, mode="append")
    before = files_of(tmp_path / "lake")
    write(more, "gold")
    killed(seeded(f"kill columns {round_}").randrange(1, EVOLVING))

    assert there() == places
    assert {lance.dataset(place).count_rows() for place in places.values()} == {1000}
    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    for place in places.values():
        dataset = lance.dataset(place)
        assert {field.name: field.nullable for field in dataset.schema} == {"id": True, "age": True}
        assert (dataset.count_rows(), dataset.count_rows("age IS NULL"), dataset.version) == (1000, 1000, 4)
    after = files_of(tmp_path / "lake")
    assert {name: after.get(name) for name in before if "hint" not in name} == {
        name: digest for name, digest in before.items() if "hint" not in name
    }
