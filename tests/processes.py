"""Processes that write at once: forked from one that has imported what they need, and has opened nothing yet."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

__all__ = ["writers"]


def writers() -> ForkServerContext:
    """Return what makes the processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lance_namespace", "reconciler.backends.dir"])
    return context
