"""The configuration of ``impl: unity`` (Lance Unity specification, "Namespace Implementation Configuration")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

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

    @model_validator(mode="after")
    def _is_safe_on_the_way(self) -> UnityConfig:
        has_secret = self.auth_token is not None
        problem = plain_http_problem("endpoint", self.endpoint, has_secret=has_secret, allowed=self.allow_http)
        if problem is not None:
            raise ValueError(problem)
        return self

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
