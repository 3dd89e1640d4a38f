"""The configuration of a connection to Hive Metastores."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from reconciler.backends.config import BackendConfig, Root
from reconciler.backends.http.limits import ServiceLimits

__all__ = ["Address", "HiveConfig"]

_DEFAULT_PORT = 9083


class Address(NamedTuple):
    """Where a metastore listens; in text ``host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def _address(uri: str) -> Address:
    parts = urlsplit(uri if "://" in uri else f"thrift://{uri}")
    if "@" in parts.netloc:
        raise ValueError("a metastore's URI holds no user information")
    if parts.scheme != "thrift" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("expected thrift://HOST:PORT, several separated by commas")
    return Address(parts.hostname, parts.port or _DEFAULT_PORT)


def _addresses(value: object) -> object:
    if not isinstance(value, str):
        return value
    uris = [part.strip() for part in value.split(",") if part.strip()]
    if not uris:
        raise ValueError("expected thrift://HOST:PORT, several separated by commas")
    return tuple(_address(uri) for uri in uris)


class HiveConfig(ServiceLimits, BackendConfig):
    """The keys of ``hive2`` and ``hive3``. Times are in seconds."""

    credentials = frozenset({"ugi"})

    uri: Annotated[tuple[Address, ...], BeforeValidator(_addresses)]
    """The metastores of one installation: the first that answers is used, the others are for when it is gone."""
    root: Root | None = None
    """The directory or URI that databases and tables go under when they name no location."""
    ugi: str | None = Field(default=None, pattern=r"[^:,\s]+(:[^:\s]*)?")
    """``user:group1,group2``, told to a metastore that does not authenticate."""
    pool_size: int = Field(default=3, ge=1, le=64, validation_alias="client.pool-size")
    """How many connections are open at once."""
    timeout: float = Field(default=60.0, gt=0, validation_alias="client.timeout")
    """How long to wait for an answer, in seconds."""
    connect_timeout: float = Field(default=10.0, gt=0, validation_alias="client.connect-timeout")
    """How long to wait for a connection, in seconds."""
    batch_size: int = Field(default=500, ge=1, le=32_000, validation_alias="client.batch-size")
    """How many tables are loaded with one call."""
    framed: bool = False
    """Whether the metastore speaks Thrift's framed transport."""
    auth: Literal["none", "kerberos"] = "none"
    """How to say who is there."""
    kerberos_service: str = Field(default="hive", min_length=1, validation_alias="kerberos.service")
    """The first part of the metastore's Kerberos principal."""
    ssl: bool = False
    """Whether the metastore speaks TLS."""
    ssl_ca_file: str | None = Field(default=None, min_length=1, validation_alias="ssl.ca-file")
    """The certificates to trust instead of the system's."""

    @model_validator(mode="after")
    def _ssl_is_on(self) -> HiveConfig:
        if self.ssl_ca_file is not None and not self.ssl:
            raise ValueError("`ssl.ca-file` is given, but `ssl` is not true")
        return self

    def identity(self) -> str:
        """Return the metastores' addresses, in one order."""
        return ",".join(sorted(map(str, self.uri)))
