"""The one proxy that puts faults between a client and a real server: over HTTP/1.1 or Thrift, call by call.

It knows where a request and an answer end, so that a fault is exact: a call that never reached the server, one whose
answer is lost once the server has carried it out, an answer that is cut in the middle.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from tests.servers.listening import socket_server

__all__ = [
    "BODY_FAULTS",
    "HTTP_FAULTS",
    "JSON_FAULTS",
    "THRIFT_FAULTS",
    "Call",
    "Decide",
    "Fault",
    "FaultProxy",
    "fault_proxy",
]

Speaks = Literal["http", "thrift"]

_MOST = 1 << 20
_SLOW_SECONDS = 0.15
_BACKLOG = 128


class Fault(Enum):
    """What goes wrong with one call. ``LOST``, ``SILENT`` and ``CUT`` reach the server, which carries them out."""

    RESET = "reset"
    """The connection is reset before the server has seen the call."""
    TIME_OUT = "time-out"
    """The call goes nowhere and nothing comes back, until the client gives up."""
    LOST = "reply lost"
    """The connection is reset once the server has answered."""
    SILENT = "reply never comes"
    """The server answers, and the client waits for it until it gives up."""
    CUT = "reply cut"
    """Half of the answer comes, then the connection is closed."""
    SLOW = "slow"
    """The answer comes late."""
    BROKEN_OFF = "reply broken off"
    """Half of the answer comes, then the connection is reset."""
    STALLED = "reply stalled"
    """Half of the answer comes, and the client waits for the rest until it gives up."""
    DAMAGED = "reply damaged"
    """The answer has the length it says, and the middle of its content is lost, so that it is not JSON any more."""
    SHAPE = "reply of another shape"
    """The answer is JSON, and nothing that the specification knows."""
    PAGE = "web page"
    """The server is not asked: somebody on the way answers 200, with a web page."""
    THROTTLED = "429"
    UNAVAILABLE = "503"
    LATER = "503 with Retry-After"
    BAD_GATEWAY = "502"

    @property
    def loses_reply(self) -> bool:
        """Whether the server does what it was asked and the client is not told."""
        return self in _LOSE_REPLIES


BODY_FAULTS = (Fault.BROKEN_OFF, Fault.STALLED, Fault.DAMAGED, Fault.PAGE)
"""Of JSON services whose answers say their length."""
THRIFT_FAULTS = (
    *(Fault.RESET, Fault.TIME_OUT, Fault.LOST, Fault.SILENT, Fault.CUT, Fault.SLOW),
    *(Fault.BROKEN_OFF, Fault.STALLED),
)
HTTP_FAULTS = tuple(fault for fault in Fault if fault not in (*BODY_FAULTS, Fault.SHAPE))
JSON_FAULTS = tuple(Fault)
_LOSE_REPLIES = (
    Fault.LOST,
    Fault.SILENT,
    Fault.CUT,
    Fault.BROKEN_OFF,
    Fault.STALLED,
    Fault.DAMAGED,
    Fault.SHAPE,
)

# What the proxy answers by itself.
_REFUSALS = {
    Fault.THROTTLED: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\n",
    Fault.UNAVAILABLE: b"HTTP/1.1 503 Service Unavailable\r\n",
    Fault.LATER: b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\n",
    Fault.BAD_GATEWAY: b"HTTP/1.1 502 Bad Gateway\r\n",
    Fault.PAGE: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n<html>Sign in!</html>\n",
}
_OTHER_SHAPES = (b'{"status": ["?"]}', b"[]", b"null", b'["?"]', b"7")
_REFUSED = b"Content-Type: text/plain\r\nContent-Length: 9\r\n\r\ntry again"


@dataclass(frozen=True)
class Call:
    """One request: how many came before it, and ``GET /path?query`` or the name of a Thrift call.

    ``action`` is what AWS's JSON protocol calls it.
    """

    number: int
    name: str
    action: str = ""


Decide = Callable[[Call], Fault | None]


def _nothing(_: Call) -> Fault | None:
    return None


@dataclass
class FaultProxy:
    """Passes calls on to the server on port ``target``, but for those that ``decide`` has a fault for.

    ``calls`` are the names of the calls since the last ``reset``. ``decide`` is asked with every call, one at a time.
    ``edit`` may change a request on its way, as one that asks for smaller pages than the client did.
    """

    target: int
    speaks: Speaks
    port: int = 0
    edit: Callable[[bytes], bytes] = bytes
    decide: Decide = _nothing
    calls: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _passed_on: set[socket.socket] = field(default_factory=set)
    _closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset(self, decide: Decide = _nothing) -> None:
        """Count calls from the start again, and let ``decide`` say what goes wrong from now on."""
        with self._lock:
            self.calls, self.decide = [], decide

    def settle(self) -> None:
        """Wait until the server has answered all that was passed on, whoever has gone meanwhile."""
        while self._passed_on and not self._closing.wait(0.01):
            pass

    def cut_at(self, number: int, *, reply_lost: bool = False) -> None:
        """Go away at call ``number``, the first being 0, and for good; its answer is lost, or the call itself."""
        at = Fault.LOST if reply_lost else Fault.RESET
        self.reset(lambda call: None if call.number < number else at if call.number == number else Fault.RESET)

    def came(self, request: bytes) -> Fault | None:
        """Note a call, and return what goes wrong with it."""
        with self._lock:
            name, action = _thrift_name(request), ""
            if self.speaks == "http":
                head = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
                name = head[0].rpartition(" ")[0]
                headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:])}
                action = headers.get("x-amz-target", "").rpartition(".")[2]
            call = Call(len(self.calls), name, action)
            self.calls.append(action or name)
            return self.decide(call)

    # ---- one connection ------------------------------------------------------------------------------------------

    def relay(self, client: socket.socket) -> None:
        """Pass on one call after the other until either side ends, or a fault does."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), client, contextlib.ExitStack() as stack:
            server: socket.socket | None = None
            while request := self._read(client, _request_is_whole[self.speaks]):
                fault = self.came(request)
                if fault in _REFUSALS:
                    client.sendall(_REFUSALS[fault] + (b"" if fault is Fault.PAGE else _REFUSED))
                    continue
                if fault is Fault.RESET:
                    _abort(client)
                    return
                if fault is Fault.TIME_OUT:
                    self._wait_for_the_end_of(client)
                    return
                if server is None:
                    server = stack.enter_context(socket.create_connection(("127.0.0.1", self.target)))
                asks_head_only = request.startswith(b"HEAD ")
                self._passed_on.add(server)
                try:
                    server.sendall(self.edit(request))
                    reply = self._read(server, lambda got: self._reply_is_whole(got, head_only=asks_head_only))  # noqa: B023
                finally:
                    self._passed_on.discard(server)
                if fault is Fault.LOST:
                    _abort(client)
                    return
                if fault is Fault.SILENT:
                    self._wait_for_the_end_of(client)
                    return
                if fault is Fault.SLOW:
                    self._closing.wait(_SLOW_SECONDS)
                is_whole = self._reply_is_whole(reply, head_only=asks_head_only)
                if not self._pass_on(client, reply, fault) or not is_whole:
                    return

    def _pass_on(self, client: socket.socket, reply: bytes, fault: Fault | None) -> bool:
        """Send an answer, or what ``fault`` leaves of it; return whether the connection goes on."""
        if fault is Fault.DAMAGED and not reply.endswith(b"\r\n\r\n"):
            reply = _damaged(reply)
        if fault is Fault.SHAPE:
            content = _OTHER_SHAPES[len(reply) % len(_OTHER_SHAPES)]
            reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            reply += b"Content-Length: %d\r\n\r\n%s" % (len(content), content)
        if fault is Fault.CUT:
            reply = reply[: len(reply) // 2]
        if fault not in (Fault.BROKEN_OFF, Fault.STALLED):
            client.sendall(reply)
            return fault is not Fault.CUT
        client.sendall(_half(reply) if self.speaks == "http" else reply[: len(reply) // 2])
        if fault is Fault.STALLED:
            self._wait_for_the_end_of(client)
        else:
            _abort(client)
        return False

    def _reply_is_whole(self, reply: bytes, *, head_only: bool) -> bool:
        return _http_is_whole(reply, head_only=head_only) if self.speaks == "http" else _thrift_is_whole(reply)

    def _read(self, source: socket.socket, is_whole: Callable[[bytes], bool]) -> bytes:
        """Return what comes until it is whole; what there was, when the other side ends before."""
        got = b""
        while not self._closing.is_set():
            if not select.select([source], [], [], 0.2)[0]:
                continue
            piece = source.recv(_MOST)
            got += piece
            if not piece or is_whole(got):
                break
        return got

    def _wait_for_the_end_of(self, client: socket.socket) -> None:
        self._read(client, lambda _: False)

    def close(self) -> None:
        """Let every connection end."""
        self._closing.set()


def _half(reply: bytes) -> bytes:
    """Return the head of an answer, and the first half of its content."""
    head, end, content = reply.partition(b"\r\n\r\n")
    return head + end + content[: len(content) // 2]


def _damaged(reply: bytes) -> bytes:
    """Return an answer of the same length without the middle of its content, and not JSON.

    What is JSON nevertheless is an answer that a server could have given: a client cannot tell, and it proves nothing.
    """
    head, end, content = reply.partition(b"\r\n\r\n")
    for kept in range(len(content) // 2, 0, -1):
        left = content[:kept].ljust(len(content) - 1) + content[-1:]
        if not _is_json(left):
            return head + end + left
    return reply


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def _abort(connection: socket.socket) -> None:
    """Close a connection so that the other side sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# ---- where messages end ----------------------------------------------------------------------------------------------


def _http_is_whole(message: bytes, *, head_only: bool = False) -> bool:
    """Return whether an HTTP message is all there (RFC 9112, section 6).

    An answer without a length ends with its connection.
    """
    head, end, body = message.partition(b"\r\n\r\n")
    if not end:
        return False
    first, *lines = head.split(b"\r\n")
    status = first.split(b" ")[1] if first.startswith(b"HTTP/") else b""
    if head_only or status in (b"204", b"304"):
        return True
    headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(b":") for line in lines)}
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return body.endswith(b"0\r\n\r\n")
    if b"content-length" in headers:
        return len(body) >= int(headers[b"content-length"])
    return not status


def _thrift_is_whole(message: bytes) -> bool:
    """Return whether a message of the strict binary protocol is all there."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TType
    from thrift.transport.TTransport import TMemoryBuffer

    protocol = TBinaryProtocol(TMemoryBuffer(message))
    try:
        protocol.readMessageBegin()
        protocol.skip(TType.STRUCT)
        protocol.readMessageEnd()
    except EOFError:
        return False
    return True


def _thrift_name(message: bytes) -> str:
    length = int.from_bytes(message[4:8], "big")
    return message[8 : 8 + length].decode("latin-1")


_request_is_whole: dict[Speaks, Callable[[bytes], bool]] = {"http": _http_is_whole, "thrift": _thrift_is_whole}


@contextmanager
def fault_proxy(target: int, speaks: Speaks, edit: Callable[[bytes], bytes] = bytes) -> Iterator[FaultProxy]:
    """Run a proxy in front of the server on port ``target``; it passes all on until it is told what goes wrong."""
    proxy = FaultProxy(target, speaks, edit=edit)
    with socket_server(proxy.relay) as proxy.port:
        try:
            yield proxy
        finally:
            proxy.close()
