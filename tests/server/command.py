"""``lancens serve`` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["resident_kilobytes", "started"]


@contextmanager
def started(
    *arguments: str | Path, folder: Path, files: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``lancens serve`` on a free port; yields the process and its address. Its log is ``serve.log``.

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


def resident_kilobytes(process: subprocess.Popen[str]) -> int:
    """Return how much memory a process has in use."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
