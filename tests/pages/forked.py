"""``lancens`` as the pages have it typed, without what it takes to import it each time.

A process that has imported it forks for every call: it takes over the caller's folder, variables and streams, and runs
the command line as the installed script does. A section types some three commands, and there are fifty of them.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.cli import main
from tests.servers.process import running

__all__ = ["forking"]

_MOST = 1 << 20
# Nothing but what a call needs is imported: this runs each time.
_SCRIPT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.recv(8) or b"137"))
"""


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """Run the process until the block ends, and give a folder for ``PATH`` with the script ``lancens``."""
    address = str(folder / "socket")
    script = folder / "bin/lancens"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(python=sys.executable, address=address), "utf-8")
    script.chmod(0o755)

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(address)
        return True

    with running([sys.executable, "-m", "tests.pages.forked", address], folder / "forking.log", answers):
        yield script.parent


def _run(caller: socket.socket) -> None:
    """Run what is asked for; how it ended is said last of all, and not at all where the process is killed."""
    length, streams, _, _ = socket.recv_fds(caller, 4, 3)
    if not streams:
        return
    size, asked = int.from_bytes(length, "big"), b""
    while len(asked) < size:
        asked += caller.recv(_MOST)
    arguments, folder, environment = json.loads(asked)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    atexit.register(lambda: caller.sendall(str(code).encode()))
    sys.argv = ["lancens", *arguments]
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0


def _serve(address: str) -> None:
    import lance  # noqa: F401 - takes longest, and most commands need it

    import reconciler.operations.apply
    import reconciler.operations.plan  # noqa: F401

    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)  # nothing was opened yet
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that have ended are not waited for
    with socket.socket(socket.AF_UNIX) as server:
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
