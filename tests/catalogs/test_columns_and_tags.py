"""Tables whose columns are renamed and annotated, and whose data is tagged: no data file changes, and all stays usable.

`make soak` has 200 tables a catalog. The process is killed on the way.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import lance
import lancedb
import pyarrow as pa
import pytest

from reconciler.backends import registry
from tests.catalogs.conftest import Doomed, StartOnce
from tests.cli.running import lancens
from tests.servers.glue import ACCESS_KEY, REGION, SECRET_KEY
from tests.soak import count, seeded
from tests.writing import blocks_of, write_manifest

TABLES = count(3, 200)
ROWS = 1000


@dataclass(frozen=True)
class Place:
    """A catalog, and where its data is: below ``root``, opened with ``options``."""

    impl: str
    root: str
    config: Mapping[str, str]
    above: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def write(self, blocks: Mapping[str, Any]) -> None:
        """Write the manifest that wants these tables."""
        places = {name: f"{self.root}/{name}.lance" for name in blocks}
        tables = {(*self.above, "n", name): {"location": places[name], **block} for name, block in blocks.items()}
        given = {f"storage.{key}": value for key, value in self.options.items()}
        lake = {"impl": self.impl, "config": {"root": self.root, **self.config, **given}, **blocks_of(tables)}
        write_manifest(Path(), {"lake": lake})

    def locations(self) -> dict[str, str]:
        with closing(registry.connect(self.impl, {"root": self.root, **self.config})) as backend:
            found = [one for one in backend.scan().tables.values() if one.id[:-1] == (*self.above, "n")]
        return {one.id[-1]: one.location.removeprefix("file:") for one in found}

    def open(self, location: str) -> lance.LanceDataset:
        return lance.dataset(location, storage_options=dict(self.options))

    def data_files(self, location: str) -> dict[str, str]:
        """Return a digest of each file of data, and of each index."""
        if not location.startswith("s3:"):
            paths = [path for name in ("data", "_indices") for path in Path(location, name).rglob("*")]
            return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        pages = _s3(self.options["endpoint"]).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = (one for page in pages for one in page.get("Contents", ()))
        return {one["Key"]: one["ETag"] for one in found if "/data/" in one["Key"] or "/_indices/" in one["Key"]}


def _s3(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


@pytest.fixture(params=["dir", "hive3", "glue"])
def place(request: pytest.FixtureRequest, tmp_path: Path, start_once: StartOnce, endpoint: str) -> Place:
    """A directory, Hive 3.1, and Glue with its data in S3."""
    root = str(tmp_path / "lake")
    if request.param == "dir":
        return Place("dir", root, {})
    if request.param == "hive3":
        return Place("hive3", root, {"uri": start_once("hive3")}, ("hive",))
    bucket = f"b{uuid.uuid4().hex[:12]}"
    _s3(endpoint).create_bucket(Bucket=bucket)
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    options = {"endpoint": endpoint, "region": "us-east-1", "allow_http": "true", **keys}
    config = {"region": REGION, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    return Place("glue", f"s3://{bucket}/lake", {**config, "endpoint": start_once("glue")}, options=options)


@pytest.mark.soak
def test_columns_and_tags_follow_the_manifest_and_no_data_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], doomed: Doomed, place: Place
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"t{number:03}" for number in range(TABLES)]
    schema = [{"name": "id", "type": "int64"}, {"name": "label", "type": "string"}]
    place.write({name: {"schema": schema, "tags": {"first": 1}} for name in names})
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    assert lancens(capsys, "drift").code == 0
    locations = place.locations()
    assert locations.keys() == set(names)
    rows = pa.table({"id": range(ROWS), "label": [f"n{number}" for number in range(ROWS)]})
    for location in locations.values():
        lance.write_dataset(rows, location, mode="append", storage_options=dict(place.options))
        place.open(location).create_scalar_index("id", "BTREE")
        assert place.open(location).tags.list()["first"]["version"] == 1
    before = {name: place.data_files(location) for name, location in locations.items()}
    assert all(before.values())

    renamed = [
        {"name": "key", "type": "int64", "renamed_from": "id", "comment": "the user's number"},
        {"name": "id", "type": "string", "renamed_from": "label"},
        {"name": "age", "type": "int32", "comment": "in years"},
    ]
    block: dict[str, Any] = {
        "evolve": "additive",
        "schema": renamed,
        "tags": {"prod": 2, "first": {"branch": "main", "version": 1}},
    }
    place.write(dict.fromkeys(names, block))
    plan = lancens(capsys, "plan")
    assert "metadata only" in plan.out
    doomed.killed(seeded(f"kill columns and tags {place.impl}").randrange(1, TABLES))
    again = lancens(capsys, "apply", "--auto-approve")
    assert again.code == 0, again
    assert lancens(capsys, "drift").code == 0

    block["tags"] = {"prod": 3}
    place.write(dict.fromkeys(names, block))
    assert lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal").code == 0
    assert lancens(capsys, "drift").code == 0
    assert {name: place.data_files(location) for name, location in locations.items()} == before
    for name, location in locations.items():
        dataset = place.open(location)
        assert dataset.schema.names == ["key", "id", "age"]
        assert dataset.schema.field("key").metadata == {b"comment": b"the user's number"}
        assert {tag: one["version"] for tag, one in dataset.tags.list().items()} == {"prod": 3}
        assert [version["version"] for version in dataset.versions()] == [*range(1, dataset.version + 1)]
        scanner = dataset.scanner(filter="key = 7", columns=["id"])
        assert "ScalarIndexQuery" in scanner.explain_plan()
        assert scanner.to_table().to_pylist() == [{"id": "n7"}]
        table = lancedb.connect(place.root, storage_options=dict(place.options)).open_table(name)
        assert table.schema.field("age").metadata == {b"comment": b"in years"}
        assert table.count_rows("key < 10") == 10, name
    assert lancens(capsys, "import", "lancens.yaml", "-o", "again.yaml").code == 0
    assert Path("again.yaml").read_text("utf-8").count("tags:") == TABLES
    given = {**place.config, **{f"storage.{key}": value for key, value in place.options.items()}}
    for key, value in given.items():  # secrets are written as variables
        monkeypatch.setenv(f"LANCENS_LAKE_{key.upper().replace('.', '_')}", str(value))
    assert lancens(capsys, "plan", "again.yaml", "--detailed-exitcode").code == 0
