"""Limit the responses of a service, and scans, in bytes, objects and time.

A hostile or broken service ends in an error.
"""

from __future__ import annotations

import io
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from reconciler.model.errors import InternalError, ServiceUnavailableError
from reconciler.model.live import Traffic

if TYPE_CHECKING:
    from requests import Response, Session


_MIB = 1024 * 1024
_CHUNK = 64 * 1024
_MOST_OBJECTS = 3_000_000
"""JSON objects and lists in one response: each takes a hundred times the memory of its brackets."""


class ServiceLimits(BaseModel):
    """The configuration keys that limit one response, and one scan of the catalog."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_answer_mib: int = Field(default=64, ge=1, le=4096)
    """The largest answer, decompressed."""
    request_seconds: float = Field(default=300.0, gt=0, le=86_400)
    """The longest a request may take, from its first byte to the last one of the answer."""
    max_scan_mib: int = Field(default=16 * 1024, ge=1, le=1024 * 1024)
    """The most that all answers to one scan of the catalog may hold, decompressed."""
    scan_seconds: float = Field(default=14_400.0, gt=0, le=604_800)
    """The longest a scan of the catalog may take."""

    @property
    def answer_bytes(self) -> int:
        """The largest answer in bytes."""
        return self.max_answer_mib * _MIB


class WaitLimits(ServiceLimits):
    """The configuration keys that also limit how long throttled requests are retried."""

    max_wait: float = Field(default=300.0, ge=0, le=86_400)
    """The longest in seconds that throttled requests (429, 503) are repeated while the service accepts none."""


class ResponseTooLargeError(InternalError):
    """A response is larger than its limit, or in an encoding that was not requested."""


class SlowAnswerError(TimeoutError):
    """A response began but was not complete in time."""


def read_content(answer: Response, limit: int) -> bytes:
    """Read a streamed response to its end; return the decompressed content.

    Raises:
        ResponseTooLargeError: it has more than ``limit`` bytes, or an unknown encoding. The text names no service.
    """
    try:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ResponseTooLargeError("the answer is in an encoding that was not asked for")
        chunks = answer.raw.stream(_CHUNK, decode_content=False)
        return join_chunks(chunks, limit) if encoding in ("", "identity") else _decompressed(chunks, limit)
    finally:
        answer.close()


def join_chunks(chunks: Iterable[bytes], limit: int) -> bytes:
    """Return the concatenated ``chunks``.

    Raises:
        ResponseTooLargeError: there are more than ``limit``; the text does not name the service.
    """
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise too_large_error(limit)
    return bytes(content)


def _decompressed(chunks: Iterable[bytes], limit: int) -> bytes:
    """Decompress a gzip or zlib stream; stop as soon as it exceeds ``limit`` bytes."""
    content = bytearray()
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    began = False
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if inflater.eof:  # a file of several members
                    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
                content += inflater.decompress(data, limit + 1 - len(content))
                if len(content) > limit:
                    raise too_large_error(limit)
                began = True
                data = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error as error:
        raise ResponseTooLargeError(f"the answer cannot be decompressed: {error}") from None
    if began and not inflater.eof:
        raise ResponseTooLargeError("the answer is cut off in its compressed data")
    return bytes(content)


def slow_answer_message(service: str, seconds: float) -> str:
    """Return the message for a response of ``service`` that exceeds its time limit."""
    return f"the answer of {service} was not complete within {seconds:g} s; `request_seconds` allows more"


def too_large_error(limit: int) -> ResponseTooLargeError:
    """Return the error for a response of more than ``limit`` bytes."""
    return ResponseTooLargeError(f"the answer is larger than {limit // _MIB} MiB; `max_answer_mib` allows more")


def has_too_many_objects(content: bytes) -> bool:
    """Return whether JSON has so many objects that parsing would exhaust memory."""
    return len(content) > _MOST_OBJECTS and content.count(b"{") + content.count(b"[") > _MOST_OBJECTS


def timed_response_class(seconds: float) -> type[HTTPResponse]:
    """Return a class of responses that must be complete within ``seconds``."""

    class TimedAnswer(HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(_DeadlineReader(sock, self.fp, time.monotonic() + seconds))

    return TimedAnswer


def timed_session(pool_size: int, seconds: float) -> Session:
    """Return a session with ``pool_size`` connections a scheme and timed responses.

    Each answer must be complete within ``seconds``.
    """
    from requests import Session
    from requests.adapters import HTTPAdapter

    answer = timed_response_class(seconds)

    def timed(pool: Any) -> Any:
        if pool.ConnectionCls.response_class is answer:
            return pool
        connection = type("TimedConnection", (pool.ConnectionCls,), {"response_class": answer})
        return type("TimedPool", (pool,), {"ConnectionCls": connection})

    def with_timed_pools(manager: Any) -> Any:
        pools = manager.pool_classes_by_scheme  # its own: a SOCKS proxy has others
        manager.pool_classes_by_scheme = {scheme: timed(pool) for scheme, pool in pools.items()}
        return manager

    class TimedAdapter(HTTPAdapter):
        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            return with_timed_pools(super().proxy_manager_for(*args, **kwargs))

    class TimedSession(Session):
        def get_redirect_target(self, _: Any) -> None:
            """Return None: otherwise requests reads a redirect, and raises for a bad target."""

    session = TimedSession()
    for scheme in ("http://", "https://"):
        adapter = TimedAdapter(pool_maxsize=pool_size, pool_block=True)
        with_timed_pools(adapter.poolmanager)
        session.mount(scheme, adapter)
    return session


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket until a deadline.

    Each single wait is also limited by the socket's own time-out.
    """

    def __init__(self, sock: Any, plain: Any, deadline: float) -> None:
        self._sock = sock
        self._plain = plain
        self._deadline = deadline
        self._timeout: float | None = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left > 0:
            if self._timeout is None or left < self._timeout:
                self._sock.settimeout(left)
            try:
                return self._plain.raw.readinto(buffer)  # type: ignore[no-any-return]
            except TimeoutError:
                if time.monotonic() < self._deadline:
                    raise
        raise SlowAnswerError("the answer was not complete in time")

    def close(self) -> None:
        self._plain.close()
        super().close()


