"""Parse HTTP requests into requests of operations.

Paths are split before they are decoded, as a name may contain a slash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from lance_namespace.errors import InvalidInputError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, QueryParams

from reconciler.model.names import DELIMITER
from reconciler.model.redaction import is_stand_in
from reconciler.server.operations import Operation

_LONGEST_DELIMITER = 16
_LONGEST_JSON = 1024 * 1024
_MOST_NAMES = 64
_LONGEST_IDENTIFIER = 8192
_NO_BODY = (b"", b"null")
"""No request; lance-namespace 0.8 sends `null`."""
_FLAGS = {"true": True, "false": False}
_IN_QUERY = {
    "page_token": str,
    "limit": int,
    "branch": str,
    "delimiter": str,
    "descending": bool,
    "include_declared": bool,
    "with_table_uri": bool,
    "load_detailed_metadata": bool,
    "check_declared": bool,
    "mode": str,
    "properties": dict,
    "storage_options": dict,
}
"""The fields that clients send in the query, with their types."""


def identifier_in_path(text: str, query: QueryParams) -> list[str]:
    """Return the names in the percent-encoded ``text``; the delimiter is the root.

    A plus sign is a space, as pylance writes it.

    Raises:
        InvalidInputError: the text is not UTF-8, or the delimiter is too long.
    """
    return _names(_decoded(text, "the identifier"), query)


def _names(whole: str, query: QueryParams) -> list[str]:
    """Return the names in ``whole``, which is decoded."""
    delimiter = query.get("delimiter") or DELIMITER
    if len(delimiter) > _LONGEST_DELIMITER:
        raise InvalidInputError(f"a delimiter has at most {_LONGEST_DELIMITER} characters")
    return [] if whole in ("", delimiter) else whole.split(delimiter)


def _decoded(text: str, label: str) -> str:
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{label} in the path is not UTF-8") from None


def parse(
    operation: Operation, route: Mapping[str, str], query: QueryParams, headers: Headers, body: bytes
) -> tuple[BaseModel, bytes]:
    """Return the request of ``operation``, and the data in its body.

    ``route`` has the percent-encoded fields of the path. Without ``id`` there, the identifier is in the body, or in the
    query if the body is data.

    Raises:
        InvalidInputError: naming what cannot be read, without its value.
    """
    fields = _from_query(operation, query)
    fields |= {key: _decoded(text, f"`{key}`") for key, text in route.items() if key != "id"}
    named = identifier_in_path(route["id"], query) if "id" in route else None
    if operation.takes_data:
        if named is None:
            named = _names(query.get("id", ""), query)
        _check_length(named)
        return _model(operation, {"id": named, **fields}), body
    content = _from_body(operation, headers, body)
    if named is not None and operation.body_field is not None:
        content = {} if body.strip() in _NO_BODY else {operation.body_field: content}
    _check_length(named if named is not None else content.get("id"))
    if named is not None and content.get("id") not in (None, named):
        raise InvalidInputError("the identifier in the body is not the one in the path")
    return _model(operation, {**content, **fields, **({} if named is None else {"id": named})}), b""


def _check_length(names: object) -> None:
    """Raise if an identifier is longer than any catalog's."""
    if not isinstance(names, list):
        return
    if len(names) > _MOST_NAMES or sum(len(name) for name in names if isinstance(name, str)) > _LONGEST_IDENTIFIER:
        raise InvalidInputError(
            f"`id` has {len(names)} names: an identifier has at most {_MOST_NAMES}, "
            f"of {_LONGEST_IDENTIFIER} characters in all"
        )


def _from_body(operation: Operation, headers: Headers, body: bytes) -> dict[str, Any]:
    if body.strip() in _NO_BODY:
        return {}
    if len(body) > _LONGEST_JSON:
        raise InvalidInputError(f"the body of {operation.name} is longer than {_LONGEST_JSON} bytes")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidInputError(f"the body of {operation.name} must be JSON: send `Content-Type: application/json`")
    return _object(body, "the body")


def _object(text: str | bytes, label: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{label} has a lone surrogate, which is not a character") from None
    except (ValueError, RecursionError):
        raise InvalidInputError(f"{label} is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{label} is not a JSON object")
    return value


def _from_query(operation: Operation, query: QueryParams) -> dict[str, Any]:
    """Return the fields of the request in the query; unknown parameters are ignored."""
    return {
        key: _value(key, text)
        for key, text in query.items()
        if key in _IN_QUERY and key in operation.request.model_fields
    }


def _value(key: str, text: str) -> Any:
    kind = _IN_QUERY[key]
    if kind is dict:
        return _object(text, f"`{key}`")
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise InvalidInputError(f"`{key}` must be true or false")
        return _FLAGS[text.lower()]
    if kind is int:
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 10):
            raise InvalidInputError(f"`{key}` must be a number")
        return int(text)
    return text


def _model(operation: Operation, fields: Mapping[str, Any]) -> BaseModel:
    try:
        request = operation.request.model_validate(fields)
    except RecursionError:
        raise InvalidInputError("the body is nested too deeply") from None
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        texts = [f"`{'.'.join(map(str, detail['loc'][:1]))}`: {detail['msg']}" for detail in details[:5]]
        raise InvalidInputError("; ".join(texts)) from None
    _check_values(request)
    return request


def _check_values(request: BaseModel) -> None:
    """Raise if a value is what the server shows instead of a secret, which the write would replace."""
    written = [getattr(request, field, None) for field in ("properties", "set_properties", "metadata")]
    written += [update.metadata for update in getattr(request, "updates", ())]
    for key, value in (pair for values in written for pair in (values or {}).items()):
        if value is not None and is_stand_in(value):
            raise InvalidInputError(
                f"the value of `{key}` stands for a secret that the server does not show: send another"
            )
