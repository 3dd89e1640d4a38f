"""What is different in an object store: names that are encoded, and versions whose loss nothing proves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

from tests.servers.s3 import BUCKET, guarded_s3
from tests.unit.pipeline.lossy import branch, findings, follow_all, found, rows


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of S3, whose endpoint and key pylance takes from the environment."""
    monkeypatch.chdir(tmp_path)
    with guarded_s3() as server:
        for name, value in {**server.where, **server.vended}.items():
            monkeypatch.setenv(f"AWS_{name.removeprefix('aws_').upper()}", value)
        yield server.client


@pytest.mark.parametrize("lost", ["team%2Fj%C3%BCrgen.json", "team%2Fj%C3%BCrgen%2Fnext.json", "plain.json"])
@pytest.mark.parametrize("content", [None, b"{"])
def test_the_file_of_a_branch_is_written_again(store: Any, lost: str, content: bytes | None) -> None:
    folder, name = f"{uuid.uuid4().hex}.lance", "team/jürgen"  # moto keeps what earlier tests wrote
    place = f"s3://{BUCKET}/{folder}"
    lance.write_dataset(rows(20), place)
    lance.write_dataset(rows(5, 500), lance.dataset(place).create_branch(name), mode="append")
    lance.write_dataset(rows(5, 600), branch(place, name).create_branch(f"{name}/next"), mode="append")
    lance.dataset(place).create_branch("plain")
    assert found(place) == []
    where = {"Bucket": BUCKET, "Key": f"{folder}/_refs/branches/{lost}"}
    if content is None:
        store.delete_object(**where)
    else:
        store.put_object(Body=content, **where)
    assert follow_all(place) == ["broken-branch"]
    assert found(place) == []
    lance.dataset(place).cleanup_old_versions(timedelta(0), delete_unverified=True)
    lance.write_dataset(rows(1), branch(place, name), mode="overwrite")
    branch(place, name).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert [branch(place, other).count_rows() for other in (name, f"{name}/next", "plain")] == [1, 30, 20]


@pytest.mark.parametrize(("key", "written"), [("ö x.txt", "ö%20x.txt"), ("50%.txt", "50%25.txt")])
def test_an_object_is_no_directory(store: Any, key: str, written: str) -> None:
    store.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    assert found(f"s3://{BUCKET}/{written}") == ["not-lance"]
    assert found(f"s3://{BUCKET}/no-{written}") == ["dangling"]


def test_of_lost_versions_all_but_the_last_are_proven(store: Any) -> None:
    folder = f"{uuid.uuid4().hex}.lance"
    place = f"s3://{BUCKET}/{folder}"
    for number in range(3):
        lance.write_dataset(rows(5, number * 100), place, mode="append" if number else "create")

    def manifest(version: int) -> dict[str, str]:
        return {"Bucket": BUCKET, "Key": f"{folder}/_versions/{2**64 - 1 - version}.manifest"}

    names = [item["Key"] for item in store.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder}/_versions/")["Contents"]]
    assert sorted(names) == [manifest(version)["Key"] for version in (3, 2, 1)], "there is no hint"
    store.delete_object(**manifest(3))
    assert found(place) == []  # a write that began and never committed leaves the same files
    store.delete_object(**manifest(2))
    [finding] = findings(place)
    assert (finding.rule, finding.reason.partition(" was")[0]) == ("lost-version", "version 2")
    dataset: Any = lance.dataset(place)
    for path in dataset.new_file_session().list("_transactions"):
        store.delete_object(Bucket=BUCKET, Key=f"{folder}/{path}")
    assert found(place) == []


def test_a_tag_proves_that_its_version_is_lost(store: Any) -> None:
    folder = f"{uuid.uuid4().hex}.lance"
    place = f"s3://{BUCKET}/{folder}"
    lance.write_dataset(rows(5), place)
    lance.write_dataset(rows(5, 100), place, mode="append").tags.create("keep", 2)
    store.delete_object(Bucket=BUCKET, Key=f"{folder}/_versions/{2**64 - 3}.manifest")
    assert found(place) == ["broken-tag"]
