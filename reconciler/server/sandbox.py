"""Processes in which clients' expressions and data are worked on, with so much memory and time and no more.

An engine that evaluates what a client sends ends its process when memory runs out, and nothing stops it before that.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from reconciler.model import errors
from reconciler.model.errors import InternalError, InvalidInputError, ServiceUnavailableError

HEAD = struct.Struct("!Q")
_MOST_CALLS = 64
"""After so many a process has made room: what the engine keeps counts against the next call."""


class Sandbox:
    """At most ``most`` processes, started when they are needed; twice as many calls again wait for one.

    A call may take ``seconds``, and ``mebibytes`` beside what the engine needs by itself.
    """

    def __init__(self, most: int, seconds: float, mebibytes: int = 1024) -> None:
        self._seconds = seconds
        self._mebibytes = mebibytes
        self._turns = threading.Semaphore(most)
        self._places = threading.Semaphore(3 * most)
        self._idle: deque[_Process] = deque()
        weakref.finalize(self, _end_all, self._idle)

    def run(self, work: Callable[..., Any], *given: object) -> Any:
        """Return what ``work``, a function of ``reconciler.storage``, returns for ``given``.

        Raises:
            BackendError: as ``work`` does.
            InvalidInputError: it takes more memory than a client's request may.
            ServiceUnavailableError: it takes too long, or too many wait already.
        """
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailableError("too many requests with data or expressions wait already; try again later")
        try:
            until = time.monotonic() + self._seconds
            if not self._turns.acquire(timeout=self._seconds):
                raise ServiceUnavailableError(f"its turn did not come within {self._seconds:g} s; try again later")
            try:
                return self._answer(pickle.dumps((work.__name__, given)), until)
            finally:
                self._turns.release()
        finally:
            self._places.release()

    def _answer(self, call: bytes, until: float) -> Any:
        process = self._idle.popleft() if self._idle else _Process(self._mebibytes)
        try:
            answer = process.ask(call, until)
        except TimeoutError:
            process.end()
            raise ServiceUnavailableError(f"not done within {self._seconds:g} s, and given up") from None
        except EOFError:
            process.end()
            raise self._too_large() from None
        except BaseException:
            process.end()
            raise
        if process.calls < _MOST_CALLS and answer.get("error") != MemoryError.__name__:
            self._idle.append(process)
        else:
            process.end()
        if "error" not in answer:
            return answer["value"]
        if answer["error"] == MemoryError.__name__:
            raise self._too_large()
        raise getattr(errors, answer["error"], InternalError)(answer["text"])

    def _too_large(self) -> InvalidInputError:
        return InvalidInputError(f"it takes more than the {self._mebibytes} MiB of memory that a request may use")


class _Process:
    """One process, which answers one call after the other."""

    def __init__(self, mebibytes: int) -> None:
        self._running = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-m", "reconciler.server.sandboxed", str(mebibytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # the terminal's Ctrl-C is for the server, which lets calls end
        )
        self.calls = 0

    def ask(self, call: bytes, until: float) -> dict[str, Any]:
        """Return the answer to ``call``.

        Raises:
            TimeoutError: there is none by ``until``.
            EOFError: the process ended.
        """
        self.calls += 1
        sending = threading.Thread(target=self._send, args=(call,), daemon=True)
        sending.start()
        (length,) = HEAD.unpack(self._read(HEAD.size, until))
        return dict(json.loads(self._read(length, until)))

    def _send(self, call: bytes) -> None:
        with suppress(OSError):  # the process ended, which whoever reads its answer sees
            _of(self._running.stdin).write(HEAD.pack(len(call)) + call)
            _of(self._running.stdin).flush()

    def _read(self, length: int, until: float) -> bytes:
        found, descriptor = b"", _of(self._running.stdout).fileno()
        while len(found) < length:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            part = os.read(descriptor, length - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def end(self) -> None:
        """Kill the process; it holds nothing that would have to be saved."""
        self._running.kill()
        self._running.wait()
        for pipe in (self._running.stdin, self._running.stdout):
            with suppress(OSError):
                _of(pipe).close()


def _of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - both are piped
    return pipe


def _end_all(processes: deque[_Process]) -> None:
    for process in processes:
        process.end()
