"""What is read over a shared connection to an object store is what is there now."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.model.live import StorageKind
from reconciler.storage.files import list_directory
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, GuardedS3, guarded_s3

_AROUND = ("a", "a b", "a%20b", "a#b", "a?b", "a+b", "ä", ".a", "a.b", "a=1", "a&b", "a~b", "a[b]")


@pytest.fixture(scope="module")
def store() -> Iterator[GuardedS3]:
    with guarded_s3() as running:
        yield running


@pytest.fixture
def options(store: GuardedS3) -> dict[str, str]:
    return {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "aws_endpoint": store.endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }


def test_a_dataset_that_is_recreated_is_seen(options: dict[str, str]) -> None:
    place = f"s3://{BUCKET}/again.lance"
    assert storage.probe(place, options).kind is StorageKind.NOTHING
    for name in ("first", "second"):
        lance.write_dataset(pa.table({name: [1]}), place, storage_options=options)
        found = storage.probe(place, options)
        assert found.schema is not None
        assert [column.name for column in found.schema] == [name]
        bucket = lance.file.LanceFileSession(f"s3://{BUCKET}", storage_options=options)
        for file in bucket.list("again.lance"):
            bucket.delete_file(file)
    assert storage.probe(place, options).kind is StorageKind.NOTHING


@pytest.mark.parametrize("name", _AROUND)
def test_every_name_is_listed_as_it_is_alone(name: str, options: dict[str, str]) -> None:
    session = lance.file.LanceFileSession(f"s3://{BUCKET}/names/{name}", storage_options=options)
    session.upload_file(__file__, "inside.py")
    assert list_directory(f"s3://{BUCKET}/names/{name}", options) == ["inside.py"]


def test_other_credentials_are_another_connection(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"s3://{BUCKET}/empty.lance"
    rest = {key: value for key, value in options.items() if key not in ("aws_access_key_id", "aws_endpoint")}
    for given in ({**options, "aws_access_key_id": "AKIDOTHER"}, rest):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
        monkeypatch.setenv("AWS_ENDPOINT", options["aws_endpoint"])
        assert storage.probe(place, given).kind is StorageKind.DENIED
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    assert storage.probe(place, rest).kind is StorageKind.NOTHING
    assert storage.probe(place, options).kind is StorageKind.NOTHING
