"""The configuration of an Iceberg REST catalog (Lance specification, "Implementation Configuration Properties")."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from reconciler.backends.config import BackendConfig, Root
from reconciler.backends.http import Endpoint, ServiceLimits, plain_http_problem

__all__ = ["DEFAULT_SCOPE", "IcebergConfig"]

DEFAULT_SCOPE = "catalog"
"""What Iceberg's own clients ask for when no scope is configured."""

_LONGEST_TIMEOUT_MS = 3_600_000


class IcebergConfig(ServiceLimits, BackendConfig):
    """How to reach an Iceberg REST catalog. Time-outs are in milliseconds.

    ``oauth2_server_uri``, ``scope`` and ``warehouses`` go beyond the Lance specification: where tokens are given out
    and for what, as Iceberg's clients name them, and the warehouses to scan beside those the manifest names.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "connect_timeout_millis": "write `connect_timeout`, in milliseconds",
        "read_timeout_millis": "write `read_timeout`, in milliseconds",
    }

    endpoint: Endpoint
    """The address of the REST catalog, without `/v1`."""
    auth_token: SecretStr | None = None
    """A bearer token that is sent with every request."""
    credential: SecretStr | None = None
    """`client_id:client_secret`, exchanged for tokens."""
    oauth2_server_uri: Endpoint | None = Field(
        default=None, validation_alias=AliasChoices("oauth2_server_uri", "oauth2-server-uri")
    )
    """Where tokens are given out; otherwise the catalog's own."""
    scope: str = Field(default=DEFAULT_SCOPE, min_length=1)
    """What tokens are asked for."""
    connect_timeout: int = Field(default=10_000, ge=1, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for a connection, in milliseconds."""
    read_timeout: int = Field(default=30_000, ge=1, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for an answer, in milliseconds."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """How often a request that is safe to repeat is repeated."""
    root: Root | None = None
    """Where tables go that name no location."""
    allow_http: bool = False
    """Whether secrets may go over plain http to other machines."""
    warehouses: str = ""
    """Warehouses to read beside those the manifest names, separated by commas."""

    @field_validator("endpoint")
    @classmethod
    def _is_without_version(cls, value: str) -> str:
        return value.removesuffix("/v1")

    @field_validator("auth_token")
    @classmethod
    def _is_token(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().strip():
            raise ValueError("is empty")
        return value

    @field_validator("credential")
    @classmethod
    def _has_two_parts(cls, value: SecretStr) -> SecretStr:
        client, _, secret = value.get_secret_value().partition(":")
        if not client or not secret:
            raise ValueError("must be `client_id:client_secret`")
        return value

    @model_validator(mode="after")
    def _has_one_way_in(self) -> IcebergConfig:
        if self.auth_token is not None and self.credential is not None:
            raise ValueError("`auth_token` and `credential` are two ways to authenticate; give one")
        if self.credential is None and self.oauth2_server_uri is not None:
            raise ValueError("`oauth2-server-uri` needs a `credential` to send there")
        return self

    @model_validator(mode="after")
    def _is_safe_on_the_way(self) -> IcebergConfig:
        has_secret = self.auth_token is not None or self.credential is not None
        for key, address in (("endpoint", self.endpoint), ("oauth2_server_uri", self.token_address)):
            problem = plain_http_problem(key, address, has_secret=has_secret, allowed=self.allow_http)
            if problem is not None:
                raise ValueError(problem)
        return self

    @cached_property
    def warehouse_names(self) -> tuple[str, ...]:
        """The warehouses of ``warehouses``, a list separated by commas."""
        return tuple(dict.fromkeys(name for part in self.warehouses.split(",") if (name := part.strip())))

    @property
    def token_address(self) -> str:
        """Where a token is given out for ``credential``."""
        return self.oauth2_server_uri or f"{self.endpoint}/v1/oauth/tokens"

    def identity(self) -> str:
        """Return the address of the service, and the warehouses where only some are meant."""
        address = urlsplit(self.endpoint)
        service = f"{address.scheme}://{address.netloc.lower()}{address.path}"
        names = ", ".join(sorted(self.warehouse_names))
        return f"{service} ({names})" if names else service
