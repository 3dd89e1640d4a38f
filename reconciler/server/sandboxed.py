"""One process of :class:`reconciler.server.sandbox.Sandbox`: reads calls, answers them, and has limits."""

from __future__ import annotations

import json
import os
import pickle
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from reconciler import storage
from reconciler.model.errors import BackendError
from reconciler.server.sandbox import HEAD

_WORK = {work.__name__: work for work in (storage.count_rows, storage.write_stream, storage.compute_columns)}


def main(mebibytes: int) -> None:
    """Answer calls on stdin until it ends."""
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but answers goes where they go
    _warm_up()
    _limit_memory(mebibytes)
    while len(head := calls.read(HEAD.size)) == HEAD.size:
        name, given = pickle.loads(calls.read(HEAD.unpack(head)[0]))  # noqa: S301 - from the server, its parent
        answer = json.dumps(_answer(name, given)).encode()
        answers.write(HEAD.pack(len(answer)) + answer)
        answers.flush()


def _answer(name: str, given: tuple[Any, ...]) -> dict[str, object]:
    try:
        return {"value": _WORK[name](*given)}
    except BackendError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except MemoryError:
        return {"error": MemoryError.__name__}


def _warm_up() -> None:
    """Start the engine's threads, whose stacks count as memory."""
    import pyarrow as pa

    storage.in_memory(pa.table({"id": [1]})).count_rows(filter="id > 1")


def _limit_memory(mebibytes: int) -> None:
    """Let this process have so much more data than it has; only Linux counts it."""
    with suppress(ImportError, OSError, StopIteration):
        import resource

        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + mebibytes * 1024 * 1024,) * 2)


if __name__ == "__main__":
    main(int(sys.argv[1]))
