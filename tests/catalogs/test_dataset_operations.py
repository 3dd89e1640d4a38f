"""What a table's dataset says of itself: as pylance's own directory namespace answers it, here and through a server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    CountTableRowsRequest,
    DescribeTableIndexStatsRequest,
    DescribeTableVersionRequest,
    GetTableStatsRequest,
    GetTableTagVersionRequest,
    LanceNamespace,
    ListTableBranchesRequest,
    ListTableIndicesRequest,
    ListTableTagsRequest,
    ListTableVersionsRequest,
)
from lance_namespace.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableBranchNotFoundError,
    TableIndexNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.server.catalogs import OneCatalog
from tests.servers.lance_rest import served
from tests.servers.s3 import BUCKET, GuardedS3

T = ["t"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of five versions with a tag, a branch, two indices and rows that were deleted."""
    root = tmp_path_factory.mktemp("lake")
    place = str(root / "t.lance")

    def rows(number: int) -> pa.Table:
        vectors = pa.array([float(one) for one in range(number * 4)], pa.float32())
        return pa.table({"id": range(number), "v": pa.FixedSizeListArray.from_arrays(vectors, 4)})

    lance.write_dataset(rows(300), place).create_index("v", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
    dataset = lance.write_dataset(rows(10), place, mode="append")
    dataset.create_scalar_index("id", "BTREE")
    dataset.tags.create("first", 1)
    dataset.create_branch("trial")
    dataset.delete("id = 3")
    return root


@pytest.fixture(scope="module", params=["in process", "served"])
def namespace(request: pytest.FixtureRequest, lake: Path) -> Iterator[LanceNamespace]:
    if request.param == "in process":
        yield reconciler.connect("dir", {"root": str(lake)})
        return
    with served(OneCatalog(DirBackend(root=str(lake)))) as url:
        yield lance_namespace.connect("rest", {"uri": url})


@pytest.fixture(scope="module")
def pylance(lake: Path) -> LanceNamespace:
    return lance_namespace.connect("dir", {"root": str(lake)})


@pytest.mark.parametrize(
    "ask",
    [
        lambda of: of.list_table_tags(ListTableTagsRequest(id=T)),
        lambda of: of.get_table_tag_version(GetTableTagVersionRequest(id=T, tag="first")),
        lambda of: of.list_table_branches(ListTableBranchesRequest(id=T)),
        lambda of: of.list_table_indices(ListTableIndicesRequest(id=T, version=1)),
        lambda of: of.describe_table_index_stats(DescribeTableIndexStatsRequest(id=T, index_name="id_idx")),
        lambda of: of.count_table_rows(CountTableRowsRequest(id=T)),
        lambda of: of.count_table_rows(CountTableRowsRequest(id=T, predicate="id < 5")),
        lambda of: of.count_table_rows(CountTableRowsRequest(id=T, version=1)),
        lambda of: of.count_table_rows(CountTableRowsRequest(id=T, branch="trial")),
    ],
)
def test_the_answer_is_that_of_pylance(
    namespace: LanceNamespace, pylance: LanceNamespace, ask: Callable[[LanceNamespace], Any]
) -> None:
    found, theirs = (ask(of).model_dump(exclude={"context"}) for of in (namespace, pylance))  # that is of HTTP headers
    assert found == theirs


@pytest.mark.parametrize("asked", [{}, {"branch": "trial"}, {"descending": True}, {"branch": "main"}])
def test_versions_are_those_of_pylance_with_their_files(
    namespace: LanceNamespace, pylance: LanceNamespace, asked: dict[str, Any]
) -> None:
    found, theirs = (
        of.list_table_versions(ListTableVersionsRequest(id=T, **asked)).versions for of in (namespace, pylance)
    )

    def told(versions: Any) -> list[tuple[object, ...]]:
        return [(one.version, one.manifest_path, one.manifest_size, one.e_tag) for one in versions]

    assert told(found) == told(theirs)
    assert all(one.timestamp_millis and one.manifest_size and one.e_tag for one in found)


def test_versions_come_in_pages_to_the_last_one(namespace: LanceNamespace) -> None:
    found: list[int] = []
    token = None
    while True:
        page = namespace.list_table_versions(ListTableVersionsRequest(id=T, limit=2, page_token=token, descending=True))
        found += [one.version for one in page.versions]
        token = page.page_token
        if token is None:
            break
    assert found == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_versions_neither_repeat_nor_skip_one_while_versions_come_and_go(
    tmp_path: Path, descending: bool
) -> None:
    namespace, place = reconciler.connect("dir", {"root": str(tmp_path)}), tmp_path / "t.lance"
    for number in range(4):
        lance.write_dataset(pa.table({"id": [number]}), place, mode="append" if number else "create")
    asked = ListTableVersionsRequest(id=["t"], limit=2, descending=descending)
    first = namespace.list_table_versions(asked)
    lance.write_dataset(pa.table({"id": [9]}), place, mode="append")
    if not descending:
        next((place / "_versions").glob(f"{2**64 - 2}.manifest")).unlink()  # version 1
    second = namespace.list_table_versions(asked.model_copy(update={"page_token": first.page_token}))
    found = [one.version for one in (*first.versions, *second.versions)]
    assert found == ([4, 3, 2, 1] if descending else [1, 2, 3, 4])


def test_indices_are_told_with_their_coverage(namespace: LanceNamespace, pylance: LanceNamespace) -> None:
    found, theirs = (of.list_table_indices(ListTableIndicesRequest(id=T)).indexes for of in (namespace, pylance))

    def told(index: Any) -> dict[str, object]:
        return {**index.model_dump(), "index_details": json.loads(index.index_details), "created_at": None}

    assert [told(one) for one in found] == [told(one) for one in theirs]
    assert all(one.created_at and one.index_version is not None and one.index_details for one in found)
    stats = namespace.describe_table_index_stats(DescribeTableIndexStatsRequest(id=T, index_name="v_idx"))
    assert (stats.index_type, stats.distance_type, stats.num_unindexed_rows) == ("IVF_PQ", "l2", 9)


def test_statistics_count_the_rows_that_are_there(namespace: LanceNamespace) -> None:
    stats = namespace.get_table_stats(GetTableStatsRequest(id=T))
    assert (stats.num_rows, stats.num_indices, stats.fragment_stats.num_fragments) == (308, 2, 2)
    assert (stats.fragment_stats.lengths.min, stats.fragment_stats.lengths.max) == (9, 299)
    assert stats.total_bytes > 5_000


def test_a_version_is_described(lake: Path) -> None:
    namespace = reconciler.connect("dir", {"root": str(lake)})
    assert namespace.describe_table_version(DescribeTableVersionRequest(id=T)).version.version == 5
    assert namespace.describe_table_version(DescribeTableVersionRequest(id=T, version=2)).version.version == 2


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (
            lambda of: of.count_table_rows(CountTableRowsRequest(id=["missing"])),
            TableNotFoundError,
            "Table not found: dir: table `missing` does not exist",
        ),
        (lambda of: of.count_table_rows(CountTableRowsRequest(id=T, version=99)), TableVersionNotFoundError, "99"),
        (lambda of: of.count_table_rows(CountTableRowsRequest(id=T, predicate="x >")), InvalidInputError, "predicate"),
        (
            lambda of: of.list_table_versions(ListTableVersionsRequest(id=T, branch="missing")),
            TableBranchNotFoundError,
            "has no branch `missing`",
        ),
        (
            lambda of: of.get_table_tag_version(GetTableTagVersionRequest(id=T, tag="missing")),
            TableTagNotFoundError,
            "has no tag `missing`",
        ),
        (
            lambda of: of.describe_table_index_stats(DescribeTableIndexStatsRequest(id=T, index_name="missing")),
            TableIndexNotFoundError,
            "has no index `missing`",
        ),
    ],
)
def test_what_is_not_there_is_said(
    namespace: LanceNamespace, ask: Callable[[LanceNamespace], Any], error: type[LanceNamespaceError], text: str
) -> None:
    with pytest.raises(error) as refused:
        ask(namespace)
    assert text in str(refused.value)


