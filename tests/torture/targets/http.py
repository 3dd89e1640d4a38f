"""A plain HTTP client for reading what a server truly has."""

from __future__ import annotations

from typing import Any

import urllib3

__all__ = ["Plain"]


class Plain:
    """Sends requests below one address; any answer but those expected is an error."""

    def __init__(self, address: str, **headers: str) -> None:
        self._address, self._headers, self._pool = address, headers, urllib3.PoolManager(retries=False)

    def __call__(self, method: str, path: str, body: object = None, *, may: tuple[int, ...] = ()) -> Any:
        """Return the decoded answer, None for one of the statuses that may be, or for an empty one."""
        answer = self._pool.request(method, self._address + path, json=body, headers=self._headers, timeout=60)
        if answer.status in may:
            return None
        assert answer.status < 300, (method, path, answer.status, answer.data[:300])
        text = answer.data.strip()
        return answer.json() if text[:1] in (b"{", b"[") else None
