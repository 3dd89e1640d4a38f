"""The OAuth2 client-credentials flow (RFC 6749, section 4.4) of Iceberg REST catalogs and Lance namespace servers."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from reconciler.backends.http.certificates import Certificates
from reconciler.backends.http.client import DEFAULT_POOL_SIZE, HttpClient
from reconciler.backends.http.login import Login, revealed
from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.backends.http.retry import RetryPolicy
from reconciler.backends.http.tokens import StaticToken, TokenSource
from reconciler.model.errors import InternalError, InvalidInputError, UnauthenticatedError

if TYPE_CHECKING:
    from requests import PreparedRequest


_EARLY_SECONDS = 60.0
_EARLY_PART = 0.1


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: float


class ClientCredentials(TokenSource):
    """A token got for a client id and secret: renewed before it expires, and when the service refuses it.

    Args:
        impl: whose credential it is, for errors.
        http: the client of the address where tokens are given out.
        credential: ``client_id:client_secret``.
        scope: what the token is asked for; empty where the service knows.
        in_form: whether the client id and secret go in the form; otherwise in a header (RFC 6749, section 2.3.1).
        clock: monotonic seconds.
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
        self._impl = impl
        self._http = http
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

    def close(self) -> None:
        """Close the connections to where tokens are given out."""
        self._http.close()

    def _basic(self) -> dict[str, str]:
        pair = f"{quote(self._client, safe='')}:{quote(self._secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _ask(self) -> _Token:
        asked_at = self._clock()
        answer = self._http.json(
            "POST",
            "",
            doing="get a token for `credential`",
            form={
                "grant_type": "client_credentials",
                **({"client_id": self._client, "client_secret": self._secret} if self._in_form else {}),
                **({"scope": self._scope} if self._scope else {}),
            },
            headers=None if self._in_form else self._basic(),
            errors={400: UnauthenticatedError, 401: UnauthenticatedError},
        )
        text = answer.get("access_token")
        if not isinstance(text, str) or not text:
            raise InternalError(f"{self._impl}: get a token for `credential`: the answer holds no `access_token`")
        return _Token(text, asked_at + _good_for(answer.get("expires_in")))


def service_client(
    impl: str,
    config: Login,
    address: str,
    *,
    translate: Callable[[Refusal], VendorError | None],
    endpoint_key: str = "endpoint",
    in_form: bool = True,
    sign: Callable[[PreparedRequest], Collection[str]] | None = None,
    certificates: Certificates | None = None,
    pool_size: int = DEFAULT_POOL_SIZE,
) -> HttpClient:
    """Return the client of a service, which logs in as ``config`` says; closing it closes all that it uses.

    Headers and the client's certificate are for the service alone, not for another one that gives tokens out. What is
    not described here is as in :class:`HttpClient` and :class:`ClientCredentials`.
    """
    connect_timeout, read_timeout = config.timeouts
    client = partial(
        HttpClient,
        impl=impl,
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        retry=RetryPolicy(config.max_retries),
        secrets=config.hidden,
        limits=config.limits,
        pool_size=pool_size,
    )
    tokens: TokenSource = StaticToken(revealed(config.auth_token))
    if config.credential is not None:
        elsewhere = config.oauth2_server_uri is not None
        http = client(
            endpoint=config.token_address,
            translate=read_token_error,
            endpoint_key="oauth2_server_uri" if elsewhere else endpoint_key,
            token_key=None,
            certificates=replace(certificates, own=None, key=None) if certificates and elsewhere else certificates,
        )
        credential = config.credential.get_secret_value()
        tokens = ClientCredentials(impl, http, credential, config.scope, in_form=in_form)
    return client(
        endpoint=address,
        tokens=tokens,
        headers=config.headers,
        sign=sign,
        translate=translate,
        endpoint_key=endpoint_key,
        token_key=config.token_key,
        certificates=certificates,
    )


def read_token_error(refusal: Refusal) -> VendorError | None:
    """Return what ``{"error", "error_description"}`` says (RFC 6749, section 5.2), with what to do about it.

    Iceberg REST catalogs without tokens answer with an error of their own: ``{"error": {"message", "type"}}``.
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


def _good_for(expires_in: object) -> float:
    """Return the seconds until a token is to be renewed; one that names no end is used until it is refused."""
    if isinstance(expires_in, str) and expires_in.isdigit():
        expires_in = int(expires_in)
    if isinstance(expires_in, bool) or not isinstance(expires_in, (int, float)):
        return float("inf")
    return max(0.0, expires_in - min(_EARLY_SECONDS, expires_in * _EARLY_PART))
