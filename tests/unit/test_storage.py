"""What locations hold, with real datasets on this machine."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.arrow_types import to_arrow_schema
from reconciler.model import locations
from reconciler.model.clones import CloneProblem, CloneRefusal
from reconciler.model.columns import Column, Schema
from reconciler.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableSchemaValidationError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import DatasetVersion, Storage, StorageKind
from reconciler.model.tags import FoundTags
from reconciler.storage.connections import connection_to
from tests.writing import write_dataset

SCHEMA: Schema = (
    Column("id", "int64", nullable=False),
    Column("name", "string", metadata={"unit": "none"}),
)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "{}/", "file://localhost{}"])
def test_a_dataset_is_found_in_every_form_of_its_location(tmp_path: Path, form: str) -> None:
    write_dataset(tmp_path / "a.lance")
    found = storage.probe(form.format(tmp_path / "a.lance"), {})
    assert found == Storage(StorageKind.DATASET, (Column("id", "int64"),))


def test_an_encoded_uri_and_a_path_are_one_place(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a b.lance")
    assert storage.probe(f"file://{tmp_path}/a%20b.lance", {}).kind is StorageKind.DATASET
    assert storage.probe(f"{tmp_path}/a%20b.lance", {}).kind is StorageKind.NOTHING


@pytest.mark.parametrize("above", ["gone", "link"])
def test_parent_directories_are_those_of_pylance(tmp_path: Path, above: str) -> None:
    """It takes `..` from the path alone: the directory need not exist, and a link is not followed."""
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    place, columns = f"{tmp_path}/{above}/../a.lance", (Column("id", "int64"),)
    storage.create_empty(place, columns, {})
    assert (
        storage.probe(place, {})
        == storage.probe(str(tmp_path / "a.lance"), {})
        == Storage(StorageKind.DATASET, columns)
    )


def test_nothing_is_where_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "declared").mkdir()
    (tmp_path / "declared" / ".lance-reserved").touch()
    Path(locations.new_place_in(str(tmp_path / "being-made"))).mkdir(parents=True)  # as a metastore does
    for name in ("absent", "absent/deeper", "empty", "declared", "being-made"):
        assert storage.probe(str(tmp_path / name), {}) == Storage(StorageKind.NOTHING), name


def test_a_first_write_that_was_cut_off_left_nothing_and_can_be_made_again(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    storage.create_empty(str(place), SCHEMA, {})
    shutil.rmtree(place / "_versions")
    assert [path.name for path in place.iterdir()] == ["_transactions"]
    assert storage.probe(str(place), {}).kind is StorageKind.NOTHING
    storage.create_empty(str(place), SCHEMA, {})
    assert storage.is_fresh(str(place), SCHEMA, {})


def _companion(place: Path, name: str = "00000-a.metadata.json", **properties: str) -> Path:
    """Write what an Iceberg catalog keeps below the location of a table with ``properties``."""
    file = place / "metadata" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format-version": 2, "properties": properties}).encode()
    file.write_bytes(gzip.compress(text) if "gz" in name else text)
    return file


@pytest.mark.parametrize("name", ["v1.metadata.json", "00000-a.gz.metadata.json", "v1.metadata.json.gz"])
def test_what_an_iceberg_catalog_keeps_of_a_lance_table_is_no_data(tmp_path: Path, name: str) -> None:
    place = tmp_path / "a"
    _companion(place, name, table_type="Lance")
    _companion(place, f"2-{name}", table_type="lance", owner="me")
    (place / "metadata" / f".{name}.crc").touch()
    assert storage.probe(str(place), {}).kind is StorageKind.NOTHING
    storage.create_empty(str(place), SCHEMA, {})
    assert storage.is_fresh(str(place), SCHEMA, {})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda place: _companion(place, "v2.metadata.json"),
        lambda place: _companion(place, "v2.metadata.json", table_type="iceberg"),
        lambda place: (place / "metadata" / "snap-1.avro").touch(),
        lambda place: (place / "metadata" / "v2.metadata.json").write_text("{"),
        lambda place: (place / "metadata" / "v2.metadata.json").write_text('["lance"]'),
        lambda place: (place / "metadata" / "v2.metadata.json.gz").write_bytes(b"\x1f\x8b\x08"),
        lambda place: (place / "data").mkdir(),
        lambda place: (place / "metadata" / "v1.metadata.json").rename(place / "metadata" / ".old"),
    ],
)
def test_a_native_iceberg_table_is_not_nothing(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    place = tmp_path / "a"
    _companion(place, "v1.metadata.json", table_type="lance")
    spoil(place)
    assert storage.probe(str(place), {}).kind is StorageKind.NOT_LANCE
    with pytest.raises(InvalidTableStateError, match="is taken: it holds"):
        storage.create_empty(str(place), SCHEMA, {})


def test_files_without_a_dataset_are_not_lance(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    for number in range(5):
        (tmp_path / "csv" / f"{number}.csv").touch()
    found = storage.probe(str(tmp_path / "csv"), {})
    assert found.kind is StorageKind.NOT_LANCE
    assert found.detail.startswith("it holds 5 files")
    (tmp_path / "file").touch()
    assert storage.probe(str(tmp_path / "file"), {}).kind is StorageKind.NOT_LANCE


def test_data_without_a_version_is_not_nothing(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a.lance")
    shutil.rmtree(tmp_path / "a.lance" / "_versions")
    assert storage.probe(str(tmp_path / "a.lance"), {}).kind is StorageKind.NOT_LANCE


def test_a_scheme_without_a_driver_is_unknown_in_the_same_words_each_time() -> None:
    found = storage.probe("no-such-scheme://bucket/a.lance", {})
    assert found.kind is StorageKind.UNKNOWN
    assert "'no-such-scheme'" in found.detail
    assert "s3" not in found.detail


def test_a_dataset_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a.lance")
    for version in (tmp_path / "a.lance" / "_versions").iterdir():
        version.write_text("damaged")
    found = storage.probe(str(tmp_path / "a.lance"), {})
    assert found.kind is StorageKind.UNKNOWN
    assert ".rs:" not in found.detail
    with pytest.raises(InvalidTableStateError, match=r"a\.lance"):
        _open(str(tmp_path / "a.lance"))


@pytest.mark.parametrize("name", ["unauthorized_logins", "user_connections", "403"])
def test_a_word_in_a_name_says_nothing_of_the_error(tmp_path: Path, name: str) -> None:
    place = tmp_path / f"{name}.lance"
    write_dataset(place)
    for file in (place / "data").iterdir():
        file.unlink()
    with pytest.raises(InvalidTableStateError), storage.opened(str(place), {}) as dataset:
        dataset.to_table()


@pytest.mark.parametrize("gone_for_good", [False, True])
def test_a_version_that_a_clean_up_takes_while_it_is_opened_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone_for_good: bool
) -> None:
    place = tmp_path / "t.lance"
    storage.create_empty(str(place), SCHEMA, {})
    first = next((place / "_versions").glob("*.manifest"))
    listed = first.with_stem(str(int(first.stem) - 1))  # names count down: it is listed as the latest
    listed.symlink_to(place / "_versions/nowhere")
    opened: list[str] = []
    open_once = lance.dataset

    def meanwhile(uri: str, **options: Any) -> object:
        if opened and not gone_for_good:
            listed.unlink(missing_ok=True)
        opened.append(uri)
        return open_once(uri, **options)

    monkeypatch.setattr(lance, "dataset", meanwhile)
    found = storage.probe(str(place), {})
    assert found.kind is (StorageKind.UNKNOWN if gone_for_good else StorageKind.DATASET)
    assert len(opened) > 1


def test_a_place_that_may_not_be_read_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refuse)
    (tmp_path / "hidden").mkdir()
    found = storage.probe(str(tmp_path / "hidden"), {})
    assert found == Storage(StorageKind.DENIED, detail="Permission denied")


@pytest.mark.parametrize(
    ("text", "kind", "error"),
    [
        ("Generic S3 error: 403 Forbidden: AccessDenied", StorageKind.DENIED, PermissionDeniedError),
        ("Client error with status 401 Unauthorized", StorageKind.DENIED, PermissionDeniedError),
        (
            "Failed to get AWS credentials: InvalidConfiguration(no such role)",
            StorageKind.DENIED,
            PermissionDeniedError,
        ),
        ("Generic S3 error: SignatureDoesNotMatch", StorageKind.DENIED, PermissionDeniedError),
        ("Generic S3 error: HTTP error: operation timed out", StorageKind.UNKNOWN, ServiceUnavailableError),
        ("Generic GCS error: 503 Service Unavailable", StorageKind.UNKNOWN, ServiceUnavailableError),
        (
            "Generic S3 error: Failed to resolve region for bucket 'lake'",
            StorageKind.UNKNOWN,
            ServiceUnavailableError,
        ),
        ("No object store provider found for scheme: 'zz'", StorageKind.UNKNOWN, InvalidTableStateError),
    ],
)
def test_what_storage_refuses_is_never_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str, kind: StorageKind, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"LanceError(IO): {text} with key wJalrXUtnFEMI, /x/rust/lance-io/src/object_store.rs:1576:42")

    monkeypatch.setattr(lance, "dataset", fail)
    monkeypatch.setattr("lance.file.LanceFileSession", fail)
    options = {"aws_secret_access_key": "wJalrXUtnFEMI"}
    found = storage.probe("s3://bucket/a.lance", options)
    assert found.kind is kind
    expected = f"LanceError(IO): {text} with key (redacted)"
    if "resolve region" in text:
        expected = "no bucket `lake` is found; correct its name, or set `storage.region` if S3 cannot be asked for it"
    assert found.detail == expected
    with pytest.raises(error) as raised, storage.translated("s3://bucket/a.lance", options):
        fail()
    assert "wJalr" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "Generic N/A error: LanceError(IO): Failed to get AWS credentials: ProviderError(FailedToLoadToken(x))",
        "Generic GCS error: Error performing token request: Error performing GET http://169.254.169.254/x: 403",
        "Invalid user input: Unable to find object store prefix: no Azure account name in URI, and none configured.",
    ],
)
def test_that_nobody_gave_credentials_is_said_in_words(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """pylance's own words, where it has asked the machine for its role in vain."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(f"LanceError(IO): {text}")

    monkeypatch.setattr(lance, "dataset", fail)
    monkeypatch.setattr("lance.file.LanceFileSession", fail)
    found = storage.probe("s3://bucket/a.lance", {})
    assert found.kind is StorageKind.DENIED
    assert found.detail.startswith("no credentials were given")


