"""``impl: dir``: a directory or bucket, in the format of pylance's namespace."""

from __future__ import annotations

from reconciler.backends.dir.backend import DirBackend
from reconciler.backends.dir.config import DirConfig

__all__ = ["DirBackend", "DirConfig"]
