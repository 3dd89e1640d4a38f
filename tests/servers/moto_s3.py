"""moto's S3 in a process of its own, which takes any key: ``python -m tests.servers.moto_s3 PORT``.

moto's own command asks for each request which of all services it is for, which takes half of the time of a small one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.servers.process import free_port, running, status_of

__all__ = ["SilentHandler", "moto_s3"]


class SilentHandler(MotoRequestHandler):
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
    app = create_backend_app("s3")
    make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=SilentHandler).serve_forever()