class PanicException(BaseException):
    """Stands for what a panic inside pylance raises, which is no ``Exception`` there either."""


def test_a_panic_in_pylance_is_an_error_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise PanicException("range end 9 out of range with key wJalrXUtnFEMI")

    monkeypatch.setattr(lance, "dataset", panic)
    monkeypatch.setattr("lance.file.LanceFileSession", panic)
    options = {"aws_secret_access_key": "wJalrXUtnFEMI"}
    text = "pylance panicked: range end 9 out of range with key (redacted)"
    assert storage.probe("s3://bucket/a.lance", options) == Storage(StorageKind.UNKNOWN, detail=text)
    with pytest.raises(InternalError) as raised, storage.translated("s3://bucket/a.lance", options):
        storage.open_dataset("s3://bucket/a.lance", options)
    assert str(raised.value) == f"s3://bucket/a.lance: {text}"


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_is_no_answer_of_storage(
    monkeypatch: pytest.MonkeyPatch, ending: type[BaseException]
) -> None:
    def end(*_: object, **__: object) -> None:
        raise ending

    monkeypatch.setattr(lance, "dataset", end)
    monkeypatch.setattr("lance.file.LanceFileSession", end)
    with pytest.raises(ending):
        storage.probe("s3://bucket/a.lance", {})
    with pytest.raises(ending), storage.translated("s3://bucket/a.lance", {}):
        storage.open_dataset("s3://bucket/a.lance", {})


