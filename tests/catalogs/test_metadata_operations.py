"""The operations that change metadata of a dataset, in process and through ``serve``: no version and no file goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTableAlterColumnsRequest,
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteTableTagRequest,
    DescribeTableRequest,
    LanceNamespace,
    RestoreTableRequest,
    UpdateFieldMetadataRequest,
    UpdateTableSchemaMetadataRequest,
    UpdateTableTagRequest,
)
from lance_namespace.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableColumnNotFoundError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from lance_namespace_urllib3_client.api.metadata_api import MetadataApi
from lance_namespace_urllib3_client.api_client import ApiClient
from lance_namespace_urllib3_client.configuration import Configuration

import reconciler
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from reconciler.server.operations import OPERATIONS
from reconciler.server.sandbox import Sandbox
from tests.clients.catalogs import running_catalog
from tests.server.client import Api
from tests.servers.lance_rest import served
from tests.servers.process import HUNG_SECONDS
from tests.writing import load_manifest

T = ["t"]
NEW = {
    "AlterTableAlterColumns",
    "CreateTableBranch",
    "CreateTableTag",
    "DeleteTableTag",
    "RestoreTable",
    "UpdateFieldMetadata",
    "UpdateTableSchemaMetadata",
    "UpdateTableTag",
}


def _write(place: str) -> None:
    """Write a table of three versions with a nested column, and one whose type is an extension."""
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))
    rows = pa.table({"id": [1], "name": pa.array([None], pa.utf8()), "s": [{"a": 1, "b": 2}], "u": uuids})
    for number in range(3):
        lance.write_dataset(rows, place, mode="append" if number else "create")


def _files(place: str) -> dict[str, bytes]:
    found = (path for path in Path(place).rglob("*") if path.is_file() and path.suffix in (".lance", ".manifest"))
    return {str(path): path.read_bytes() for path in found}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    """The table's location, from which nothing may go."""
    place = str(tmp_path / "t.lance")
    _write(place)
    before = _files(place)
    yield place
    assert before.items() <= _files(place).items()


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(1, HUNG_SECONDS)


@pytest.fixture(params=["in process", "served"])
def namespace(request: pytest.FixtureRequest, place: str, sandbox: Sandbox) -> Iterator[LanceNamespace]:
    root = str(Path(place).parent)
    if request.param == "in process":
        yield reconciler.connect("dir", {"root": root})
        return
    with served(OneCatalog(DirBackend(root=root)), sandbox=sandbox) as url:
        yield lance_namespace.connect("rest", {"uri": url})


def test_tags_are_created_moved_and_deleted(namespace: LanceNamespace, place: str) -> None:
    namespace.create_table_branch(CreateTableBranchRequest(id=T, name="trial", from_version=2))
    namespace.create_table_tag(CreateTableTagRequest(id=T, tag="prod", version=1))
    namespace.create_table_tag(CreateTableTagRequest(id=T, tag="test", version=2, branch="trial"))
    namespace.update_table_tag(UpdateTableTagRequest(id=T, tag="prod", version=3))
    tags = lance.dataset(place).tags.list()
    assert {name: (tag["branch"], tag["version"]) for name, tag in tags.items()} == {
        "prod": (None, 3),
        "test": ("trial", 2),
    }
    namespace.delete_table_tag(DeleteTableTagRequest(id=T, tag="prod"))
    assert set(lance.dataset(place).tags.list()) == {"test"}
    assert lance.dataset(place).version == 3


def test_a_tag_that_pylance_cannot_list_hinders_no_other(namespace: LanceNamespace, place: str) -> None:
    dataset = lance.dataset(place)
    dataset.tags.create("\u00e9", 1)
    namespace.create_table_tag(CreateTableTagRequest(id=T, tag="prod", version=1))
    namespace.update_table_tag(UpdateTableTagRequest(id=T, tag="prod", version=3))
    assert namespace.describe_table(DescribeTableRequest(id=T, tag="prod", load_detailed_metadata=True)).version == 3
    namespace.delete_table_tag(DeleteTableTagRequest(id=T, tag="prod"))
    dataset.tags.delete("\u00e9")
    assert lance.dataset(place).tags.list() == {}