class TrafficMeter:
    """Counts requests and response bytes, and limits scans. Thread-safe.

    Requests are not assigned to scans. If several scans run at once, the most generous of their limits applies.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._active: list[tuple[float, int]] = []
        """For each running scan, its deadline and the total bytes at its start."""
        self.traffic = Traffic()
        """The requests and response bytes since the start, in and outside of scans."""

    @contextmanager
    def scan_limits(self) -> Iterator[None]:
        """Limit the requests that any thread sends inside, as those of one scan."""
        with self._lock:
            scan = (time.monotonic() + self._limits.scan_seconds, self.traffic.bytes)
            self._active.append(scan)
        try:
            yield
        finally:
            with self._lock:
                self._active.remove(scan)

    def count_request(self) -> None:
        """Count a request."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls + 1, self.traffic.bytes)

    def count_bytes(self, count: int) -> None:
        """Count the bytes of a response."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls, self.traffic.bytes + count)

    def check(self, where: str) -> None:
        """Raise if a running scan exceeds its limits; call it before each request.

        Args:
            where: the beginning of the error's text.

        Raises:
            ServiceUnavailableError: the scan has taken longer than it may.
            InternalError: the answers to it hold more than they may.
        """
        with self._lock:
            if not self._active:
                return
            is_late = time.monotonic() > max(deadline for deadline, _ in self._active)
            read = self.traffic.bytes - max(bytes_before for _, bytes_before in self._active)
        if is_late:
            raise ServiceUnavailableError(
                f"{where}: the scan takes longer than {self._limits.scan_seconds:g} s; `scan_seconds` allows more, and "
                "a narrower `scope` needs less"
            )
        if read > self._limits.max_scan_mib * _MIB:
            raise InternalError(
                f"{where}: the scan has read more than {self._limits.max_scan_mib:,} MiB; `max_scan_mib` allows more, "
                "and a narrower `scope` needs less"
            )
