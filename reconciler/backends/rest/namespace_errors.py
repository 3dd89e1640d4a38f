"""The error bodies of Lance namespace servers: ``{"error": "what happened", "code": 4}`` (ErrorResponse)."""

from __future__ import annotations

from reconciler.backends.http import Refusal, VendorError
from reconciler.model.errors import ErrorCode, InternalError, UnsupportedOperationError, error_type


def translate(refusal: Refusal) -> VendorError | None:
    """Return what an error body means, None for a body that is none.

    pylance's adapter reports what it does not support as Internal. A code of a later version leaves the type of the
    error to the call and the status.
    """
    if not isinstance(refusal.body, dict):
        return None
    code = refusal.body.get("code")
    text = next((said for key in ("error", "detail", "message") if isinstance(said := refusal.body.get(key), str)), "")
    if isinstance(code, bool) or not isinstance(code, int):
        return VendorError(text) if text else None
    try:
        known = ErrorCode(code)
    except ValueError:
        return VendorError(f"{text} (code {code})")
    kind = error_type(known)
    if kind is InternalError and text.startswith("Not supported"):
        kind = UnsupportedOperationError
    return VendorError(f"{known.name}: {text}" if text else known.name, kind)
