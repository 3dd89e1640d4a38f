"""SASL's messages and frames, from a server that keeps to nothing."""

from __future__ import annotations

from io import BytesIO
from struct import pack

import pytest
from thrift.transport.TTransport import TTransportBase, TTransportException

from reconciler.backends.hive.sasl import PasswordLogin, SaslCarrier, TicketLogin

_OK, _COMPLETE = 2, 5


class Replies(TTransportBase):  # type: ignore[misc]
    """A connection whose other side has said everything already."""

    def __init__(self, replies: bytes) -> None:
        self.left = BytesIO(replies)

    def read(self, sz: int) -> bytes:
        return self.left.read(sz)


class Unfinished(TicketLogin):
    """A ticket whose server has proved nothing yet."""

    def __init__(self) -> None:
        pass

    def respond(self, challenge: bytes) -> bytes:
        return b"token"


def test_the_server_cannot_end_a_login_in_which_it_has_proved_nothing() -> None:
    with pytest.raises(TTransportException) as refused:
        SaslCarrier(Replies(pack(">BI", _COMPLETE, 0)), Unfinished())
    assert refused.value.type == TTransportException.NOT_OPEN


def test_a_challenge_without_end_is_not_read() -> None:
    replies = Replies(pack(">BI", _OK, 0x7FFFFFFF) + b"abc")
    with pytest.raises(TTransportException) as refused:
        SaslCarrier(replies, PasswordLogin("lancens", "hunter22"))
    assert refused.value.type == TTransportException.SIZE_LIMIT
    assert replies.left.read() == b"abc"


def test_an_answer_may_come_in_several_frames() -> None:
    frames = b"".join(pack(">I", len(part)) + part for part in (b"ab", b"", b"cde"))
    carrier = SaslCarrier(Replies(pack(">BI", _COMPLETE, 0) + frames), PasswordLogin("lancens", "hunter22"))
    assert carrier.readAll(5) == b"abcde"
