"""The configuration of ``impl: rest``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from reconciler.backends.http import Certificates, Endpoint, Login, with_headers
from reconciler.backends.table_options import VendsCredentials
from reconciler.model.backend_config import BackendConfig, Root
from reconciler.model.names import DELIMITER


class RestConfig(Login, VendsCredentials, BackendConfig):
    """How to reach a Lance namespace server. Time-outs are in seconds."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **Login.elsewhere,
        "tls.assert_hostname": "leave it out: the name in the server's certificate is always checked",
    }

    uri: Endpoint
    """The address of the server."""
    delimiter: str = Field(default=DELIMITER, pattern=r"^[\x21-\x7e]{1,8}$")
    """What joins the names of an identifier in a route."""
    tls_ssl_ca_cert: str | None = Field(default=None, min_length=1, validation_alias="tls.ssl_ca_cert")
    """The certificates to trust instead of the system's: a PEM file."""
    tls_cert_file: str | None = Field(default=None, min_length=1, validation_alias="tls.cert_file")
    """The certificate to show a server that asks for one: a PEM file, with the key unless `tls.key_file` has it."""
    tls_key_file: str | None = Field(default=None, min_length=1, validation_alias="tls.key_file")
    """The key of `tls.cert_file`, without a password."""
    root: Root | None = None
    """Where tables go that name no location; where the server keeps a directory, that directory."""
    table_properties: bool = True
    """Whether the server keeps the properties of tables; pylance's own adapter loses most of them."""

    @model_validator(mode="after")
    def _has_a_certificate_to_its_key(self) -> RestConfig:
        if self.tls_key_file is not None and self.tls_cert_file is None:
            raise ValueError("`tls.key_file` needs `tls.cert_file`")
        return self

    @property
    def certificates(self) -> Certificates:
        """Whom to trust, and what to show."""
        return Certificates(self.tls_ssl_ca_cert, self.tls_cert_file, self.tls_key_file)

    @property
    def token_address(self) -> str:
        """Where tokens are given out; without ``oauth2_server_uri`` at the server's own ``/v1/oauth/tokens``."""
        return self.oauth2_server_uri or f"{self.uri}/v1/oauth/tokens"

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield where secrets go, each with the key that says so."""
        yield "uri", self.uri
        yield from super().addresses()

    def identity(self) -> str:
        """Return the server's address, and a digest of the headers that can choose another catalog there."""
        return with_headers(self.uri, self.headers, "rest")
