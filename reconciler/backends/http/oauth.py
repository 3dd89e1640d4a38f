"""The OAuth2 client-credentials flow (RFC 6749, section 4.4) of Iceberg REST catalogs and Lance namespace servers."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from reconciler.backends.http.client import HttpClient
from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.errors import InternalError, InvalidInputError, UnauthenticatedError

__all__ = ["ClientCredentials", "basic", "read_token_error"]

_EARLY_SECONDS = 60.0
_EARLY_PART = 0.1


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: float


class ClientCredentials:
    """A token got for a client id and secret: renewed before it expires, and when the service refuses it.

    Args:
        impl: whose credential it is, for errors.
        http: the client of the service that gives tokens out.
        path: where it gives them out, below that client's endpoint.
        credential: ``client_id:client_secret``.
        scope: what the token is asked for; empty where the service knows.
        in_form: whether the client id and secret go in the form; otherwise ``http`` has them in its headers, as
            :func:`basic` returns them (RFC 6749, section 2.3.1).
        clock: monotonic seconds.
    """

    def __init__(
        self,
        impl: str,
        http: HttpClient,
        path: str,
        credential: str,
        scope: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        in_form: bool = True,
    ) -> None:
        self._impl = impl
        self._http = http
        self._path = path
        self._client, _, self._secret = credential.partition(":")
        self._scope = scope
        self._in_form = in_form
        self._clock = clock
        self._lock = threading.Lock()
        self._current: _Token | None = None

    def token(self) -> str:
        """Return a token that is good for a while yet.

        Raises:
            UnauthenticatedError: the client id or secret is wrong.
            BackendError: no token could be got.
        """
        with self._lock:
            if self._current is None or self._clock() >= self._current.renew_at:
                self._current = self._ask()
            return self._current.text

    def renew(self, rejected: str | None) -> bool:
        """Forget ``rejected``, unless another thread has done so and a newer token is there already."""
        with self._lock:
            if self._current is not None and self._current.text == rejected:
                self._current = None
        return True

    def _ask(self) -> _Token:
        asked_at = self._clock()
        answer = self._http.json(
            "POST",
            self._path,
            doing="get a token for `credential`",
            form={
                "grant_type": "client_credentials",
                **({"client_id": self._client, "client_secret": self._secret} if self._in_form else {}),
                **({"scope": self._scope} if self._scope else {}),
            },
            errors={400: UnauthenticatedError, 401: UnauthenticatedError},
        )
        text = answer.get("access_token")
        if not isinstance(text, str) or not text:
            raise InternalError(f"{self._impl}: get a token for `credential`: the answer holds no `access_token`")
        return _Token(text, asked_at + _good_for(answer.get("expires_in")))


def basic(credential: str) -> dict[str, str]:
    """Return the header in which a client says who it is, for ``client_id:client_secret``."""
    client, _, secret = credential.partition(":")
    pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def read_token_error(refusal: Refusal) -> VendorError | None:
    """Return what ``{"error", "error_description"}`` says (RFC 6749, section 5.2), with what to do about it."""
    body = refusal.body if isinstance(refusal.body, Mapping) else {}
    code = body.get("error")
    if not isinstance(code, str):
        return None
    description = body.get("error_description")
    message = f"{code}: {description}" if description else code
    if code == "invalid_scope":
        return VendorError(f"{message}; check `scope`", InvalidInputError)
    if refusal.status in (400, 401, 403):
        return VendorError(f"{message}; check `credential`: it is not accepted", UnauthenticatedError)
    return VendorError(message)


def _good_for(expires_in: object) -> float:
    """Return the seconds until a token is to be renewed; one that names no end is used until it is refused."""
    if isinstance(expires_in, str) and expires_in.isdigit():
        expires_in = int(expires_in)
    if isinstance(expires_in, bool) or not isinstance(expires_in, (int, float)):
        return float("inf")
    return max(0.0, expires_in - min(_EARLY_SECONDS, expires_in * _EARLY_PART))
