"""The limits on a service's answers, and on scans, in bytes, objects and time.

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

from pydantic import BaseModel, Field

from reconciler.model.errors import InternalError, ServiceUnavailableError
from reconciler.model.live import Traffic

if TYPE_CHECKING:
    from requests import Response, Session


_MIB = 1024 * 1024
_CHUNK = 64 * 1024
_MOST_OBJECTS = 3_000_000
"""JSON objects and lists in one answer: each takes a hundred times the memory of its two brackets."""


class ServiceLimits(BaseModel):
    """The keys of a configuration that limit one answer, and one scan of the catalog."""

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
    """The keys that also limit how long a service may refuse requests for its load."""

    max_wait: float = Field(default=300.0, ge=0, le=86_400)
    """The longest in seconds that throttled requests (429, 503) are repeated while the service accepts none."""


class TooMuchError(InternalError):
    """An answer is larger than its limit, or in an encoding that was not asked for."""


class SlowAnswerError(TimeoutError):
    """An answer began and was not complete in time."""


def content_of(answer: Response, limit: int) -> bytes:
    """Return the content of a streamed answer, decompressed, and close it.

    Raises:
        TooMuchError: it is larger than ``limit`` bytes, or of an unknown encoding; the text does not name the service.
    """
    try:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise TooMuchError("the answer is in an encoding that was not asked for")
        chunks = answer.raw.stream(_CHUNK, decode_content=False)
        return joined(chunks, limit) if encoding in ("", "identity") else _inflated(chunks, limit)
    finally:
        answer.close()


def joined(chunks: Iterable[bytes], limit: int) -> bytes:
    """Return the bytes of ``chunks``.

    Raises:
        TooMuchError: there are more than ``limit``; the text does not name the service.
    """
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise too_large(limit)
    return bytes(content)


def _inflated(chunks: Iterable[bytes], limit: int) -> bytes:
    """Return the content of a gzip or zlib stream, unpacked no further than needed."""
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
                    raise too_large(limit)
                began = True
                data = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error as error:
        raise TooMuchError(f"the answer cannot be decompressed: {error}") from None
    if began and not inflater.eof:
        raise TooMuchError("the answer is cut off in its compressed data")
    return bytes(content)


def too_slow(service: str, seconds: float) -> str:
    """Return the text for an answer of ``service`` that took longer than its limit."""
    return f"the answer of {service} was not complete within {seconds:g} s; `request_seconds` allows more"


def too_large(limit: int) -> TooMuchError:
    """Return the error of an answer that is too large; it does not name the service."""
    return TooMuchError(f"the answer is larger than {limit // _MIB} MiB; `max_answer_mib` allows more")


def holds_too_much(content: bytes) -> bool:
    """Return whether JSON has more objects than memory should hold."""
    return len(content) > _MOST_OBJECTS and content.count(b"{") + content.count(b"[") > _MOST_OBJECTS


def answer_class(seconds: float) -> type[HTTPResponse]:
    """Return the class of answers that must be complete within ``seconds``."""

    class TimedAnswer(HTTPResponse):
        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(_Timed(sock, self.fp, time.monotonic() + seconds))

    return TimedAnswer


def timed_session(pool_size: int, seconds: float) -> Session:
    """Return a session with ``pool_size`` connections a scheme and timed answers.

    Each answer must be complete within ``seconds``.
    """
    from requests import Session
    from requests.adapters import HTTPAdapter

    answer = answer_class(seconds)

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
            """Return None: requests reads all of a redirect, and raises for a senseless target."""

    session = TimedSession()
    for scheme in ("http://", "https://"):
        adapter = TimedAdapter(pool_maxsize=pool_size, pool_block=True)
        with_timed_pools(adapter.poolmanager)
        session.mount(scheme, adapter)
    return session


class _Timed(io.RawIOBase):
    """The bytes of a socket until a deadline.

    No wait for them lasts longer than the socket's own time-out.
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


class Scans:
    """Counts what goes over connections and limits scans. Thread-safe.

    A request does not say which scan it belongs to. With several scans at once, the one with the most left counts.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._active: list[tuple[float, int]] = []
        """When each scan must end, and the bytes that had been read when it began."""
        self.traffic = Traffic()
        """All requests and the bytes of all answers, in scans and outside."""

    @contextmanager
    def one(self) -> Iterator[None]:
        """Limit the requests that any thread sends inside as those of one scan."""
        with self._lock:
            scan = (time.monotonic() + self._limits.scan_seconds, self.traffic.bytes)
            self._active.append(scan)
        try:
            yield
        finally:
            with self._lock:
                self._active.remove(scan)

    def sends(self) -> None:
        """Count a request."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls + 1, self.traffic.bytes)

    def took(self, count: int) -> None:
        """Count ``count`` bytes of an answer."""
        with self._lock:
            self.traffic = Traffic(self.traffic.calls, self.traffic.bytes + count)

    def check(self, where: str) -> None:
        """Raise if a scan is over its limits; outside of scans there are none.

        Args:
            where: the beginning of the error's text.

        Raises:
            ServiceUnavailableError: the scan has taken longer than it may.
            InternalError: the answers to it hold more than they may.
        """
        with self._lock:
            if not self._active:
                return
            is_late = time.monotonic() > max(ends for ends, _ in self._active)
            read = self.traffic.bytes - max(began_at for _, began_at in self._active)
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
