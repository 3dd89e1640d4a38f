"""Define the configuration of connections to Hive Metastores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from reconciler.backends.http.config import bearer_token, endpoint_problem, is_loopback
from reconciler.backends.http.limits import ServiceLimits
from reconciler.model.backend_config import BackendConfig, Root

_DEFAULT_PORT = 9083
_LOGINS: Mapping[str, tuple[str, ...]] = {"plain": ("username", "password"), "jwt": ("auth_token",)}
"""The keys that each `auth` needs, the secret last."""
_HTTP_PORTS = {"http": 80, "https": 443}
_EXPECTED = "expected thrift://HOST:PORT or http(s)://HOST:PORT/metastore, several separated by commas"


class MetastoreAddress(NamedTuple):
    """The address of a metastore: ``host:port`` as text, or the URL of one over HTTP."""

    host: str
    port: int
    scheme: Literal["thrift", "http", "https"] = "thrift"
    path: str = ""

    @property
    def is_http(self) -> bool:
        """Whether it speaks HTTP, with TLS or without."""
        return self.scheme != "thrift"

    def __str__(self) -> str:
        authority = f"{self.host}:{self.port}"
        return f"{self.scheme}://{authority}{self.path}" if self.is_http else authority


def _address(uri: str) -> MetastoreAddress:
    parts = urlsplit(uri if "://" in uri else f"thrift://{uri}")
    if "@" in parts.netloc:
        raise ValueError("a metastore's URI holds no user information")
    if parts.scheme in ("http", "https"):
        return _http_address(uri, parts)
    if parts.scheme != "thrift" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(_EXPECTED)
    return MetastoreAddress(parts.hostname, parts.port or _DEFAULT_PORT)


def _http_address(uri: str, parts: SplitResult) -> MetastoreAddress:
    problem = endpoint_problem(uri)
    if problem is not None:
        raise ValueError(f"a metastore's address over HTTP {problem}")
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    return MetastoreAddress(parts.hostname or "", parts.port or _HTTP_PORTS[scheme], scheme, parts.path or "/")


def _addresses(value: object) -> object:
    if not isinstance(value, str):
        return value
    uris = [part.strip() for part in value.split(",") if part.strip()]
    if not uris:
        raise ValueError(_EXPECTED)
    return tuple(_address(uri) for uri in uris)


class HiveConfig(ServiceLimits, BackendConfig):
    """The keys of ``hive2`` and ``hive3``. Times are in seconds."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("host", "port", "metastore_uri", "url", "endpoint"), "write `uri: thrift://HOST:PORT`"),
        "warehouse": "write `root`",
        "delegation_token": "delegation tokens are not supported: log in with `auth: kerberos` or `auth: plain`",
        "zookeeper.*": "ZooKeeper is not asked for addresses: name the metastores in `uri`",
    }

    credentials = frozenset({"ugi", "username", "password", "auth_token"})

    uri: Annotated[tuple[MetastoreAddress, ...], BeforeValidator(_addresses)]
    """The metastores of one installation: the first that answers is used, the others are for failover."""
    root: Root | None = None
    """The directory or URI for databases and tables without a location."""
    ugi: str | None = Field(default=None, pattern=r"^[^:,\s]+(:[^:\s]*)?$")
    """``user:group1,group2``, sent to a metastore that does not authenticate; over HTTP only the user is."""
    pool_size: int = Field(default=3, ge=1, le=64, validation_alias="client.pool-size")
    """The most connections that are open at once."""
    timeout: float = Field(default=60.0, gt=0, le=3600, validation_alias="client.timeout")
    """How long to wait for an answer, in seconds."""
    connect_timeout: float = Field(default=10.0, gt=0, le=3600, validation_alias="client.connect-timeout")
    """How long to wait for a connection, in seconds."""
    batch_size: int = Field(default=500, ge=1, le=32_000, validation_alias="client.batch-size")
    """How many tables are loaded with one call."""
    framed: bool = False
    """Whether the metastore speaks Thrift's framed transport."""
    auth: Literal["none", "kerberos", "plain", "jwt"] = "none"
    """How to authenticate: `plain` is SASL with a user name and a password, which LDAP may check, and `jwt` is a token,
    over HTTP."""
    username: str | None = Field(default=None, min_length=1)
    """The user name of `auth: plain`."""
    password: SecretStr | None = Field(default=None, min_length=1)
    """The password of `username`."""
    auth_token: Annotated[SecretStr, AfterValidator(bearer_token)] | None = None
    """The token of `auth: jwt`."""
    allow_unencrypted: bool = False
    """Whether the password or the token may be sent without TLS to another machine."""
    kerberos_service: str = Field(default="hive", min_length=1, validation_alias="kerberos.service")
    """The first part of the metastore's Kerberos principal."""
    ssl: bool = False
    """Whether the metastore speaks TLS."""
    ssl_ca_file: str | None = Field(default=None, min_length=1, validation_alias="ssl.ca-file")
    """The certificates to trust instead of the system's."""

    @property
    def is_http(self) -> bool:
        """Whether the metastores speak HTTP."""
        return self.uri[0].is_http

    def has_tls(self, address: MetastoreAddress) -> bool:
        """Return whether connections to ``address`` use TLS."""
        return self.ssl or address.scheme == "https"

    @model_validator(mode="after")
    def _check_protocol(self) -> HiveConfig:
        if len({address.is_http for address in self.uri}) > 1:
            raise ValueError("`uri` names metastores over HTTP beside others; name those of one protocol")
        if self.is_http:
            if self.framed:
                raise ValueError("`framed` is for thrift://; over HTTP there are no frames")
            if self.auth in ("kerberos", "plain"):
                raise ValueError(f"`auth: {self.auth}` is for thrift://; over HTTP write `auth: jwt` or `none`")
            if self.ssl and any(address.scheme == "http" for address in self.uri):
                raise ValueError("`ssl` is true, but `uri` is http://; write https://")
        elif self.auth == "jwt":
            raise ValueError("`auth: jwt` is for metastores over HTTP; write `uri` as https://HOST:PORT/metastore")
        return self

    @model_validator(mode="after")
    def _check_ssl_is_on(self) -> HiveConfig:
        if self.ssl_ca_file is not None and not any(map(self.has_tls, self.uri)):
            raise ValueError("`ssl.ca-file` is given, but `ssl` is not true")
        return self

    @model_validator(mode="after")
    def _check_login(self) -> HiveConfig:
        for auth, keys in _LOGINS.items():
            present = [key for key in keys if getattr(self, key) is not None]
            if present and self.auth != auth:
                raise ValueError(f"`{present[0]}` is given, but `auth` is not {auth}")
            if self.auth == auth and len(present) < len(keys):
                raise ValueError(f"`auth: {auth}` needs {' and '.join(f'`{key}`' for key in keys)}")
        secret = _LOGINS.get(self.auth, ("",))[-1]
        remote = [address for address in self.uri if not (self.has_tls(address) or is_loopback(address.host))]
        if secret and remote and not self.allow_unencrypted:
            tls = "write https://" if self.is_http else "set `ssl: true`"
            raise ValueError(
                f"`{secret}` would go to {remote[0]} unencrypted; {tls}, or "
                "`allow_unencrypted: true` where the network is trusted"
            )
        return self

    def identity(self) -> str:
        """Return the metastores' addresses, in one order."""
        return ",".join(sorted(map(str, self.uri)))

    def is_identity_literal(self) -> bool:
        """Return True: it is made of `uri`."""
        return True
