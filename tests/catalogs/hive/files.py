"""Proof that nothing happened to files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["digests"]


def digests(root: Path) -> Mapping[str, str]:
    """Return a digest of every file below ``root``, hidden ones included."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
