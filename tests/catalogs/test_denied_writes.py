"""The operations that change metadata of a dataset in S3 that denies a write, or takes another client's before it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTableAlterColumnsRequest,
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteTableTagRequest,
    LanceNamespace,
    RestoreTableRequest,
    UpdateFieldMetadataRequest,
    UpdateTableSchemaMetadataRequest,
    UpdateTableTagRequest,
)
from lance_namespace.errors import (
    InvalidTableStateError,
    LanceNamespaceError,
    PermissionDeniedError,
    TableBranchAlreadyExistsError,
    TableTagAlreadyExistsError,
)
from lance_namespace_urllib3_client.api.metadata_api import MetadataApi
from lance_namespace_urllib3_client.api_client import ApiClient
from lance_namespace_urllib3_client.configuration import Configuration
from lance_namespace_urllib3_client.exceptions import ForbiddenException

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.server.catalogs import OneCatalog
from tests.servers.lance_rest import served
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, GuardedS3
from tests.soak import sampled

T = ["t"]
_FIELD: list[Any] = [{"path": "id", "metadata": {"unit": "m"}}]
_COLUMN: list[Any] = [{"path": "id", "rename": "key"}]
WRITES: dict[str, Callable[[LanceNamespace], object]] = {
    "CreateTableTag": lambda of: of.create_table_tag(CreateTableTagRequest(id=T, tag="new", version=1)),
    "UpdateTableTag": lambda of: of.update_table_tag(UpdateTableTagRequest(id=T, tag="old", version=2)),
    "DeleteTableTag": lambda of: of.delete_table_tag(DeleteTableTagRequest(id=T, tag="old")),
    "CreateTableBranch": lambda of: of.create_table_branch(CreateTableBranchRequest(id=T, name="trial")),
    "UpdateFieldMetadata": lambda of: of.update_field_metadata(UpdateFieldMetadataRequest(id=T, updates=_FIELD)),
    "UpdateTableSchemaMetadata": lambda of: of.update_table_schema_metadata(
        UpdateTableSchemaMetadataRequest(id=T, metadata={"owner": "me"})
    ),
    "RestoreTable": lambda of: of.restore_table(RestoreTableRequest(id=T, version=1)),
    "AlterTableAlterColumns": lambda of: of.alter_table_alter_columns(
        AlterTableAlterColumnsRequest(id=T, alterations=_COLUMN)
    ),
}


@dataclass
class Lake:
    """A directory in a bucket, with the table ``t`` of two versions, of which the tag ``old`` is the first."""

    store: GuardedS3
    prefix: str
    namespace: LanceNamespace

    @property
    def options(self) -> dict[str, str]:
        return {**self.store.where, **self.store.vended}

    def dataset(self) -> lance.LanceDataset:
        return lance.dataset(f"s3://{BUCKET}/{self.prefix}/t.lance", storage_options=self.options)

    def deny_references(self) -> None:
        self.store.denies = lambda method, path: method in ("PUT", "DELETE") and "/_refs/" in path

    def objects(self) -> dict[str, str]:
        """Return the key and the digest of each object."""
        found = self.store.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return {one["Key"]: one["ETag"] for one in found["Contents"]}


def _client(url: str) -> LanceNamespace:
    """Return pylance's client with the one operation that it has no method for."""
    client = lance_namespace.connect("rest", {"uri": url})
    with_fields = MetadataApi(ApiClient(Configuration(host=url)))

    def update_field_metadata(request: UpdateFieldMetadataRequest) -> object:
        try:
            return with_fields.update_field_metadata("t", request)
        except ForbiddenException as error:
            raise PermissionDeniedError(str(error.body)) from None

    client.update_field_metadata = update_field_metadata  # type: ignore[assignment, method-assign]
    return client


_WAYS = ("in process", "served")


@pytest.fixture(params=_WAYS)
def lake(request: pytest.FixtureRequest, guarded: GuardedS3) -> Iterator[Lake]:
    prefix, options = uuid.uuid4().hex, {**guarded.where, **guarded.vended}
    place = f"s3://{BUCKET}/{prefix}/t.lance"
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"id": [1]}), place, mode=mode, storage_options=options)
    lance.dataset(place, storage_options=options).tags.create("old", 1)
    config = {"root": f"s3://{BUCKET}/{prefix}", **{f"storage.{key}": value for key, value in options.items()}}
    if request.param == "in process":
        yield Lake(guarded, prefix, reconciler.connect("dir", config))
        return
    with served(OneCatalog(DirBackend(**config))) as url:
        yield Lake(guarded, prefix, _client(url))


@pytest.mark.parametrize("name", WRITES)
def test_a_denied_write_is_code_15_and_leaves_everything_as_it_is(name: str, lake: Lake) -> None:
    before = lake.objects()
    lake.store.denies = lambda method, _: method in ("PUT", "POST", "DELETE")
    with pytest.raises(PermissionDeniedError) as denied:
        WRITES[name](lake.namespace)
    assert "t.lance" in str(denied.value)
    assert not [secret for secret in (KEY, SECRET, TOKEN) if secret in str(denied.value)]
    assert lake.objects() == before
    lake.store.denies = lambda *_: False
    WRITES[name](lake.namespace)
    assert lake.objects() != before


@pytest.mark.soak
@pytest.mark.parametrize("lake", sampled(_WAYS, 2), indirect=True)  # how a denial is served is seen above
@pytest.mark.parametrize("name", sorted(WRITES.keys() - {"CreateTableBranch"}))
def test_a_write_that_is_denied_halfway_can_be_repeated(name: str, lake: Lake) -> None:
    """A policy may allow a change of some of a dataset's folders only."""
    lake.deny_references()
    try:
        WRITES[name](lake.namespace)
    except PermissionDeniedError:
        assert (lake.dataset().version, set(lake.dataset().tags.list())) == (2, {"old"})
        lake.store.denies = lambda *_: False
        WRITES[name](lake.namespace)


def test_a_branch_that_is_denied_halfway_is_named_until_its_folder_goes(lake: Lake) -> None:
    lake.deny_references()
    with pytest.raises(PermissionDeniedError):
        WRITES["CreateTableBranch"](lake.namespace)
    lake.store.denies = lambda *_: False
    assert lake.dataset().branches.list() == {}
    with pytest.raises(InvalidTableStateError, match="tree/trial"):
        WRITES["CreateTableBranch"](lake.namespace)
    lake.namespace.create_table_branch(CreateTableBranchRequest(id=T, name="second"))
    assert set(lake.dataset().branches.list()) == {"second"}


@pytest.mark.parametrize(
    ("name", "part", "theirs", "error"),
    [
        ("CreateTableTag", "/tags/new.json", lambda of: of.tags.create("new", 2), TableTagAlreadyExistsError),
        (
            "CreateTableBranch",
            "/tree/trial/",
            lambda of: of.create_branch("trial"),
            TableBranchAlreadyExistsError,
        ),
    ],
)
def test_a_client_that_comes_second_is_told_so(
    name: str,
    part: str,
    theirs: Callable[[lance.LanceDataset], object],
    error: type[LanceNamespaceError],
    lake: Lake,
) -> None:
    first = [lake.dataset()]

    def let_another_be_first(method: str, path: str) -> bool:
        if method == "PUT" and part in path and first:
            theirs(first.pop())
        return False

    lake.store.denies = let_another_be_first
    with pytest.raises(error):
        WRITES[name](lake.namespace)
    assert not first
