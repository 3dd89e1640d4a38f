"""Large files of a manifest read side by side, in processes beside this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection
from typing import TypeAlias

from reconciler.manifest.apart import ApartContent, ApartReader, FileApart

__all__ = ["read_apart"]

_MOST_PROCESSES = 8

_Task: TypeAlias = tuple[FileApart, str]


def read_apart(
    reader: ApartReader, files: Sequence[FileApart], processes: int | None = None
) -> Generator[tuple[str, ApartContent | None], None, None]:
    """Yield each catalog that a file is about, and what it says of it; the files in their order.

    None in the place of what it says, where the manifest has to be loaded as a whole. That is so of a file whose
    process was killed as well. ``processes`` is how many there may be; left out, as many as there are cores.
    """
    tasks = [(file, catalog) for file in files for catalog in file.names]
    number = min(_possible() if processes is None else processes, len(tasks))
    if number > 1:
        yield from _read_beside(reader, tasks, number)
    else:
        for file, catalog in tasks:
            yield catalog, reader.read(file, catalog)


def _possible() -> int:
    """Return how many processes there may be; one where a copy of this one would not be sound.

    A copy starts at once, with all the reader needs. It is one of this thread alone: a lock that another one held would
    stay locked in it. Lance has such threads once it is imported.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or "lance" in sys.modules:
        return 1
    return min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)


def _read_beside(
    reader: ApartReader, tasks: Sequence[_Task], number: int
) -> Generator[tuple[str, ApartContent | None], None, None]:
    context = multiprocessing.get_context("fork")
    workers = []
    receivers: list[Connection] = []
    try:
        for first in range(number):
            receiver, sender = context.Pipe(duplex=False)
            receivers.append(receiver)
            arguments = (reader, tasks[first::number], sender, receivers)
            process = context.Process(target=_read_share, args=arguments, daemon=True)
            process.start()
            sender.close()
            workers.append(process)
        for position, (_, catalog) in enumerate(tasks):
            try:
                yield catalog, receivers[position % number].recv()
            except EOFError:
                yield catalog, None
    finally:
        for receiver in receivers:
            receiver.close()
        for process in workers:
            process.kill()
            process.join()


def _read_share(
    reader: ApartReader, tasks: Sequence[_Task], sender: Connection, receivers: Sequence[Connection]
) -> None:
    """Read some files and send what they say. It ends when nobody waits for that any more, killed or not."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for this one is interrupted as well
    for receiver in receivers:  # copies: while one is open, nothing tells that the others are gone
        receiver.close()
    try:
        for file, catalog in tasks:
            sender.send(reader.read(file, catalog))
    except BrokenPipeError:
        return
