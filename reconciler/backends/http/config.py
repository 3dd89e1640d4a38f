"""Define the configuration of services over HTTP: address, login, time-outs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, ClassVar, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, model_validator

from reconciler.backends.http.limits import WaitLimits
from reconciler.model.backend_config import BackendConfig, Root
from reconciler.model.redaction import is_sensitive, slow_digest

_CREDENTIAL_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


def endpoint_problem(endpoint: str) -> str | None:
    """Return why ``endpoint`` cannot be a service's address; None if it can."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError as error:
        return f"is not an address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must be an http:// or https:// address"
    if "@" in parts.netloc:
        return "cannot hold user information; give a token by its own key"
    if parts.query or parts.fragment:
        return "cannot hold a query or fragment"
    return None


def _address(value: str) -> str:
    value = value.strip()
    problem = endpoint_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value.rstrip("/")


Endpoint: TypeAlias = Annotated[str, AfterValidator(_address)]
"""A configured http:// or https:// address, kept without white space around it and its trailing slash."""


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def has_credential(headers: Mapping[str, str]) -> bool:
    """Return whether one of ``headers`` is a credential."""
    return any(name.lower() in _CREDENTIAL_HEADERS or is_sensitive(name, value) for name, value in headers.items())


def bearer_token(value: SecretStr) -> SecretStr:
    """Strip white space from a configured token.

    Raises:
        ValueError: it is empty.
    """
    token = value.get_secret_value().strip()
    if not token:
        raise ValueError("is empty; leave it out for a service without authentication")
    return SecretStr(token)


def revealed(secret: SecretStr | None) -> str | None:
    """Return the text of a secret; None for none."""
    return None if secret is None else secret.get_secret_value()


def _client_credential(value: SecretStr) -> SecretStr:
    client, _, secret = value.get_secret_value().strip().partition(":")
    if not client or not secret:
        raise ValueError("must be `client_id:client_secret`")
    return SecretStr(f"{client}:{secret}")


