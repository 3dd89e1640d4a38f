"""What a process does before it runs ``lancens``, so that it dies at some call of a function, or its disk is full."""

from __future__ import annotations

import atexit
import os
import resource
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import reconciler

__all__ = ["prepare"]

_ROOMS = ("backends/dir", "storage", "applier")
_ROOT = Path(reconciler.__file__).parent
_COUNTED = tuple(f"{_ROOT}/{room}/" for room in _ROOMS)


def prepare(calls: str | None, lives: int | None, number: int, largest: int | None) -> None:
    """Count the calls of functions that write into the file ``calls``, and let files end at ``largest`` bytes.

    At call ``lives``, the process sends itself the signal ``number``. Python ignores the signal of a full disk.
    """
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    if calls is not None:
        counter = _Counter(lives, number)
        atexit.register(lambda: Path(calls).write_text(str(counter.calls), "utf-8"))
        threading.setprofile(counter)
        sys.setprofile(counter)


class _Counter:
    """Counts the calls of functions in some files, and ends the process at one of them."""

    def __init__(self, lives: int | None, number: int) -> None:
        self._lock, self.calls, self._lives, self._number = threading.Lock(), 0, lives, number

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(_COUNTED):
            return
        with self._lock:
            self.calls += 1
            if self.calls == self._lives:
                os.kill(os.getpid(), self._number)
