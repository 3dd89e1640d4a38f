"""What storage is found to hold, with real datasets on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.auditor.records import LocationContent
from reconciler.auditor.storage_probe import probe
from reconciler.model.columns import Column
from reconciler.model.live import StorageKind


def _rows(number: int) -> pa.Table:
    return pa.table({"id": list(range(number)), "score": [0.5] * number})


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock shows another time than UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


def test_a_dataset_is_measured_from_its_latest_version(tmp_path: Path, elsewhere: None) -> None:
    place = str(tmp_path / "a.lance")
    began = datetime.now(UTC) - timedelta(seconds=1)
    lance.write_dataset(_rows(100), place)
    lance.write_dataset(_rows(20), place, mode="append")
    dataset = lance.dataset(place)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id < 5")
    data = sum(file.stat().st_size for file in (tmp_path / "a.lance/data").iterdir())

    found = probe(place, {})
    assert (found.kind, found.version, found.rows, found.fragments) == (StorageKind.DATASET, 4, 110, 2)
    assert found.bytes == data
    assert found.schema == (Column("id", "int64"), Column("score", "float64"))
    assert found.committed is not None
    assert began < found.committed < datetime.now(UTC) + timedelta(seconds=1)


def test_an_empty_dataset_has_nothing_in_it_rather_than_nothing_known(tmp_path: Path) -> None:
    lance.write_dataset(_rows(0), str(tmp_path / "a.lance"))
    found = probe(str(tmp_path / "a.lance"), {})
    assert (found.rows, found.bytes, found.fragments) == (0, 0, 0)


def test_only_the_latest_manifest_has_to_be_whole(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    for _ in range(3):
        lance.write_dataset(_rows(1), str(place), mode="append" if place.exists() else "create")
    newest, *older = sorted(path for path in (place / "_versions").iterdir() if path.suffix == ".manifest")
    for manifest in older:
        manifest.write_bytes(b"damaged")
    assert probe(str(place), {}).version == 3
    newest.write_bytes(b"damaged")
    found = probe(str(place), {})
    assert (found.kind, found.version, found.rows) == (StorageKind.UNKNOWN, None, None)
    assert found.detail


def test_a_reserved_place_differs_from_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "declared").mkdir()
    (tmp_path / "declared/.lance-reserved").touch()
    assert probe(str(tmp_path / "empty"), {}) == LocationContent(StorageKind.NOTHING)
    assert probe(str(tmp_path / "nowhere"), {}) == LocationContent(StorageKind.NOTHING)
    assert probe(str(tmp_path / "declared"), {}) == LocationContent(StorageKind.NOTHING, reserved=True)


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").touch()
    found = probe(str(tmp_path), {})
    assert found == LocationContent(StorageKind.NOT_LANCE, found.detail)
    assert found.detail.startswith("it holds 1 file or directory")


def test_a_place_that_stops_answering_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is listed twice; storage may fail the second time only."""
    (tmp_path / "empty").mkdir()
    listings: Iterator[list[str]] = iter([[]])

    def listdir(path: str) -> list[str]:
        for listing in listings:
            return listing
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(os, "listdir", listdir)
    found = probe(str(tmp_path / "empty"), {})
    assert found.kind is StorageKind.UNKNOWN
    assert "Input/output error" in found.detail


def test_no_secret_is_in_what_storage_says() -> None:
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "hunter2-correct-horse",
        "aws_region": "us-east-1",
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
        "client_max_retries": "0",
    }
    found = probe("s3://key:hunter2-correct-horse@bucket/a", options)
    assert found.kind is StorageKind.UNKNOWN
    assert "error sending request" in found.detail
    assert "hunter2" not in found.detail


def test_an_entry_without_a_location_is_not_looked_for_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance.write_dataset(_rows(1), str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert probe("", {}) == LocationContent(StorageKind.UNKNOWN, "the entry names no location")
