"""The OpenAPI document, generated from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from reconciler.server.guard import OPEN_PATHS
from reconciler.server.operations import ALIASES, NEVER_SUPPORTED, Operation

_REF = "#/components/schemas/{model}"
_ERROR = {
    "type": "object",
    "required": ["code"],
    "properties": {
        "error": {"type": "string"},
        "code": {"type": "integer", "minimum": 0},
        "instance": {"type": "string"},
    },
}
_ERROR_DESCRIPTIONS = {
    "400": "The request cannot be read, or names what cannot be.",
    "401": "A token is needed, or the one sent is not known.",
    "403": "The token may not do this, or the catalog does not let the server do it.",
    "404": "There is no such namespace or table.",
    "405": "The route is for another method, which `Allow` names.",
    "406": "The catalog cannot do this, or it would delete data.",
    "409": "The name is taken, the namespace is not empty, or another client changed it at the same time.",
    "413": "The body is too long.",
    "429": "The catalog is asked too often.",
    "500": "The server failed.",
    "503": "The catalog does not answer in time, or the server has too many requests.",
}
_DELIMITER = {
    "name": "delimiter",
    "in": "query",
    "description": "What joins the names of the identifier; `$` when left out.",
    "schema": {"type": "string", "default": "$"},
}
_IDENTIFIER = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The names of the identifier joined by the delimiter; the delimiter alone is the root.",
    "schema": {"type": "string"},
}


_OPERATION_NAMES = {"type": "object", "properties": {"operations": {"type": "array", "items": {"type": "string"}}}}
_SERVER_ROUTES: Mapping[str, tuple[str, str, str, Collection[str]]] = {
    "/healthz": ("health", "That the server runs.", "application/json", ()),
    "/readyz": ("readiness", "Whether the catalogs answer; 503 if one does not.", "application/json", {"503"}),
    "/metrics": ("metrics", "Counts of requests, for Prometheus.", "text/plain", {"401", "403", "503"}),
    "/openapi.json": ("openapi", "This document.", "application/json", {"503"}),
}
"""The routes about the server itself: operation id, summary, media type and statuses of errors."""


@cache
def _definitions(*models: type[BaseModel]) -> Mapping[str, Any]:
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    return cast("Mapping[str, Any]", definitions["$defs"])


def document(operations: Iterable[Operation], *, with_tokens: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document; ``with_tokens`` adds the security schemes."""
    served = [operation for operation in operations if operation.name not in NEVER_SUPPORTED]
    models = dict.fromkeys(model for operation in served for model in (operation.request, operation.response))
    schemas = {**_definitions(*models), "ErrorResponse": _ERROR}
    paths: dict[str, dict[str, Any]] = {}
    for operation in served:
        for path, methods in operation.routes.items():
            for method in methods:
                paths.setdefault(path, {})[method.lower()] = _describe_route(operation, path, method)
        for name in (operation.name, *(alias for alias, current in ALIASES.items() if current == operation.name)):
            is_current = name == operation.name and operation.path is None
            described = _describe_operation(operation, operation.name if is_current else f"post{name}")
            if operation.takes_data:
                described["parameters"] = [_query("id"), _DELIMITER, _query("mode"), _query("properties")]
            paths[f"/{name}"] = {"post": described}
    paths["/ListOperations"] = {"post": _list_operations()}
    paths |= {path: {"get": _describe_server_route(path, *route)} for path, route in _SERVER_ROUTES.items()}
    components: dict[str, Any] = {"schemas": schemas}
    openapi: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Lance namespace, served by lancens", "version": version("lancens")},
        "paths": paths,
        "components": components,
    }
    if with_tokens:
        components["securitySchemes"] = {
            "BearerAuth": {"type": "http", "scheme": "bearer"},
            "ApiKeyAuth": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
        openapi["security"] = [{"BearerAuth": []}, {"ApiKeyAuth": []}]
    return openapi


def _describe_route(operation: Operation, path: str, method: str) -> dict[str, Any]:
    """Describe ``operation`` at one of its routes, today's or that of early clients."""
    names = re.findall(r"{(\w+)}", path)
    fields = [name for name in names if name != "id"]
    parameters = [*([_IDENTIFIER] if "id" in names else []), _DELIMITER]
    parameters += [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in fields]
    is_current = (path, method) == (operation.path, operation.method)
    early_id = f"{method.lower()}{operation.name}{'AtSlash' * path.endswith('/')}"
    described = {**_describe_operation(operation, operation.name if is_current else early_id), "parameters": parameters}
    if operation.takes_data:
        parameters += [_query("mode"), _query("properties")]
    elif operation.body_field is not None:
        described["requestBody"] = _json(operation.response)
        parameters.append(_query("branch"))
    elif method == "GET":
        del described["requestBody"]
        parameters += [_query("page_token"), _query("limit", type="integer", minimum=1)]
        if "include_declared" in operation.request.model_fields:
            parameters.append(_query("include_declared", type="boolean", default=True))
    return described


def _describe_operation(operation: Operation, operation_id: str) -> dict[str, Any]:
    """Describe the request and the responses of an operation."""
    stream = {"application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "operationId": operation_id,
        "summary": operation.summary,
        "requestBody": {"required": True, "content": stream} if operation.takes_data else _json(operation.request),
        "responses": {
            "200": {"description": "Done.", **_json(operation.response)},
            **_error_responses(_ERROR_DESCRIPTIONS),
        },
    }


def _error_responses(statuses: Iterable[str]) -> dict[str, Any]:
    """Describe the error responses with ``statuses``."""
    error = {"application/json": {"schema": {"$ref": _REF.format(model="ErrorResponse")}}}
    return {status: {"description": _ERROR_DESCRIPTIONS[status], "content": error} for status in sorted(statuses)}


def _list_operations() -> dict[str, Any]:
    summary = "The names of the operations that every catalog here supports."
    success = {"description": "Done.", "content": {"application/json": {"schema": _OPERATION_NAMES}}}
    # The operation names no object, and has no body.
    errors = _error_responses(_ERROR_DESCRIPTIONS.keys() - {"404", "406", "409", "413"})
    return {"operationId": "ListOperations", "summary": summary, "responses": {"200": success, **errors}}


def _describe_server_route(
    path: str, operation_id: str, summary: str, media_type: str, errors: Collection[str]
) -> dict[str, Any]:
    responses = {"200": {"description": summary, "content": {media_type: {}}}, **_error_responses(errors)}
    if path == "/readyz":
        responses["503"]["content"] = {media_type: {}}  # its body is a status, not an ErrorResponse
    described = {"operationId": operation_id, "summary": summary, "responses": responses}
    return {**described, "security": []} if path in OPEN_PATHS else described


def _query(name: str, **schema: object) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema or {"type": "string"}}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}}
