"""``impl: dir``: a plain directory or bucket, as pylance's own directory namespace keeps it."""

from __future__ import annotations

from reconciler.backends.dir.backend import DirBackend, DirConfig

__all__ = ["DirBackend", "DirConfig"]