def test_a_tag_that_a_manifest_has_set_is_left_to_it(tmp_path: Path) -> None:
    location = tmp_path / "lake/t.lance"
    _write(str(location))
    block = {"impl": "dir", "config": {"root": str(tmp_path / "lake")}}
    tables = {"t": {"location": str(location), "tags": {"prod": 1}}}
    manifest = load_manifest(tmp_path, {"lake": {**block, "namespaces": {"a": {"tables": tables}}}})
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    with served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))) as url, closing(Api(url)) as api:
        for step, body in (("create", {"version": 2}), ("update", {"version": 2}), ("delete", {})):
            refused = api("POST", f"/v1/table/a%24t/tags/{step}", {"tag": "prod", **body})
            assert refused.error == (409, 19), step
        assert api("POST", "/v1/table/a%24t/tags/create", {"tag": "theirs", "version": 2}).status == 200
    assert reconciler.plan(manifest).is_empty


def test_a_branch_of_a_branch_has_its_rows(namespace: LanceNamespace, place: str) -> None:
    namespace.create_table_branch(CreateTableBranchRequest(id=T, name="a/b", from_version=1))
    namespace.create_table_branch(CreateTableBranchRequest(id=T, name="c", from_branch="a/b"))
    assert lance.dataset(place).checkout_version(("c", None)).count_rows() == 1


def test_the_longest_names_fit(namespace: LanceNamespace, place: str) -> None:
    branch, tag = "/".join(["ab"] * 28), "x" * 200
    namespace.create_table_branch(CreateTableBranchRequest(id=T, name=branch))
    namespace.create_table_tag(CreateTableTagRequest(id=T, tag=tag, version=1))
    assert (set(lance.dataset(place).branches.list()), set(lance.dataset(place).tags.list())) == ({branch}, {tag})


def test_an_earlier_version_is_in_force_again(namespace: LanceNamespace, place: str) -> None:
    namespace.restore_table(RestoreTableRequest(id=T, version=1))
    dataset = lance.dataset(place)
    assert (dataset.version, dataset.count_rows(), len(dataset.versions())) == (4, 1, 4)


def test_columns_are_renamed_and_relaxed(namespace: LanceNamespace, place: str) -> None:
    asked: list[Any] = [
        {"path": "id", "rename": "key", "nullable": False},
        {"path": "s.a", "rename": "first"},
    ]
    made = namespace.alter_table_alter_columns(AlterTableAlterColumnsRequest(id=T, alterations=asked))
    schema = lance.dataset(place).schema
    assert made.version == 4
    assert (schema.names, schema.field("key").nullable) == (["key", "name", "s", "u"], False)
    assert [field.name for field in schema.field("s").type] == ["first", "b"]


def test_metadata_of_the_schema_is_replaced(namespace: LanceNamespace, place: str) -> None:
    namespace.update_table_schema_metadata(UpdateTableSchemaMetadataRequest(id=T, metadata={"old": "1"}))
    asked = UpdateTableSchemaMetadataRequest(id=T, metadata={"new": "2", "id": "x"})
    assert namespace.update_table_schema_metadata(asked).metadata == {"new": "2", "id": "x"}
    assert lance.dataset(place).schema.metadata == {b"new": b"2", b"id": b"x"}


def test_metadata_of_fields_is_merged_or_replaced_and_types_stay(place: str) -> None:
    """pylance 14 loses the type `uuid` of a field whose metadata it replaces."""
    namespace = reconciler.connect("dir", {"root": str(Path(place).parent)})

    def write(*updates: Any) -> Any:
        return namespace.update_field_metadata(UpdateFieldMetadataRequest(id=T, updates=list(updates)))

    write({"path": "u", "metadata": {"a": "1", "b": "2"}}, {"path": "s.a", "metadata": {"unit": "m"}})
    assert write({"path": "u", "metadata": {"a": None, "c": "3"}}).version == 5
    schema = lance.dataset(place).schema
    assert (schema.field("u").type, schema.field("u").metadata) == (pa.uuid(), {b"b": b"2", b"c": b"3"})
    assert schema.field("s").type.field("a").metadata == {b"unit": b"m"}
    write({"path": "u", "metadata": {"d": "4"}, "replace": True})
    assert lance.dataset(place).schema.field("u").metadata == {b"d": b"4"}
    assert lance.dataset(place).schema.field("u").type == pa.uuid()


