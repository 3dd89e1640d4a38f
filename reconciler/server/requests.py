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
_EMPTY_BODIES = (b"", b"null")
"""The bodies that count as none; lance-namespace 0.8 sends `null`."""
_FLAGS = {"true": True, "false": False}
_QUERY_FIELDS = {
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
    return _split_identifier(_decode(text, "the identifier"), query)


def _split_identifier(text: str, query: QueryParams) -> list[str]:
    """Return the names in ``text``, which are joined by the delimiter of ``query``."""
    delimiter = query.get("delimiter") or DELIMITER
    if len(delimiter) > _LONGEST_DELIMITER:
        raise InvalidInputError(f"a delimiter has at most {_LONGEST_DELIMITER} characters")
    return [] if text in ("", delimiter) else text.split(delimiter)


def _decode(text: str, label: str) -> str:
    """Return percent-encoded text as text; an error calls it ``label``."""
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{label} in the path is not UTF-8") from None


def parse_request(
    operation: Operation, route: Mapping[str, str], query: QueryParams, headers: Headers, body: bytes
) -> tuple[BaseModel, bytes]:
    """Return the request of ``operation``, and the rows in its body if it takes data.

    ``route`` has the percent-encoded fields of the path. Without ``id`` there, the identifier is in the body, or in the
    query if the body is data.

    Raises:
        InvalidInputError: a part cannot be read; the error names it, without its value.
    """
    fields = _query_fields(operation, query)
    fields |= {key: _decode(text, f"`{key}`") for key, text in route.items() if key != "id"}
    identifier = identifier_in_path(route["id"], query) if "id" in route else None
    if operation.takes_data:
        if identifier is None:
            identifier = _split_identifier(query.get("id", ""), query)
        _check_length(identifier)
        return _validate(operation, {"id": identifier, **fields}), body
    content = _body_fields(operation, headers, body)
    if identifier is not None and operation.body_field is not None:
        content = {} if body.strip() in _EMPTY_BODIES else {operation.body_field: content}
    _check_length(identifier if identifier is not None else content.get("id"))
    if identifier is not None and content.get("id") not in (None, identifier):
        raise InvalidInputError("the identifier in the body is not the one in the path")
    return _validate(operation, {**content, **fields, **({} if identifier is None else {"id": identifier})}), b""


def _check_length(names: object) -> None:
    """Raise InvalidInputError if an identifier is longer than those of any catalog."""
    if not isinstance(names, list):
        return
    if len(names) > _MOST_NAMES or sum(len(name) for name in names if isinstance(name, str)) > _LONGEST_IDENTIFIER:
        raise InvalidInputError(
            f"`id` has {len(names)} names: an identifier has at most {_MOST_NAMES}, "
            f"of {_LONGEST_IDENTIFIER} characters in all"
        )


def _body_fields(operation: Operation, headers: Headers, body: bytes) -> dict[str, Any]:
    """Return the fields of the request in a JSON body."""
    if body.strip() in _EMPTY_BODIES:
        return {}
    if len(body) > _LONGEST_JSON:
        raise InvalidInputError(f"the body of {operation.name} is longer than {_LONGEST_JSON} bytes")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidInputError(f"the body of {operation.name} must be JSON: send `Content-Type: application/json`")
    return _parse_object(body, "the body")


def _parse_object(text: str | bytes, label: str) -> dict[str, Any]:
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


def _query_fields(operation: Operation, query: QueryParams) -> dict[str, Any]:
    """Return the fields of the request in the query; unknown parameters are ignored."""
    return {
        key: _parse_query_value(key, text)
        for key, text in query.items()
        if key in _QUERY_FIELDS and key in operation.request.model_fields
    }


def _parse_query_value(key: str, text: str) -> Any:
    kind = _QUERY_FIELDS[key]
    if kind is dict:
        return _parse_object(text, f"`{key}`")
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise InvalidInputError(f"`{key}` must be true or false")
        return _FLAGS[text.lower()]
    if kind is int:
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 10):
            raise InvalidInputError(f"`{key}` must be a number")
        return int(text)
    return text


def _validate(operation: Operation, fields: Mapping[str, Any]) -> BaseModel:
    """Return the request with ``fields``, or raise InvalidInputError."""
    try:
        request = operation.request.model_validate(fields)
    except RecursionError:
        raise InvalidInputError("the body is nested too deeply") from None
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        texts = [f"`{'.'.join(map(str, detail['loc'][:1]))}`: {detail['msg']}" for detail in details[:5]]
        raise InvalidInputError("; ".join(texts)) from None
    _check_no_stand_ins(request)
    return request


def _check_no_stand_ins(request: BaseModel) -> None:
    """Reject values that are the text that the server shows in place of a secret.

    Writing it would replace the secret.
    """
    mappings = [getattr(request, field, None) for field in ("properties", "set_properties", "metadata")]
    mappings += [update.metadata for update in getattr(request, "updates", ())]
    for key, value in (pair for values in mappings for pair in (values or {}).items()):
        if value is not None and is_stand_in(value):
            raise InvalidInputError(
                f"the value of `{key}` stands for a secret that the server does not show: send another"
            )
