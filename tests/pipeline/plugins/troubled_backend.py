"""A directory catalog with one namespace that gives trouble, in whatever process it is read."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

from pydantic import Field

from reconciler.backends.dir import DirBackend, DirConfig
from reconciler.model.errors import InternalError
from reconciler.model.live import Snapshot
from reconciler.model.names import EVERYTHING, ChildrenOf, Identifier, Scope, split

_SECONDS_TO_END = 60
"""Spark ends the processes below the one that was killed long before."""


class TroubledConfig(DirConfig):
    """``namespace`` fails the first ``times`` times it is read, or kills its process; ``log`` is where reads show.

    ``victim`` is a part of the command line of the process to kill instead, which is above.
    """

    log: str
    namespace: str = ""
    times: int = 0
    kills: bool = False
    victim: str = ""
    password: str = Field(default="", repr=False)


class TroubledBackend(DirBackend):
    """Leaves a file in ``log`` for each namespace that a scan reads."""

    impl = "troubled"
    config_model = TroubledConfig  # type: ignore[assignment] # made with other keys as well
    config: TroubledConfig

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``, or give trouble."""
        if isinstance(scope, ChildrenOf):
            for namespace in sorted(scope.namespaces):
                self._read(namespace)
        return super().scan(scope)

    def _read(self, namespace: Identifier) -> None:
        folder = Path(self.config.log, "$".join(namespace) or "root")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / uuid.uuid4().hex).touch()
        if namespace != split(self.config.namespace) or len(list(folder.iterdir())) > self.config.times:
            return
        if self.config.kills:
            os.kill(nearest(self.config.victim), signal.SIGKILL)
            time.sleep(_SECONDS_TO_END)
        raise InternalError(f"troubled: no answer to {self.config.password}")


def nearest(named: str) -> int:
    """Return the process that has ``named`` in its command line: this one, or the nearest above it."""
    process = os.getpid()
    while named.encode() not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process