def test_a_table_without_data_has_nothing_to_say(tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path))
    backend.insert_table(("declared",), "declared.lance", {})
    namespace = reconciler.connect("dir", {"root": str(tmp_path)})
    with pytest.raises(InvalidTableStateError, match="is not a Lance dataset"):
        namespace.get_table_stats(GetTableStatsRequest(id=["declared"]))


def test_versions_in_a_bucket_have_their_sizes(guarded: GuardedS3) -> None:
    place = f"s3://{BUCKET}/sizes/t.lance"
    options = {**guarded.where, **guarded.vended}
    lance.write_dataset(pa.table({"id": [1]}), place, storage_options=options)
    config = {"root": f"s3://{BUCKET}/sizes", **{f"storage.{key}": value for key, value in options.items()}}
    found = reconciler.connect("dir", config).list_table_versions(ListTableVersionsRequest(id=T)).versions
    theirs = lance_namespace.connect("dir", config).list_table_versions(ListTableVersionsRequest(id=T)).versions
    assert [(one.manifest_size, one.e_tag) for one in found] == [(one.manifest_size, one.e_tag) for one in theirs]
    assert found[0].manifest_size
    assert found[0].e_tag


def test_a_tag_that_is_deleted_while_tags_are_listed_is_no_error(guarded: GuardedS3) -> None:
    root, options = f"s3://{BUCKET}/{uuid.uuid4().hex}", {**guarded.where, **guarded.vended}
    dataset = lance.write_dataset(pa.table({"id": [1]}), f"{root}/t.lance", storage_options=options)
    dataset.tags.create("stays", 1)
    dataset.tags.create("goes", 1)
    gone: list[str] = []

    def delete_first(method: str, path: str) -> bool:
        if method == "GET" and path.endswith("goes.json") and not gone:
            gone.append(path)
            dataset.tags.delete("goes")
        return False

    guarded.denies = delete_first
    config = {"root": root, **{f"storage.{key}": value for key, value in options.items()}}
    found = reconciler.connect("dir", config).list_table_tags(ListTableTagsRequest(id=T))
    assert gone
    assert set(found.tags) == {"stays"}
