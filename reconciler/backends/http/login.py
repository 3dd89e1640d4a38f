"""The keys by which a configuration says who is there, for services that take bearer tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, SecretStr, model_validator

from reconciler.backends.http.address import Endpoint, plain_http_problem
from reconciler.backends.http.headers import hold_secret
from reconciler.backends.http.limits import ServiceLimits


def bearer_token(value: SecretStr) -> SecretStr:
    """Return a configured token without what surrounds it in a file.

    Raises:
        ValueError: there is nothing in it.
    """
    token = value.get_secret_value().strip()
    if not token:
        raise ValueError("is empty; leave it out for a service without authentication")
    return SecretStr(token)


def revealed(secret: SecretStr | None) -> str | None:
    """Return a secret in the clear."""
    return None if secret is None else secret.get_secret_value()


def _two_parts(value: SecretStr) -> SecretStr:
    client, _, secret = value.get_secret_value().strip().partition(":")
    if not client or not secret:
        raise ValueError("must be `client_id:client_secret`")
    return SecretStr(f"{client}:{secret}")


class Login(ServiceLimits):
    """A token, or what is exchanged for tokens, headers, and how long to wait and retry.

    No secret of them goes over plain http to another machine unless that is allowed.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)
    elsewhere: ClassVar[Mapping[str, str]] = {
        "connect_timeout_millis": "write `connect_timeout`, in seconds",
        "header.*": "write `headers.NAME`",
        "read_timeout_millis": "write `read_timeout`, in seconds",
    }

    auth_token: Annotated[SecretStr, AfterValidator(bearer_token)] | None = None
    """A bearer token that is sent with every request."""
    credential: Annotated[SecretStr, AfterValidator(_two_parts)] | None = None
    """`client_id:client_secret`, exchanged for tokens that are renewed (OAuth2 client credentials)."""
    oauth2_server_uri: Endpoint | None = Field(
        default=None, validation_alias=AliasChoices("oauth2_server_uri", "oauth2-server-uri")
    )
    """Where tokens are given out; otherwise where the service itself does."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """``headers.NAME``: sent with every request to the catalog; the values count as secrets."""
    allow_http: bool = False
    """Whether secrets may go over plain http to other machines."""
    scope: str = ""
    """What tokens are asked for, where the server wants to be told."""
    connect_timeout: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for a connection."""
    read_timeout: float = Field(default=60.0, gt=0, le=3600)
    """How long to wait for an answer."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """How often a request that is safe to repeat is repeated."""

    @property
    def timeouts(self) -> tuple[float, float]:
        """How long to wait for a connection and for an answer, in seconds."""
        return self.connect_timeout, self.read_timeout

    @property
    def token_key(self) -> str | None:
        """The key to look at when a login is refused; None where the error says so itself."""
        return "auth_token" if self.credential is None else "credential"

    @property
    def token_address(self) -> str:
        """Where tokens are given out."""
        raise NotImplementedError

    @property
    def has_secret(self) -> bool:
        """Whether requests carry a secret."""
        return self.auth_token is not None or self.credential is not None or hold_secret(self.headers)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The texts that no error may show; of ``credential`` all of it, and its secret alone."""
        whole = revealed(self.credential) or ""
        found = (revealed(self.auth_token), whole, whole.partition(":")[2], *self.headers.values())
        return tuple(text for text in found if text)

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield where secrets go, each with the key that says so."""
        if self.credential is not None:
            yield "oauth2_server_uri", self.token_address

    @model_validator(mode="after")
    def _has_one_way_in(self) -> Self:
        if self.auth_token is not None and self.credential is not None:
            raise ValueError("`auth_token` and `credential` are two ways to authenticate; give one")
        if self.credential is None and self.oauth2_server_uri is not None:
            raise ValueError("`oauth2_server_uri` needs a `credential` to send there")
        return self

    @model_validator(mode="after")
    def _is_safe_on_the_way(self) -> Self:
        for key, address in self.addresses():
            problem = plain_http_problem(key, address, has_secret=self.has_secret, allowed=self.allow_http)
            if problem is not None:
                raise ValueError(problem)
        return self
