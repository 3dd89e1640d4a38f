"""What the error bodies of Iceberg REST catalogs mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reconciler.backends.http import Refusal, VendorError
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)

# What exists already, and what a conflict is about, only the call knows.
_KINDS: Mapping[str, type[BackendError]] = {
    "NoSuchNamespaceException": NamespaceNotFoundError,
    "NoSuchTableException": TableNotFoundError,
    "NamespaceNotEmptyException": NamespaceNotEmptyError,
    "CommitFailedException": ConcurrentModificationError,
    "NotAuthorizedException": UnauthenticatedError,
    "ForbiddenException": PermissionDeniedError,
    "UnsupportedOperationException": UnsupportedOperationError,
    "TooManyRequestsException": ThrottlingError,
}
# Servers disagree on the status of this one (404, 400, and Nessie's is 500).
_NO_WAREHOUSE = re.compile(
    r"warehouse\b.*\b(?:not known|unknown|not found|does(?: not|n't) exist)"
    r"|\b(?:unknown|no such|find|found no)\b.*\bwarehouse",
    re.IGNORECASE,
)


def read_catalog_error(refusal: Refusal) -> VendorError | None:
    """Return what ``{"error": {"message", "type", "code"}}`` says; the server's stack trace is left out."""
    error = refusal.body.get("error") if isinstance(refusal.body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    message, name = str(error.get("message") or ""), str(error.get("type") or "")
    kind = _KINDS.get(name)
    if kind is None and _NO_WAREHOUSE.search(message):
        kind = NamespaceNotFoundError
    return VendorError(message or name, kind)