def test_xml_in_an_answer_becomes_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(
            "Generic S3 error: 404: <?xml version='1.0'?>\n<Error><Code>NoSuchBucket</Code>"
            "<Message>It is not there</Message><RequestId>1</RequestId></Error>, /x/rust/a.rs:1:2"
        )

    monkeypatch.setattr(lance, "dataset", fail)
    monkeypatch.setattr("lance.file.LanceFileSession", fail)
    assert storage.probe("s3://b/a", {}).detail.endswith("404: NoSuchBucket: It is not there")


def test_a_long_name_in_an_error_is_cut_without_a_part_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-secret-" * 1000

    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"Unable to open {secret}{'x' * 1_000_000}: No space left, /x/rust/a.rs:1:2")

    monkeypatch.setattr(lance, "dataset", fail)
    monkeypatch.setattr("lance.file.LanceFileSession", fail)
    told = storage.probe("s3://b/a", {"secret": secret}).detail
    assert told.endswith("No space left")
    assert len(told) < 5000
    assert "secret" not in told


def test_the_three_names_of_s3_are_one_to_pylance() -> None:
    assert [storage.pylance_uri(f"{scheme}://b/x") for scheme in ("s3", "s3a", "s3n", "S3A")] == ["s3://b/x"] * 4
    assert storage.pylance_uri("/data/s3a:x") == "/data/s3a:x"


