"""Signals during an apply."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Event

import pytest

from reconciler.applier.stopping import stop_on_signals


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("first", "other"), [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)], ids=["SIGINT", "SIGTERM"]
)
def test_the_second_signal_of_a_kind_ends_the_program(first: signal.Signals, other: signal.Signals) -> None:
    stop, told = Event(), list[str]()
    with stop_on_signals(stop, lambda: told.append("stopping")):
        signal.raise_signal(first)
        assert stop.is_set()
        signal.raise_signal(other)  # GitHub's runner sends it some seconds after SIGINT
        assert told == ["stopping"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(first)
    assert signal.getsignal(first) is signal.default_int_handler
