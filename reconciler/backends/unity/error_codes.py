"""Translate Unity's error codes.

The reference server sends 400 for duplicates and non-empty schemas, Databricks 409. The body's ``error_code``, next to
``message`` and ``details``, distinguishes the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from reconciler.backends.http.listing import DoubledNameError
from reconciler.backends.http.refusals import Refusal, UnknownRouteError, VendorError
from reconciler.model import errors

_KINDS: Mapping[str, type[errors.BackendError]] = {
    "ABORTED": errors.ConcurrentModificationError,
    "CATALOG_DOES_NOT_EXIST": errors.NamespaceNotFoundError,
    "CATALOG_NOT_FOUND": errors.NamespaceNotFoundError,
    "ENDPOINT_NOT_FOUND": UnknownRouteError,
    "SCHEMA_ALREADY_EXISTS": errors.NamespaceAlreadyExistsError,
    "SCHEMA_DOES_NOT_EXIST": errors.NamespaceNotFoundError,
    "SCHEMA_NOT_FOUND": errors.NamespaceNotFoundError,
    "TABLE_ALREADY_EXISTS": errors.TableAlreadyExistsError,
    "TABLE_DOES_NOT_EXIST": errors.TableNotFoundError,
    "TABLE_NOT_FOUND": errors.TableNotFoundError,
}
"""Codes that are more precise than their status; for others, the status decides."""
_STATUSES: Mapping[str, int] = {
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 412,
    "INVALID_STATE": 422,
    "NOT_FOUND": 404,
    "RESOURCE_ALREADY_EXISTS": 409,
    "RESOURCE_DOES_NOT_EXIST": 404,
}
"""Codes that do not name the kind of object, and the statuses by which the call decides."""

_MISSING = ("_DOES_NOT_EXIST", "_NOT_FOUND")
"""The ends of codes about neither a namespace nor a table: the metastore, an external location, a credential."""

_TOKEN = re.compile(r"\binvalid access token\b|\btoken\b.{0,400}\bexpir", re.IGNORECASE)
"""The texts about a refused token. Databricks sends them with 403, and with the number as the code."""
_WORDS: Mapping[str, type[errors.BackendError]] = {
    "did not return a unique result": DoubledNameError,
    "Value too long for column": errors.InvalidInputError,
}
"""The texts, with 500, of the reference server about a name that is there twice and about its database's limits."""


def translate(refusal: Refusal) -> VendorError | None:
    """Translate an error body of Unity; return None for another body."""
    if not isinstance(refusal.body, dict):
        return None
    code, message = refusal.body.get("error_code"), refusal.body.get("message")
    if refusal.status in (401, 403) and isinstance(message, str) and _TOKEN.search(message):
        return VendorError(
            f"{message.rstrip('.')}: it has expired, was revoked, or is another service's", errors.UnauthenticatedError
        )
    if not isinstance(code, str):
        return None
    text = f"{code}: {message}" if isinstance(message, str) and message else code
    kind = next((kind for words, kind in _WORDS.items() if code == "INTERNAL" and words in text), _KINDS.get(code))
    if kind is None and code not in _STATUSES and code.endswith(_MISSING):
        kind = errors.InvalidInputError
    return VendorError(text, kind, _STATUSES.get(code))
