"""The configuration of ``impl: unity`` (Lance Unity specification, "Namespace Implementation Configuration")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, field_validator, model_validator

from reconciler.backends.config import BackendConfig, Root
from reconciler.backends.http import Endpoint, ServiceLimits, plain_http_problem
from reconciler.backends.unity.names import name_problem

__all__ = ["UnityConfig"]

_DATABRICKS = (".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com")
"""What the addresses of Databricks' workspaces end with, as its documentation lists them."""


class UnityConfig(ServiceLimits, BackendConfig):
    """How to reach one catalog of a Unity Catalog service. Time-outs are in seconds."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "connect_timeout_millis": "write `connect_timeout`, in seconds",
        "read_timeout_millis": "write `read_timeout`, in seconds",
    }

    endpoint: Endpoint
    """The address of the service."""
    catalog: str
    """The catalog of Unity that is this one."""
    api_path: str = "/api/2.1/unity-catalog"
    """What follows the address."""
    auth_token: SecretStr | None = None
    """A bearer token that is sent with every request."""
    credential: SecretStr | None = None
    """`client_id:client_secret` of a service principal, exchanged for tokens that are renewed (OAuth M2M)."""
    oauth2_server_uri: Endpoint | None = Field(
        default=None, validation_alias=AliasChoices("oauth2_server_uri", "oauth2-server-uri")
    )
    """Where tokens are given out; otherwise `/oidc/v1/token` of the service, as Databricks has it."""
    scope: str = Field(default="all-apis", min_length=1)
    """What tokens are asked for."""
    connect_timeout: float = Field(default=10.0, gt=0, le=3600)
    """How long to wait for a connection."""
    read_timeout: float = Field(default=60.0, gt=0, le=3600)
    """How long to wait for an answer."""
    max_retries: int = Field(default=3, ge=0, le=100)
    """How often a request that is safe to repeat is repeated."""
    root: Root | None = None
    """Where tables go that name no location."""
    allow_http: bool = False
    """Whether secrets may go over plain http to other machines."""

    @field_validator("catalog")
    @classmethod
    def _is_name(cls, value: str) -> str:
        problem = name_problem(value)
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("api_path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if any(character in value for character in "?# \\") or "://" in value:
            raise ValueError("must be a path, such as /api/2.1/unity-catalog")
        trimmed = value.strip("/")
        return f"/{trimmed}" if trimmed else ""

    @field_validator("auth_token")
    @classmethod
    def _is_token(cls, value: SecretStr) -> SecretStr:
        token = value.get_secret_value().strip()
        if not token:
            raise ValueError("is empty; leave it out for a service without authentication")
        return SecretStr(token)

    @field_validator("credential")
    @classmethod
    def _has_two_parts(cls, value: SecretStr) -> SecretStr:
        client, _, secret = value.get_secret_value().strip().partition(":")
        if not client or not secret:
            raise ValueError("must be `client_id:client_secret`")
        return SecretStr(f"{client}:{secret}")

    @model_validator(mode="after")
    def _has_one_way_in(self) -> UnityConfig:
        if self.auth_token is not None and self.credential is not None:
            raise ValueError("`auth_token` and `credential` are two ways to authenticate; give one")
        if self.credential is None and self.oauth2_server_uri is not None:
            raise ValueError("`oauth2_server_uri` needs a `credential` to send there")
        return self

    @model_validator(mode="after")
    def _is_safe_on_the_way(self) -> UnityConfig:
        has_secret = self.auth_token is not None or self.credential is not None
        addresses = [("endpoint", self.endpoint)]
        if self.credential is not None:
            addresses.append(("oauth2_server_uri", self.token_address))
        for key, address in addresses:
            problem = plain_http_problem(key, address, has_secret=has_secret, allowed=self.allow_http)
            if problem is not None:
                raise ValueError(problem)
        return self

    @property
    def token_address(self) -> str:
        """Where a token is given out for ``credential``."""
        service = urlsplit(self.endpoint)
        return self.oauth2_server_uri or f"{service.scheme}://{service.netloc}/oidc/v1/token"

    @property
    def is_databricks(self) -> bool:
        """Whether the address is that of a Databricks workspace, in one of the three clouds."""
        host = urlsplit(self.endpoint).hostname or ""
        return host.endswith(_DATABRICKS)

    @property
    def service_address(self) -> str:
        """The address all routes are below; an endpoint that ends with the path already is left as it is."""
        return self.endpoint if self.endpoint.endswith(self.api_path) else f"{self.endpoint}{self.api_path}"

    def identity(self) -> str:
        """Return the service's address and the catalog."""
        address = urlsplit(self.service_address)
        return f"{address.scheme}://{address.netloc.lower()}{address.path} catalog {self.catalog}"
