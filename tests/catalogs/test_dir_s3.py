"""The directory catalog in an object store: moto's S3 on this machine, real pylance in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from reconciler import storage
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.conformance import Check, checks, verify
from reconciler.errors import BackendError
from reconciler.state import StorageKind
from tests.soak import count

BUCKET = "lake"
SECRET = "wJalrXUtnFEMIK7MDENG"
SAMPLE = ("a_scan_is_what_a_walk_finds", "cascade_deregisters_and_keeps_data", "pylance_writes_and_reads")
CHECKS = [check for check in checks() if check.name in SAMPLE or count(0, 1)]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(scope="module")
def s3(endpoint: str) -> Any:
    client: Any = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def options(endpoint: str, s3: Any) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": SECRET,
        "region": "us-east-1",
        "allow_http": "true",
        "client_max_retries": "0",
    }


def _config(root: str, options: dict[str, str]) -> dict[str, str]:
    return {"root": root, **{f"storage.{key}": value for key, value in options.items()}}


@pytest.mark.soak
@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_conformance(check: Check, options: dict[str, str]) -> None:
    connect = partial(registry.connect, "dir", _config(f"s3://{BUCKET}/con formance", options))
    verify(check, connect, scratch=f"s3://{BUCKET}/scratch")


def test_prefixes_are_tables_and_stay_gone(s3: Any, options: dict[str, str]) -> None:
    keys = ["bare/notes.txt", "suffixed.lance/data/x", "group/member.lance/data/x", "_private/x", "file.lance"]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=f"listed/{key}", Body=b"mine")
    backend = DirBackend(**_config(f"s3a://{BUCKET}/listed/", options))
    assert {table.id[0]: table.location for table in backend.scan().tables.values()} == {
        "bare": f"s3a://{BUCKET}/listed/bare",
        "suffixed": f"s3a://{BUCKET}/listed/suffixed.lance",
    }
    backend.remove_table(("bare",))
    backend.remove_table(("suffixed",))
    assert backend.scan().tables == {}
    backend.insert_table(("bare",), f"s3://{BUCKET}/listed/bare", {"tier": "gold"})
    assert {table.id: dict(table.properties) for table in backend.scan().tables.values()} == {
        ("bare",): {"tier": "gold"}
    }
    for key in keys:
        assert s3.get_object(Bucket=BUCKET, Key=f"listed/{key}")["Body"].read() == b"mine"


def test_what_a_prefix_holds(s3: Any, options: dict[str, str]) -> None:
    s3.put_object(Bucket=BUCKET, Key="probed/csv/a.csv", Body=b"1,2")
    found = storage.probe(f"s3n://{BUCKET}/probed/csv", options)
    assert (found.kind, found.detail) == (
        StorageKind.NOT_LANCE,
        "it holds 1 file or directory and no version of a dataset",
    )
    assert storage.probe(f"s3://{BUCKET}/probed/absent", options).kind is StorageKind.NOTHING


@pytest.mark.parametrize(("mark", "kind"), [("lance", StorageKind.NOTHING), ("iceberg", StorageKind.NOT_LANCE)])
def test_an_iceberg_catalogs_metadata_is_told_apart(
    s3: Any, options: dict[str, str], mark: str, kind: StorageKind
) -> None:
    key = f"companions/{mark} t/metadata/00000-a.metadata.json"
    s3.put_object(Bucket=BUCKET, Key=key, Body=f'{{"properties": {{"table_type": "{mark}"}}}}'.encode())
    assert storage.probe(f"s3://{BUCKET}/companions/{mark} t", options).kind is kind


def test_a_bucket_that_does_not_exist_is_an_error_without_secrets(options: dict[str, str]) -> None:
    assert storage.probe("s3://absent-bucket/x", options).kind is StorageKind.UNKNOWN
    with pytest.raises(BackendError, match="NoSuchBucket") as raised:
        DirBackend(**_config("s3://absent-bucket/x", options)).scan()
    assert SECRET not in str(raised.value)
