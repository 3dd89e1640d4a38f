"""SIGKILL within a batch: all of it is there or nothing, the journal says so, and the next apply finishes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import lance
import lance_namespace
import pytest
from lance_namespace import ListTablesRequest

from reconciler.applier.journal_reader import read_journal
from tests.catalogs.conftest import Doomed
from tests.catalogs.doomed import BATCHES
from tests.cli.running import lancens
from tests.soak import count, seeded
from tests.writing import write_manifest

STORAGE = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "kill-secret", "aws_region": "us-east-1"}
TABLES = count(150, 600)
IN_A_STORE = count(40, 100)

Rows = dict[str, list[str | None]]


class Catalog:
    """A directory catalog, here or in an object store, and the folder of its manifest."""

    def __init__(self, folder: Path, root: str, options: Mapping[str, str], size: int = TABLES) -> None:
        self.folder = folder
        self.root = root
        self.size = size
        self.options = dict(options)

    def write(self, blocks: Mapping[str, Any]) -> None:
        config = {"root": self.root, **{f"storage.{key}": value for key, value in self.options.items()}}
        lake = {"impl": "dir", "config": config, "namespaces": {"a": {"tables": dict(blocks)}}}
        write_manifest(self.folder, {"lake": lake})

    def rows(self) -> Rows:
        """Return what pylance reads of the list of tables."""
        dataset = lance.dataset(f"{self.root}/__manifest", storage_options=self.options or None)
        rows = dataset.to_table().to_pylist()
        found: Rows = {row["object_id"]: [row[key] for key in ("object_type", "location", "metadata")] for row in rows}
        assert len(found) == len(rows), "no name is there twice"
        return found

    def tables(self) -> list[str]:
        """Return the tables that pylance's own namespace lists."""
        storage = {f"storage.{key}": value for key, value in self.options.items()}
        client = lance_namespace.connect("dir", {"root": self.root, **storage})
        return sorted(client.list_tables(ListTablesRequest(id=["a"])).tables)


def _killed_and_finished(
    catalog: Catalog,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    doomed: Doomed,
    number: int,
    point: str,
) -> None:
    monkeypatch.chdir(catalog.folder)
    catalog.write({f"t{one:03}": {"properties": {"tier": "bronze"}} for one in range(catalog.size // 2)})
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    silver = {f"t{one:03}": {"properties": {"tier": "silver"}} for one in range(catalog.size // 4, catalog.size)}
    catalog.write(silver)
    expected = catalog.rows()

    # At most 64 changes in flight, so that there are three commits however fast or slow they are.
    apply = ("apply", "--auto-approve", "--allow-mass-removal", "--parallelism", "2")
    code, printed = doomed("in_batch", *apply, number=number, point=point)
    assert code is None, printed

    batches = [json.loads(line) for line in (catalog.folder / BATCHES).read_text().splitlines()]
    unfinished = batches[-1]
    assert len(unfinished) > 1, "a batch of one shows nothing"
    for batch in batches if point == "committed" else batches[:-1]:
        for name, row in batch.items():
            if row is None:
                expected.pop(name, None)
            else:
                expected[name] = row
    assert catalog.rows() == expected

    newest = max(Path(".lancens").glob("*.jsonl"), key=os.path.getmtime)
    record = read_journal(newest)
    assert not record.finished
    assert {name.rpartition("$")[2] for name in unfinished} <= {one["identifier"][-1] for one in record.in_flight}
    assert f"{newest.stem} " in lancens(capsys, "runs").out
    assert "in flight when the run stopped" in lancens(capsys, "show", newest).out

    again = lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0
    assert catalog.tables() == sorted(silver)
    tiers = {json.loads(row[2] or "{}").get("tier") for name, row in catalog.rows().items() if "$" in name}
    assert tiers == {"silver"}


@pytest.mark.parametrize("round_", range(count(1, 20)))
@pytest.mark.soak
def test_killed_in_any_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, doomed: Doomed, round_: int
) -> None:
    dice = seeded(f"batch {round_}")
    point = dice.choice(("read", "written", "committed"))
    _killed_and_finished(
        Catalog(tmp_path, str(tmp_path / "lake"), {}), capsys, monkeypatch, doomed, dice.randrange(2, 4), point
    )


@pytest.mark.parametrize("point", ["written", "committed"])
def test_killed_in_a_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, doomed: Doomed, point: str
) -> None:
    _killed_and_finished(Catalog(tmp_path, str(tmp_path / "lake"), {}), capsys, monkeypatch, doomed, 2, point)


@pytest.mark.parametrize("point", ["written", "committed"])
def test_killed_in_a_batch_in_an_object_store(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    doomed: Doomed,
    endpoint: str,
    point: str,
) -> None:
    client: Any = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=STORAGE["aws_access_key_id"],
        aws_secret_access_key=STORAGE["aws_secret_access_key"],
        region_name=STORAGE["aws_region"],
    )
    client.create_bucket(Bucket=point)
    options = {**STORAGE, "aws_endpoint": endpoint, "allow_http": "true"}
    _killed_and_finished(
        Catalog(tmp_path, f"s3://{point}/lake", options, IN_A_STORE), capsys, monkeypatch, doomed, 2, point
    )
