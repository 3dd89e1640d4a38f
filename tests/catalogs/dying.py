"""A process that ends at any call that writes, before it or after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler import storage
from reconciler.backends.base import Backend

__all__ = ["Death", "Writes", "dying", "writes_of"]

Writes = Sequence[tuple[object, str]]
"""What has the calls that write, and their names."""

_OF_A_BACKEND = (
    "insert_namespace",
    "remove_namespace",
    "insert_table",
    "remove_table",
    "alter_table",
    "rename_table",
    "show_columns",
)


def writes_of(backend: type[Backend]) -> Writes:
    """Return the calls that write to a catalog, and those that change the columns and the tags of a dataset."""
    return [
        *((backend, name) for name in _OF_A_BACKEND if hasattr(backend, name)),
        (storage, "create_empty"),
        (storage, "add_columns"),
        (storage, "evolve_columns"),
        (storage, "annotate_columns"),
        (storage, "write_tags"),
    ]


class Death(BaseException):
    """The process is killed."""


@dataclass
class _Deaths:
    happened: bool = False
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def dying(writes: Writes, cut: int) -> Iterator[_Deaths]:
    """Die at the call that writes with the number ``cut // 2``: before it where ``cut`` is even, else after it."""
    deaths = _Deaths()

    def deadly(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            with deaths.lock:
                number, deaths.calls = deaths.calls, deaths.calls + 1
            if number == cut // 2 and cut % 2 == 0:
                deaths.happened = True
                raise Death
            answer = method(*given, **named)
            if number == cut // 2:
                deaths.happened = True
                raise Death
            return answer

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in writes:
            patch.setattr(owner, name, deadly(getattr(owner, name)))
        yield deaths
