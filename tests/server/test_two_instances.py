"""Two instances behind one address, of which one is killed: a client that retries notices nothing."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from reconciler.backends.dir import DirBackend
from tests.server.command import started
from tests.servers.listening import socket_server

TABLES = 40


@contextmanager
def balanced(ports: list[int]) -> Iterator[str]:
    """Yield the address of a balancer that gives each connection to the next instance that accepts it."""
    turn = itertools.cycle(range(len(ports)))

    def each(client: socket.socket) -> None:
        start = next(turn)
        for at in range(len(ports)):
            with suppress(ConnectionRefusedError):
                server = socket.create_connection(("127.0.0.1", ports[(start + at) % len(ports)]))
                break
        else:
            return
        with server:
            back = threading.Thread(target=_copied, args=(server, client), daemon=True)
            back.start()
            _copied(client, server)
            back.join()

    with socket_server(each) as port:
        yield f"http://127.0.0.1:{port}"


def _copied(origin: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while content := origin.recv(65536):
            to.sendall(content)
    for end in (origin, to):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def test_a_client_survives_an_instance_that_is_killed(tmp_path: Path) -> None:
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    for number in range(TABLES):
        backend.insert_table(("a", f"t{number:02}"), str(tmp_path / f"lake/t{number:02}.lance"), {})
    with ExitStack() as stack:
        running = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            arguments = ("--impl", "dir", "--config", f"root={tmp_path / 'lake'}")
            running.append(stack.enter_context(started(*arguments, folder=tmp_path / name)))
        ports = [urlsplit(address).port or 0 for _, address in running]
        address = stack.enter_context(balanced(ports))
        client = urllib3.PoolManager(retries=urllib3.Retry(total=5, allowed_methods=None, backoff_factor=0.01))
        found = [_page(client, address, token) for token in _tokens(kill=running[0][0].kill)]
    assert sorted(itertools.chain(*found)) == [f"t{number:02}" for number in range(TABLES)]


def _tokens(kill: Callable[[], None]) -> Iterator[str]:
    """Yield the token of every page of four, and kill an instance on the way."""
    for at in range(0, TABLES, 4):
        if at == TABLES // 2:
            kill()
        yield f"t{at - 1:02}" if at else ""


def _page(client: urllib3.PoolManager, address: str, token: str) -> list[str]:
    answer = client.request("GET", f"{address}/v1/namespace/a/table/list?limit=4&page_token={token}")
    assert answer.status == 200
    names: list[str] = answer.json()["tables"]
    return names
