"""Errors: the right kind for every answer, a line a person can act on, and no secret in any of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

import pytest
from lance_namespace import DescribeTableRequest

from reconciler.backends.unity import UnityBackend
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    ErrorCode,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from reconciler.namespace import CatalogNamespace
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.servers.unity_contract import jwt

SCHEMA = (CATALOG, "s0")
TABLE = (*SCHEMA, "t0000")

Call = Callable[[UnityBackend], object]
CALLS: Mapping[str, Call] = {
    "GET /catalogs": lambda backend: backend.load_namespace((CATALOG,)),
    "GET /schemas/": lambda backend: backend.load_namespace(SCHEMA),
    "GET /schemas?": lambda backend: backend.child_namespaces((CATALOG,)),
    "GET /tables/": lambda backend: backend.load_table(TABLE),
    "GET /tables?": lambda backend: backend.child_tables(SCHEMA),
    "POST /schemas": lambda backend: backend.insert_namespace((CATALOG, "s1"), {}),
    "POST /tables": lambda backend: backend.insert_table((*SCHEMA, "new"), "s3://lake/new", {}),
    "DELETE /tables/": lambda backend: backend.remove_table(TABLE),
    "DELETE /schemas/": lambda backend: backend.remove_namespace((CATALOG, "s1")),
}


def refusal(unity: Unity, call: str, status: int, body: Mapping[str, object] | str, **more: str) -> BackendError:
    unity.fill(1, 0)
    method, _, route = call.partition(" ")
    unity.server.fail_once(f"{method} /api/2.1/unity-catalog{route}", status, body)
    with pytest.raises(BackendError) as caught:
        CALLS[call](unity.connect(max_retries="0", **more))
    return caught.value


@pytest.mark.parametrize(
    ("call", "status", "code", "kind"),
    [
        ("GET /catalogs", 404, "CATALOG_NOT_FOUND", NamespaceNotFoundError),
        ("GET /schemas/", 404, "SCHEMA_NOT_FOUND", NamespaceNotFoundError),
        ("GET /schemas/", 404, "SCHEMA_DOES_NOT_EXIST", NamespaceNotFoundError),
        ("GET /schemas/", 404, "METASTORE_DOES_NOT_EXIST", InvalidInputError),
        ("GET /schemas/", 404, "EXTERNAL_LOCATION_DOES_NOT_EXIST", InvalidInputError),
        ("GET /schemas/", 404, "NOT_FOUND", NamespaceNotFoundError),
        ("GET /schemas?", 404, "CATALOG_NOT_FOUND", NamespaceNotFoundError),
        ("GET /tables/", 404, "TABLE_NOT_FOUND", TableNotFoundError),
        ("GET /tables/", 404, "TABLE_DOES_NOT_EXIST", TableNotFoundError),
        ("GET /tables/", 404, "NOT_FOUND", TableNotFoundError),
        ("GET /tables/", 404, "RESOURCE_DOES_NOT_EXIST", TableNotFoundError),
        ("GET /tables/", 404, "SCHEMA_NOT_FOUND", NamespaceNotFoundError),
        ("GET /tables?", 404, "SCHEMA_NOT_FOUND", NamespaceNotFoundError),
        ("POST /schemas", 400, "SCHEMA_ALREADY_EXISTS", NamespaceAlreadyExistsError),
        ("POST /schemas", 409, "RESOURCE_ALREADY_EXISTS", NamespaceAlreadyExistsError),
        ("POST /schemas", 400, "ALREADY_EXISTS", NamespaceAlreadyExistsError),
        ("POST /schemas", 404, "CATALOG_NOT_FOUND", NamespaceNotFoundError),
        ("POST /schemas", 400, "INVALID_ARGUMENT", InvalidInputError),
        ("POST /tables", 400, "TABLE_ALREADY_EXISTS", TableAlreadyExistsError),
        ("POST /tables", 409, "RESOURCE_ALREADY_EXISTS", TableAlreadyExistsError),
        ("POST /tables", 404, "SCHEMA_NOT_FOUND", NamespaceNotFoundError),
        ("POST /tables", 400, "INVALID_PARAMETER_VALUE", InvalidInputError),
        ("DELETE /tables/", 404, "TABLE_NOT_FOUND", TableNotFoundError),
        ("DELETE /schemas/", 404, "SCHEMA_NOT_FOUND", NamespaceNotFoundError),
        ("DELETE /schemas/", 400, "FAILED_PRECONDITION", NamespaceNotEmptyError),
        ("DELETE /schemas/", 409, "SOMETHING_NEW", NamespaceNotEmptyError),
        ("DELETE /schemas/", 400, "INVALID_STATE", NamespaceNotEmptyError),
        ("GET /tables?", 401, "UNAUTHENTICATED", UnauthenticatedError),
        ("GET /tables?", 403, "PERMISSION_DENIED", PermissionDeniedError),
        ("GET /tables?", 429, "RESOURCE_EXHAUSTED", ThrottlingError),
        ("GET /tables?", 429, "REQUEST_LIMIT_EXCEEDED", ThrottlingError),
        ("GET /tables?", 409, "ABORTED", ConcurrentModificationError),
        ("GET /tables?", 501, "UNIMPLEMENTED", UnsupportedOperationError),
        ("GET /tables?", 503, "TEMPORARILY_UNAVAILABLE", ServiceUnavailableError),
        ("GET /tables?", 500, "INTERNAL", InternalError),
        ("GET /tables?", 500, "INTERNAL_ERROR", InternalError),
        ("GET /tables?", 500, "SOMETHING_NEW", InternalError),
        ("GET /tables?", 400, "SOMETHING_NEW", InvalidInputError),
    ],
)
def test_each_code_is_the_error_the_specification_names(
    unity: Unity, call: str, status: int, code: str, kind: type[BackendError]
) -> None:
    error = refusal(unity, call, status, {"error_code": code, "message": "as the server says it", "details": []})
    assert type(error) is kind
    assert f"{status}: {code}: as the server says it" in str(error)
    assert str(error).startswith("unity: ")


@pytest.mark.parametrize(
    ("token", "kind", "line"),
    [
        (None, UnauthenticatedError, "set `auth_token`"),
        ("garbage-token", UnauthenticatedError, "check `auth_token`: it is not accepted"),
        (jwt("https://elsewhere"), UnauthenticatedError, "was revoked, or is another service's; check `auth_token`"),
    ],
)
def test_tokens_that_the_server_does_not_take(
    stand_in: Unity, token: str | None, kind: type[BackendError], line: str
) -> None:
    config = stand_in.config()
    del config["auth_token"]
    backend = UnityBackend(**config, **({"auth_token": token} if token else {}))
    with pytest.raises(kind, match=line) as caught:
        backend.scan()
    if token:
        assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        # What Databricks answers: databricks/databricks-sdk-go, issue 873, and databricks/databricks-vscode, issue 583.
        (403, {"error_code": 403, "message": "Invalid access token."}),
        (403, {"error_code": "403", "message": "Token is expiring within 30 seconds. (token expired)"}),
        (
            401,
            {
                "error_code": "UNAUTHENTICATED",
                "message": "The Token has expired on 2026-01-01T00:00:00Z.",
                "details": [],
            },
        ),
    ],
)
def test_an_expired_token_is_reported_as_expired(unity: Unity, status: int, body: Mapping[str, object]) -> None:
    error = refusal(unity, "GET /tables?", status, body)
    assert error.code is ErrorCode.UNAUTHENTICATED
    assert "it has expired, was revoked" in str(error)


def test_a_token_that_says_when_it_ended_is_told_with_that(unity: Unity) -> None:
    parts = [b'{"alg":"none"}', b'{"iss":"internal","exp":1767225600}', b"signature"]
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    error = refusal(
        unity, "GET /tables?", 403, {"error_code": 403, "message": "Invalid access token."}, auth_token=token
    )
    assert str(error).endswith("it expired at 2026-01-01 00:00:00 UTC")
    assert token not in str(error)


def test_a_token_from_a_file_may_end_with_a_line_break(unity: Unity) -> None:
    unity.fill(1)
    assert len(unity.connect(auth_token=f"{TOKEN}\n").scan().tables) == 1


def test_the_token_is_shown_nowhere(unity: Unity) -> None:
    backend = unity.connect(**{"storage.secret_access_key": "hunter22-hunter22"})
    shown = f"{backend!r} {backend.config!r} {backend.config} {backend.namespace_id()} {vars(backend)}"
    assert TOKEN not in shown
    assert "hunter22" not in shown


def test_storage_options_go_to_pylance_and_nowhere_else(unity: Unity) -> None:
    unity.fill(1)
    backend = unity.connect(**{"storage.region": "eu-west-1"})
    described = CatalogNamespace(backend).describe_table(DescribeTableRequest(id=list(TABLE)))
    assert described.storage_options == {"region": "eu-west-1"}
    assert not any("eu-west-1" in request for request in unity.server.requests)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"catalog": "main"}, "`endpoint` is missing"),
        ({"endpoint": "h:80", "catalog": "main"}, "`endpoint`: must be an http:// or https:// address"),
        ({"endpoint": "http://h", "catalog": "a.b"}, "`catalog`: a name in Unity Catalog has letters"),
        ({"endpoint": "http://h", "catalog": ""}, "`catalog`: a name cannot be empty"),
        ({"endpoint": "http://h", "catalog": "m", "api_path": "http://x/y"}, "`api_path`: must be a path"),
        ({"endpoint": "http://h", "catalog": "m", "read_timeout": "0"}, "`read_timeout`"),
        ({"endpoint": "http://h", "catalog": "m", "max_retries": "-1"}, "`max_retries`"),
        ({"endpoint": "http://h", "catalog": "m", "auth_token": " "}, "`auth_token`: is empty"),
    ],
)
def test_configurations_that_cannot_be(config: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        UnityBackend(**config)
    assert line in str(caught.value)
    assert "pw-12345" not in str(caught.value)


def test_defaults_and_prefixed_keys() -> None:
    config = UnityBackend(**{"unity.endpoint": "http://h:8080/", "unity.catalog": "main"}).config
    assert config.address == "http://h:8080/api/2.1/unity-catalog"
    assert (config.connect_timeout, config.read_timeout, config.max_retries, config.root) == (10.0, 60.0, 3, None)
    assert config.identity() == "http://h:8080/api/2.1/unity-catalog catalog main"
