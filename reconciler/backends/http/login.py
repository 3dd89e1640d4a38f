"""The keys by which a configuration says who is there, for services that take bearer tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, SecretStr, model_validator

from reconciler.backends.http.address import Endpoint, plain_http_problem
from reconciler.backends.http.headers import hold_secret

__all__ = ["Login", "bearer_token"]


def bearer_token(value: SecretStr) -> SecretStr:
    """Return a configured token without what surrounds it in a file.

    Raises:
        ValueError: there is nothing in it.
    """
    token = value.get_secret_value().strip()
    if not token:
        raise ValueError("is empty; leave it out for a service without authentication")
    return SecretStr(token)


def _two_parts(value: SecretStr) -> SecretStr:
    client, _, secret = value.get_secret_value().strip().partition(":")
    if not client or not secret:
        raise ValueError("must be `client_id:client_secret`")
    return SecretStr(f"{client}:{secret}")


class Login(BaseModel):
    """A token, or what is exchanged for tokens, and headers.

    No secret of them goes over plain http to another machine unless that is allowed.
    """

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
        """The texts of ``credential`` that nothing may show: all of it, and its secret alone."""
        if self.credential is None:
            return ()
        whole = self.credential.get_secret_value()
        return whole, whole.partition(":")[2]

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
