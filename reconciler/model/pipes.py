"""Read files that may be pipes."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path

PATIENCE_SECONDS = 10.0
"""How long to wait for the writer of a named pipe."""


def read_file_or_pipe(path: str | Path, limit: int) -> bytes:
    """Return at most ``limit`` bytes of a file, or of a pipe once its writer is done.

    A pipe without a writer is given up after ``PATIENCE_SECONDS``, as a plain read would block for ever. A writer may
    take as long as it needs.

    Raises:
        OSError: the file cannot be read, or is a pipe without a writer.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116 - a text may be no path at all
        with Path(path).open("rb") as file:
            return file.read(limit)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _read_pipe(pipe, limit)
    finally:
        os.close(pipe)


def _read_pipe(pipe: int, limit: int) -> bytes:
    """Return at most ``limit`` bytes from the file descriptor ``pipe``, which does not block."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    content, has_writer = b"", False
    while len(content) < limit:
        is_ready = bool(poll.poll(None if has_writer else PATIENCE_SECONDS * 1000))
        try:
            part = os.read(pipe, limit - len(content))
        except BlockingIOError:
            has_writer = True  # a writer is there and has written nothing yet
            continue
        if not part and not is_ready:
            raise TimeoutError(errno.ETIMEDOUT, "nothing writes to this pipe")
        if not part:
            break
        content, has_writer = content + part, True
    return content
