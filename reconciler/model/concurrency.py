"""Doing the same for many things at once, up to a bound, all of it or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

DEFAULT_PARALLELISM = 8
"""How many requests are in flight, and how many changes at once, unless somebody says otherwise."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(function: Callable[[ItemT], ResultT], items: Iterable[ItemT], concurrency: int) -> list[ResultT]:
    """Return ``function`` of every item, in the order of the items, ``concurrency`` of them at a time.

    The first item that fails, in that order, raises its error; what has not begun by then is not begun.
    """
    todo = list(items)
    if len(todo) <= 1:
        return [function(item) for item in todo]
    pool = ThreadPoolExecutor(max_workers=min(concurrency, len(todo)))
    context = copy_context()  # what surrounds the caller's work surrounds its parts
    try:
        return list(pool.map(lambda item: context.copy().run(function, item), todo))
    finally:
        pool.shutdown(cancel_futures=True)
