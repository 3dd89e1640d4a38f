"""Evaluate clients' SQL and data in processes with limited memory and time.

The engine aborts its process when memory runs out, and nothing stops it earlier. So it never runs in the process of the
server.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reconciler import storage
from reconciler.model import errors
from reconciler.model.errors import BackendError, InternalError, InvalidInputError, ServiceUnavailableError

_LENGTH_HEADER = struct.Struct("!Q")
_MOST_CALLS = 64
"""A process ends after this many calls, because memory that the engine keeps counts against the next one."""
_ALLOWED_WORK = {
    work.__name__: work
    for work in (storage.count_rows, storage.write_stream, storage.compute_columns, storage.alter_columns)
}

_ALLOWED_FUNCTIONS = (
    "abs array_contains array_has array_length arrow_cast bit_length btrim cast ceil char_length character_length "
    "coalesce concat contains date_part date_trunc ends_with extract floor greatest isnan least left length lower "
    "ltrim mod nullif octet_length position power regexp_like regexp_match right round rtrim signum sqrt starts_with "
    "strpos substr substring to_date to_timestamp trim try_cast upper"
)
_KEYWORDS = (
    "and as between binary by case char decimal distinct else fixed_size_binary float from ilike in is like not "
    "numeric on or then time timestamp varchar when"
)
FUNCTIONS = frozenset(_ALLOWED_FUNCTIONS.split())
"""Functions whose results are not much larger than their arguments."""

_BEFORE_PARENTHESES = FUNCTIONS.union(_KEYWORDS.split())

_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|[^\W\d]\w*|\d[\w.]*|--|/\*|\S""")
_UNCLEAR = re.compile(r"""--|/\*|[$'"`]|'.*\\'""", re.DOTALL)


def check_expressions(expressions: Iterable[str]) -> None:
    """Check that expressions of SQL call only the functions that clients may call.

    Call it before :meth:`Sandbox.run`, which checks none.

    Raises:
        InvalidInputError: one calls another function, or has quotes or comments that could hide a call.
    """
    for expression in expressions:
        previous, end = "", 0
        for match in _TOKENS.finditer(expression):
            lexeme = match[0]
            if lexeme == "(" and not _is_allowed_before_parenthesis(previous):
                raise InvalidInputError(
                    f"`{previous[:40]}` is not a function that this server evaluates: {_ALLOWED_FUNCTIONS}"
                )
            if _UNCLEAR.fullmatch(lexeme) or (lexeme[0] == "'" and end == match.start() and previous[-1:].isalnum()):
                raise InvalidInputError(
                    "an expression cannot have comments, `$`, an open quote, or a backslash or letter before a quote"
                )
            previous, end = lexeme, match.end()


def _is_allowed_before_parenthesis(token: str) -> bool:
    """Return whether ``token`` and an opening parenthesis are no call, or an allowed one."""
    if token[:1] in ('"', "`", "'"):
        return False
    return not (token[:1].isalpha() or token[:1] == "_") or token.casefold() in _BEFORE_PARENTHESES


_STORAGE_PREFIXES = tuple(
    f"{name}_"
    for name in (
        *("ALIBABA", "AWS", "AZURE", "AZURITE", "COS", "GOOGLE", "GOOSEFS", "HF", "IDENTITY", "LANCE", "MSI", "OSS"),
        *("SSL_CERT", "TENCENTCLOUD", "TOS"),
    )
)
_SYSTEM_VARIABLES = frozenset({"HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ"})
_PROXIES = frozenset({"all_proxy", "http_proxy", "https_proxy", "no_proxy"})


