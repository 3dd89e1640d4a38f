"""A backend as other Lance tools take it: any shape of request, the specification's errors, copies elsewhere."""

from __future__ import annotations

import inspect
import io
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import lance_namespace_urllib3_client.api
import pyarrow as pa
import pytest
from lance_namespace import (
    CountTableRowsRequest,
    CreateEmptyTableRequest,
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    LanceNamespace,
    ListTablesRequest,
    errors,
)

import reconciler
from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.model.errors import BackendError, ErrorCode
from reconciler.namespace import CatalogNamespace
from reconciler.server.operations import OPERATIONS


class DictLike(dict[str, Any]):
    """What LanceDB passes in process: a mapping that can say it is a model, without a model's attributes."""

    def model_dump(self) -> dict[str, Any]:
        return dict(self)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogNamespace:
    return reconciler.connect("dir", {"root": str(tmp_path)})


def test_versions_that_no_service_manages_are_said_to_be_so(catalog: CatalogNamespace) -> None:
    catalog.create_namespace(CreateNamespaceRequest(id=["eu"]))
    assert catalog.declare_table(DeclareTableRequest(id=["eu", "users"])).managed_versioning is False
    assert catalog.describe_table(DescribeTableRequest(id=["eu", "users"])).managed_versioning is False


def test_a_default_location_that_cannot_be_opened_is_no_reason_to_repeat_the_request() -> None:
    closed = {"storage.endpoint": "http://127.0.0.1:1", "storage.allow_http": "true", "storage.region": "eu"}
    keys = {"storage.access_key_id": "a", "storage.secret_access_key": "b", "storage.client_max_retries": "0"}
    catalog = reconciler.connect("memory", {"root": "s3://lake", **closed, **keys})
    catalog.create_namespace(CreateNamespaceRequest(id=["eu"]))
    with pytest.raises(errors.InvalidInputError, match="name a `location`"):
        catalog.declare_table(DeclareTableRequest(id=["eu", "users"]))


def test_requests_may_be_mappings(catalog: CatalogNamespace) -> None:
    catalog.create_namespace(DictLike(id=["eu"], properties={"owner": "me"}))  # type: ignore[arg-type]
    catalog.declare_table({"id": ["eu", "users"], "location": None})  # type: ignore[arg-type]
    assert catalog.list_tables(DictLike(id=["eu"])).tables == ["users"]  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", [{"id": "eu"}, {"id": [1]}, 7])
def test_a_request_that_cannot_be_is_refused_in_words(catalog: CatalogNamespace, request_: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="ListTablesRequest"):
        catalog.list_tables(request_)


def test_errors_are_those_of_the_specification(catalog: CatalogNamespace) -> None:
    with pytest.raises(errors.TableNotFoundError) as raised:
        catalog.describe_table(DescribeTableRequest(id=["missing"]))
    assert type(raised.value) is errors.TableNotFoundError
    with pytest.raises(errors.InvalidInputError, match="`rot`; did you mean `root`"):
        reconciler.connect("dir", {"rot": "/lake"})


@pytest.mark.parametrize("kind", BackendError.__subclasses__())
def test_every_error_has_the_specifications_code(kind: type[BackendError]) -> None:
    assert kind.code.name == errors.ErrorCode(int(kind.code)).name
    assert type(errors.from_error_code(int(kind.code), "")).__name__ == kind.__name__


def test_the_codes_are_the_specifications() -> None:
    assert {code.name: int(code) for code in ErrorCode} == {code.name: int(code) for code in errors.ErrorCode}


def test_lance_namespace_connects_to_ours(tmp_path: Path) -> None:
    reconciler.register_impls()
    ours = lance_namespace.connect("lancens.dir", {"root": str(tmp_path)})
    assert isinstance(ours, CatalogNamespace)
    assert isinstance(ours.backend, DirBackend)
    assert isinstance(lance_namespace.connect("memory", {"name": "x"}), CatalogNamespace)
    assert not isinstance(lance_namespace.connect("dir", {"root": str(tmp_path)}), CatalogNamespace)
    hive = lance_namespace.connect("hive", {"uri": "thrift://127.0.0.1:1"})
    assert isinstance(hive, CatalogNamespace)
    assert hive.backend.impl == "hive2", "the specification's Hive has two levels"


