"""Log in to Thrift by SASL: a password (PLAIN) or a Kerberos ticket (GSSAPI).

See RFC 4752 for the latter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from thrift.transport.TTransport import TTransportBase, TTransportException

from reconciler.backends.hive.metastore_errors import KerberosError

_MESSAGE = struct.Struct(">BI")
_LENGTH = struct.Struct(">I")
_START, _OK, _COMPLETE = 1, 2, 5
_LONGEST_CHALLENGE = 1024 * 1024
_PRIVACY, _INTEGRITY, _NO_LAYER = 4, 2, 1


class PasswordLogin:
    """Logs in with a user name and a password; frames are not protected."""

    mechanism = b"PLAIN"
    is_complete = True

    def __init__(self, username: str, password: str) -> None:
        self._response = f"\0{username}\0{password}".encode()

    def respond(self, _: bytes) -> bytes:
        """Return the response to a challenge: the user name and the password."""
        return self._response

    def wrap(self, frame: bytes) -> bytes:
        """Return the frame unchanged."""
        return frame

    unwrap = wrap


class TicketLogin:
    """Logs in with the Kerberos ticket of the process; protects frames if possible.

    Raises:
        ImportError: gssapi is not installed.
        KerberosError: Kerberos refuses; every method may raise it.
    """

    mechanism = b"GSSAPI"
    is_complete = False

    def __init__(self, service: str, host: str) -> None:
        import gssapi

        with _kerberos_errors():
            name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            flags = gssapi.RequirementFlag
            self._context = gssapi.SecurityContext(
                name=name,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.confidentiality | flags.integrity,
            )
        self._layer = _NO_LAYER

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to a challenge; the last one chooses the best protection."""
        with _kerberos_errors():
            if not self._context.complete:
                token: bytes | None = self._context.step(challenge or None)
                return token or b""
            offered: bytes = self._context.unwrap(challenge).message
            if len(offered) != 4:
                raise KerberosError("Kerberos: the metastore does not say how it protects the connection")
            self._layer = next((layer for layer in (_PRIVACY, _INTEGRITY) if offered[0] & layer), _NO_LAYER)
            longest = bytes(3) if self._layer == _NO_LAYER else offered[1:]
            self.is_complete = True
            return self._protect(bytes([self._layer]) + longest, is_private=False)

    def wrap(self, frame: bytes) -> bytes:
        """Return the frame, signed or encrypted."""
        if self._layer == _NO_LAYER:
            return frame
        with _kerberos_errors():
            return self._protect(frame, is_private=self._layer == _PRIVACY)

    def unwrap(self, frame: bytes) -> bytes:
        """Return the content of a frame that is signed or encrypted."""
        if self._layer == _NO_LAYER:
            return frame
        with _kerberos_errors():
            content = self._context.unwrap(frame)
        if self._layer == _PRIVACY and not content.encrypted:
            raise KerberosError("Kerberos: the metastore sends a frame that is not encrypted, as was agreed")
        return bytes(content.message)

    def _protect(self, content: bytes, *, is_private: bool) -> bytes:
        return bytes(self._context.wrap(content, is_private).message)


class SaslCarrier(TTransportBase):  # type: ignore[misc]
    """A Thrift transport in SASL frames over ``carrier``; logs in at once.

    Raises:
        KerberosError: Kerberos refuses.
        TTransportException: the metastore refuses the login (NOT_OPEN), or the connection broke.
    """

    def __init__(self, carrier: Any, login: PasswordLogin | TicketLogin) -> None:
        self._carrier = carrier
        self._login = login
        self._frame = BytesIO()
        self._send(_START, login.mechanism)
        self._send(_OK, login.respond(b""))
        while (received := self._receive())[0] == _OK:
            self._send(_OK, login.respond(received[1]))
        if received[0] != _COMPLETE or not login.is_complete:
            raise TTransportException(
                TTransportException.NOT_OPEN, f"the login ends with {received[0]}: {received[1]!r}"
            )

    def _send(self, status: int, body: bytes) -> None:
        self._carrier.write(_MESSAGE.pack(status, len(body)) + body)
        self._carrier.flush()

    def _receive(self) -> tuple[int, bytes]:
        status, length = _MESSAGE.unpack(self._carrier.readAll(_MESSAGE.size))
        if length > _LONGEST_CHALLENGE:
            raise TTransportException(TTransportException.SIZE_LIMIT, f"a challenge of the login has {length} bytes")
        return status, self._carrier.readAll(length)

    def write(self, buf: bytes) -> None:
        """Send a frame."""
        frame = self._login.wrap(buf)
        self._carrier.write(_LENGTH.pack(len(frame)) + frame)

    def flush(self) -> None:
        """Send the call and begin its reply."""
        self._carrier.flush()

    def read(self, sz: int) -> bytes:
        """Return the next bytes of the reply."""
        while not (data := self._frame.read(sz)):
            (length,) = _LENGTH.unpack(self._carrier.readAll(_LENGTH.size))
            self._frame = BytesIO(self._login.unwrap(self._carrier.readAll(length)))
        return data


@contextmanager
def _kerberos_errors() -> Iterator[None]:
    """Turn errors of GSSAPI into KerberosError, with Kerberos' own text if any."""
    from gssapi.raw.misc import GSSError

    try:
        yield
    except GSSError as error:
        words = "; ".join(error.get_all_statuses(error.min_code, False)) if error.min_code else str(error)
        raise KerberosError(
            f"Kerberos: {words}; look at `klist`, renew the ticket with `kinit`, and see that the "
            "metastore's principal is `kerberos.service`/HOST, with the host as `uri` has it"
        ) from error
