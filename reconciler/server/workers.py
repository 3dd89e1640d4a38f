"""The threads in which catalogs are asked, so that nobody else waits for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


class Workers:
    """At most ``most`` calls at once; the others wait for their turn, and are not made where nobody waits any more."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "catalogs")
        self._lock = threading.Lock()
        self._active = 0

    @property
    def active(self) -> int:
        """How many calls go on, those that nobody waits for any more among them."""
        return self._active

    async def run(self, call: Callable[[], AnswerT]) -> AnswerT:
        """Return what ``call`` does. Cancelled, a call that has begun is left to end, and keeps its turn until then."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._counted, call)

    def _counted(self, call: Callable[[], AnswerT]) -> AnswerT:
        with self._lock:
            self._active += 1
        try:
            return call()
        finally:
            with self._lock:
                self._active -= 1
