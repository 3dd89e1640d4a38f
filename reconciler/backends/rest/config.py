"""The configuration of ``impl: rest``."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from reconciler.backends.http.config import Endpoint, HttpConfig
from reconciler.model.backend_config import Root
from reconciler.model.errors import InvalidInputError
from reconciler.model.names import DELIMITER


class RestConfig(HttpConfig):
    """The connection to a Lance namespace server. Time-outs are in seconds."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **HttpConfig.elsewhere,
        **dict.fromkeys(("url", "endpoint", "host", "address"), "write `uri`"),
        "tls.assert_hostname": "leave it out: the name in the server's certificate is always checked",
    }
    address_key = "uri"

    endpoint: Endpoint = Field(validation_alias="uri")
    """The address of the server."""
    delimiter: str = Field(default=DELIMITER, pattern=r"^[\x21-\x7e]{1,8}$")
    """The text that joins the names of an identifier in a route."""
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
    def authority(self) -> str | None:
        """A PEM file of the certificates to trust instead of the system's."""
        return self.tls_ssl_ca_cert

    @property
    def certificate(self) -> str | tuple[str, str] | None:
        """The PEM files of the client's certificate and key."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return self.tls_cert_file
        return self.tls_cert_file, self.tls_key_file

    def require_readable_certificates(self) -> None:
        """Raise unless the files hold certificates and the client's key.

        Raises:
            InvalidInputError: naming the keys and the files.
        """
        context = ssl.create_default_context()
        problem = ""
        try:
            if self.tls_ssl_ca_cert is not None:
                problem = f"`tls.ssl_ca_cert`: no certificates can be read from {self.tls_ssl_ca_cert}"
                context.load_verify_locations(self.tls_ssl_ca_cert)
            if self.tls_cert_file is not None:
                files = " and ".join(filter(None, (self.tls_cert_file, self.tls_key_file)))
                problem = f"`tls.cert_file`, `tls.key_file`: no certificate with its key can be read from {files}"
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file, password="")  # no prompt for one
        except OSError as error:  # those of ssl are among them
            raise InvalidInputError(f"rest: {problem}: {error.strerror or error}") from None