def _environment() -> dict[str, str]:
    """Return the environment variables by which pylance opens storage.

    Clients' expressions are evaluated in that environment, so it has no other variable, such as a token of the server.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _SYSTEM_VARIABLES or name.startswith(_STORAGE_PREFIXES) or name.lower() in _PROXIES
    }


class Sandbox:
    """Up to ``most_processes``, started on demand; twice as many calls may wait.

    A call may take ``seconds``, and ``mebibytes`` of memory beyond what the engine needs by itself.
    """

    def __init__(self, most_processes: int, seconds: float, mebibytes: int = 1024) -> None:
        self._seconds = seconds
        self._mebibytes = mebibytes
        self._running_calls = threading.Semaphore(most_processes)
        self._admitted_calls = threading.Semaphore(3 * most_processes)
        self._idle: deque[_Process] = deque()
        weakref.finalize(self, _kill_all, self._idle)

    def run(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Return the result of ``work``, a function of ``reconciler.storage``.

        Raises:
            BackendError: as ``work`` does.
            InvalidInputError: it takes too much memory.
            ServiceUnavailableError: it takes too long, or too many calls wait already.
        """
        if not self._admitted_calls.acquire(blocking=False):
            raise ServiceUnavailableError("too many requests with data or expressions wait already; try again later")
        try:
            deadline = time.monotonic() + self._seconds
            if not self._running_calls.acquire(timeout=self._seconds):
                raise ServiceUnavailableError(f"it did not start within {self._seconds:g} s; try again later")
            try:
                return self._run_in_process(pickle.dumps((work.__name__, arguments)), deadline)
            finally:
                self._running_calls.release()
        finally:
            self._admitted_calls.release()

    def _run_in_process(self, call: bytes, deadline: float) -> Any:
        """Return the result of a pickled ``call``, made in an idle or a new process."""
        try:
            process = self._idle.popleft()
        except IndexError:
            process = _Process(self._mebibytes)
        is_reusable = False
        try:
            answer = process.answer(call, deadline)
            is_reusable = process.calls < _MOST_CALLS and answer.get("error") != MemoryError.__name__
        except TimeoutError:
            raise ServiceUnavailableError(f"not done within {self._seconds:g} s, and stopped") from None
        except EOFError:
            ending = process.wait()
            if ending != signal.SIGABRT.name:
                raise InternalError(
                    f"the process that evaluates requests ended with {ending}; the server's log may say why"
                ) from None
            answer = {"error": MemoryError.__name__}  # the engine aborts when memory runs out
        finally:
            if is_reusable:
                self._idle.append(process)
            else:
                process.kill()
        if "error" not in answer:
            return answer["value"]
        if answer["error"] == MemoryError.__name__:
            raise InvalidInputError(f"it takes more than the {self._mebibytes} MiB of memory that a request may use")
        raise getattr(errors, answer["error"], InternalError)(answer["text"])


class _Process:
    """A process of the sandbox, which answers calls one after the other."""

    def __init__(self, mebibytes: int) -> None:
        self._running = running = subprocess.Popen(  # noqa: S603 - this Python
            # Isolated, or it would import modules from the working directory.
            [sys.executable, "-I", "-m", __name__, str(mebibytes)],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the server, which lets calls end
        )
        assert running.stdin is not None and running.stdout is not None  # noqa: S101, PT018 - both are piped
        self._stdin, self._stdout = running.stdin, running.stdout
        self.calls = 0

    def answer(self, call: bytes, deadline: float) -> dict[str, Any]:
        """Return the answer to ``call``: its ``value``, or its ``error`` and ``text``.

        Raises:
            TimeoutError: the answer did not arrive by ``deadline``.
            EOFError: the process ended.
        """
        self.calls += 1
        sender = threading.Thread(target=self._send, args=(call,), daemon=True)
        sender.start()
        (length,) = _LENGTH_HEADER.unpack(self._read(_LENGTH_HEADER.size, deadline))
        return dict(json.loads(self._read(length, deadline)))

    def _send(self, call: bytes) -> None:
        with suppress(OSError):  # the process ended, which reading the answer reports
            self._stdin.write(_LENGTH_HEADER.pack(len(call)) + call)
            self._stdin.flush()

    def _read(self, length: int, deadline: float) -> bytes:
        received, descriptor = b"", self._stdout.fileno()
        while len(received) < length:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
                raise TimeoutError
            chunk = os.read(descriptor, length - len(received))
            if not chunk:
                raise EOFError
            received += chunk
        return received

    def wait(self) -> str:
        """Wait for the process to end, and return its signal or its exit code."""
        code = self._running.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """Kill the process, which has no state to save."""
        self._running.kill()
        self._running.wait()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()


def _kill_all(processes: deque[_Process]) -> None:
    for process in processes:
        process.kill()


def main(mebibytes: int) -> None:
    """Be a process of the sandbox: answer the calls on stdin until it is closed."""
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the answers
    _warm_up()
    _limit_memory(mebibytes)
    while len(head := calls.read(_LENGTH_HEADER.size)) == _LENGTH_HEADER.size:
        answer = json.dumps(_answer(calls.read, _LENGTH_HEADER.unpack(head)[0])).encode()
        answers.write(_LENGTH_HEADER.pack(len(answer)) + answer)
        answers.flush()


def _answer(read: Callable[[int], bytes], length: int) -> dict[str, object]:
    """Return the answer to the pickled call in the next ``length`` bytes."""
    try:
        name, arguments = pickle.loads(read(length))  # noqa: S301 - from the server, its parent
        return {"value": _ALLOWED_WORK[name](*arguments)}
    except BackendError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except MemoryError:
        return {"error": MemoryError.__name__}


def _warm_up() -> None:
    """Start the engine's threads before memory is limited, as their stacks count."""
    import pyarrow as pa

    storage.in_memory(pa.table({"id": [1]})).count_rows(filter="id > 1")


def _limit_memory(mebibytes: int) -> None:
    """Limit the data segment to its size plus ``mebibytes``, on Linux."""
    with suppress(ImportError, OSError, StopIteration):
        import resource

        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + mebibytes * 1024 * 1024,) * 2)


if __name__ == "__main__":
    main(int(sys.argv[1]))
