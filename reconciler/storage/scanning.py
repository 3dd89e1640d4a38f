"""Read all rows of a version in other processes: a damaged page may end the process that decodes it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from reconciler.model.errors import InternalError, InvalidTableStateError
from reconciler.storage.opening import open_dataset
from reconciler.storage.pylance import translated
from reconciler.storage.rewrites import batch_rows

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_turns = BoundedSemaphore(os.cpu_count() or 1)
_idle: list[ProcessPoolExecutor] = []
"""Pools of one process each, so that it is known which fragment has ended one."""
atexit.register(_idle.clear)  # while the modules that pools need are still there
_last: dict[tuple[str, int, frozenset[tuple[str, str]]], Any] = {}


def unreadable_fragments(location: str, options: Mapping[str, str], version: int, fragments: int) -> Iterator[int]:
    """Yield the positions of those of the first ``fragments`` of a version that pylance cannot read.

    Raises:
        PermissionDeniedError, ServiceUnavailableError: as for :func:`translated`.
        InternalError: no process can be started.
    """
    from concurrent.futures.process import BrokenProcessPool

    with _turns:
        pool = _idle.pop() if _idle else None
        try:
            for position in range(fragments):
                pool = pool or _new_pool()
                try:
                    is_readable = pool.submit(_is_readable, location, options, version, position).result()
                except BrokenProcessPool:
                    is_readable, pool = False, None
                if not is_readable:
                    yield position
        finally:
            _idle.extend([pool] if pool is not None else [])


def _new_pool() -> ProcessPoolExecutor:
    """Start a process.

    Raises:
        InternalError: it ends at once, as in a script that calls an audit when it is imported.
    """
    import multiprocessing
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    try:
        pool.submit(os.getpid).result()
    except BrokenProcessPool:
        raise InternalError(
            'the process that reads rows cannot be started: call the audit below `if __name__ == "__main__":`'
        ) from None
    return pool


def _is_readable(location: str, options: Mapping[str, str], version: int, position: int) -> bool:
    """Return whether a fragment has as many rows as its version says, all of them valid in Arrow."""
    try:
        with translated(location, options):
            fragment = _opened(location, options, version).get_fragments()[position]
            rows, expected = 0, fragment.count_rows()
            for batch in fragment.scanner(batch_size=batch_rows([fragment])).to_batches():
                batch.validate(full=True)
                rows += batch.num_rows
    except (InvalidTableStateError, InternalError):
        return False
    return bool(rows == expected)


def _opened(location: str, options: Mapping[str, str], version: int) -> Any:
    """Open a version, unless it was the last one here."""
    key = location, version, frozenset(options.items())
    if key not in _last:
        _last.clear()
        _last[key] = open_dataset(location, options, version=version)
    return _last[key]
