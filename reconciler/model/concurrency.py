"""Bounded concurrency: one function over many items, all results or the first error."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
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
    # Workers take items from one queue: a future for each would cost more than a look at a local file.
    pending, failures = deque(enumerate(todo)), dict[int, BaseException]()
    results: dict[int, ResultT] = {}
    context = copy_context()  # workers see the caller's context variables

    def work() -> None:
        while True:
            try:
                position, item = pending.popleft()
            except IndexError:
                return
            try:
                results[position] = context.copy().run(function, item)
            except BaseException as error:
                failures[position] = error
                pending.clear()
                raise

    with ThreadPoolExecutor(max_workers=min(concurrency, len(todo))) as pool:
        try:
            wait([pool.submit(work) for _ in range(min(concurrency, len(todo)))])
        finally:
            pending.clear()
    if failures:
        raise failures[min(failures)]
    return [results[position] for position in range(len(todo))]
