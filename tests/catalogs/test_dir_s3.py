"""The directory catalog in an object store: moto's S3 on this machine, real pylance in front of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler import storage
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model import locations
from reconciler.model.errors import BackendError
from reconciler.model.live import Snapshot, StorageKind
from reconciler.model.maintenance import WantedCompaction
from reconciler.operations.unregistered import find_unregistered
from reconciler.storage import reading
from reconciler.storage.files import content_of
from tests.catalogs.calling import calls_of_changes
from tests.servers.listening import http_server
from tests.servers.s3 import GuardedS3
from tests.soak import count
from tests.writing import write_manifest

BUCKET = "lake"
SECRET = "wJalrXUtnFEMIK7MDENG"
SAMPLE = ("a_scan_is_what_a_walk_finds", "cascade_deregisters_and_keeps_data", "pylance_writes_and_reads")
CHECKS = [check for check in checks() if check.name in SAMPLE or count(0, 1)]


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
def test_conformance(check: ConformanceCheck, options: dict[str, str]) -> None:
    connect = partial(registry.connect, "dir", _config(f"s3://{BUCKET}/con formance", options))
    verify(check, connect, scratch=f"s3://{BUCKET}/scratch")


def test_prefixes_with_a_dataset_are_tables_and_stay_gone(s3: Any, options: dict[str, str]) -> None:
    tables = [f"{name}/_versions/1.manifest" for name in ("bare", "suffixed.lance", "group/member.lance")]
    keys = [*tables, "docs/notes.txt", "lost.lance/data/x", "_private/x", "file.lance"]
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


def test_a_bucket_is_searched_within_a_bound_that_is_said(s3: Any, options: dict[str, str]) -> None:
    for depth in (2, storage.DEEPEST, storage.DEEPEST + 1):
        key = f"deep/{depth}/" + "d/" * (depth - 1) + "_versions/1.manifest"
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    found = find_unregistered(DirBackend(**_config(f"s3://{BUCKET}/deep", options)), (), Snapshot(), 4)
    assert sorted(map(len, found.tables)) == [2, storage.DEEPEST]
    assert found.nameless == [
        f"s3://{BUCKET}/deep was searched {storage.DEEPEST} directories deep; there are deeper ones"
    ]


def test_rewritten_rows_are_compared_before_they_are_committed(options: dict[str, str]) -> None:
    place = f"s3://{BUCKET}/compacted/ä b/t.lance"
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"id": [1, None]}), place, mode=mode, storage_options=options)
    assert storage.compact(place, options, WantedCompaction(1), None) == 2
    assert lance.dataset(place, storage_options=options).to_table().column("id").null_count == 2


def test_what_a_prefix_holds(s3: Any, options: dict[str, str]) -> None:
    s3.put_object(Bucket=BUCKET, Key="probed/csv/a.csv", Body=b"1,2")
    found = storage.probe(f"s3n://{BUCKET}/probed/csv", options)
    assert found.kind is StorageKind.NOT_LANCE
    assert found.detail.startswith("it holds 1 file or directory")
    assert storage.probe(f"s3://{BUCKET}/probed/absent", options).kind is StorageKind.NOTHING


def test_the_empty_object_of_a_folder_is_nothing_and_a_table_is_made_there(
    s3: Any, options: dict[str, str], tmp_path: Path
) -> None:
    """Consoles make ``folder/`` in a bucket, and Hadoop's file systems do."""
    for key in ("marked/raw/t.lance/", "marked/mine/", "marked/mine/notes.txt"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"mine" if key.endswith("txt") else b"")
    assert storage.probe(f"s3://{BUCKET}/marked/raw/t.lance", options).kind is StorageKind.NOTHING
    assert storage.probe(f"s3://{BUCKET}/marked/mine", options).kind is StorageKind.NOT_LANCE
    path = tmp_path / "lancens.yaml"
    block = {"location": f"s3://{BUCKET}/marked/raw/t.lance", "schema": [{"name": "id", "type": "int64"}]}
    catalog = {
        "impl": "dir",
        "config": _config(f"s3://{BUCKET}/marked", options),
        "namespaces": {"a": {"tables": {"t": block}}},
    }
    path.write_text(json.dumps({"version": 1, "name": "store", "catalogs": {"lake": catalog}}))
    plan = reconciler.plan(reconciler.load(path))
    assert [change.action.value for change in plan.changes] == ["create-namespace", "create-table"]
    assert reconciler.apply(plan, reconciler.load(path), journal=tmp_path / "journal").ok
    assert reconciler.plan(reconciler.load(path)).is_empty
    assert s3.get_object(Bucket=BUCKET, Key="marked/raw/t.lance/")["Body"].read() == b""


def test_dots_in_a_uri_are_read_as_pylance_reads_them(options: dict[str, str]) -> None:
    """Two spellings are one place to the plan, as they are to storage."""
    place = f"s3://{BUCKET}/dots/x/../t.lance"
    lance.write_dataset(pa.table({"id": [1]}), place, storage_options=options)
    assert lance.dataset(locations.normalise(place), storage_options=options).count_rows() == 1
    assert locations.normalise(place) == f"s3://{BUCKET}/dots/t.lance"


