"""Transport Thrift over a socket or HTTP, within limits of bytes and time."""

from __future__ import annotations

import re
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from typing import TYPE_CHECKING

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportBase, TTransportException

from reconciler.backends.hive.metastore_errors import LoginRefusedError
from reconciler.backends.http.limits import (
    SlowAnswerError,
    join_chunks,
    slow_answer_message,
    timed_response_class,
    too_large_error,
)
from reconciler.model.redaction import scrub

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from reconciler.backends.hive.config import MetastoreAddress
    from reconciler.backends.http.limits import ServiceLimits, TrafficMeter


_SOCKET_CHUNK = 1024 * 1024
_HTTP_CHUNK = 64 * 1024
_LONGEST_REASON = 200
_LONGEST_REFUSAL = 16 * 1024
_TAGS = re.compile(r"<(?:style|title)\b.*?</(?:style|title)>|<[^>]*>", re.DOTALL | re.IGNORECASE)


class SocketCarrier(TSocket):  # type: ignore[misc]
    """A Thrift socket that limits the bytes and the time of each reply."""

    def __init__(
        self, stream: socket.socket, address: MetastoreAddress, limits: ServiceLimits, meter: TrafficMeter
    ) -> None:
        super().__init__()
        self.setHandle(stream)
        self._metastore = address
        self._limits = limits
        self._meter = meter
        self._begin_reply()

    def _begin_reply(self) -> None:
        self._bytes_left = self._limits.answer_bytes
        self._deadline = time.monotonic() + self._limits.request_seconds

    def flush(self) -> None:
        """Send the call and begin its reply."""
        self._meter.count_request()
        super().flush()
        self._begin_reply()

    def read(self, sz: int) -> bytes:
        """Return the next bytes of the reply.

        Raises:
            ResponseTooLargeError: it is larger than the limit; the text does not name the service.
            SlowAnswerError: it takes longer than the limit.
            TTransportException: the connection broke, or nothing came in time.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._slow_error()
        stream: socket.socket = self.handle
        timeout = stream.gettimeout()
        stream.settimeout(left if timeout is None else min(left, timeout))
        try:
            # A hostile length would otherwise allocate a buffer of that length.
            data: bytes = super().read(min(sz, _SOCKET_CHUNK))
        except TTransportException:
            if time.monotonic() >= self._deadline:
                raise self._slow_error() from None
            raise
        finally:
            stream.settimeout(timeout)
        self._meter.count_bytes(len(data))
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise too_large_error(self._limits.answer_bytes)
        return data

    def _slow_error(self) -> SlowAnswerError:
        return SlowAnswerError(slow_answer_message(str(self._metastore), self._limits.request_seconds))


class HttpCarrier(TTransportBase):  # type: ignore[misc]
    """A Thrift transport that sends each call as one HTTP request."""

    def __init__(
        self,
        stream: socket.socket,
        address: MetastoreAddress,
        headers: Mapping[str, str],
        limits: ServiceLimits,
        meter: TrafficMeter,
    ) -> None:
        self._stream = stream
        self._address = address
        self._headers = {"Content-Type": "application/x-thrift", "Accept": "application/x-thrift", **headers}
        self._limits = limits
        self._meter = meter
        self._http = HTTPConnection(address.host, address.port)
        self._http.response_class = timed_response_class(limits.request_seconds)
        self._http.auto_open = 0
        self._http.sock = stream
        self._call = BytesIO()
        self._reply = BytesIO()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Return whether the connection is open for another call."""
        return self._http.sock is not None

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def write(self, buf: bytes) -> None:
        """Append to the call, which :meth:`flush` sends."""
        self._call.write(buf)

    def read(self, sz: int) -> bytes:
        """Return the next bytes of the reply."""
        return self._reply.read(sz)

    def flush(self) -> None:
        """Send the call and read its reply.

        Raises:
            LoginRefusedError: the metastore, or a proxy in front of it, refuses the login.
            ResponseTooLargeError: it is larger than the limit; the text does not name the service.
            SlowAnswerError: it takes longer than the limit.
            TTransportException: it is no answer of a metastore, or the connection broke.
        """
        content, self._call = self._call.getvalue(), BytesIO()
        timeout = self._stream.gettimeout()
        self._meter.count_request()
        try:
            self._http.request("POST", self._address.path, content, dict(self._headers))
            answer = self._http.getresponse()
            if answer.status != 200:
                raise self._refusal(answer)
            self._reply = BytesIO(join_chunks(self._counted_chunks(answer), self._limits.answer_bytes))
        except SlowAnswerError:
            raise SlowAnswerError(slow_answer_message(str(self._address), self._limits.request_seconds)) from None
        except HTTPException as error:
            raise TTransportException(
                TTransportException.UNKNOWN, f"the answer is not HTTP ({type(error).__name__})"
            ) from error
        if self.isOpen():
            self._stream.settimeout(timeout)

    def _counted_chunks(self, answer: HTTPResponse) -> Iterator[bytes]:
        while chunk := answer.read1(_HTTP_CHUNK):
            self._meter.count_bytes(len(chunk))
            yield chunk

    def _refusal(self, answer: HTTPResponse) -> LoginRefusedError | TTransportException:
        """Return the error for a response with another status than 200.

        It reads only the beginning of the text: the connection is closed afterwards.
        """
        text = answer.read1(_LONGEST_REFUSAL).decode(errors="replace")
        lines = (" ".join(line.split()) for line in _TAGS.sub("\n", text).splitlines())
        token = self._headers.get("Authorization", "").partition(" ")[2]
        reason = scrub(next((line for line in lines if line), "") or answer.reason, [token])
        problem = f"it answers {answer.status}: {reason[:_LONGEST_REASON]}"
        if answer.status in (401, 403):
            check = "check `auth_token`" if token else "it may want a token: `auth: jwt` with `auth_token`"
            return LoginRefusedError(f"the metastore at {self._address} refuses the login: {problem}; {check}")
        return TTransportException(TTransportException.UNKNOWN, problem)
