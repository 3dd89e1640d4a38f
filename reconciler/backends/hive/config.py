"""The configuration of a connection to Hive Metastores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from reconciler.backends.config import BackendConfig, Root
from reconciler.backends.http.address import is_loopback
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
    if parts.scheme in ("http", "https"):
        raise ValueError(
            "metastores over HTTP are not spoken; expected thrift://HOST:PORT, several separated by commas"
        )
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

    elsewhere: ClassVar[Mapping[str, str]] = {
        "delegation_token": "delegation tokens are not spoken: log in by `auth: kerberos` or `auth: plain`",
        "zookeeper.*": "addresses are not asked of ZooKeeper: name the metastores in `uri`",
    }

    credentials = frozenset({"ugi", "username", "password"})

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
    auth: Literal["none", "kerberos", "plain"] = "none"
    """How to say who is there; `plain` is SASL with a user name and a password, which LDAP may check."""
    username: str | None = Field(default=None, min_length=1)
    """Who to be with `auth: plain`."""
    password: SecretStr | None = Field(default=None, min_length=1)
    """The password of `username`."""
    allow_unencrypted: bool = False
    """Whether the password may go without TLS to a machine that is not this one."""
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

    @model_validator(mode="after")
    def _password_is_safe(self) -> HiveConfig:
        given = [key for key in ("username", "password") if getattr(self, key) is not None]
        if self.auth != "plain":
            if given:
                raise ValueError(f"`{given[0]}` is given, but `auth` is not plain")
            return self
        if len(given) < 2:
            raise ValueError("`auth: plain` needs `username` and `password`")
        remote = [address for address in self.uri if not is_loopback(address.host)]
        if remote and not (self.ssl or self.allow_unencrypted):
            raise ValueError(
                f"`password` would go to {remote[0]} unencrypted; set `ssl: true`, or "
                "`allow_unencrypted: true` where the network is trusted"
            )
        return self

    def identity(self) -> str:
        """Return the metastores' addresses, in one order."""
        return ",".join(sorted(map(str, self.uri)))
