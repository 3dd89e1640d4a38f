"""What forks of ``lancens`` do first that are killed at a point of their work, or whose disk fills up."""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import lance.fragment

from reconciler.backends.dir.contents import ManifestRows
from reconciler.backends.dir.manifest import DirManifest
from reconciler.storage.files import ObjectFolder

__all__ = ["BATCHES", "after_calls", "after_changes", "at_write", "in_batch", "with_full_disk"]

BATCHES = "batches.jsonl"


def _die() -> NoReturn:
    """End this process: somebody who watches it might be slower than what is left of its work."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the process is gone")


def after_changes(lives: int) -> None:
    """Die when so many changes are shown as done."""
    genuine, left = sys.stderr.write, lives

    def write(text: str) -> int:
        nonlocal left
        written = genuine(text)
        left -= text.count("✓")
        if left <= 0:
            _die()
        return written

    sys.stderr.write = write  # type: ignore[method-assign]


def at_write(lives: int, after: bool) -> None:
    """Die at a call that creates an object or changes the directory, before or after it."""
    left = lives

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            is_last = left == 0  # another call may begin before this one ends
            if is_last and not after:
                _die()
            answer = call(*args, **more)
            if is_last:
                _die()
            return answer

        return called

    for owner, name in ((ObjectFolder, "create"), (DirManifest, "commit")):
        setattr(owner, name, deadly(getattr(owner, name)))


def in_batch(number: int, point: str) -> None:
    """Die in commit ``number`` of a directory's changes, or in the first later one of several changes.

    What each commit is about is noted in :data:`BATCHES`.
    """
    commit, write, begun, changes = DirManifest.commit, lance.fragment.write_fragments, 0, 0

    def reached(here: str) -> None:
        if begun >= number and changes > 1 and here == point:
            _die()

    def logged(manifest: DirManifest, before: ManifestRows, after: ManifestRows) -> bool:
        nonlocal begun, changes
        begun, changes = begun + 1, len(after.changed)
        rows = {name: row and [row.object_type, row.location, row.metadata] for name, row in after.changed.items()}
        with Path(BATCHES).open("a") as file:
            file.write(json.dumps(rows) + "\n")
        reached("read")
        is_made = commit(manifest, before, after)
        reached("committed")
        return is_made

    def written(*arguments: Any, **more: Any) -> Any:
        fragments = write(*arguments, **more)
        reached("written")
        return fragments

    for owner, name, call in ((DirManifest, "commit", logged), (lance.fragment, "write_fragments", written)):
        setattr(owner, name, call)


def after_calls(calls: int, later: float) -> None:
    """Die ``later`` than so many calls of pylance; where that is never, print how many there were."""
    left = calls

    def count(frame: FrameType, _event: str, _what: object) -> None:
        nonlocal left
        if "/reconciler/storage/" in frame.f_code.co_filename or "/lance/" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                threading.Timer(later, _die).start()

    threading.setprofile(count)
    atexit.register(lambda: print(-left))


def with_full_disk(largest: int) -> None:
    """Fail writes beyond this size of a file, as on a full disk; Python ignores the signal that comes with it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