class HttpConfig(WaitLimits, BackendConfig):
    """The configuration keys that all services over HTTP share.

    No secret goes to another machine over plain http unless ``allow_http`` is set.
    """

    credentials = frozenset({"vend_credentials"})
    elsewhere: ClassVar[Mapping[str, str]] = {
        "header.*": "write `headers.NAME`",
        "api_key": "write `headers.x-api-key`",
        **dict.fromkeys(("url", "host", "address"), "write `endpoint`"),
    }
    timeout_unit: ClassVar[float] = 1.0
    """The unit of ``connect_timeout`` and ``read_timeout``, in seconds."""
    address_key: ClassVar[str] = "endpoint"
    """The key that gives ``endpoint``."""

    endpoint: Endpoint
    """The address of the service."""
    auth_token: Annotated[SecretStr, AfterValidator(bearer_token)] | None = None
    """A bearer token that is sent with every request."""
    credential: Annotated[SecretStr, AfterValidator(_client_credential)] | None = None
    """`client_id:client_secret`, exchanged for tokens that are renewed (OAuth2 client credentials)."""
    oauth2_server_uri: Endpoint | None = Field(
        default=None, validation_alias=AliasChoices("oauth2_server_uri", "oauth2-server-uri")
    )
    """The address that gives out tokens; by default the service's own."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """``headers.NAME``: sent with every request to the catalog; the values count as secrets."""
    allow_http: bool = False
    """Whether secrets may go over plain http to other machines."""
    scope: str = ""
    """The scope of the tokens to ask for, where the server requires one."""
    connect_timeout: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for a connection."""
    read_timeout: float = Field(default=60.0, gt=0, le=3600)
    """How long to wait for an answer."""
    connect_timeout_millis: int | None = Field(default=None, ge=1, le=3_600_000)
    """`connect_timeout` in milliseconds."""
    read_timeout_millis: int | None = Field(default=None, ge=1, le=3_600_000)
    """`read_timeout` in milliseconds."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """How often a request that is safe to repeat is repeated after failures; 0 for never, throttled or not."""
    vend_credentials: bool = True
    """Whether the service is asked for credentials for the storage of a table, where `storage.*` holds none."""
    root: Root | None = None
    """Where tables go that name no location."""

    @property
    def address(self) -> str:
        """The address that all routes are below."""
        return self.endpoint

    @property
    def timeouts(self) -> tuple[float, float]:
        """The seconds to wait for a connection, and for each part of a response."""
        connect, read = self.connect_timeout_millis, self.read_timeout_millis
        return (
            self.connect_timeout * self.timeout_unit if connect is None else connect / 1000,
            self.read_timeout * self.timeout_unit if read is None else read / 1000,
        )

    @property
    def token_key(self) -> str | None:
        """The configuration key that errors about a refused login name."""
        return "auth_token" if self.credential is None else "credential"

    @property
    def token_address(self) -> str:
        """The address that gives out tokens for ``credential``."""
        return self.oauth2_server_uri or f"{self.address}/v1/oauth/tokens"

    @property
    def authority(self) -> str | None:
        """A PEM file of the certificates to trust instead of the system's."""
        return None

    @property
    def certificate(self) -> str | tuple[str, str] | None:
        """The PEM files of the client's certificate and key."""
        return None

    @property
    def has_secret(self) -> bool:
        """Whether requests carry a secret, so that plain http is refused."""
        return self.auth_token is not None or self.credential is not None or has_credential(self.headers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error may show.

        Of ``credential`` they are the whole, and its secret alone.
        """
        whole = revealed(self.credential) or ""
        secrets = (revealed(self.auth_token), whole, whole.partition(":")[2], *self.headers.values())
        return tuple(text for text in secrets if text)

    def identity(self) -> str:
        """Return the service's address, and a digest of the headers that name a catalog."""
        parts = urlsplit(self.address)
        service = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
        named = {name.lower(): text for name, text in self.headers.items()}
        choosing = {name: text for name, text in named.items() if name not in _CREDENTIAL_HEADERS}
        if not choosing:
            return service
        return f"{service} with headers {slow_digest(json.dumps(choosing, sort_keys=True), 'headers')[:12]}"

    def is_identity_literal(self) -> bool:
        """Return True: it is made of the address, the headers and the names of catalogs."""
        return True

    def plain_http_problem(self, *, has_secret: bool) -> str | None:
        """Return why no secret can be sent to the addresses, or None when it can.

        Anybody on the way can read plain http. A connection to this machine itself is on no network.
        """
        if self.allow_http or not has_secret:
            return None
        for key, address in self._addresses():
            parts = urlsplit(address)
            if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                return (
                    f"`{key}` is a plain http:// address, and what it is called with, such as a token, can be read on "
                    "the way: use https://, or set `allow_http` to true where the network is trusted"
                )
        return None

    def _addresses(self) -> Iterator[tuple[str, str]]:
        yield self.address_key, self.address
        if self.credential is not None:
            yield "oauth2_server_uri", self.token_address

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if self.auth_token is not None and self.credential is not None:
            raise ValueError("`auth_token` and `credential` are two ways to authenticate; give one")
        if self.credential is None and self.oauth2_server_uri is not None:
            raise ValueError("`oauth2_server_uri` needs a `credential` to send there")
        return self

    @model_validator(mode="after")
    def _has_one_timeout_of_each(self) -> Self:
        for name in ("connect_timeout", "read_timeout"):
            if {name, f"{name}_millis"} <= self.model_fields_set:
                raise ValueError(f"`{name}` and `{name}_millis` are one time-out; give one")
        return self

    @model_validator(mode="after")
    def _sends_no_secret_in_the_clear(self) -> Self:
        problem = self.plain_http_problem(has_secret=self.has_secret)
        if problem is not None:
            raise ValueError(problem)
        return self
