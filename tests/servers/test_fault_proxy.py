"""Test that the proxy's faults are what they are named: a harness whose faults are none finds nothing."""

from __future__ import annotations

import json
import socket

import pytest
import requests
from hypothesis import example, given
from hypothesis import strategies as st

from tests.servers.fault_proxy import THRIFT_FAULTS, Fault, fault_proxy
from tests.servers.listening import socket_server

DOCUMENTS = st.dictionaries(
    st.text(), st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | inner), min_size=1
)


@given(document=DOCUMENTS)
@example(document={"a": 10, "b": 2})  # whose first half ends where an object could
def test_a_damaged_answer_is_as_long_and_never_json(document: dict[str, object]) -> None:
    content = json.dumps(document).encode()

    def answer(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
        client.close()

    with socket_server(answer) as port, fault_proxy(port, "http") as proxy:
        proxy.reset(lambda _: Fault.DAMAGED)
        damaged = requests.get(proxy.url, timeout=10, proxies={"http": ""}).content
    assert len(damaged) == len(content)
    with pytest.raises(json.JSONDecodeError):
        json.loads(damaged)


@pytest.mark.parametrize("fault", [Fault.BROKEN_OFF, Fault.STALLED])
def test_half_of_an_answer_of_thrift_comes(fault: Fault) -> None:
    message = b"\x80\x01\x00\x02\x00\x00\x00\x04call\x00\x00\x00\x00\x00"  # strict, and an empty structure

    def answer(client: socket.socket) -> None:
        client.recv(1 << 16)
        client.sendall(message)
        client.close()

    with socket_server(answer) as port, fault_proxy(port, "thrift") as proxy:
        proxy.reset(lambda _: fault)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client:
            client.sendall(message)
            assert client.recv(1 << 16) == message[: len(message) // 2]
            with pytest.raises(ConnectionResetError if fault is Fault.BROKEN_OFF else TimeoutError):
                client.recv(1)
    assert fault in THRIFT_FAULTS
