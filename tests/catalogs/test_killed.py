"""`kill -9` in the middle of an apply on real datasets: run it again and it ends the same, and nothing is lost."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import DescribeTableRequest, LanceNamespace
from lance_namespace.errors import NamespaceNotFoundError, TableNotFoundError

from reconciler.backends import registry
from tests.catalogs.conftest import Doomed, StartOnce
from tests.catalogs.test_real_input import files_of
from tests.cli.running import lancens
from tests.servers.glue import ACCESS_KEY, REGION, SECRET_KEY
from tests.soak import count, seeded
from tests.writing import blocks_of, write_manifest

TABLES = count(30, 300)
ON_A_SERVER = count(12, 30)
MANIFEST = "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces:\n"


def place_of(client: LanceNamespace, namespace: str, name: str) -> str | None:
    """Return where pylance's own client finds a table, None where it finds none."""
    try:
        return client.describe_table(DescribeTableRequest(id=[namespace, name])).location
    except (TableNotFoundError, NamespaceNotFoundError):
        return None


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(1, 10)))
def test_killed_while_tables_get_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], doomed: Doomed, round_: int
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
    doomed.killed(seeded(f"kill moves {round_}").randrange(1, TABLES))

    there = {name: [place for one in ("old", "new") if (place := place_of(client, one, name))] for name in names}
    assert there == {name: [place] for name, place in places.items()}
    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    assert {name: place_of(client, "new", name) for name in names} == places
    assert [lance.dataset(places[name]).count_rows() for name in names[:20]] == [50] * 20
    after = files_of(tmp_path / "lake")
    assert {name: after.get(name) for name in before} == before


@dataclass(frozen=True)
class Lake:
    """A catalog on a server that others use too: what is in it has a name of its own, as its manifest has."""

    impl: str
    config: Mapping[str, str]
    above: tuple[str, ...] = ()
    name: str = field(default_factory=lambda: f"s{uuid.uuid4().hex[:8]}")

    def write(self, namespace: str, tables: Mapping[str, Any], *, was: str = "") -> None:
        """Write a manifest of the tables of a namespace, which ``was`` called otherwise before."""
        old, new = ("/".join((*self.above, f"{self.name}_{one}")) for one in (was, namespace))
        moved = [{"from": old, "to": new}] if was else []
        blocks = blocks_of({(*self.above, f"{self.name}_{namespace}", name): block for name, block in tables.items()})
        lake = {"impl": self.impl, "config": dict(self.config), "moved": moved, **blocks}
        write_manifest(Path(), {"lake": lake}, name=self.name)

    def places(self, namespace: str) -> dict[str, str]:
        """Return where each table of a namespace is."""
        above = (*self.above, f"{self.name}_{namespace}")
        with closing(registry.connect(self.impl, dict(self.config))) as backend:
            found = [table for table in backend.scan().tables.values() if table.id[:-1] == above]
        return {table.id[-1]: table.location.removeprefix("file:") for table in found}


def seen(place: str) -> tuple[int, int, int]:
    """Return what pylance shows of a dataset: rows, their sum, versions."""
    dataset = lance.dataset(place)
    ids = dataset.to_table(columns=["id"])["id"].to_pylist()
    return len(ids), sum(ids), len(dataset.versions())


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, start_once: StartOnce) -> Lake:
    """An empty catalog of the kind asked for."""
    root = {"root": str(tmp_path / "lake")}
    match kind := str(request.param):
        case "dir":
            return Lake(kind, root)
        case "iceberg":
            warehouse = f"w{uuid.uuid4().hex[:10]}"
            return Lake(kind, {**root, "endpoint": start_once(kind), "warehouses": warehouse}, (warehouse,))
        case "glue":
            keys = {"region": REGION, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
            return Lake(kind, {**keys, "endpoint": start_once(kind)})
    return Lake(kind, {**root, "uri": start_once(kind)}, ("hive",) if kind == "hive3" else ())


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(1, 10)))
@pytest.mark.parametrize("lake", ["hive2", "glue", "iceberg", "hive3"][: count(2, 4)], indirect=True)
def test_killed_while_tables_of_a_server_get_other_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    doomed: Doomed,
    lake: Lake,
    round_: int,
) -> None:
    """Every table has a name all the time: one where the service renames, and else the old one, the new one or both."""
    monkeypatch.chdir(tmp_path)
    names = [f"t{number:03}" for number in range(ON_A_SERVER)]
    block = {"schema": [{"name": "id", "type": "int64"}]}
    lake.write("old", {name: {**block, "location": str(tmp_path / f"lake/{name}.lance")} for name in names})
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    places = lake.places("old")
    for place in places.values():
        lance.write_dataset(pa.table({"id": range(1000)}), place, mode="append")
    before, stored = {name: seen(places[name]) for name in names}, files_of(tmp_path / "lake")
    assert set(before.values()) == {(1000, 499_500, 2)}
    lake.write("new", {name: {**block, "properties": {"tier": "gold"}} for name in names}, was="old")
    doomed.killed(seeded(f"kill moves {lake.impl} {round_}").randrange(1, ON_A_SERVER))

    old, new = lake.places("old"), lake.places("new")
    assert old | new == places
    assert lake.impl == "glue" or not old.keys() & new.keys()
    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    assert (lake.places("old"), lake.places("new")) == ({}, places)
    assert {name: seen(places[name]) for name in names} == before
    assert files_of(tmp_path / "lake") == stored


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(count(1, 10)))
@pytest.mark.parametrize("lake", ["dir", "hive2", "hive3"][: count(2, 3)], indirect=True)
def test_killed_while_tables_get_other_columns(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    doomed: Doomed,
    lake: Lake,
    round_: int,
) -> None:
    """Columns are added to data and others may be null, while properties of the entries change."""
    monkeypatch.chdir(tmp_path)
    names = [f"t{number:03}" for number in range(ON_A_SERVER)]
    key = {"name": "id", "type": "int64", "nullable": False}
    block: dict[str, Any] = {"evolve": "additive", "properties": {"tier": "silver"}, "schema": [key]}
    lake.write("n", dict.fromkeys(names, block))
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    places = lake.places("n")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    for place in places.values():
        lance.write_dataset(pa.table({"id": range(1000)}, schema=schema), place, mode="append")
    before = files_of(tmp_path / "lake")
    block["properties"] = {"tier": "gold"}
    block["schema"] = [{**key, "nullable": True}, {"name": "age", "type": "int32"}]
    lake.write("n", dict.fromkeys(names, block))
    doomed.killed(seeded(f"kill columns {round_}").randrange(1, ON_A_SERVER))

    assert lake.places("n") == places
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
