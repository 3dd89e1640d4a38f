"""Thousands of clients in one process: `python -m tests.server.crowd URL CLIENTS SECONDS` prints what they were told.

Each has a connection of its own, asks again as soon as it is answered, and a moment later where it is told to.
Somebody else asks for the server's health all the while.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

IDLE_SECONDS = 30
"""How long the server keeps a connection without a request."""
PATHS = (
    "/v1/namespace/%24/list",
    "/v1/namespace/a/table/list",
    "/v1/table/a%24t/describe",
    "/v1/table/a%24no/describe",
)


class Crowd:
    """What many clients of one server were answered: how often each status, and the slowest look at its health."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._host, self._port = host, port
        self._until = time.monotonic() + seconds
        self.told: Counter[str] = Counter()
        self.served: set[int] = set()
        self.health: Counter[str] = Counter()

    async def run(self, clients: int) -> None:
        await asyncio.gather(self._look(), *(self._ask(number) for number in range(clients)))

    def _goes_on(self) -> bool:
        return time.monotonic() < self._until

    async def _ask(self, number: int) -> None:
        while self._goes_on() or number not in self.served:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError as error:
                self.told[f"no connection: {error.strerror}"] += 1
                await asyncio.sleep(0.5)
                continue
            before = sent = time.monotonic()
            try:
                turn = number
                while self._goes_on() or number not in self.served:
                    path = PATHS[turn % len(PATHS)]
                    turn += 1
                    method = "GET" if path.endswith("list") else "POST"
                    before, sent = sent, time.monotonic()
                    status, again = await self._answer(reader, writer, method, path)
                    self.told[status if again is None else f"{status} Retry-After"] += 1
                    self.served.add(number)
                    if again is not None:
                        await asyncio.sleep(again)
            except (OSError, asyncio.IncompleteReadError):
                if sent - before < IDLE_SECONDS:  # a client that is later on a busy machine finds its connection ended
                    self.told["closed"] += 1
            finally:
                writer.close()

    async def _look(self) -> None:
        while self._goes_on():
            reader, writer = await asyncio.open_connection(self._host, self._port)
            status, _ = await self._answer(reader, writer, "GET", "/healthz")
            self.health[status] += 1
            writer.close()
            await asyncio.sleep(0.2)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str
    ) -> tuple[str, float | None]:
        body = "" if method == "GET" else "Content-Type: application/json\r\nContent-Length: 2\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{body}\r\n{'{}' if body else ''}".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        await reader.readexactly(int(fields["content-length"]))
        again = fields.get("retry-after")
        return head[0].split()[1], None if again is None else float(again)


def main(url: str, clients: int, seconds: float) -> None:
    parts = urlsplit(url)
    crowd = Crowd(parts.hostname or "", parts.port or 0, seconds)
    asyncio.run(crowd.run(clients))
    print(json.dumps({"told": crowd.told, "served": len(crowd.served), "health": crowd.health}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
