"""``impl: dir``: a directory or bucket, in the format of pylance's namespace."""

from __future__ import annotations

from reconciler.backends.dir.backend import DirBackend, DirConfig

__all__ = ["DirBackend", "DirConfig"]
