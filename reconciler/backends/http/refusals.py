"""Turn responses outside 2xx into errors: types and short texts.

Status codes decide where the vendor's own error body says nothing (RFC 9110, section 15).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from reconciler.model import errors
from reconciler.model.redaction import scrub

_LONGEST_EXCERPT = 400
_LONGEST_SCRUBBED = 1 << 16
"""Characters: responses can be a thousand times as long, and scrubbing those takes seconds."""
_BY_STATUS: Mapping[int, type[errors.BackendError]] = {
    400: errors.InvalidInputError,
    401: errors.UnauthenticatedError,
    403: errors.PermissionDeniedError,
    405: errors.UnsupportedOperationError,
    406: errors.UnsupportedOperationError,
    407: errors.ServiceUnavailableError,
    408: errors.ServiceUnavailableError,
    409: errors.ConcurrentModificationError,
    412: errors.ConcurrentModificationError,
    413: errors.InvalidInputError,
    414: errors.InvalidInputError,
    419: errors.UnauthenticatedError,
    422: errors.InvalidInputError,
    429: errors.ThrottlingError,
    501: errors.UnsupportedOperationError,
    502: errors.ServiceUnavailableError,
    503: errors.ServiceUnavailableError,
    504: errors.ServiceUnavailableError,
}
_LOGIN = re.compile(r"log-?in|sign-?in|sso\b|saml|oauth|authorize|\bauth\b|openid", re.IGNORECASE)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)</title>", re.IGNORECASE)  # linear in a hostile page, too
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response outside 2xx, for a vendor's translator.

    ``body`` is the decoded JSON, None where the answer is not JSON; ``text`` the answer as text.
    """

    status: int
    body: object = None
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VendorError:
    """The error that the body of a response describes, as read by a translator.

    With ``kind`` None, the call and the status decide on the error class. ``status`` then replaces that of the
    response, where the body is more precise.
    """

    message: str
    kind: type[errors.BackendError] | None = None
    status: int | None = None


class UnknownRouteError(errors.InternalError):
    """The service does not know the path; it may be an older version."""


class DisabledNamespaceError(errors.InternalError):
    """The service has disabled a namespace, and shows nothing of what it holds."""


class ForeignAnswerError(errors.ServiceUnavailableError):
    """Something else answers in the service's place: a proxy, a login page."""


def error_type(
    refusal: Refusal, vendor: VendorError | None, expected: Mapping[int, type[errors.BackendError]]
) -> type[errors.BackendError]:
    """Return the error class for ``refusal``, by the vendor, the call or the status.

    ``expected`` maps statuses to the errors of this call. A web page or plain text comes from a proxy, or from a server
    that does not know the path: a 404 of that kind does not mean that the table is missing.
    """
    if vendor is not None and vendor.kind is not None:
        return vendor.kind
    status = (vendor and vendor.status) or refusal.status
    is_not_json = refusal.body is None and bool(refusal.text.strip())
    if status in expected and not is_not_json:
        return expected[status]
    if status == 404 and refusal.body is None:
        return UnknownRouteError
    if 300 <= refusal.status < 400:
        return errors.UnauthenticatedError if _LOGIN.search(redirect_target(refusal)) else ForeignAnswerError
    return _BY_STATUS.get(status, errors.InternalError)


def decode(content: bytes) -> object:
    """Return the JSON value of ``content``; None if it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def is_html(content: bytes, content_type: str) -> bool:
    """Return whether a response is a web page."""
    return "html" in content_type.lower() or content.lstrip()[:1] == b"<"


def excerpt(text: str, content_type: str = "") -> str:
    """Return the beginning of a response as one line; of a web page, the title."""
    if is_html(text.encode("utf-8", "surrogatepass"), content_type):
        title = _TITLE.search(text)
        text = f"a web page titled `{html.unescape(title[1]).strip()}`" if title else "a web page"
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= _LONGEST_EXCERPT else line[: _LONGEST_EXCERPT - 1] + "…"


def redacted_excerpt(secrets: Collection[str], text: str, content_type: str = "") -> str:
    """Return the :func:`excerpt` of ``text`` with ``secrets`` removed."""
    # A secret that the cut splits would not be scrubbed, so only text well before the cut is shown.
    scrubbed = scrub(text[:_LONGEST_SCRUBBED], secrets)
    shown = scrubbed if len(text) <= _LONGEST_SCRUBBED else scrubbed[: _LONGEST_SCRUBBED // 2]
    return excerpt(shown, content_type)


def redirect_target(refusal: Refusal) -> str:
    """Return the target of a redirect, without user information, query and fragment."""
    location = next((value for key, value in refusal.headers.items() if key.lower() == "location"), "")
    try:
        parts = urlsplit(location)
    except ValueError:
        return "an unreadable address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")) or "nowhere"
