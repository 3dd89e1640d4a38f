"""``lancens serve`` in a process of its own."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from tests.forked import ForkedProcess, forking_server

__all__ = ["resident_kilobytes", "started", "started_anew"]

_TEMPORARY = tempfile.gettempdir()
"""Where it is before a test changes it."""


@cache
def _forking() -> str:
    """Return the address of a process that forks, of which one is enough for all tests."""
    running = ExitStack()
    atexit.register(running.close)
    folder = running.enter_context(tempfile.TemporaryDirectory(dir=_TEMPORARY))
    return running.enter_context(forking_server(Path(folder)))


@contextmanager
def started(*arguments: str | Path, folder: Path) -> Iterator[tuple[ForkedProcess, str]]:
    """Run ``lancens serve`` on a free port; yields the process and its address. Its log is ``serve.log``."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as printed, (folder / "serve.log").open("w") as log:
        with os.fdopen(writing, "w"):
            command = ["serve", "--port", "0", *map(str, arguments)]
            process = ForkedProcess(_forking(), folder, command, writing, log.fileno())
        try:
            yield process, printed.readline().strip()
        finally:
            process.close()


@contextmanager
def started_anew(
    *arguments: str | Path, folder: Path, files: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Do as :func:`started` in a new Python, for tests of what starting takes.

    ``files`` is the soft limit on open files that it starts with.
    """
    command = [sys.executable, "-I", "-c", "from reconciler.cli import main; main()", "serve", "--port", "0"]
    if files is not None:
        command = ["bash", "-c", f'ulimit -Sn {files}; exec "$@"', "bash", *command]
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def resident_kilobytes(process: ForkedProcess) -> int:
    """Return how much memory a process has in use."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
