"""A directory catalog with one namespace that gives trouble, in whatever process it is read."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

from pydantic import Field

from reconciler.backends.dir import DirBackend, DirConfig
from reconciler.errors import InternalError
from reconciler.names import EVERYTHING, ChildrenOf, Identifier, Scope, split
from reconciler.state import Snapshot


class TroubledConfig(DirConfig):
    """``namespace`` fails the first ``times`` times it is read, or kills its process; ``log`` is where reads show."""

    log: str
    namespace: str = ""
    times: int = 0
    kills: bool = False
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
            os.kill(os.getpid(), signal.SIGKILL)
        raise InternalError(f"troubled: no answer to {self.config.password}")
