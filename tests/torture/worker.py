"""A process that runs ``lancens`` again and again, so that none of many runs waits for the imports.

Reads JSON lines: ``arguments``, the ``folder`` to run in, and, where the calls of functions that write are ``counted``,
``lives``: at which of them it sends itself the signal ``number``; with ``largest``, files end at so many bytes, as on a
full disk. Answers each with a JSON line: the exit code, what it has printed, and how many of these calls there were.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import reconciler
from reconciler.cli import main

_ROOMS = ("backends/dir", "storage", "applier")
_ROOT = Path(reconciler.__file__).parent
_COUNTED = tuple(f"{_ROOT}/{room}/" for room in _ROOMS)


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


def _run(arguments: list[str], lives: int | None, number: int, *, counted: bool) -> dict[str, Any]:
    printed, counter = io.StringIO(), _Counter(lives, number)
    code: object = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if counted:
            threading.setprofile(counter)
            sys.setprofile(counter)
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return {"code": code if isinstance(code, int) else 1, "text": printed.getvalue(), "calls": counter.calls}


@contextlib.contextmanager
def _files_end_at(largest: int | None) -> Iterator[None]:
    """Within this, let every write beyond so many bytes of a file fail; Python ignores the signal of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if largest is None else largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _serve() -> None:
    import boto3  # noqa: F401 - so that it is there
    import lance  # noqa: F401

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        os.chdir(told["folder"])
        with _files_end_at(told["largest"]):
            answer = _run(told["arguments"], told["lives"], told["number"], counted=told["counted"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
