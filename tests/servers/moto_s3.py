"""moto's S3, which takes any key, in a thread or as a process: ``python -m tests.servers.moto_s3 PORT``.

moto's own command asks for each request which of all services it is for, which takes half of the time of a small one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.servers.process import free_port, running, status_of

__all__ = ["moto_s3", "s3_application", "serving"]


_POLL_SECONDS = 0.01


def s3_application() -> Any:
    """Return moto's S3; all of one process share their objects."""
    return create_backend_app("s3")


@contextmanager
def serving(application: Any) -> Iterator[str]:
    """Answer with ``application`` in a thread until the block ends; yield its address."""
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_SilentHandler)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _SilentHandler(MotoRequestHandler):
    """Prints no line for a request."""

    def log_request(self, *_: object) -> None:
        """Leave a request out of the log."""


@contextmanager
def moto_s3(folder: Path) -> Iterator[str]:
    """Run S3 until the block ends, with a log in ``folder``; yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.servers.moto_s3", str(port)]
    log, root = folder / f"s3-{port}.log", Path(__file__).parents[2]
    with running(command, log, lambda: status_of("GET", url) == 200, directory=root):
        yield url


if __name__ == "__main__":
    app, port = s3_application(), int(sys.argv[1])
    make_server("127.0.0.1", port, app, threaded=True, request_handler=_SilentHandler).serve_forever()
