"""Serve catalogs in several processes, which share a port and the limits on requests.

A new process imports this module before it can say that it runs, so heavy imports are made where they are used.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from uvicorn.config import STARTUP_FAILURE

from reconciler.model.collector import collector_of_server
from reconciler.model.errors import ConfigError
from reconciler.server.running import ListenAddress, open_listener, uvicorn_config

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from reconciler.server.catalogs import ServedCatalogs
    from reconciler.server.guard import Settings


def run_workers(
    catalogs: ServedCatalogs,
    settings: Settings,
    address: ListenAddress,
    workers: int,
    *,
    grace_seconds: float,
    started: Callable[[str], None],
) -> None:
    """Serve ``catalogs`` as :func:`reconciler.server.running.run` does, in ``workers`` processes.

    Raises:
        ConfigError: the server cannot listen on the address, a catalog is in the memory of one process, or a process
            cannot start.
    """
    from uvicorn.supervisors import Multiprocess

    if any(namespace.backend.in_process for namespace in catalogs.served):
        raise ConfigError("a catalog in memory is in one process: leave out --workers")
    with open_listener(address) as listener, tempfile.TemporaryDirectory(prefix="lancens-") as folder:
        app = _Worker(pickle.dumps((catalogs, settings.shared_by(workers))), Path(folder))
        # A new process begins in the working directory, whose modules it must not import.
        os.environ |= {"PYTHONSAFEPATH": "1", "PROMETHEUS_MULTIPROC_DIR": folder}
        started(address.url(listener.getsockname()[1]))
        supervisor = Multiprocess(uvicorn_config(app, grace_seconds, workers), [listener])
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise ConfigError("a process of the server cannot start; its log says why")


@dataclass(frozen=True, slots=True)
class _Worker:
    """Makes the application of a process; ``folder`` has what the processes share."""

    content: bytes
    """The pickled catalogs and settings. Catalogs connect as they are unpickled, once limits are shared."""
    folder: Path

    def __call__(self) -> ASGIApp:
        """Return the application."""
        from reconciler.backends.http.rate_limit import share_limits
        from reconciler.server.app import exit_if_calls_hang, make_app
        from reconciler.server.logs import logger, logging_to_stderr

        threading.Thread(target=_end_with_parent, daemon=True).start()
        self._forget_dead_processes()
        share_limits(self.folder)
        ending = ExitStack()
        ending.enter_context(logging_to_stderr())
        Finalize(None, ending.close, exitpriority=0)  # runs before the process waits for threads
        try:
            catalogs, settings = pickle.loads(self.content)  # noqa: S301 - from the parent
            app = make_app(catalogs, settings, self.folder)
        except Exception:  # noqa: BLE001 - the edge: another process would fail, too
            logger.exception("a process cannot start")
            sys.exit(STARTUP_FAILURE)
        ending.callback(exit_if_calls_hang, app)
        ending.enter_context(collector_of_server())
        return app

    def _forget_dead_processes(self) -> None:
        """Remove the requests in flight of processes that were killed, which this one may replace."""
        from prometheus_client.multiprocess import mark_process_dead

        for process in {int(path.stem.rpartition("_")[2]) for path in self.folder.glob("gauge_live*.db")}:
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                mark_process_dead(process, str(self.folder))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
