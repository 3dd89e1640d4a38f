"""Processes that stand ready to run ``lancens``; one that was killed is replaced by another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.torture.play import LONGEST_SECONDS, is_unclean, within
from tests.torture.tally import Violation

__all__ = ["Ended", "Worker", "Workers", "workers"]

_INTERRUPTED = 130
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a run of lancens ended; ``code`` is None when the process was killed."""

    code: int | None
    text: str = ""
    calls: int = 0


class Worker:
    """One process."""

    def __init__(self, log: IO[bytes], before: Sequence[str] = ()) -> None:
        command = [*before, sys.executable, "-B", "-m", "tests.torture.worker"]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self._is_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def await_ready(self) -> None:
        if not self._is_ready:
            assert self._line() == "ready\n"
            self._is_ready = True

    def _line(self) -> str:
        assert self._process.stdout is not None
        return within(self._process.stdout.readline)

    def run(
        self,
        folder: Path,
        arguments: list[str],
        *,
        lives: int | None = None,
        counted: bool = False,
        number: signal.Signals = signal.SIGKILL,
        largest: int | None = None,
    ) -> Ended:
        """Run ``lancens`` to its end.

        Raises:
            Violation: it shows its insides, or does not end.
        """
        self.await_ready()
        told: Mapping[str, Any] = {
            "arguments": arguments,
            "folder": str(folder),
            "lives": lives,
            "counted": counted,
            "number": number,
            "largest": largest,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            self._process.wait(LONGEST_SECONDS)
            return Ended(None)
        answer = Ended(**json.loads(line))
        if is_unclean(answer.text) or answer.code not in (0, 1, 2, 3, _INTERRUPTED):
            raise Violation(f"lancens {' '.join(arguments)}: {answer.code}: {answer.text}")
        return answer

    def end(self) -> None:
        """End the process, and wait for that."""
        self._process.kill()
        self._process.wait(LONGEST_SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Workers:
    """As many as are asked for."""

    def __init__(self, log: IO[bytes]) -> None:
        self._log = log
        self._all: list[Worker] = []

    def take(self, number: int) -> list[Worker]:
        """Return so many that are alive and ready."""
        for worker in self._all:
            if not worker.is_alive:
                worker.end()
        self._all = [worker for worker in self._all if worker.is_alive]
        self._all += [Worker(self._log) for _ in range(number - len(self._all))]
        for worker in self._all[:number]:
            worker.await_ready()
        return self._all[:number]

    @contextmanager
    def behind(self, command: Sequence[str]) -> Iterator[Worker]:
        """Keep a worker that a command such as strace starts, until the block ends."""
        worker = Worker(self._log, command)
        try:
            yield worker
        finally:
            worker.end()

    def end(self) -> None:
        """End them all."""
        for worker in self._all:
            worker.end()


@contextmanager
def workers(folder: Path) -> Iterator[Workers]:
    """Keep workers until the block ends; what they say beside their answers goes to a log in ``folder``."""
    with (folder / "workers.log").open("wb") as log:
        made = Workers(log)
        try:
            yield made
        finally:
            made.end()
