"""Errors as clients see them: ``{"error": …, "code": …, "instance": …}``, and the statuses of their codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lance_namespace.errors import ErrorCode
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

_STATUSES: Mapping[ErrorCode, int] = {
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.NAMESPACE_NOT_FOUND: 404,
    ErrorCode.NAMESPACE_ALREADY_EXISTS: 409,
    ErrorCode.NAMESPACE_NOT_EMPTY: 409,
    ErrorCode.TABLE_NOT_FOUND: 404,
    ErrorCode.TABLE_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_INDEX_NOT_FOUND: 404,
    ErrorCode.TABLE_INDEX_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_TAG_NOT_FOUND: 404,
    ErrorCode.TABLE_TAG_ALREADY_EXISTS: 409,
    ErrorCode.TRANSACTION_NOT_FOUND: 404,
    ErrorCode.TABLE_VERSION_NOT_FOUND: 404,
    ErrorCode.TABLE_COLUMN_NOT_FOUND: 404,
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.CONCURRENT_MODIFICATION: 409,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
    ErrorCode.INVALID_TABLE_STATE: 409,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: 400,
    ErrorCode.THROTTLING: 429,
    ErrorCode.TABLE_BRANCH_NOT_FOUND: 404,
    ErrorCode.TABLE_BRANCH_ALREADY_EXISTS: 409,
}

TRY_AGAIN = {"Retry-After": "1"}
"""What goes with a 503 of a request that nothing was done for: any client may repeat it (RFC 9110, section 10.2.3)."""


class Json(JSONResponse):
    """JSON that holds whatever a catalog may answer, halves of surrogate pairs included."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of ``content``."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class _Refusal(Json):
    """An error, with the id of the request that it answers: the specification's ``instance``."""

    def __init__(self, fields: Mapping[str, object], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(fields, status_code=status, headers=headers)
        self._fields = fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        request_id = scope.get("state", {}).get("request_id")
        if request_id is not None:
            self.body = self.render({**self._fields, "instance": request_id})
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def status_of(code: ErrorCode) -> int:
    """Return the HTTP status that goes with an error code."""
    return _STATUSES[code]


def refusal(code: ErrorCode, message: str, status: int | None = None, headers: Mapping[str, str] | None = None) -> Json:
    """Return the answer to a request that is refused, with the status of its code unless another one says more."""
    body = {"error": message, "code": int(code)}
    return _Refusal(body, status or status_of(code), dict(headers or {}))
