"""The configuration of ``impl: rest``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from reconciler.backends.config import BackendConfig, Root
from reconciler.backends.http import Endpoint, ServiceLimits, hold_secret, plain_http_problem, with_headers
from reconciler.names import DELIMITER

__all__ = ["RestConfig"]


class RestConfig(ServiceLimits, BackendConfig):
    """How to reach a Lance namespace server. Time-outs are in seconds."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "connect_timeout_millis": "write `connect_timeout`, in seconds",
        "header.*": "write `headers.NAME`",
        "read_timeout_millis": "write `read_timeout`, in seconds",
        "tls.*": "name the authority's certificates in REQUESTS_CA_BUNDLE; no certificate of the client's is sent",
    }

    uri: Endpoint
    """The address of the server."""
    delimiter: str = Field(default=DELIMITER, pattern=r"^[\x21-\x7e]{1,8}$")
    """What joins the names of an identifier in a route."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """``headers.NAME``: sent with every request; the values count as secrets."""
    auth_token: SecretStr | None = None
    """A bearer token that is sent with every request."""
    credential: SecretStr | None = None
    """`client_id:client_secret`, exchanged for tokens (OAuth2 client credentials)."""
    oauth2_server_uri: Endpoint | None = Field(
        default=None, validation_alias=AliasChoices("oauth2_server_uri", "oauth2-server-uri")
    )
    """Where tokens are given out; otherwise the server's own `/v1/oauth/tokens`."""
    scope: str = ""
    """What tokens are asked for, where the server wants to be told."""
    connect_timeout: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for a connection."""
    read_timeout: float = Field(default=60.0, gt=0, le=3600)
    """How long to wait for an answer."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """How often a request that is safe to repeat is repeated."""
    root: Root | None = None
    """Where tables go that name no location; where the server keeps a directory, that directory."""
    allow_http: bool = False
    """Whether secrets may go over plain http to other machines."""
    table_properties: bool = True
    """Whether the server keeps the properties of tables; pylance's own adapter loses most of them."""

    @field_validator("auth_token")
    @classmethod
    def _is_token(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().strip():
            raise ValueError("is empty; leave it out for a server without authentication")
        return value

    @field_validator("credential")
    @classmethod
    def _has_two_parts(cls, value: SecretStr) -> SecretStr:
        client, _, secret = value.get_secret_value().partition(":")
        if not client or not secret:
            raise ValueError("must be `client_id:client_secret`")
        return value

    @model_validator(mode="after")
    def _has_one_way_in(self) -> RestConfig:
        if self.auth_token is not None and self.credential is not None:
            raise ValueError("`auth_token` and `credential` are two ways to authenticate; give one")
        if self.credential is None and self.oauth2_server_uri is not None:
            raise ValueError("`oauth2_server_uri` needs a `credential` to send there")
        return self

    @model_validator(mode="after")
    def _is_safe_on_the_way(self) -> RestConfig:
        has_secret = self.auth_token is not None or self.credential is not None or hold_secret(self.headers)
        addresses = [("uri", self.uri)]
        if self.credential is not None:
            addresses.append(("oauth2_server_uri", self.token_address))
        for key, address in addresses:
            problem = plain_http_problem(key, address, has_secret=has_secret, allowed=self.allow_http)
            if problem is not None:
                raise ValueError(problem)
        return self

    @property
    def token_address(self) -> str:
        """Where tokens are given out."""
        return self.oauth2_server_uri or f"{self.uri}/v1/oauth/tokens"

    def identity(self) -> str:
        """Return the server's address, and a digest of the headers that can choose another catalog there."""
        address = urlsplit(self.uri)
        return with_headers(f"{address.scheme}://{address.netloc.lower()}{address.path}", self.headers, "rest")
