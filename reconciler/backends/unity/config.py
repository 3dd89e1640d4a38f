"""The configuration of ``impl: unity`` (Lance Unity specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from reconciler.backends.http.config import HttpConfig
from reconciler.backends.unity.rules import name_problem

DATABRICKS = (".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com")
"""The ends of the addresses of Databricks' workspaces, as its documentation lists them."""

_HOUR = 3600
_LONGEST_TIMEOUT_MS = 1000 * _HOUR


class UnityConfig(HttpConfig):
    """The connection to a Unity Catalog service, to one of its catalogs or all.

    Time-outs are in seconds. One over an hour is in milliseconds, as newer editions of the specification have them.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        **HttpConfig.elsewhere,
        **dict.fromkeys(("uri", "workspace_url", "server_hostname", "workspace"), "write `endpoint`"),
    }

    catalog: str | None = None
    """The one catalog to show; every catalog when left out."""
    api_path: str = "/api/2.1/unity-catalog"
    """The path after the address."""
    scope: str = Field(default="all-apis", min_length=1)
    """The scope of the tokens to ask for."""

    connect_timeout: float = Field(default=10.0, gt=0, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for a connection."""
    read_timeout: float = Field(default=60.0, gt=0, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for an answer."""

    @field_validator("connect_timeout", "read_timeout")
    @classmethod
    def _in_seconds(cls, value: float) -> float:
        return value / 1000 if value > _HOUR else value

    @field_validator("catalog")
    @classmethod
    def _is_name(cls, value: str | None) -> str | None:
        problem = None if value is None else name_problem(value)
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

    @property
    def address(self) -> str:
        """The address that all routes are below.

        An endpoint that ends with the path is used as it is.
        """
        return self.endpoint if self.endpoint.endswith(self.api_path) else f"{self.endpoint}{self.api_path}"

    @property
    def token_address(self) -> str:
        """The address that gives out tokens for ``credential``."""
        service = urlsplit(self.endpoint)
        return self.oauth2_server_uri or f"{service.scheme}://{service.netloc}/oidc/v1/token"

    @property
    def is_databricks(self) -> bool:
        """Whether the address is that of a Databricks workspace in any cloud."""
        return (urlsplit(self.endpoint).hostname or "").endswith(DATABRICKS)

    def identity(self) -> str:
        """Return the service's address and the catalog, if there is one."""
        return f"{super().identity()} catalog {self.catalog}" if self.catalog else super().identity()
