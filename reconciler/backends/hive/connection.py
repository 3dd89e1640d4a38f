"""Connect to a metastore: socket, TLS, SASL or framing, and the Thrift client."""

from __future__ import annotations

import getpass
import selectors
import socket
import ssl
from dataclasses import dataclass
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport import TTransport

from reconciler.backends.hive.carriers import HttpCarrier, SocketCarrier
from reconciler.backends.hive.config import HiveConfig, MetastoreAddress
from reconciler.backends.hive.gen.ThriftHiveMetastore import Client
from reconciler.backends.hive.metastore_errors import LoginRefusedError
from reconciler.backends.hive.sasl import PasswordLogin, SaslCarrier, TicketLogin
from reconciler.backends.http.limits import TrafficMeter
from reconciler.model.errors import InvalidInputError, MissingExtraError

_READ_BUFFER = 64 * 1024
_LARGEST_FRAME = 0x3FFFFFFF
_MOST_ELEMENTS = 1_000_000
"""The limit of one list in a reply: an element can take hundreds of times the memory of its bytes."""


@dataclass(frozen=True, slots=True)
class ThriftConnection:
    """An open connection; ``client`` makes the calls."""

    address: MetastoreAddress
    stream: socket.socket
    client: Client

    def wait_at_most(self, seconds: float) -> None:
        """Set the longest wait for the next bytes of a reply."""
        self.stream.settimeout(seconds)

    def is_usable(self) -> bool:
        """Return whether the connection is still open at both ends.

        If anything is readable between two calls, the server has closed the connection.
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


def connect(config: HiveConfig, address: MetastoreAddress, meter: TrafficMeter | None = None) -> ThriftConnection:
    """Connect and log in to the metastore at ``address``.

    Until :meth:`ThriftConnection.wait_at_most`, replies have the time-out of connections. ``meter`` counts requests and
    bytes.

    Raises:
        KerberosError: Kerberos refuses the connection.
        LoginRefusedError: the metastore refuses the user name and the password.
        OSError, TTransportException: it cannot be reached, or does not speak the protocol of ``config``.
        InvalidInputError: ``config`` needs something that this machine does not have.
    """
    stream = socket.create_connection((address.host, address.port), timeout=config.connect_timeout)
    try:
        if config.has_tls(address):
            stream = _tls_context(config).wrap_socket(stream, server_hostname=address.host)
        protocol = TBinaryProtocolAccelerated(
            _transport(config, address, stream, meter or TrafficMeter(config)),
            string_length_limit=config.answer_bytes,
            container_length_limit=_MOST_ELEMENTS,
        )
        return ThriftConnection(address, stream, Client(protocol))
    except BaseException:
        stream.close()
        raise


def _tls_context(config: HiveConfig) -> ssl.SSLContext:
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


def _transport(config: HiveConfig, address: MetastoreAddress, stream: socket.socket, meter: TrafficMeter) -> Any:
    """Return the Thrift transport over ``stream``, after the SASL handshake if any."""
    if address.is_http:
        return HttpCarrier(stream, address, _headers(config), config, meter)
    carrier = SocketCarrier(stream, address, config, meter)
    if config.auth != "none":
        return TTransport.TBufferedTransport(_log_in(config, address, carrier), _READ_BUFFER)
    if config.framed:
        return TTransport.TFramedTransport(carrier, _LARGEST_FRAME)
    return TTransport.TBufferedTransport(carrier, _READ_BUFFER)


def _log_in(config: HiveConfig, address: MetastoreAddress, carrier: SocketCarrier) -> SaslCarrier:
    if config.password is not None:
        try:
            return SaslCarrier(carrier, PasswordLogin(config.username or "", config.password.get_secret_value()))
        except TTransport.TTransportException as error:
            if error.type == TTransport.TTransportException.NOT_OPEN:
                raise LoginRefusedError(f"the metastore at {address.host} refuses `username` or `password`") from None
            raise
    try:
        login = TicketLogin(config.kerberos_service, address.host)
    except ImportError as error:
        raise InvalidInputError(str(MissingExtraError("`auth: kerberos`", "kerberos"))) from error
    return SaslCarrier(carrier, login)
