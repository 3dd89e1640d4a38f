"""Processes that run ``lancens``, each forked for its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.forked import ForkedCall, forking_server
from tests.torture.play import LONGEST_SECONDS, within
from tests.torture.tally import Violation
from tests.torture.traces import is_unclean

__all__ = ["Ended", "Run", "Workers", "run_behind", "workers"]

_INTERRUPTED = 130
_COMMAND = (sys.executable, "-B", "-c", "from reconciler.cli import main; main()")


@dataclass(frozen=True)
class Ended:
    """How a run of lancens ended; ``code`` is None when the process was killed."""

    code: int | None
    text: str = ""
    calls: int = 0


@dataclass(frozen=True)
class Run:
    """One run of ``lancens``, which :meth:`ended` starts; ``calls`` is the file that says how many were counted."""

    call: ForkedCall
    calls: Path

    def kill(self, number: signal.Signals) -> None:
        """Send the process a signal, once it has been started."""
        os.kill(self.call.pid.result(LONGEST_SECONDS), number)

    def ended(self) -> Ended:
        """Run it to its end.

        Raises:
            Violation: it shows its insides, or does not end.
        """
        code, text = within(self.call.run)
        calls = int(self.calls.read_text("utf-8")) if self.calls.exists() else 0
        return _checked(self.call.arguments, Ended(code, text, calls))


@dataclass(frozen=True)
class Workers:
    """What starts processes; how many calls they have made is counted in ``folder``."""

    folder: Path
    address: str

    def run(
        self,
        folder: Path,
        arguments: Sequence[str],
        *,
        lives: int | None = None,
        counted: bool = False,
        number: signal.Signals = signal.SIGKILL,
        largest: int | None = None,
    ) -> Run:
        """Return a run of ``lancens`` in ``folder`` with what :func:`tests.torture.worker.prepare` is told."""
        calls = self.folder / f"{uuid.uuid4().hex}.calls"
        options = {"calls": str(calls) if counted else None, "lives": lives, "number": number, "largest": largest}
        return Run(ForkedCall(self.address, folder, arguments, "tests.torture.worker:prepare", options), calls)


def run_behind(command: Sequence[str], folder: Path, arguments: Sequence[str]) -> Ended:
    """Run ``lancens`` to its end in a process that a command such as strace starts."""
    ended = subprocess.run(
        [*command, *_COMMAND, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    return _checked(arguments, Ended(ended.returncode if ended.returncode >= 0 else None, ended.stdout.decode()))


def _checked(arguments: Sequence[str], ended: Ended) -> Ended:
    if is_unclean(ended.text) or ended.code not in (None, 0, 1, 2, 3, _INTERRUPTED):
        raise Violation(f"lancens {' '.join(arguments)}: {ended.code}: {ended.text}")
    return ended


@contextmanager
def workers(folder: Path) -> Iterator[Workers]:
    """Start processes until the block ends, with a log in ``folder``."""
    with forking_server(folder) as address:
        yield Workers(folder, address)
