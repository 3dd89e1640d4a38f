"""Pause Python's garbage collector, or let it run as seldom as the work allows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would walk millions of new objects without cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collector_of_server() -> Iterator[None]:
    """Leave what a server was started with alone, and collect what its connections leave.

    With Python's own thresholds that takes much of the CPU of a request; with those of a command, which ends soon,
    memory grows.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
