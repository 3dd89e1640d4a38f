"""A file of lines, each on the disk before whoever wrote it goes on. Writers at the same time share one ``fsync``."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from io import FileIO


class DurableLines:
    """Appends whole lines to ``file``, which it closes; safe to use from several threads."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = 0
        self._on_disk = 0
        self._end = self._end_on_disk = os.fstat(file.fileno()).st_size
        self._lost: tuple[int, OSError] | None = None

    def append(self, line: bytes) -> None:
        """Put ``line`` on the disk, whole or not at all: what fitted on a full one is taken back.

        Raises:
            OSError: it is not there.
        """
        with self._writing:
            self._write(line)
            self._written += 1
            number = self._written
        with self._syncing:
            if self._lost is not None and number <= self._lost[0]:
                raise self._lost[1]
            if number > self._on_disk:
                self._sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        descriptor, rest = self._file.fileno(), line
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._end += len(line)

    def _sync(self) -> None:
        """Put every line on the disk that was written by now; where that fails, none of them is in the file."""
        with self._writing:
            number, end = self._written, self._end
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            with self._writing, suppress(OSError):
                self._lost = self._written, error
                os.ftruncate(self._file.fileno(), self._end_on_disk)
                self._end = self._end_on_disk
            raise
        self._on_disk, self._end_on_disk = number, end
