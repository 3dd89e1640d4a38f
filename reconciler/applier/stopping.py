"""Stop a run at a signal: changes in flight finish, no other starts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def stop_on_signals(stop: Event, on_stop: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Set ``stop`` at the first SIGINT or SIGTERM, and call ``on_stop``; a second one of its kind acts as usual.

    GitHub's runner cancels a job by SIGINT, and by SIGTERM some seconds later: what is in flight may go on meanwhile.
    """

    def on_signal(number: int, _frame: object) -> None:
        signal.signal(number, previous[signal.Signals(number)])
        if not stop.is_set():
            stop.set()
            on_stop()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
