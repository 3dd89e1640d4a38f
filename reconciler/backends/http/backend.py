"""Share the client, vended options and clock among the backends over HTTP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.backends.base import Backend
from reconciler.backends.http.client import DEFAULT_POOL_SIZE, HttpClient, TokenSource
from reconciler.backends.http.config import HttpConfig, revealed
from reconciler.backends.http.rate_limit import rate_limit
from reconciler.backends.http.refusals import Refusal, VendorError
from reconciler.backends.http.retry import RetryPolicy
from reconciler.backends.http.tokens import ClientCredentials, read_token_error
from reconciler.backends.service_options import with_vended
from reconciler.model import locations
from reconciler.model.live import LiveTable, Traffic
from reconciler.model.names import Identifier

if TYPE_CHECKING:
    from requests import PreparedRequest


_CLOCK_SECONDS = 10


class HttpBackend(Backend):
    """A backend that sends requests by ``_http``, which its constructor sets."""

    config: HttpConfig
    _http: HttpClient

    @abstractmethod
    def vended_credentials(self, identifier: Identifier, *, writes: bool) -> Mapping[str, str]:
        """Ask the service for storage options with credentials for a table's data."""

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening a table's dataset, with vended credentials.

        Configured options take precedence. `vend_credentials: false` asks for none.
        """
        configured = self.own_storage_options(table)
        if not self.config.vend_credentials:
            return configured
        return with_vended(configured, table, lambda: self.vended_credentials(table.id, writes=writes), self.hosts)

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the location below ``root``; None if none is configured."""
        return None if self.config.root is None else self.location_below(self.config.root, identifier)

    def location_below(self, root: str, identifier: Identifier) -> str:
        """Return the default location of a table below ``root``."""
        return locations.join(root, *identifier[:-1], f"{identifier[-1]}.lance")

    def traffic(self) -> Traffic:
        """Return the requests so far, retries included, and the bytes of the responses."""
        return self._http.meter.traffic

    def server_time(self) -> datetime | None:
        """Return the time in the ``Date`` header of the server's responses."""
        return server_time(self._http.endpoint, verify=self.config.authority, cert=self.config.certificate)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def connect(
    impl: str,
    config: HttpConfig,
    translate: Callable[[Refusal], VendorError | None],
    *,
    in_form: bool = True,
    sign: Callable[[PreparedRequest], Collection[str]] | None = None,
    on_response: Callable[[Mapping[str, str]], None] | None = None,
    pool_size: int = DEFAULT_POOL_SIZE,
) -> HttpClient:
    """Return the client of a service, logged in as ``config`` says.

    Closing it closes the client of the token server too. A separate token server gets neither the configured headers
    nor the client's certificate. The other arguments are those of :class:`HttpClient` and :class:`ClientCredentials`.
    """
    client = partial(
        HttpClient,
        impl=impl,
        timeouts=config.timeouts,
        retry=RetryPolicy(config.max_retries, config.max_wait),
        secrets=config.secrets,
        authority=config.authority,
        limits=config,
        pool_size=pool_size,
    )
    tokens = TokenSource(revealed(config.auth_token))
    if config.credential is not None:
        elsewhere = config.oauth2_server_uri is not None
        http = client(
            endpoint=config.token_address,
            limit=rate_limit(_origin(config.token_address)),
            translate=read_token_error,
            endpoint_key="oauth2_server_uri" if elsewhere else config.address_key,
            token_key=None,
            certificate=None if elsewhere else config.certificate,
        )
        tokens = ClientCredentials(impl, http, config.credential.get_secret_value(), config.scope, in_form=in_form)
    return client(
        endpoint=config.address,
        limit=rate_limit(_origin(config.address)),
        tokens=tokens,
        headers=config.headers,
        sign=sign,
        on_response=on_response,
        translate=translate,
        endpoint_key=config.address_key,
        token_key=config.token_key,
        certificate=config.certificate,
    )


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def server_time(address: str, **tls: Any) -> datetime | None:
    """Send a HEAD to ``address``; return the time of its ``Date`` header, if any.

    No token or header is sent, and an answer that refuses the request has a time as well. ``tls``: the certificates, as
    requests takes them.
    """
    import requests

    try:
        # With an `auth` of its own, which adds nothing, .netrc is not read.
        plain: Any = {"allow_redirects": False, "auth": lambda request: request}
        answer = requests.head(address, timeout=_CLOCK_SECONDS, **plain, **tls)
        time = parsedate_to_datetime(answer.headers.get("Date", ""))
        return time if time.tzinfo else time.replace(tzinfo=UTC)  # `-0000` is UTC, too
    except (requests.RequestException, ValueError, OverflowError):
        return None
