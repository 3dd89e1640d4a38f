"""The configuration of ``impl: iceberg`` (Lance Iceberg specification)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from reconciler.backends.http.config import Endpoint, HttpConfig, revealed
from reconciler.model.backend_config import KeysOf
from reconciler.model.names import check_name

DEFAULT_SCOPE = "catalog"
"""The scope that Iceberg's own clients ask for when none is configured."""

_S3_TABLES = "s3tables"
_LONGEST_TIMEOUT_MS = 3_600_000


class IcebergConfig(HttpConfig):
    """The connection to an Iceberg REST catalog. Time-outs are in milliseconds.

    ``oauth2_server_uri``, ``scope``, ``rest.*``, ``headers.*`` and ``warehouses`` go beyond the Lance specification:
    the address and the scope of tokens and the keys of signed requests, as Iceberg's clients name them, and the
    warehouses to scan beside those the manifest names.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {**HttpConfig.elsewhere, "uri": "write `endpoint`"}

    credentials = HttpConfig.credentials | frozenset(
        {"rest.access-key-id", "rest.secret-access-key", "rest.session-token"}
    )
    timeout_unit = 0.001

    endpoint: Endpoint
    """The address of the REST catalog, without `/v1`."""
    scope: str = Field(default=DEFAULT_SCOPE, min_length=1)
    """The scope of the tokens to ask for."""
    sigv4_enabled: bool = Field(default=False, validation_alias="rest.sigv4-enabled")
    """Whether requests are signed with AWS Signature Version 4, for S3 Tables and Glue's endpoint."""
    signing_name: str = Field(default="execute-api", min_length=1, validation_alias="rest.signing-name")
    """The service to sign for, such as `s3tables` or `glue`."""
    signing_region: str | None = Field(default=None, min_length=1, validation_alias="rest.signing-region")
    """The region to sign for; by default that of the environment."""
    access_key_id: str | None = Field(default=None, min_length=1, validation_alias="rest.access-key-id")
    """The key to sign with; by default the credentials of the environment, a profile or a role."""
    secret_access_key: SecretStr | None = Field(default=None, min_length=1, validation_alias="rest.secret-access-key")
    """Goes with `rest.access-key-id`."""
    session_token: SecretStr | None = Field(default=None, min_length=1, validation_alias="rest.session-token")
    """Goes with `rest.access-key-id`, where that is temporary."""
    connect_timeout: int = Field(default=10_000, ge=1, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for a connection, in milliseconds."""
    read_timeout: int = Field(default=30_000, ge=1, le=_LONGEST_TIMEOUT_MS)
    """How long to wait for an answer, in milliseconds."""
    warehouses: str = ""
    """Warehouses to read beside those the manifest names, separated by commas."""
    warehouse_aliases: Annotated[dict[str, str], KeysOf("warehouses")] = Field(default_factory=dict)
    """``warehouses.ALIAS``: a warehouse to read, and the name it has in identifiers in the place of its own."""

    tables: Literal["iceberg", "generic"] = "iceberg"
    """`generic`: Lance tables are generic tables of Apache Polaris, not marked Iceberg tables."""
    unstructured_table_location: bool = False
    """Whether the catalog in Polaris lets tables be anywhere, which it does not tell."""

    @field_validator("endpoint")
    @classmethod
    def _is_without_version(cls, value: str) -> str:
        return value.removesuffix("/v1")

    @model_validator(mode="after")
    def _signs_or_not(self) -> IcebergConfig:
        if self.sigv4_enabled and (self.auth_token is not None or self.credential is not None):
            raise ValueError(
                "`rest.sigv4-enabled` and `auth_token` or `credential` are two ways to authenticate; give one"
            )
        keys = [self.access_key_id, self.secret_access_key, self.session_token]
        has_signing_keys = self.signing_region is not None or "signing_name" in self.model_fields_set
        if not self.sigv4_enabled and (has_signing_keys or any(key is not None for key in keys)):
            raise ValueError(
                "keys of `rest.*` are for signed requests; set `rest.sigv4-enabled` to true, or leave them out"
            )
        if (keys[0] is None) != (keys[1] is None) or (keys[0] is None and keys[2] is not None):
            raise ValueError("`rest.access-key-id` and `rest.secret-access-key` are given together, or neither")
        return self

    @model_validator(mode="after")
    def _can_name_warehouses(self) -> IcebergConfig:
        for name in _split_names(self.warehouses):
            problem = check_name(name)
            if problem is not None:
                raise ValueError(
                    f"`warehouses` holds `{name}`, and {problem}; give it another name here, such as "
                    f'`warehouses: {{sales: "{name}"}}`'
                )
        for alias, warehouse in self.warehouse_aliases.items():
            problem = check_name(alias)
            if problem is not None:
                raise ValueError(f"`warehouses.{alias}`: {problem}")
            if not warehouse.strip():
                raise ValueError(f"`warehouses.{alias}` names no warehouse")
        twice = sorted(set(_split_names(self.warehouses)) & self.warehouse_aliases.keys())
        if twice:
            raise ValueError(f"`warehouses` and `warehouses.{twice[0]}` give the same name to two warehouses")
        known: dict[str, str] = {}
        for name in self.warehouse_names:
            other = known.setdefault(self.warehouse(name), name)
            if other != name:
                raise ValueError(f"`{other}` and `{name}` in `warehouses` are one warehouse, `{self.warehouse(name)}`")
        return self

    @property
    def has_secret(self) -> bool:
        """Whether requests carry a secret."""
        return super().has_secret or self.sigv4_enabled

    @property
    def token_key(self) -> str | None:
        """The key to check when a login is refused; None for signed requests."""
        return None if self.sigv4_enabled else super().token_key

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error may show."""
        signed_with = (revealed(self.secret_access_key), revealed(self.session_token))
        return (*super().secrets, *(text for text in signed_with if text))

    @cached_property
    def warehouse_names(self) -> tuple[str, ...]:
        """The warehouses in ``warehouses``, by their names in identifiers."""
        return tuple(dict.fromkeys((*_split_names(self.warehouses), *self.warehouse_aliases)))

    def warehouse(self, name: str) -> str:
        """Return the service's name of the warehouse that identifiers call ``name``."""
        return self.warehouse_aliases.get(name, name)

    @property
    def is_s3_tables(self) -> bool:
        """Whether the service is Amazon S3 Tables, which chooses locations itself."""
        return self.sigv4_enabled and self.signing_name == _S3_TABLES

    def identity(self) -> str:
        """Return the service's address, `tables: generic` and the configured warehouses."""
        names = ", ".join(sorted(map(self.warehouse, self.warehouse_names)))
        address = super().identity() + (" generic tables" if self.tables == "generic" else "")
        return f"{address} ({names})" if names else address


def _split_names(warehouses: str) -> list[str]:
    return [name for part in warehouses.split(",") if (name := part.strip())]
