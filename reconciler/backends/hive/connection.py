"""Connect to a metastore: socket, TLS, SASL or framing, and the Thrift client."""

from __future__ import annotations

import getpass
import selectors
import socket
import ssl
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.backends.hive.metastore_errors import LoginRefusedError
from reconciler.backends.http.limits import Scans
from reconciler.model.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from reconciler.backends.hive.config import HiveConfig, MetastoreAddress
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client


_READ_BUFFER = 64 * 1024
_LARGEST_FRAME = 0x3FFFFFFF
_MOST_ELEMENTS = 1_000_000
"""In one list of a reply; an element can take hundreds of times the memory of its bytes."""


@dataclass(frozen=True, slots=True)
class ThriftConnection:
    """A live connection; ``client`` makes the calls."""

    address: MetastoreAddress
    stream: socket.socket
    client: Client

    def wait_at_most(self, seconds: float) -> None:
        """Set the longest wait for the next bytes of a reply."""
        self.stream.settimeout(seconds)

    def is_usable(self) -> bool:
        """Return whether the server still waits for a call.

        Anything readable between two calls is the end of the connection.
        """
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self.stream, selectors.EVENT_READ)
                return not selector.select(0)
            except (OSError, ValueError):
                return False

    def close(self) -> None:
        """Close the socket."""
        self.stream.close()


def connect(config: HiveConfig, address: MetastoreAddress, scans: Scans | None = None) -> ThriftConnection:
    """Return a connection to the metastore at ``address``.

    It waits no longer for a reply than for a connection.

    The requests and bytes are counted in ``scans``, if given.

    Raises:
        KerberosError: Kerberos refuses the connection.
        LoginRefusedError: the metastore refuses the user name and the password.
        OSError, TTransportException: it cannot be reached, or does not speak the protocol of ``config``.
        InvalidInputError: ``config`` needs something that this machine does not have.
    """
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated

    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client

    stream = socket.create_connection((address.host, address.port), timeout=config.connect_timeout)
    try:
        if config.has_tls(address):
            stream = _tls(config).wrap_socket(stream, server_hostname=address.host)
        protocol = TBinaryProtocolAccelerated(
            _transport(config, address, stream, scans or Scans(config)),
            string_length_limit=config.answer_bytes,
            container_length_limit=_MOST_ELEMENTS,
        )
        return ThriftConnection(address, stream, Client(protocol))
    except BaseException:
        stream.close()
        raise


class KerberosError(ConnectionError):
    """Kerberos refuses a connection; the text says why and what to do."""


def kerberos_errors() -> tuple[type[Exception], ...]:
    """Return the errors of SASL and Kerberos; none while they are not in use."""
    mechanisms = sys.modules.get("puresasl.mechanisms")
    if mechanisms is None or not mechanisms.have_kerberos:
        return ()
    from puresasl import SASLError

    return mechanisms.kerberos.GSSError, SASLError


def kerberos_error_of(error: Exception) -> KerberosError:
    """Return one of the ``kerberos_errors`` as an error for users."""
    return KerberosError(
        f"Kerberos: {_innermost(error)}; look at `klist`, renew the ticket with `kinit`, and see that the "
        "metastore's principal is `kerberos.service`/HOST, with the host as `uri` has it"
    )


def _innermost(error: BaseException) -> str:
    """Return the innermost text of an error of GSSAPI other than "Success".

    The arguments are nested pairs of a text and a number: first those of GSSAPI, then those of Kerberos.
    """
    found = str(error)
    todo: list[object] = list(error.args)
    while todo:
        part = todo.pop(0)
        if isinstance(part, tuple):
            todo = [*part, *todo]
        elif isinstance(part, str) and part != "Success":
            found = part
    return found


def _tls(config: HiveConfig) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=config.ssl_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(f"`ssl.ca-file` {config.ssl_ca_file} cannot be used: {error}") from error


def _headers(config: HiveConfig) -> dict[str, str]:
    """Return the header that identifies the caller over HTTP: a token or a name."""
    if config.auth_token is not None:
        return {"Authorization": f"Bearer {config.auth_token.get_secret_value()}"}
    try:
        user = config.ugi.partition(":")[0] if config.ugi else getpass.getuser()
    except (OSError, KeyError) as error:
        raise InvalidInputError("this machine has no name for who runs lancens; write `ugi`") from error
    return {"x-actor-username": user}


def _transport(config: HiveConfig, address: MetastoreAddress, stream: socket.socket, scans: Scans) -> Any:
    """Return the Thrift transport over ``stream``, after the SASL handshake if any."""
    from thrift.transport import TTransport

    from reconciler.backends.hive.carriers import HttpCarrier, SocketCarrier

    if address.is_http:
        return HttpCarrier(stream, address, _headers(config), config, scans)
    carrier = SocketCarrier(stream, address, config, scans)
    if config.auth != "none":
        login = {}  # Kerberos needs none: the process has a ticket
        if config.password is not None:
            password = config.password.get_secret_value()
            login = {"mechanism": "PLAIN", "username": config.username or "", "password": password}
        try:
            sasl = TTransport.TSaslClientTransport(
                carrier, address.host, config.kerberos_service, max_frame_size=_LARGEST_FRAME, **login
            )
        except ImportError as error:
            extra = "kerberos" if config.auth == "kerberos" else "hive"
            raise InvalidInputError(str(MissingExtraError(f"`auth: {config.auth}`", extra))) from error
        try:
            sasl.open()
        except TTransport.TTransportException as error:
            if config.auth == "plain" and error.type == TTransport.TTransportException.NOT_OPEN:
                raise LoginRefusedError(f"the metastore at {address.host} refuses `username` or `password`") from None
            raise
        except kerberos_errors() as error:
            raise kerberos_error_of(error) from error
        return sasl
    if config.framed:
        return TTransport.TFramedTransport(carrier, _LARGEST_FRAME)
    return TTransport.TBufferedTransport(carrier, _READ_BUFFER)
