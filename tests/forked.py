"""``lancens`` in processes of their own, without what it takes to import it each time.

A process that has imported it forks for every call: the fork takes over the caller's folder, variables and streams, and
runs the command line as the installed script does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from reconciler.cli import main
from tests.servers.glue import one_loader
from tests.servers.process import running

__all__ = ["ForkedCall", "ForkedProcess", "forking", "forking_server"]

_MOST = 1 << 20
_FIELD = 8
"""How long the process id and the exit code are that a fork sends."""
_PRELOADED = (
    *("lance", "lance.namespace", "boto3", "requests", "encodings.idna", "thrift.transport.TSocket"),
    *("urllib3", "deepdiff"),
    *("reconciler.operations.apply", "reconciler.operations.plan", "reconciler.output.text"),
    *(f"reconciler.backends.{impl}" for impl in ("dir", "glue", "hive", "iceberg", "unity", "rest")),
)
"""What commands import where they need it."""
# Nothing but what a call needs is imported: this runs each time.
_SCRIPT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), None]).encode()
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    server.recv({field}, socket.MSG_WAITALL)
    sys.exit(int(server.recv({field}) or b"137"))
"""


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """Run the process until the block ends, and give a folder for ``PATH`` with the script ``lancens``."""
    script = folder / "bin/lancens"
    script.parent.mkdir()
    with forking_server(folder) as address:
        script.write_text(_SCRIPT.format(python=sys.executable, address=address, field=_FIELD), "utf-8")
        script.chmod(0o755)
        yield script.parent


@contextmanager
def forking_server(folder: Path) -> Iterator[str]:
    """Run the process until the block ends, and give the address of its socket."""
    address = str(folder / "socket")

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(address)
        return True

    with running([sys.executable, "-B", "-m", "tests.forked", address], folder / "forking.log", answers):
        yield address


@dataclass(frozen=True)
class ForkedCall:
    """One run of ``lancens`` in ``folder``.

    ``prepare`` names a function, as ``module:name``, that the process calls first with ``options``.
    """

    address: str
    folder: Path
    arguments: Sequence[str]
    prepare: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    pid: Future[int] = field(default_factory=Future, init=False)
    """Of the process, once it runs."""

    def run(self) -> tuple[int | None, str]:
        """Run it to its end, and return its exit code, None where a signal has ended it, and what it has printed."""
        prepare = [self.prepare, dict(self.options)] if self.prepare else None
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as printed, socket.socket(socket.AF_UNIX) as server:
            with os.fdopen(writing, "wb"):
                server.connect(self.address)
                self.pid.set_result(_begun(server, self.folder, self.arguments, writing, writing, prepare))
            text = printed.read().decode("utf-8", "replace")
            code = server.recv(_FIELD)
        return int(code) if code else None, text


class ForkedProcess:
    """A run of ``lancens`` beside its caller, with what of `subprocess.Popen` its tests need."""

    def __init__(self, address: str, folder: Path, arguments: Sequence[str], output: int, errors: int) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(address)
        self._ended = False
        self.pid = _begun(self._server, folder, arguments, output, errors)

    def send_signal(self, number: int) -> None:
        """Send the process a signal, unless it is known to have ended."""
        if not self._ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the process has ended, negative where a signal has ended it."""
        self._server.settimeout(timeout)
        code = self._server.recv(_FIELD)
        self._ended = True
        return int(code) if code else -signal.SIGKILL

    def close(self) -> None:
        """End the process, and what reaches it."""
        self.kill()
        self._server.close()


def _begun(
    server: socket.socket, folder: Path, arguments: Sequence[str], output: int, errors: int, prepare: object = None
) -> int:
    """Ask for a run whose streams are ``output`` and ``errors``; return the process's id."""
    asked = json.dumps([list(arguments), str(folder), dict(os.environ), prepare]).encode()
    with Path(os.devnull).open("rb") as nothing:
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [nothing.fileno(), output, errors])
        server.sendall(asked)
        return int(server.recv(_FIELD, socket.MSG_WAITALL))


def _run(caller: socket.socket) -> None:
    """Run what is asked for; how it ended is said last of all, and not at all where the process is killed."""
    length, streams, _, _ = socket.recv_fds(caller, 4, 3)
    if not streams:
        return
    size, asked = int.from_bytes(length, "big"), b""
    while len(asked) < size:
        asked += caller.recv(_MOST)
    arguments, folder, environment, prepare = json.loads(asked)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 1

    def end() -> None:
        with suppress(OSError):  # nobody reads any more
            sys.stdout.flush()
            sys.stderr.flush()
        caller.sendall(str(code).encode())
        os._exit(code)  # taking down all that was imported would take ten times what a short command does

    atexit.register(end)  # the first of this process, so the last to be called
    sys.argv = ["lancens", *arguments]
    caller.sendall(f"{os.getpid():{_FIELD}}".encode())
    if prepare is not None:
        module, _, name = prepare[0].partition(":")
        getattr(importlib.import_module(module), name)(**prepare[1])
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0


def _reap(_signal: int, _frame: FrameType | None) -> None:
    """Wait for the forks that have ended, so that their CPU seconds count for this process."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(address: str) -> None:
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)  # nothing was opened yet
    for module in _PRELOADED:
        importlib.import_module(module)
    gc.freeze()  # a fork that looks through all of this for garbage as it ends, copies it first
    signal.signal(signal.SIGCHLD, _reap)
    with one_loader(), socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        while True:
            caller, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                _run(caller)
                return
            caller.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
