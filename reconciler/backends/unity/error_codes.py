"""Unity's error codes in the terms of the Lance namespace.

The reference server answers duplicates and non-empty schemas with 400, Databricks with 409; the code in the body
tells what is meant (``error_code``, next to ``message`` and ``details``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from reconciler.backends.doubles import DoubledNameError
from reconciler.backends.http import Refusal, UnknownRouteError, VendorError
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)

_KINDS: Mapping[str, type[BackendError]] = {
    "CATALOG_NOT_FOUND": NamespaceNotFoundError,
    "CATALOG_DOES_NOT_EXIST": NamespaceNotFoundError,
    "SCHEMA_NOT_FOUND": NamespaceNotFoundError,
    "SCHEMA_DOES_NOT_EXIST": NamespaceNotFoundError,
    "TABLE_NOT_FOUND": TableNotFoundError,
    "TABLE_DOES_NOT_EXIST": TableNotFoundError,
    "SCHEMA_ALREADY_EXISTS": NamespaceAlreadyExistsError,
    "TABLE_ALREADY_EXISTS": TableAlreadyExistsError,
    "INVALID_ARGUMENT": InvalidInputError,
    "INVALID_PARAMETER_VALUE": InvalidInputError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "ABORTED": ConcurrentModificationError,
    "RESOURCE_EXHAUSTED": ThrottlingError,
    "REQUEST_LIMIT_EXCEEDED": ThrottlingError,
    "TEMPORARILY_UNAVAILABLE": ServiceUnavailableError,
    "UNAVAILABLE": ServiceUnavailableError,
    "UNIMPLEMENTED": UnsupportedOperationError,
    "ENDPOINT_NOT_FOUND": UnknownRouteError,
    "INTERNAL": InternalError,
    "INTERNAL_ERROR": InternalError,
}
_STATUSES: Mapping[str, int] = {
    "ALREADY_EXISTS": 409,
    "RESOURCE_ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 412,
    "INVALID_STATE": 422,
    "NOT_FOUND": 404,
    "RESOURCE_DOES_NOT_EXIST": 404,
}
"""Codes that do not say what they are about: the call does, by the status that they stand for."""

_MISSING = ("_DOES_NOT_EXIST", "_NOT_FOUND")
"""How codes end that are about neither a namespace nor a table: the metastore, an external location, a credential."""

_TOKEN = re.compile(r"\binvalid access token\b|\btoken\b.*\bexpir", re.IGNORECASE)
"""What is said of a token that is not, or no longer, good. Databricks says it with 403, and the number as the code."""
_WORDS: Mapping[str, type[BackendError]] = {
    "did not return a unique result": DoubledNameError,
    "Value too long for column": InvalidInputError,
}
"""What the reference server says, with 500, of a name that it holds twice and of what its database cannot hold."""


def translate(refusal: Refusal) -> VendorError | None:
    """Return what an error body of Unity means, None for a body that is none."""
    if not isinstance(refusal.body, dict):
        return None
    code, message = refusal.body.get("error_code"), refusal.body.get("message")
    if refusal.status in (401, 403) and isinstance(message, str) and _TOKEN.search(message):
        return VendorError(
            f"{message.rstrip('.')}: it has expired, was revoked, or is another service's", UnauthenticatedError
        )
    if not isinstance(code, str):
        return None
    text = f"{code}: {message}" if isinstance(message, str) and message else code
    kind = next((kind for words, kind in _WORDS.items() if code == "INTERNAL" and words in text), _KINDS.get(code))
    if kind is None and code not in _STATUSES and code.endswith(_MISSING):
        kind = InvalidInputError
    return VendorError(text, kind, _STATUSES.get(code))
