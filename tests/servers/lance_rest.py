"""Lance namespace servers: pylance's own adapter, and lancens' in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.process import HUNG_SECONDS

if TYPE_CHECKING:
    from reconciler.server.catalogs import ServedCatalogs
    from reconciler.server.guard import Settings
    from reconciler.server.sandbox import Sandbox

__all__ = ["adapter", "served"]


@contextmanager
def adapter(root: Path, **properties: str) -> Iterator[str]:
    """Yield the URL of pylance's RestAdapter over a directory; ``properties`` are more of the directory's."""
    import lance.namespace  # takes a second, and most tests need the others alone

    with lance.namespace.RestAdapter("dir", {"root": str(root), **properties}, port=0) as running:
        yield f"http://127.0.0.1:{running.port}"


@contextmanager
def served(catalogs: ServedCatalogs, settings: Settings | None = None, sandbox: Sandbox | None = None) -> Iterator[str]:
    """Yield the URL of lancens' own server over ``catalogs``, in this process.

    With a ``sandbox``, it starts no processes of its own for what clients have it evaluate.
    """
    # Most tests have this module for pylance's, and import none of what ours needs.
    from reconciler.server.app import make_app
    from reconciler.server.running import uvicorn_config
    from tests.servers.uvicorn_thread import Server

    config = uvicorn_config(make_app(catalogs, settings), grace_seconds=1)
    for namespace in catalogs.served if sandbox else ():
        namespace.sandbox = sandbox
    config.port = 0
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.listening.wait(HUNG_SECONDS)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.end()
        thread.join()
