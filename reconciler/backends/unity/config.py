"""The configuration of ``impl: unity`` (Lance Unity specification, "Namespace Implementation Configuration")."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from reconciler.backends.http import Endpoint, Login, with_headers
from reconciler.backends.table_options import VendsCredentials
from reconciler.backends.unity.names import name_problem
from reconciler.model.backend_config import BackendConfig, Root

DATABRICKS = (".cloud.databricks.com", ".azuredatabricks.net", ".gcp.databricks.com")
"""What the addresses of Databricks' workspaces end with, as its documentation lists them."""


class UnityConfig(Login, VendsCredentials, BackendConfig):
    """How to reach one catalog of a Unity Catalog service. Time-outs are in seconds."""

    endpoint: Endpoint
    """The address of the service."""
    catalog: str
    """The catalog of Unity that is this one."""
    api_path: str = "/api/2.1/unity-catalog"
    """What follows the address."""
    scope: str = Field(default="all-apis", min_length=1)
    """What tokens are asked for."""
    root: Root | None = None
    """Where tables go that name no location."""

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

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield where secrets go, each with the key that says so."""
        yield "endpoint", self.endpoint
        yield from super().addresses()

    @property
    def token_address(self) -> str:
        """Where a token is given out for ``credential``."""
        service = urlsplit(self.endpoint)
        return self.oauth2_server_uri or f"{service.scheme}://{service.netloc}/oidc/v1/token"

    @property
    def is_databricks(self) -> bool:
        """Whether the address is that of a Databricks workspace, in one of the three clouds."""
        host = urlsplit(self.endpoint).hostname or ""
        return host.endswith(DATABRICKS)

    @property
    def service_address(self) -> str:
        """The address all routes are below; an endpoint that ends with the path already is left as it is."""
        return self.endpoint if self.endpoint.endswith(self.api_path) else f"{self.endpoint}{self.api_path}"

    def identity(self) -> str:
        """Return the service's address and the catalog."""
        return f"{with_headers(self.service_address, self.headers, 'unity')} catalog {self.catalog}"
