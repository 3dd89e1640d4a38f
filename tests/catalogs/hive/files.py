"""Real datasets, and proof that nothing happened to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["digests", "write_dataset"]


def write_dataset(place: Path, rows: int = 3) -> None:
    """Write a dataset with one column."""
    import lance
    import pyarrow as pa

    lance.write_dataset(pa.table({"id": list(range(rows))}), str(place))


def digests(root: Path) -> Mapping[str, str]:
    """Return a digest of every file below ``root``, hidden ones included."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