@pytest.mark.parametrize(("mark", "kind"), [("lance", StorageKind.NOTHING), ("iceberg", StorageKind.NOT_LANCE)])
def test_an_iceberg_catalogs_metadata_is_told_apart(
    s3: Any, options: dict[str, str], mark: str, kind: StorageKind
) -> None:
    key = f"companions/{mark} t/metadata/00000-a.metadata.json"
    s3.put_object(Bucket=BUCKET, Key=key, Body=f'{{"properties": {{"table_type": "{mark}"}}}}'.encode())
    assert storage.probe(f"s3://{BUCKET}/companions/{mark} t", options).kind is kind


def test_iceberg_metadata_that_is_removed_while_it_is_read_is_nothing(
    s3: Any, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name, read = f"{uuid.uuid4().hex}/t/metadata", "00000-a.metadata.json", content_of
    s3.put_object(Bucket=BUCKET, Key=f"{folder}/{name}", Body=b"{}")

    def removed(*asked: Any) -> bytes | None:
        s3.delete_object(Bucket=BUCKET, Key=f"{folder}/{name}")  # as Nessie does when the commit loses a race
        return read(*asked)

    monkeypatch.setattr(reading, "content_of", removed)
    assert storage.probe(f"s3://{BUCKET}/{folder.removesuffix('/metadata')}", options).kind is StorageKind.NOTHING


def test_a_bucket_that_does_not_exist_is_an_error_without_secrets(options: dict[str, str]) -> None:
    assert storage.probe("s3://absent-bucket/x", options).kind is StorageKind.UNKNOWN
    with pytest.raises(BackendError, match="NoSuchBucket") as raised:
        DirBackend(**_config("s3://absent-bucket/x", options)).scan()
    assert SECRET not in str(raised.value)


class _Credentials(BaseHTTPRequestHandler):
    """The credentials endpoint of a container (ECS, EKS), which counts how often it is asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        keys = {
            "AccessKeyId": "AKIDEXAMPLE",
            "SecretAccessKey": SECRET,
            "Token": "t",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        content = json.dumps(keys).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have storage ask a container's credentials endpoint, and give what it was asked."""
    asked: list[str] = []
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with http_server(_Credentials, asked=asked) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/keys")
        yield asked


def test_a_scan_does_not_fetch_credentials_for_each_table(endpoint: str, s3: Any, credentials: list[str]) -> None:
    for number in range(40):
        key = f"many/t{number:02}/_versions/1.manifest"  # no `.lance`, so that the directory has to be looked into
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    reach = {"storage.aws_endpoint": endpoint, "storage.allow_http": "true", "storage.aws_region": "us-east-1"}
    backend = registry.connect("dir", {"root": f"s3://{BUCKET}/many", **reach})
    assert len(backend.scan().tables) == 40
    assert 0 < len(credentials) <= 5


@pytest.mark.parametrize("name", ["a b", "a%b", "a%20b", "ä", "a+b", "a#b"])
def test_a_directory_of_any_name_is_looked_into(s3: Any, options: dict[str, str], name: str) -> None:
    root = f"named{abs(hash(name))}"
    s3.put_object(Bucket=BUCKET, Key=f"{root}/{name}/_versions/1.manifest", Body=b"")
    s3.put_object(Bucket=BUCKET, Key=f"{root}/{name}2/.lance-deregistered", Body=b"")
    backend = registry.connect("dir", _config(f"s3://{BUCKET}/{root}", options))
    assert backend.child_tables(()) == [name]


@pytest.mark.parametrize("allows_outside", [False, True])
def test_a_dataset_refers_to_its_root_alone_and_never_to_this_machine(
    options: dict[str, str], s3: Any, tmp_path: Path, allows_outside: bool
) -> None:
    """Clones of a dataset on the disk, of one in another bucket, and of one below the same root."""
    s3.create_bucket(Bucket="tenant")
    home = uuid.uuid4().hex
    root = f"s3://{BUCKET}/{home}"
    backend = DirBackend(root=root, **{f"storage.{key}": value for key, value in options.items()})
    backend.allows_outside = allows_outside
    origins = {str(tmp_path / "a.lance"): False, f"s3://tenant/{home}": allows_outside, f"{root}/a.lance": True}
    for origin, is_admitted in origins.items():
        name, clone = f"{uuid.uuid4().hex}.lance", f"{origin}-clone"
        lance.write_dataset(pa.table({"id": [1]}), origin, storage_options=options).shallow_clone(
            clone, 1, storage_options=options
        )
        manifest = max(
            storage.list_directory(f"{clone}/_versions", options), key=lambda name: name.endswith(".manifest")
        )
        content = content_of(f"{clone}/_versions", manifest, options, 1 << 20)
        s3.put_object(Bucket=BUCKET, Key=f"{home}/{name}/_versions/{manifest}", Body=content)
        found = storage.probe(f"{root}/{name}", backend.storage_options())
        assert (origin, found.kind is StorageKind.DATASET) == (origin, is_admitted)
        assert found.elsewhere == (origin,)


def test_requests_of_each_kind_of_change(guarded: GuardedS3, tmp_path: Path) -> None:
    config = _config("s3://vended/calls", {**guarded.where, **guarded.vended})
    manifest = write_manifest(tmp_path, {"lake": {"impl": "dir", "config": config}})
    assert calls_of_changes(manifest, "many", number=1, requests=guarded.seen) == {
        "declare": (None, 9),
        "create": (None, 17),
        "update": (None, 9),
        "move": (None, 11),
        "removal": (None, 10),
    }
