"""From the response of an operation to JSON that may leave the house."""

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

_KEPT_BACK = {"context"}
_PUBLIC = PUBLIC_OPTIONS | {"azure_storage_use_emulator", "use_emulator"}
"""Whatever is not here stays here: an option that nobody has thought of may be a secret."""


def shown(response: BaseModel) -> Any:
    """Return ``response`` as JSON values.

    Of the storage options those are kept that say where data is and not who opens it; user information and queries of
    locations are left out, and so are the values of properties whose keys look like those of secrets.
    """
    if isinstance(response, RootModel):
        return response.model_dump(mode="json")
    fields = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_KEPT_BACK)
    options = public_options(fields.pop("storage_options", {}))
    if options:
        fields["storage_options"] = options
    for key in ("location", "table_uri"):
        if key in fields:
            fields[key] = locations.redact(fields[key])
    for key in ("properties", "metadata"):
        if key in fields:
            fields[key] = redact_properties(fields[key])
    return fields


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``options`` that are no secret; an address that holds one is none of them."""
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
    if code.name.endswith("_NOT_FOUND"):
        return 404
    return 409 if code.name.endswith("_ALREADY_EXISTS") else _STATUSES[code]


def refusal(code: ErrorCode, message: str, status: int | None = None, headers: Mapping[str, str] | None = None) -> Json:
    """Return the answer to a request that is refused, with the status of its code unless another one says more."""
    body = {"error": message, "code": int(code)}
    return _Refusal(body, status or status_of(code), dict(headers or {}))