def test_a_place_is_where_symbolic_links_lead(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "real"
    (real / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "real" / "jump.lance").symlink_to(real / "deep")
    for location, place in {
        f"{tmp_path}/link/t.lance": f"{real}/t.lance",
        f"file://{tmp_path}/link/t.lance": f"{real}/t.lance",
        f"{tmp_path}/link/not/there.lance": f"{real}/not/there.lance",
        f"{tmp_path}/real/jump.lance/": f"{real}/deep",
        # As pylance reads it: `link/..` is where the link is, not where it leads.
        f"{tmp_path}/link/../t.lance": f"{tmp_path.resolve()}/t.lance",
        "s3://b/link/t.lance": "s3://b/link/t.lance",
        "/": "/",
    }.items():
        assert storage.resolve_location(location) == place
    assert storage.resolved_links([f"{real}/t.lance", "s3://b/x"]) == {}


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\ud800", f"{'x' * 300}/t", "a\0b/t", "\ud800/t"])
def test_what_no_file_can_be_called_is_where_it_says(tmp_path: Path, name: str) -> None:
    """An entry's location is its writer's choice: one such entry ended the plan of all others."""
    place = f"{tmp_path}/{name}.lance"
    assert storage.resolve_location(place) == place
    assert storage.resolved_links([place]) == {}
    assert storage.probe(place, {}).kind is not StorageKind.DATASET


def _open(place: str, reference: storage.Reference | None = None) -> None:
    with storage.opened(place, {}, reference or storage.Reference()):
        pass


def test_metadata_is_that_of_the_version_asked_for(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    write_dataset(tmp_path / "a.lance", rows=2)
    lance.write_dataset(pa.table({"id": [9]}), place, mode="append")
    with storage.opened(place, {}) as latest, storage.opened(place, {}, storage.Reference(version=1)) as first:
        assert (latest.version, latest.count_rows(), len(latest.get_fragments())) == (2, 3, 2)
        assert (first.version, first.count_rows(), len(first.get_fragments())) == (1, 2, 1)
    with pytest.raises(TableVersionNotFoundError, match="no version 7; the latest is 2"):
        _open(place, storage.Reference(version=7))


def test_metadata_is_that_of_the_tag_or_branch_asked_for(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    write_dataset(tmp_path / "a.lance", rows=2)
    dataset = lance.dataset(place)
    dataset.tags.create("v1", 1)
    branch = dataset.create_branch("dev", 1)
    lance.write_dataset(pa.table({"id": [9]}), place, mode="append")
    lance.write_dataset(pa.table({"id": [7, 8, 9]}), branch.uri, mode="append")

    def rows(reference: storage.Reference) -> int:
        with storage.opened(place, {}, reference) as dataset:
            return dataset.count_rows()

    assert rows(storage.Reference()) == rows(storage.Reference(branch="main")) == 3
    assert rows(storage.Reference(tag="v1")) == rows(storage.Reference(branch="main", version=1)) == 2
    assert rows(storage.Reference(branch="dev")) == 5
    assert rows(storage.Reference(branch="dev", version=1)) == 2


@pytest.mark.parametrize(
    ("reference", "kind", "text"),
    [
        (storage.Reference(tag="v9"), TableTagNotFoundError, "has no tag `v9`"),
        (storage.Reference(branch="dev"), TableBranchNotFoundError, "has no branch `dev`"),
        (storage.Reference(branch="main", version=7), TableVersionNotFoundError, "has no version 7; the latest is 1"),
        (storage.Reference(tag="v1", version=1), InvalidInputError, "a tag names one version"),
    ],
)
def test_a_reference_to_what_is_not_there_is_an_error(
    tmp_path: Path, reference: storage.Reference, kind: type[Exception], text: str
) -> None:
    write_dataset(tmp_path / "a.lance", rows=2)
    with pytest.raises(kind, match=text):
        _open(str(tmp_path / "a.lance"), reference)


def test_metadata_of_no_dataset_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidTableStateError, match="dataset: nothing is written there"):
        _open(str(tmp_path / "absent"))
    (tmp_path / "a.txt").touch()
    with pytest.raises(InvalidTableStateError, match="dataset: it holds 1 file"):
        _open(str(tmp_path))


def test_an_empty_dataset_has_the_schema_asked_for(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    storage.create_empty(place, SCHEMA, {})
    assert storage.probe(place, {}) == Storage(StorageKind.DATASET, SCHEMA)
    assert lance.dataset(place).count_rows() == 0


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a.lance")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(TableAlreadyExistsError):
        storage.create_empty(str(tmp_path / "a.lance"), SCHEMA, {})
    with pytest.raises(TableAlreadyExistsError):
        storage.write_stream(str(tmp_path / "a.lance"), _ipc(pa.table({"id": [1]})), {})
    with pytest.raises(InvalidTableStateError, match=r"is taken: it holds 1 file or directory"):
        storage.create_empty(str(tmp_path / "notes"), SCHEMA, {})
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_fresh_is_what_create_empty_wrote_and_nothing_else(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    assert not storage.is_fresh(place, SCHEMA, {})
    storage.create_empty(place, SCHEMA, {})
    assert storage.is_fresh(place, SCHEMA, {})
    assert not storage.is_fresh(place, SCHEMA[:1], {})
    table = pa.table({"id": [1], "name": ["x"]}, schema=lance.dataset(place).schema)
    lance.write_dataset(table, place, mode="append")
    assert not storage.is_fresh(place, SCHEMA, {})
    lance.dataset(place).delete("true")
    assert not storage.is_fresh(place, SCHEMA, {})


def test_a_stream_is_written(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    assert storage.write_stream(place, _ipc(pa.table({"id": [1, 2]})), {}) == 1
    assert lance.dataset(place).to_table().to_pydict() == {"id": [1, 2]}
    with pytest.raises(InvalidInputError, match="not an Arrow IPC stream"):
        storage.write_stream(str(tmp_path / "b.lance"), b"PAR1", {})
    assert not (tmp_path / "b.lance").exists()


@pytest.mark.parametrize(
    "columns",
    [
        [("a", pa.month_day_nano_interval())],
        [("a", pa.list_view(pa.int8()))],
        [("a", pa.list_(pa.int8(), 0))],
        [("a", pa.list_(pa.list_(pa.int8()), 1))],
        [("a", pa.int8()), ("a", pa.int8())],
        [("a.b", pa.int8())],
        [("a`b", pa.int8())],
    ],
    ids=str,
)
def test_columns_that_lance_does_not_store_are_an_error_of_the_input(tmp_path: Path, columns: list[Any]) -> None:
    place = tmp_path / "a.lance"
    with pytest.raises(InvalidInputError) as refused:
        storage.write_stream(str(place), _ipc(pa.schema(columns).empty_table()), {})
    assert ".rs:" not in str(refused.value)
    assert not place.exists()


@pytest.mark.parametrize("cast", ["arrow_cast(id, 'Interval(MonthDayNano)')", "arrow_cast(id, 'Nope')"])
@pytest.mark.parametrize(
    "work",
    [
        lambda place, cast: storage.count_rows(place, {}, None, None, f"{cast} IS NULL"),
        lambda place, cast: storage.compute_columns(place, {"new": cast}, {}),
    ],
    ids=["count", "compute"],
)
def test_a_cast_that_cannot_be_is_an_error_of_the_input(
    tmp_path: Path, work: Callable[[str, str], object], cast: str
) -> None:
    place = str(tmp_path / "a.lance")
    lance.write_dataset(pa.table({"id": [1]}), place)
    with pytest.raises(InvalidInputError) as refused:
        work(place, cast)
    assert "a value" not in str(refused.value)


@pytest.mark.parametrize(
    "kind", [pa.decimal128(10, 2), pa.decimal256(50, 2), pa.string_view(), pa.binary_view()], ids=str
)
def test_a_stream_of_values_of_16_bytes_is_written(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array(["1.20", None, "1" * 8], pa.string()).cast(kind)
    for number in range(4):  # wherever the buffers come to be in memory
        place, first = str(tmp_path / f"{number}.lance"), pa.array(range(3), pa.int8())
        storage.write_stream(place, _ipc(pa.table([first] * number + [values], names=list("abcd")[: number + 1])), {})
        assert lance.dataset(place).to_table()["abcd"[number]].to_pylist() == values.to_pylist()


def test_columns_are_added_without_touching_data(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    write_dataset(place)
    data = {path.name: path.read_bytes() for path in (place / "data").iterdir()}
    added = (Column("name", "string"), Column("vector", "fixed_size_list<float32>[4]", metadata={"a": "b"}))
    storage.add_columns(str(place), added, {})
    assert storage.probe(str(place), {}).schema == (Column("id", "int64"), *added)
    assert lance.dataset(str(place)).to_table().column("name").to_pylist() == [None] * 3
    assert {path.name: path.read_bytes() for path in (place / "data").iterdir()} == data


def test_adding_columns_again_does_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    write_dataset(tmp_path / "a.lance")
    storage.add_columns(place, [Column("name", "string")], {})
    storage.add_columns(place, [Column("name", "string")], {})
    assert lance.dataset(place).version == 2


def test_columns_that_cannot_be_added_are_refused(tmp_path: Path) -> None:
    place = str(tmp_path / "a.lance")
    write_dataset(tmp_path / "a.lance")
    with pytest.raises(InvalidInputError, match="must be nullable: name"):
        storage.add_columns(place, [Column("name", "string", nullable=False)], {})
    with pytest.raises(TableSchemaValidationError, match="column `id` of type int64, not string"):
        storage.add_columns(place, [Column("id", "string")], {})
    assert lance.dataset(place).version == 1


@pytest.mark.parametrize(
    ("version", "kind"), [("2.0", "struct<a: int32>"), ("2.1", "map<string, int32>"), ("2.1", "list<blob>")]
)
def test_columns_with_which_no_row_could_be_rewritten_are_refused(
    tmp_path: Path, version: Literal["2.0", "2.1"], kind: str
) -> None:
    place, columns = str(tmp_path / "a.lance"), [Column("new", kind)]
    rows = pa.table({"id": [1, 2]})
    lance.write_dataset(rows, place, data_storage_version=version)
    with pytest.raises(UnsupportedOperationError, match=rf"version {version}, .*`new`"):
        storage.add_columns(place, columns, {})
    assert lance.dataset(place).version == 1
    storage.add_columns(place, [Column("new", "list<struct<a: int32>>")], {})
    lance.dataset(place).update({"id": "id + 1"})
    lance.dataset(place).optimize.compact_files()
    empty = str(tmp_path / "empty.lance")
    lance.write_dataset(rows.schema.empty_table(), empty, data_storage_version=version)
    storage.add_columns(empty, columns, {})  # its writers decide what they write


def test_columns_may_be_null_without_touching_data(tmp_path: Path) -> None:
    place = tmp_path / "a.lance"
    columns = (Column("id", "int64", nullable=False), Column("a b", "int8", nullable=False), Column("x", "int8"))
    table = pa.table([[1, 2, 3], [1, 2, 3], [1, 2, 3]], schema=to_arrow_schema(columns))
    lance.write_dataset(table, place)
    data = {path.name: path.read_bytes() for path in (place / "data").iterdir()}
    relaxed = [replace(columns[1], nullable=True), columns[2]]
    storage.evolve_columns(str(place), relaxed, {})
    assert storage.probe(str(place), {}).schema == (columns[0], replace(columns[1], nullable=True), columns[2])
    assert {path.name: path.read_bytes() for path in (place / "data").iterdir()} == data
    storage.evolve_columns(str(place), relaxed, {})
    assert lance.dataset(place).version == 2
    with pytest.raises(TableSchemaValidationError, match="has no column `gone`"):
        storage.evolve_columns(str(place), [columns[0], Column("gone", "int8")], {})


@pytest.mark.parametrize("names", [[""], ["a.b"], ["_rowid"], ["ID"], ["new", "New"]])
def test_no_column_is_computed_under_a_name_that_cannot_be(tmp_path: Path, names: list[str]) -> None:
    place = str(tmp_path / "a.lance")
    lance.write_dataset(pa.table({"id": [1]}), place)
    with pytest.raises(InvalidInputError):
        storage.compute_columns(place, dict.fromkeys(names, "id + 1"), {})
    assert lance.dataset(place).version == 1


@pytest.mark.parametrize("name", ["a`b", "`a`", "a b", "Ä"])
def test_columns_of_any_name_are_altered(tmp_path: Path, name: str) -> None:
    place, column = str(tmp_path / "a.lance"), Column(name, "int8", nullable=False)
    storage.create_empty(place, (column,), {})
    storage.evolve_columns(place, [Column("plain", "int8", renamed_from=name)], {})
    storage.evolve_columns(place, [Column(name, "int8", renamed_from="plain")], {})
    storage.annotate_columns(place, {name: {"comment": "c"}}, {})
    assert storage.probe(place, {}).schema == (Column(name, "int8", metadata={"comment": "c"}),)


@pytest.mark.parametrize(
    "change",
    [
        lambda place: storage.evolve_columns(place, [Column("id", "int64")], {}),
        lambda place: storage.add_columns(place, [Column("n", "int8")], {}),
        lambda place: storage.compute_columns(place, {"n": "id + 1"}, {}),
    ],
    ids=["relax", "add", "compute"],
)
@pytest.mark.parametrize("mode", ["append", "overwrite", "evolve"])
@pytest.mark.parametrize("times", [1, 10])
def test_a_commit_that_another_writer_forestalls_is_made_again_or_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], object], mode: str, times: int
) -> None:
    place = str(tmp_path / "a.lance")
    rows = pa.table([[1]], schema=to_arrow_schema((Column("id", "int64", nullable=False),)))
    lance.write_dataset(rows, place)
    others, add = iter(range(times)), lance.LanceDataset.add_columns

    def forestalled(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def step(dataset: Any, *given: Any, **named: Any) -> Any:
            number = next(others, None)
            if number is not None and mode == "evolve":
                add(lance.dataset(place), pa.schema({f"other{number}": pa.int8()}))
            elif number is not None:
                lance.write_dataset(lance.dataset(place).to_table().slice(0, 1), place, mode=mode)
            return genuine(dataset, *given, **named)

        return step

    for name in ("add_columns", "alter_columns"):
        monkeypatch.setattr(lance.LanceDataset, name, forestalled(getattr(lance.LanceDataset, name)))
    if times == 1:
        change(place)
        assert lance.dataset(place).version == 3
    else:
        with pytest.raises(ConcurrentModificationError):
            change(place)
        assert lance.dataset(place).version == 6


def test_the_memory_of_this_process_can_hold_datasets() -> None:
    place = "shared-memory://storage-test/a$b.lance"
    assert storage.probe(place, {}).kind is StorageKind.NOTHING
    storage.create_empty(place, SCHEMA, {})
    assert storage.is_fresh(place, SCHEMA, {})
    assert set(storage.list_directory(place, {})) == {"_transactions", "_versions"}


def test_an_error_names_what_could_not_be_used_not_what_it_lies_in(tmp_path: Path) -> None:
    inside = tmp_path / "users.lance"
    said = re.escape(f"{inside}: Permission denied")
    with pytest.raises(PermissionDeniedError, match=said), storage.translated(str(tmp_path), {}):
        raise PermissionError(13, "Permission denied", str(inside))


def test_of_many_creates_at_once_one_makes_the_dataset_and_none_overwrites(tmp_path: Path) -> None:
    """pylance's own create lets the slower one overwrite: rows that came in between would be out of sight."""
    for number in range(20):
        place = str(tmp_path / f"{number}.lance")
        together = threading.Barrier(4, timeout=60)

        def create(rows: int, place: str = place, together: threading.Barrier = together) -> bool:
            sink = io.BytesIO()
            data = pa.table({"id": pa.array(range(rows), pa.int64())})
            with pa.ipc.new_stream(sink, data.schema) as stream:
                stream.write_table(data)
            together.wait()
            try:
                storage.write_stream(place, sink.getvalue(), {})
            except (TableAlreadyExistsError, InvalidTableStateError):  # the latter before the winner's commit
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            made = dict(zip((3, 0, 1, 2), pool.map(create, (3, 0, 1, 2)), strict=True))
        [winner] = [rows for rows, was_made in made.items() if was_made]
        dataset = lance.dataset(place)
        assert (len(dataset.versions()), dataset.count_rows()) == (1, winner)


@pytest.mark.parametrize("name", ["AWS_PROFILE", "OSS_ACCESS_KEY_ID", "HF_TOKEN"])
def test_a_connection_is_shared_until_its_environment_changes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 7.0)
    before = connection_to("s3://bucket", {})
    assert connection_to("s3://bucket", {}) is before
    monkeypatch.setenv(name, "another")
    assert connection_to("s3://bucket", {}) is not before


def test_a_version_that_others_remove_while_it_is_read_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen beside a clean-up with pylance 14: the manifest was listed, and not there any more when it was read."""
    place = str(tmp_path / "t.lance")
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"id": [1]}), place, mode=mode)

    def removed(*_: object) -> None:
        raise ValueError(f"LanceError(IO): Generic N/A error: Not found: {place}/_versions/1.manifest, x.rs:335:56")

    monkeypatch.setattr(lance.LanceDataset, "checkout_version", removed)
    version = storage.version_at(place, {}, 1)
    assert isinstance(version, DatasetVersion)
    assert version.number == 2
    assert storage.find_tags(place, {}, {"first": "1"}, []) == FoundTags({}, ("first",))
    base = storage.read_base(place, 1, {}, str(tmp_path / "c.lance"))
    assert isinstance(base, CloneRefusal)
    assert base.problem is CloneProblem.MISSING_VERSION
