"""The socket beneath Thrift, which takes so many bytes and so much time for one reply, and no more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

from reconciler.backends.http.limits import SlowAnswerError, too_large, too_slow

if TYPE_CHECKING:
    import socket

    from reconciler.backends.hive.config import MetastoreAddress
    from reconciler.backends.http import AnswerLimits
    from reconciler.backends.http.scans import Scans


_CHUNK = 1024 * 1024


class Carrier(TSocket):  # type: ignore[misc]
    """Counts what comes in anew after each call that goes out."""

    def __init__(self, stream: socket.socket, address: MetastoreAddress, limits: AnswerLimits, scans: Scans) -> None:
        super().__init__()
        self.setHandle(stream)
        self._metastore = address
        self._patience = stream.gettimeout()
        self._limit = limits.answer_bytes
        self._seconds = limits.request_seconds
        self._scans = scans
        self._begin()

    def wait_at_most(self, seconds: float) -> None:
        """Give up on a wait for data that takes longer."""
        self._patience = seconds

    def _begin(self) -> None:
        self._left = self._limit
        self._ends = time.monotonic() + self._seconds

    def flush(self) -> None:
        """Send the call; what comes now is its reply."""
        self._scans.sends()
        super().flush()
        self._begin()

    def read(self, sz: int) -> bytes:
        """Return some of the reply.

        Raises:
            TooMuchError: it is larger than is taken; in words without the service.
            SlowAnswerError: it takes longer.
            TTransportException: the connection broke, or nothing came in time.
        """
        left = self._ends - time.monotonic()
        if left <= 0:
            raise SlowAnswerError(too_slow(str(self._metastore), self._seconds))
        self.handle.settimeout(left if self._patience is None else min(left, self._patience))
        try:
            # A length that was made up would otherwise be a buffer of that length.
            data: bytes = super().read(min(sz, _CHUNK))
        except TTransportException:
            if time.monotonic() >= self._ends:
                raise SlowAnswerError(too_slow(str(self._metastore), self._seconds)) from None
            raise
        self._scans.took(len(data))
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._limit)
        return data
