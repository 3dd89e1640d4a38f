"""Plain requests to a server, with nothing in between that would mend them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import urllib3

__all__ = ["Api", "Reply"]


class Reply:
    """A status, headers, and the body as JSON where it is some."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.text = answer.data.decode("utf-8", "replace")
        self._answer = answer

    @property
    def json(self) -> Any:
        return self._answer.json()

    @property
    def error(self) -> tuple[int, int]:
        """The status and the code of a refusal."""
        return self.status, self.json["code"]


class Api:
    """One connection to a server, with a token where one is given."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self._pool = urllib3.HTTPConnectionPool(self.host, self.port, timeout=30, retries=False, maxsize=1)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(
        self, method: str, path: str, body: object = None, *, data: bytes | None = None, **headers: str
    ) -> Reply:
        """Send ``body`` as JSON, or ``data`` as it is; ``content_type`` is the header Content-Type."""
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if data is not None:
            return Reply(self._pool.urlopen(method, path, body=data, headers=sent))
        if body is None:
            return Reply(self._pool.urlopen(method, path, headers=sent))
        return Reply(self._pool.request(method, path, json=body, headers=sent))

    def close(self) -> None:
        self._pool.close()
