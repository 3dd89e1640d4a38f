"""What each operation makes of each refusal: the error codes of the Lance Iceberg REST namespace specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
    ListTablesRequest,
)
from lance_namespace.errors import LanceNamespaceError

from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.errors import ErrorCode
from reconciler.namespace import CatalogNamespace
from tests.catalogs.iceberg.scripted import error, scripted_catalog, table
from tests.servers.scripted import Answer, Scripted

SPACES = "/v1/ware/namespaces"
SPACE = f"{SPACES}/a"
TABLES = f"{SPACE}/tables"
TABLE = f"{TABLES}/t"

Operation = Callable[[IcebergBackend], object]

OPERATIONS: dict[str, tuple[str, Operation]] = {
    "create": (
        f"POST {SPACES}",
        lambda b: CatalogNamespace(b).create_namespace(CreateNamespaceRequest(id=["ware", "a"])),
    ),
    "list": (f"GET {SPACES}", lambda b: CatalogNamespace(b).list_namespaces(ListNamespacesRequest(id=["ware", "a"]))),
    "describe": (
        f"GET {SPACE}",
        lambda b: CatalogNamespace(b).describe_namespace(DescribeNamespaceRequest(id=["ware", "a"])),
    ),
    "drop": (
        f"DELETE {SPACE}",
        lambda b: CatalogNamespace(b).drop_namespace(DropNamespaceRequest(id=["ware", "a"], mode="fail")),
    ),
    "declare": (
        f"POST {TABLES}",
        lambda b: CatalogNamespace(b).declare_table(DeclareTableRequest(id=["ware", "a", "t"], location="/lake/t")),
    ),
    "list tables": (f"GET {TABLES}", lambda b: CatalogNamespace(b).list_tables(ListTablesRequest(id=["ware", "a"]))),
    "describe table": (
        f"GET {TABLE}",
        lambda b: CatalogNamespace(b).describe_table(DescribeTableRequest(id=["ware", "a", "t"])),
    ),
    "deregister": (
        f"DELETE {TABLE}",
        lambda b: CatalogNamespace(b).deregister_table(DeregisterTableRequest(id=["ware", "a", "t"])),
    ),
}

ROWS = [
    ("create", error(409, "AlreadyExistsException"), ErrorCode.NAMESPACE_ALREADY_EXISTS),
    ("create", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("list", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("describe", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("describe", Answer(status=404), ErrorCode.NAMESPACE_NOT_FOUND),
    ("drop", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("drop", error(409, "NamespaceNotEmptyException"), ErrorCode.NAMESPACE_NOT_EMPTY),
    ("drop", error(409, ""), ErrorCode.NAMESPACE_NOT_EMPTY),
    ("drop", error(400, "NamespaceNotEmptyException"), ErrorCode.NAMESPACE_NOT_EMPTY),
    ("declare", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("declare", error(409, "AlreadyExistsException"), ErrorCode.TABLE_ALREADY_EXISTS),
    ("declare", error(409, ""), ErrorCode.TABLE_ALREADY_EXISTS),
    ("list tables", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("describe table", error(404, "NoSuchTableException"), ErrorCode.TABLE_NOT_FOUND),
    ("describe table", error(404, "NoSuchNamespaceException"), ErrorCode.NAMESPACE_NOT_FOUND),
    ("describe table", Answer({"metadata": {"location": "/x", "properties": {}}}), ErrorCode.INVALID_INPUT),
    ("describe table", Answer({"metadata": {"properties": {"table_type": "lance"}}}), ErrorCode.INVALID_INPUT),
    ("deregister", error(404, "NoSuchTableException"), ErrorCode.TABLE_NOT_FOUND),
]
COMMON = [
    (error(400, "BadRequestException"), ErrorCode.INVALID_INPUT),
    (error(401, "NotAuthorizedException"), ErrorCode.UNAUTHENTICATED),
    (error(403, "ForbiddenException"), ErrorCode.PERMISSION_DENIED),
    (error(419, "AuthenticationTimeoutException"), ErrorCode.UNAUTHENTICATED),
    (error(429, "TooManyRequestsException"), ErrorCode.THROTTLING),
    (error(500, "RuntimeException"), ErrorCode.INTERNAL),
    (error(503, "ServiceUnavailableException"), ErrorCode.SERVICE_UNAVAILABLE),
]


@pytest.fixture
def script() -> Iterator[Scripted]:
    """A server on which every operation succeeds."""
    with scripted_catalog() as running:
        running.routes |= {
            f"GET {SPACES}": Answer({"namespaces": []}),
            f"POST {SPACES}": Answer({"namespace": ["a"], "properties": {}}),
            f"GET {SPACE}": Answer({"namespace": ["a"], "properties": {}}),
            f"DELETE {SPACE}": Answer(status=204),
            f"GET {SPACE}/views": Answer({"identifiers": []}),
            f"GET {TABLES}": Answer({"identifiers": []}),
            f"POST {TABLES}": Answer(table()),
            f"GET {TABLE}": Answer(table()),
            f"DELETE {TABLE}": Answer(status=204),
        }
        yield running


def code_of(script: Scripted, operation: str, refusal: Answer) -> int:
    route, call = OPERATIONS[operation]
    script.routes[route] = refusal
    backend = IcebergBackend(endpoint=script.url, max_retries="0")
    try:
        with pytest.raises(LanceNamespaceError) as caught:
            call(backend)
    finally:
        backend.close()
    assert "iceberg: " in str(caught.value)
    return int(caught.value.code)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_succeed_where_nothing_is_refused(script: Scripted, operation: str) -> None:
    backend = IcebergBackend(endpoint=script.url)
    OPERATIONS[operation][1](backend)
    assert OPERATIONS[operation][0] in script.paths()
    backend.close()


@pytest.mark.parametrize(("operation", "refusal", "code"), ROWS)
def test_rows_of_the_specification(script: Scripted, operation: str, refusal: Answer, code: ErrorCode) -> None:
    assert code_of(script, operation, refusal) == code


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("refusal", "code"), COMMON, ids=lambda value: getattr(value, "name", value.__class__.__name__)
)
def test_refusals_that_any_operation_may_meet(
    script: Scripted, operation: str, refusal: Answer, code: ErrorCode
) -> None:
    assert code_of(script, operation, refusal) == code
