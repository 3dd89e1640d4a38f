"""A TCP proxy that holds everything back for a while in both directions: ``PORT TARGET_PORT SECONDS``.

It is a process of its own, so that its work is not counted as that of whoever is measured through it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import HUNG_SECONDS, free_port, running

__all__ = ["slow_proxy"]


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Pass on what comes, each piece ``seconds`` after it came, in order."""
    loop = asyncio.get_running_loop()
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            moment, piece = await due.get()
            await asyncio.sleep(max(0.0, moment - loop.time()))
            if not piece:
                writer.close()
                return
            writer.write(piece)

    sending = asyncio.create_task(send())
    try:
        while piece := await reader.read(65536):
            due.put_nowait((loop.time() + seconds, piece))
    except ConnectionError:
        pass
    due.put_nowait((loop.time() + seconds, b""))
    await sending


async def _serve(port: int, target: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_relay(reader, back, seconds), _relay(there, writer, seconds))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


@contextmanager
def slow_proxy(target: int, seconds: float, directory: Path) -> Iterator[int]:
    """Run the proxy in front of the server on port ``target`` until the block ends; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "tests.servers.slow_proxy", str(port), str(target), str(seconds)]
    with running(command, directory / f"proxy-{port}.log", lambda: _listens(port)):
        yield port


def _listens(port: int) -> bool:
    socket.create_connection(("127.0.0.1", port), timeout=HUNG_SECONDS).close()
    return True


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
