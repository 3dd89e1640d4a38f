"""uvicorn in a thread of a test."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import uvicorn

__all__ = ["Server"]


class Server(uvicorn.Server):
    """Says when it listens, and ends when it is told to, without looking ten times a second whether it was."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self._told = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self.listening.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._told.wait()

    def end(self) -> None:
        """Tell it, from another thread."""
        self._loop.call_soon_threadsafe(self._told.set)