def _alter(*more: object, **asked: object) -> Callable[[LanceNamespace], object]:
    request = AlterTableAlterColumnsRequest.model_validate({"id": T, "alterations": [*more, asked]})
    return lambda of: of.alter_table_alter_columns(request)


def _tag(name: str, version: int = 1, branch: str | None = None) -> Callable[[LanceNamespace], object]:
    return lambda of: of.create_table_tag(CreateTableTagRequest(id=T, tag=name, version=version, branch=branch))


def _branch(name: str, version: int | None = None, branch: str | None = None) -> Callable[[LanceNamespace], object]:
    asked = CreateTableBranchRequest(id=T, name=name, from_branch=branch, from_version=version)
    return lambda of: of.create_table_branch(asked)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (_tag("there"), TableTagAlreadyExistsError),
        (_tag("größe"), InvalidInputError),
        (_tag("../../evil"), InvalidInputError),
        (_tag("a.lock"), InvalidInputError),
        (_tag("new", 99), TableVersionNotFoundError),
        (_tag("new", 1, "none"), TableBranchNotFoundError),
        (lambda of: of.update_table_tag(UpdateTableTagRequest(id=T, tag="none", version=1)), TableTagNotFoundError),
        (
            lambda of: of.update_table_tag(UpdateTableTagRequest(id=T, tag="there", version=99)),
            TableVersionNotFoundError,
        ),
        (lambda of: of.delete_table_tag(DeleteTableTagRequest(id=T, tag="none")), TableTagNotFoundError),
        (_branch("there"), TableBranchAlreadyExistsError),
        (_branch("main"), TableBranchAlreadyExistsError),
        (_branch("a/../../../evil"), InvalidInputError),
        (_branch("/".join(["ab"] * 40)), InvalidInputError),
        (_branch("there/_versions"), InvalidInputError),
        (_branch("there/data/a"), InvalidInputError),
        (_tag("x" * 100_000), InvalidInputError),
        (_branch("new", 99), TableVersionNotFoundError),
        (_branch("new", None, "none"), TableBranchNotFoundError),
        (lambda of: of.restore_table(RestoreTableRequest(id=T, version=99)), TableVersionNotFoundError),
        (
            lambda of: of.restore_table(RestoreTableRequest(id=T, version=1, branch="there")),
            UnsupportedOperationError,
        ),
        (_alter(path="none", rename="x"), TableColumnNotFoundError),
        (_alter(path="id", rename="NAME"), InvalidInputError),
        (_alter(path="s.a", rename="b"), InvalidInputError),
        (_alter(path="id", rename=""), InvalidInputError),
        (_alter(path="id", rename="_rowid"), InvalidInputError),
        (_alter(path="name", nullable=False), InvalidInputError),
        (_alter(path="name"), InvalidInputError),
        (_alter({"path": "`id`", "rename": "x"}, path="id", rename="y"), InvalidInputError),
        (_alter(path="id", data_type={"type": "int32"}), UnsupportedOperationError),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    namespace: LanceNamespace, place: str, ask: Callable[[LanceNamespace], object], error: type[LanceNamespaceError]
) -> None:
    dataset = lance.dataset(place)
    dataset.tags.create("there", 1)
    dataset.create_branch("there", 1)
    with pytest.raises(error):
        ask(namespace)
    latest = lance.dataset(place)
    assert (latest.version, set(latest.tags.list()), set(latest.branches.list())) == (3, {"there"}, {"there"})


def test_metadata_of_one_field_by_two_paths_is_refused(place: str) -> None:
    namespace = reconciler.connect("dir", {"root": str(Path(place).parent)})
    updates: Any = [{"path": path, "metadata": {"a": "1"}} for path in ("id", "`id`")]
    with pytest.raises(InvalidInputError):
        namespace.update_field_metadata(UpdateFieldMetadataRequest(id=T, updates=updates))
    assert lance.dataset(place).version == 3


