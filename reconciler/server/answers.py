"""Make JSON responses: results without secrets, and errors with their statuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lance_namespace.errors import ErrorCode
from pydantic import BaseModel, RootModel
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from reconciler.backends.service_options import PUBLIC_OPTIONS
from reconciler.model import locations
from reconciler.model.redaction import redact_properties

_PRIVATE_FIELDS = {"context"}
_PUBLIC = PUBLIC_OPTIONS | {"azure_storage_use_emulator", "use_emulator"}
"""The storage options that clients see; any other may be a secret."""


def public_fields(response: BaseModel) -> Any:
    """Return ``response`` as JSON values without secrets.

    Only storage options that say where data is are included, not credentials. User information and queries are removed
    from locations, and values of sensitive keys from properties.
    """
    if isinstance(response, RootModel):
        value = response.model_dump(mode="json")
        return redact_properties(value) if isinstance(value, dict) else value
    fields = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_PRIVATE_FIELDS)
    options = public_options(fields.pop("storage_options", {}))
    if options:
        fields["storage_options"] = options
    for key in ("location", "table_uri"):
        if key in fields:
            fields[key] = locations.redact(fields[key])
    for key in ("properties", "metadata"):
        if key in fields:
            fields[key] = redact_properties(fields[key])
    for key in fields.keys() & {"schema", "version", "versions"}:
        fields[key] = _redact_metadata(fields[key])
    if "fields" in fields:
        fields["fields"] = {path: redact_properties(metadata) for path, metadata in fields["fields"].items()}
    return fields


def _redact_metadata(value: Any) -> Any:
    """Return a JSON value without sensitive values of ``metadata`` at any depth."""
    if isinstance(value, list):
        return [_redact_metadata(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: redact_properties(item) if key == "metadata" else _redact_metadata(item) for key, item in value.items()
    }


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the storage options that hold no secret, not even as part of an address."""
    return {
        key: value
        for key, value in options.items()
        if key.lower() in _PUBLIC and locations.redact(value) == value and "@" not in value
    }


_STATUSES = {
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.NAMESPACE_NOT_EMPTY: 409,
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.CONCURRENT_MODIFICATION: 409,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
    ErrorCode.INVALID_TABLE_STATE: 409,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: 400,
    ErrorCode.THROTTLING: 429,
}

RETRY_HEADERS = {"Retry-After": "1"}
"""The header of a 503 after which nothing was done, so that a client may retry (RFC 9110, section 10.2.3)."""


class Json(JSONResponse):
    """A JSON response in ASCII, so that it can hold lone surrogates from a catalog."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class _ErrorResponse(Json):
    """An error response, with the id of its request in the field ``instance``."""

    def __init__(self, fields: Mapping[str, object], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(fields, status_code=status, headers=headers)
        self._fields = fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        request_id = scope.get("state", {}).get("request_id")
        if request_id is not None:
            self.body = self.render({**self._fields, "instance": request_id})
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status of an error code."""
    if code.name.endswith("_NOT_FOUND"):
        return 404
    return 409 if code.name.endswith("_ALREADY_EXISTS") else _STATUSES[code]


def error_response(
    code: ErrorCode, message: str, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Json:
    """Return an error response, with the status of its code by default."""
    body = {"error": message, "code": int(code)}
    return _ErrorResponse(body, status or status_of(code), dict(headers or {}))
