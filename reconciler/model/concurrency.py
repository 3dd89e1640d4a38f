"""Bounded concurrency: one function over many items, all results or the first error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

DEFAULT_PARALLELISM = 8
"""The default for requests in flight and for changes at once."""

MOST_PARALLELISM = 256
"""The most that users can ask for."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(function: Callable[[ItemT], ResultT], items: Iterable[ItemT], concurrency: int) -> list[ResultT]:
    """Return the result of ``function`` for every item, in order; ``concurrency`` of them run at a time.

    The first item that fails, in that order, raises its error; items that have not started by then never do.
    """
    todo = list(items)
    if len(todo) <= 1 or concurrency == 1:
        return [function(item) for item in todo]
    pool = ThreadPoolExecutor(max_workers=min(concurrency, len(todo)))
    context = copy_context()  # workers see the caller's context variables
    try:
        return list(pool.map(lambda item: context.copy().run(function, item), todo))
    finally:
        pool.shutdown(cancel_futures=True)
