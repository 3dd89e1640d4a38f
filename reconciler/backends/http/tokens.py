"""Exchange OAuth2 client credentials for tokens (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from reconciler.backends.http.client import HttpClient, TokenSource
from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.model.errors import InternalError, InvalidInputError, UnauthenticatedError

_EARLY_SECONDS = 60.0
_EARLY_PART = 0.1


class ClientCredentials(TokenSource):
    """Requests a token with a client id and secret.

    It is renewed before it expires, and when the service refuses it.

    Args:
        impl: the backend's name, for errors.
        http: the client of the token server.
        credential: ``client_id:client_secret``.
        scope: the requested scope; empty for the server's default.
        in_form: send the client id and secret in the form, not in a header (RFC 6749, section 2.3.1).
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        impl: str,
        http: HttpClient,
        credential: str,
        scope: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        in_form: bool = True,
    ) -> None:
        super().__init__()
        self._impl = impl
        self._http = http
        self._client, _, self._secret = credential.partition(":")
        self._scope = scope
        self._in_form = in_form
        self._clock = clock
        self._lock = threading.Lock()
        self._renew_at = 0.0

    def token(self) -> str:
        """Return a token that has not expired.

        Raises:
            UnauthenticatedError: the client id or secret is wrong.
            BackendError: no token could be got.
        """
        with self._lock:
            if self._token is None or self._clock() >= self._renew_at:
                asked_at = self._clock()
                self._token, seconds = self._request_token()
                self._renew_at = asked_at + seconds
            return self._token

    def renew(self, rejected: str | None) -> bool:
        """Forget ``rejected``, unless another thread has replaced it already."""
        with self._lock:
            if self._token == rejected:
                self._token = None
        return True

    def close(self) -> None:
        """Close the connections to the token server."""
        self._http.close()

    def _request_token(self) -> tuple[str, float]:
        """Request a new token; return it and the seconds until its renewal."""
        form, headers = {"grant_type": "client_credentials"}, {}
        if self._in_form:
            form |= {"client_id": self._client, "client_secret": self._secret}
        else:
            pair = f"{quote(self._client, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if self._scope:
            form["scope"] = self._scope
        doing = "get a token for `credential`"
        errors = {400: UnauthenticatedError, 401: UnauthenticatedError}
        answer = self._http.request_json(
            "POST", "", doing=doing, form=form, headers=headers, errors=errors, repeatable=True
        )
        text = answer.get("access_token")
        if not isinstance(text, str) or not text:
            raise InternalError(f"{self._impl}: {doing}: the answer holds no `access_token`")
        return text, _seconds_to_renewal(answer.get("expires_in"))


def _seconds_to_renewal(expires_in: object) -> float:
    """Return the seconds until a token with this ``expires_in`` is renewed.

    A token without expiry is used until the service refuses it.
    """
    try:
        seconds = float("inf" if isinstance(expires_in, bool) else expires_in)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("inf")
    return max(0.0, seconds - min(_EARLY_SECONDS, seconds * _EARLY_PART))


def read_token_error(refusal: Refusal) -> VendorError | None:
    """Translate the error body of a token request (RFC 6749, 5.2); add a remedy.

    Its body is ``{"error", "error_description"}``. Iceberg REST catalogs without tokens answer with an error of their
    own: ``{"error": {"message", "type"}}``.
    """
    body = refusal.body if isinstance(refusal.body, Mapping) else {}
    code, description = body.get("error"), body.get("error_description")
    if isinstance(code, Mapping):
        code, description = code.get("message") or code.get("type") or "", None
    if not isinstance(code, str):
        return None
    message = f"{code}: {description}" if description else code
    if code == "invalid_scope":
        return VendorError(f"{message}; check `scope`", InvalidInputError)
    if refusal.status in (400, 401, 403):
        return VendorError(f"{message}; check `credential`: it is not accepted", UnauthenticatedError)
    if refusal.status in (404, 405, 501):
        remedy = "this server gives out no tokens; name the one that does in `oauth2_server_uri`"
        return VendorError(f"{message}; {remedy}", UnauthenticatedError)
    return VendorError(message)
