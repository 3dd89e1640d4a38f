"""How much of a service's answers is taken: bytes, objects, and time. What is hostile, or broken, ends in an error."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from reconciler.model.errors import InternalError

if TYPE_CHECKING:
    from requests import Response
    from requests.adapters import HTTPAdapter


MIB = 1024 * 1024
_CHUNK = 64 * 1024
_MOST_OBJECTS = 3_000_000
"""JSON objects and lists in one answer: each takes a hundred times the memory of its two brackets."""


class ServiceLimits(BaseModel):
    """The keys of a configuration that raise what one answer, and one scan of the catalog, may take."""

    max_answer_mib: int = Field(default=64, ge=1, le=4096)
    """The largest answer, decompressed."""
    request_seconds: float = Field(default=300.0, gt=0, le=86_400)
    """The longest a request may take, from its first byte to the last one of the answer."""
    max_scan_mib: int = Field(default=16 * 1024, ge=1, le=1024 * 1024)
    """The most that the answers to one scan of the catalog may come to, decompressed."""
    scan_seconds: float = Field(default=14_400.0, gt=0, le=604_800)
    """The longest a scan of the catalog may take."""

    @property
    def limits(self) -> AnswerLimits:
        """What they come to."""
        return AnswerLimits(self.max_answer_mib * MIB, self.request_seconds, self.max_scan_mib * MIB, self.scan_seconds)


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What one answer and one scan may take; each has a key of :class:`ServiceLimits` that errors name."""

    answer_bytes: int = 64 * MIB
    request_seconds: float = 300.0
    scan_bytes: int = 16 * 1024 * MIB
    scan_seconds: float = 14_400.0


class TooMuchError(InternalError):
    """An answer is larger than is taken, or in an encoding that was not asked for."""


class SlowAnswerError(TimeoutError):
    """An answer comes, and does not come to its end in time."""


def content_of(answer: Response, limit: int) -> bytes:
    """Return the content of a streamed answer, decompressed, and close it.

    Raises:
        TooMuchError: it is larger than ``limit`` bytes, or of an unknown encoding; in words without the service.
    """
    try:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise TooMuchError("the answer is in an encoding that was not asked for")
        chunks = answer.raw.stream(_CHUNK, decode_content=False)
        if encoding in ("", "identity"):
            return joined(chunks, limit)
        return _inflated(chunks, limit)
    finally:
        answer.close()


def joined(chunks: Iterable[bytes], limit: int) -> bytes:
    """Return the bytes of ``chunks``.

    Raises:
        TooMuchError: there are more than ``limit``; in words without the service.
    """
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise too_large(limit)
    return bytes(content)


def _inflated(chunks: Iterable[bytes], limit: int) -> bytes:
    """Return the content of a gzip or zlib stream; no more of it is ever unpacked than the limit and a byte."""
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
    """Return the words for an answer of ``service`` that took longer than is allowed."""
    return f"the answer of {service} did not come to its end within {seconds:g} s; `request_seconds` allows more"


def too_large(limit: int) -> TooMuchError:
    """Return the error of an answer that is larger than is taken, in words without the service."""
    return TooMuchError(f"the answer is larger than {limit // MIB} MiB; `max_answer_mib` allows more")


def holds_too_much(content: bytes) -> bool:
    """Return whether JSON has more objects than memory should hold."""
    return len(content) > _MOST_OBJECTS and content.count(b"{") + content.count(b"[") > _MOST_OBJECTS


def answer_class(seconds: float) -> type[HTTPResponse]:
    """Return what reads the answers of connections, none of them for longer than ``seconds``."""

    class Answer(HTTPResponse):
        """An answer that has to be there, to its last byte, by a certain time."""

        def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            plain = self.fp
            self.fp = io.BufferedReader(_Timed(sock, plain, time.monotonic() + seconds))

    return Answer


def adapter(pool_size: int, seconds: float) -> HTTPAdapter:
    """Return what sends requests with at most ``pool_size`` connections, and reads no answer for longer."""
    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection

    Answer = answer_class(seconds)  # noqa: N806 - a class

    class PlainConnection(HTTPConnection):
        response_class = Answer

    class TlsConnection(HTTPSConnection):
        response_class = Answer

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = PlainConnection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    class Adapter(HTTPAdapter):
        """Makes its connections, those to a proxy too, of these classes."""

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": TlsPool}

        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            manager = super().proxy_manager_for(*args, **kwargs)
            manager.pool_classes_by_scheme = {"http": PlainPool, "https": TlsPool}
            return manager

    return Adapter(pool_maxsize=pool_size, pool_block=True)


class _Timed(io.RawIOBase):
    """What comes in from a socket until a deadline; each wait is as long as the socket's, and ends there."""

    def __init__(self, sock: Any, plain: Any, deadline: float) -> None:
        self._sock = sock
        self._plain = plain
        self._deadline = deadline
        self._timeout: float | None = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise SlowAnswerError("the answer does not come to its end")
        if self._timeout is None or left < self._timeout:
            self._sock.settimeout(left)
        try:
            count: int | None = self._plain.raw.readinto(buffer)
        except TimeoutError:
            if time.monotonic() >= self._deadline:
                raise SlowAnswerError("the answer does not come to its end") from None
            raise
        return count

    def close(self) -> None:
        self._plain.close()
        super().close()