@pytest.mark.parametrize("impl", ["dir", "lancens.dir"])
def test_connections_can_be_pickled(tmp_path: Path, impl: str) -> None:
    if impl == "dir":
        catalog = reconciler.connect(impl, {"root": str(tmp_path)})
    else:
        reconciler.register_impls()
        connected = lance_namespace.connect(impl, {"root": str(tmp_path)})
        assert isinstance(connected, CatalogNamespace)
        catalog = connected
    catalog.create_namespace(CreateNamespaceRequest(id=["eu"]))
    catalog.backend.parallelism = 3
    catalog.backend.allows_outside, catalog.backend.extra_roots = True, ("s3://beside",)
    copy = pickle.loads(pickle.dumps(catalog))  # noqa: S301 - our own bytes
    copy.declare_table(lance_namespace.DeclareTableRequest(id=["eu", "users"]))
    assert catalog.list_tables(ListTablesRequest(id=["eu"])).tables == ["users"]
    assert copy.backend.parallelism == 3
    assert copy.backend.admission() == catalog.backend.admission()


def test_a_catalog_in_the_memory_of_one_process_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="memory of this process"):
        pickle.dumps(registry.connect("memory", {}))


def test_planning_and_applying_never_load_lance_namespace(tmp_path: Path) -> None:
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        "    namespaces: {eu: {tables: {users: {schema: [{name: id, type: int64}]}}}}\n"
    )
    program = f"import reconciler; m = reconciler.load({str(manifest)!r}); p = reconciler.plan(m)\n"
    program += f"reconciler.apply(p, m, journal={str(tmp_path / 'journal')!r}); reconciler.import_(m)\n"
    program += "import sys; print([name for name in sys.modules if name.startswith('lance_namespace')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_page_lists_every_operation_that_is_not_answered() -> None:
    """Those of the newest specification, by the client that is generated from its OpenAPI document."""
    specified = {
        re.sub("_(?=.)", "", name.title()): name
        for api in vars(lance_namespace_urllib3_client.api).values()
        if inspect.isclass(api)
        for name, _ in inspect.getmembers(api, inspect.isfunction)
        if not name.startswith("_") and not name.endswith(("_with_http_info", "_without_preload_content"))
    }
    page = (Path(__file__).parents[2] / "docs/serve.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \|$", page.partition("| not served | why |")[2].partition("\n\n")[0], re.MULTILINE
    )
    listed = {name for names, why in rows for name in re.findall(r"(?:^|, )(\w+)", names.partition(";")[0])}
    assert listed - {"DropTable"} == {
        operation
        for operation, name in specified.items()
        if getattr(CatalogNamespace, name) is getattr(LanceNamespace, name)
    }
    assert set(specified) - listed <= {operation.name for operation in OPERATIONS}


def test_an_empty_table_is_a_declared_one() -> None:
    namespace = reconciler.connect("memory", {})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    made = namespace.create_empty_table(CreateEmptyTableRequest(id=["a", "t"], properties={"tier": "gold"}))
    found = namespace.describe_table(DescribeTableRequest(id=["a", "t"], check_declared=True))
    assert (found.location, found.properties, found.is_only_declared) == (made.location, {"tier": "gold"}, True)


