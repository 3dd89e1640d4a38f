"""What each test costs in CPU seconds, its children included: kept in the reports that pytest leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

__all__ = ["Cost", "tree_seconds"]

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_seconds() -> float:
    """Return the CPU seconds that this process and all below it have taken, those that have ended included."""
    ended = os.times()
    spent = time.process_time() + ended.children_user + ended.children_system
    return spent + sum(_below(os.getpid())) if _has_children() else spent


def _has_children() -> bool:
    """Tell in one call what `_below` would read of every thread; most tests have no children."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _below(pid: int) -> Iterator[float]:
    for child in _children(pid):
        yield _seconds(child)
        yield from _below(int(child))


def _children(pid: int) -> list[str]:
    """Return the processes that a process has started; a process or thread that ends meanwhile has none."""
    children: list[str] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a JVM has many, and each test looks at them
            with suppress(OSError):
                children += _read(f"/proc/{pid}/task/{thread}/children").split()
    return children


def _read(path: str) -> str:
    """Return what a file of /proc says, in a third of the time that `Path` takes."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1 << 16).decode()
    finally:
        os.close(file)


def _seconds(pid: str) -> float:
    """Return what a process and its children that have ended have taken; 0 for one that is gone."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / _TICKS


class Cost:
    """Notes in each test's report what it took from the end of the one before, so that its fixtures count.

    What collecting all tests took counts for none of them.
    """

    def __init__(self) -> None:
        self._seen = tree_seconds()

    def pytest_collection_finish(self) -> None:
        self._seen = tree_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        before, self._seen = self._seen, tree_seconds()
        item.user_properties.append(("cpu", f"{self._seen - before:.2f}"))
        return result
