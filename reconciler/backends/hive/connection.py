"""One connection to one metastore: socket, TLS, SASL or framing, and the Thrift client on top."""

from __future__ import annotations

import selectors
import socket
import ssl
from typing import TYPE_CHECKING, Any

from reconciler.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from reconciler.backends.hive.config import Address, HiveConfig
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client

__all__ = ["Connection", "connect"]

_READ_BUFFER = 64 * 1024
_LARGEST_FRAME = 0x3FFFFFFF


class Connection:
    """A live connection; ``client`` makes the calls."""

    def __init__(self, stream: socket.socket, client: Client) -> None:
        self.client = client
        self._stream = stream

    def is_usable(self) -> bool:
        """Return whether the server still waits for a call: between two calls it has nothing to say but goodbye."""
        with selectors.DefaultSelector() as selector:
            try:
                selector.register(self._stream, selectors.EVENT_READ)
                return not selector.select(0)
            except (OSError, ValueError):
                return False

    def close(self) -> None:
        """Give the socket back."""
        self._stream.close()


def connect(config: HiveConfig, address: Address) -> Connection:
    """Return a connection to the metastore at ``address``.

    Raises:
        OSError, TTransportException: it cannot be reached, or does not speak the protocol that ``config`` says.
        InvalidInputError: ``config`` asks for what this machine cannot do.
    """
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated

    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client

    stream = socket.create_connection(address, timeout=config.connect_timeout)
    try:
        if config.ssl:
            stream = _tls(config).wrap_socket(stream, server_hostname=address.host)
        transport = _transport(config, stream, address.host)
        stream.settimeout(config.timeout)
        return Connection(stream, Client(TBinaryProtocolAccelerated(transport)))
    except BaseException:
        stream.close()
        raise


def _tls(config: HiveConfig) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=config.ssl_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(f"`ssl.ca-file` {config.ssl_ca_file} cannot be used: {error}") from error


def _transport(config: HiveConfig, stream: socket.socket, host: str) -> Any:
    """Return the Thrift transport over ``stream``, with the SASL handshake done where there is one."""
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TSaslClientTransport

    carrier = TSocket()
    carrier.setHandle(stream)
    if config.auth == "kerberos":
        try:
            sasl = TSaslClientTransport(carrier, host, config.kerberos_service, max_frame_size=_LARGEST_FRAME)
        except ImportError as error:
            raise InvalidInputError(str(MissingExtraError("`auth: kerberos`", "kerberos"))) from error
        sasl.open()
        return sasl
    if config.framed:
        return TFramedTransport(carrier, _LARGEST_FRAME)
    return TBufferedTransport(carrier, _READ_BUFFER)