def _rows(*values: int) -> bytes:
    """Return an Arrow IPC stream with one column."""
    table, sink = pa.table({"id": list(values)}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("mode", ["create", "exist_ok"])
@pytest.mark.parametrize("whose", ["ours", "pylance's"])
def test_a_declared_table_takes_the_rows_once(tmp_path: Path, mode: str, whose: str) -> None:
    root = {"root": str(tmp_path)}
    namespace = reconciler.connect("dir", root) if whose == "ours" else lance_namespace.connect("dir", root)
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    for names in (["a", "t"], ["r"]):
        namespace.declare_table(DeclareTableRequest(id=names))
        made = namespace.create_table(CreateTableRequest(id=names, mode=mode), _rows(1, 2, 3))
        assert (made.version, namespace.count_table_rows(CountTableRowsRequest(id=names)).count) == (1, 3)
        again = CreateTableRequest(id=names, mode=mode)
        if mode == "create":
            with pytest.raises(errors.TableAlreadyExistsError):
                namespace.create_table(again, _rows(4))
        else:
            assert namespace.create_table(again, _rows(4)).version is None
        assert namespace.count_table_rows(CountTableRowsRequest(id=names)).count == 3


def test_the_properties_of_a_request_go_to_the_declared_table_that_takes_its_rows(tmp_path: Path) -> None:
    namespace = reconciler.connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    namespace.declare_table(DeclareTableRequest(id=["a", "t"], properties={"owner": "me"}))
    asked = CreateTableRequest(id=["a", "t"], mode="exist_ok", properties={"tier": "gold"})
    expected = {"owner": "me", "tier": "gold"}
    assert namespace.create_table(asked, _rows(1)).properties == expected
    late = asked.model_copy(update={"properties": {"tier": "lead"}})
    assert namespace.create_table(late, _rows(2)).properties == expected
    assert namespace.describe_table(DescribeTableRequest(id=["a", "t"])).properties == expected


@pytest.mark.parametrize("mode", ["create", "exist_ok"])
@pytest.mark.parametrize("written", [True, False])
def test_the_table_of_a_client_that_was_first_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, written: bool
) -> None:
    namespace, place = reconciler.connect("memory", {}), str(tmp_path / "first.lance")
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    if written:
        lance.write_dataset(pa.table({"id": [7]}), place)
    insert = namespace.backend.insert_table

    def second(identifier: Any, location: str, properties: Any) -> Any:
        insert(identifier, place, {})
        return insert(identifier, location, properties)

    monkeypatch.setattr(namespace.backend, "insert_table", second)
    asked = CreateTableRequest(id=["a", "t"], mode=mode)
    if mode == "create":
        with pytest.raises(errors.TableAlreadyExistsError):
            namespace.create_table(asked, _rows(1))
    else:
        made = namespace.create_table(asked, _rows(1))
        assert (made.location, made.version) == (place, None if written else 1)
        assert lance.dataset(place).to_table().to_pydict() == {"id": [7 if written else 1]}


def _broken(place: Path) -> str:
    """Make a dataset that cannot be opened."""
    lance.write_dataset(pa.table({"id": [1]}), place)
    for manifest in (place / "_versions").iterdir():
        manifest.write_bytes(b"torn")
    return str(place)


def test_rows_for_a_table_that_cannot_be_opened_are_not_said_to_be_written(tmp_path: Path) -> None:
    namespace = reconciler.connect("memory", {})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    namespace.declare_table(DeclareTableRequest(id=["a", "t"], location=_broken(tmp_path / "t.lance")))
    with pytest.raises(errors.InvalidTableStateError):
        namespace.create_table(CreateTableRequest(id=["a", "t"], mode="exist_ok"), _rows(1))


def test_no_table_is_declared_beside_a_default_place_that_cannot_be_opened(tmp_path: Path) -> None:
    namespace = reconciler.connect("memory", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    place = _broken(Path(str(namespace.backend.default_location(("a", "t")))))
    with pytest.raises(errors.InvalidTableStateError, match="name a `location`"):
        namespace.declare_table(DeclareTableRequest(id=["a", "t"]))
    assert namespace.list_tables(ListTablesRequest(id=["a"])).tables == []
    named = namespace.declare_table(DeclareTableRequest(id=["a", "t"], location=f"{place}.2"))
    assert named.location == f"{place}.2"
