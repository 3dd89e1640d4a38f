"""A backend as other Lance tools take it: any shape of request, the specification's errors, copies elsewhere."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance_namespace
import pytest
from lance_namespace import (
    CreateEmptyTableRequest,
    CreateNamespaceRequest,
    DescribeTableRequest,
    LanceNamespace,
    ListTablesRequest,
    errors,
)

import reconciler
from reconciler.backends import registry
from reconciler.errors import BackendError, ErrorCode
from reconciler.namespace import CatalogNamespace


class DictLike(dict[str, Any]):
    """What LanceDB passes in process: a mapping that can say it is a model, without a model's attributes."""

    def model_dump(self) -> dict[str, Any]:
        return dict(self)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogNamespace:
    return reconciler.connect("dir", {"root": str(tmp_path)})


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
    copy = pickle.loads(pickle.dumps(catalog))  # noqa: S301 - our own bytes
    copy.declare_table(lance_namespace.DeclareTableRequest(id=["eu", "users"]))
    assert catalog.list_tables(ListTablesRequest(id=["eu"])).tables == ["users"]
    assert copy.backend.parallelism == 3


def test_a_catalog_in_the_memory_of_one_process_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="memory of this process"):
        pickle.dumps(registry.connect("memory", {}))


@pytest.mark.parametrize(
    "code",
    [
        "import reconciler; reconciler.load(PATH)",
        "import reconciler; m = reconciler.load(PATH); p = reconciler.plan(m); reconciler.apply(p, m, journal=JOURNAL)",
        "import reconciler; reconciler.import_(reconciler.load(PATH))",
    ],
    ids=["validate", "plan and apply", "import"],
)
def test_planning_and_applying_never_load_lance_namespace(tmp_path: Path, code: str) -> None:
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        "    namespaces: {eu: {tables: {users: {schema: [{name: id, type: int64}]}}}}\n"
    )
    program = f"PATH, JOURNAL = {str(manifest)!r}, {str(tmp_path / 'journal')!r}\n{code}\n"
    program += "import sys; print([name for name in sys.modules if name.startswith('lance_namespace')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_page_lists_every_operation_that_is_not_answered() -> None:
    unanswered = {
        "".join(map(str.capitalize, name.split("_")))
        for name, method in inspect.getmembers(LanceNamespace, inspect.isfunction)
        if not name.startswith("_") and getattr(CatalogNamespace, name) is method
    }
    page = (Path(__file__).parents[2] / "docs/clients.md").read_text("utf-8")
    listed = page.partition("## What is not answered")[2].partition("too.\n\n")[2]
    assert set(re.findall(r"`(\w+)`", listed)) == unanswered | {"DropTable"}


def test_an_empty_table_is_a_declared_one() -> None:
    namespace = reconciler.connect("memory", {})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    made = namespace.create_empty_table(CreateEmptyTableRequest(id=["a", "t"], properties={"tier": "gold"}))
    found = namespace.describe_table(DescribeTableRequest(id=["a", "t"], check_declared=True))
    assert (found.location, found.properties, found.is_only_declared) == (made.location, {"tier": "gold"}, True)
