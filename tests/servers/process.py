"""A server of a test: a process of our own on 127.0.0.1, its log in a file, ended by its own pid."""

from __future__ import annotations

import http.client
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["HUNG_SECONDS", "STOP_SECONDS", "free_port", "running", "status_of"]

HUNG_SECONDS = 600
"""When something has hung: many times what it takes on a busy machine, and below pytest's own limit of a test."""

STOP_SECONDS = 10
"""How long a server may take to stop once it is told to."""

_POLL_SECONDS = 0.05


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def status_of(method: str, url: str) -> int:
    """Send a request with no body and return the status it is answered with; OSError when there is no answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=HUNG_SECONDS)
    try:
        connection.request(method, f"{parts.path}?{parts.query}")
        return connection.getresponse().status
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    answers: Callable[[], bool],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``command`` until the block ends; the block starts when ``answers``, a real call, returns True.

    ``answers`` raises OSError, or returns False, while the server is not ready.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=directory
        )
    try:
        _await(process, log, answers)
        yield process
    finally:
        _stop(process)


def _await(process: subprocess.Popen[bytes], log: Path, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HUNG_SECONDS
    while not _try(answers):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not answer within {HUNG_SECONDS} s:\n{_tail(log)}")
        time.sleep(_POLL_SECONDS)


def _try(answers: Callable[[], bool]) -> bool:
    try:
        return answers()
    except OSError:
        return False


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-3000:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