@pytest.mark.parametrize(
    ("path", "metadata", "error"),
    [
        ("none", {"a": "1"}, TableColumnNotFoundError),
        ("u", {"ARROW:extension:name": "x"}, InvalidInputError),
        ("u", {"ARROW:extension:name": None}, InvalidInputError),
        ("id", {"lance-encoding:blob": "true"}, InvalidInputError),
        ("id", {"packed": "true"}, InvalidInputError),
    ],
)
def test_metadata_that_is_a_type_is_refused(
    place: str, path: str, metadata: dict[str, str | None], error: type[LanceNamespaceError]
) -> None:
    namespace = reconciler.connect("dir", {"root": str(Path(place).parent)})
    update: Any = {"path": path, "metadata": metadata}
    with pytest.raises(error):
        namespace.update_field_metadata(UpdateFieldMetadataRequest(id=T, updates=[update]))
    assert lance.dataset(place).version == 3


# ---- through the protocol, on four catalogs ------------------------------------------------------------------------

STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("CreateTableBranch", {"name": "trial", "from_version": 2}),
    ("CreateTableTag", {"tag": "prod", "version": 1}),
    ("UpdateTableTag", {"tag": "prod", "version": 2, "branch": "trial"}),
    ("DeleteTableTag", {"tag": "prod"}),
    ("UpdateFieldMetadata", {"updates": [{"path": "id", "metadata": {"unit": "m", "api_token": "abc"}}]}),
    ("UpdateTableSchemaMetadata", {"owner": "me"}),
    ("AlterTableAlterColumns", {"alterations": [{"path": "id", "rename": "key"}]}),
    ("RestoreTable", {"version": 1}),
)


@pytest.mark.parametrize("name", ["dir", "rest", "Glue", "Unity"])
def test_the_answers_are_those_of_the_document(name: str, tmp_path: Path) -> None:
    routes = {operation.name: str(operation.path) for operation in OPERATIONS}
    assert {step for step, _ in STEPS} == NEW
    with running_catalog(name, tmp_path) as catalog:
        backend = registry.connect(catalog.impl, catalog.config)
        above = catalog.new_namespace()
        backend.insert_namespace(above, {})
        location = str(backend.default_location((*above, "t")))
        _write(location)
        backend.insert_table((*above, "t"), location, {})
        with served(OneCatalog(backend)) as url, closing(Api(url)) as api:
            document = api("GET", "/openapi.json").json
            for step, body in STEPS:
                answer = api("POST", routes[step].replace("{id}", "%24".join((*above, "t"))), body)
                assert answer.status == 200, (step, answer.text)
                content = document["paths"][routes[step]]["post"]["responses"]["200"]["content"]
                schema = {**content["application/json"]["schema"], "components": document["components"]}
                jsonschema.validate(answer.json, schema)
                assert "abc" not in answer.text
        dataset = lance.dataset(location.removeprefix("file://"))
        assert (dataset.version, dataset.schema.names[0], dataset.count_rows()) == (7, "id", 1)
        assert len(dataset.versions()) == 7
        backend.close()


def test_the_stock_client_is_answered(place: str) -> None:
    with served(OneCatalog(DirBackend(root=str(Path(place).parent)))) as url:
        client = ApiClient(Configuration(host=url))
        made = MetadataApi(client).update_table_schema_metadata("t", {"owner": "me"})
        assert made == {"owner": "me"}
        update: Any = {"path": "s.b", "metadata": {"unit": "m"}}
        asked = UpdateFieldMetadataRequest(updates=[update])
        assert MetadataApi(client).update_field_metadata("t", asked).fields == {"s.b": {"unit": "m"}}


def test_a_read_token_changes_none_of_it(place: str) -> None:
    settings = Settings(tokens=Tokens(read_only=["a-token-that-may-read"], read_write=["a-token-that-may-write"]))
    catalog = OneCatalog(DirBackend(root=str(Path(place).parent)))
    with served(catalog, settings) as url, closing(Api(url, "a-token-that-may-read")) as api:
        for operation in NEW:
            assert api("POST", f"/{operation}", {"id": T}).error == (403, 15), operation
