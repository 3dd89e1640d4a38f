"""The packages that lancens is measured against: those of `peers.lock`, in an environment of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["PEERS", "peer_version"]

PEERS = Path(sys.prefix) / "peers" / "bin"
"""The commands of the environment; `make bench` makes it."""

_LOCK = Path(__file__).parents[1] / "peers.lock"


def peer_version(name: str) -> str:
    """Return a package and its version."""
    found = re.search(rf"^{name}==(\S+)", _LOCK.read_text("utf-8"), re.MULTILINE)
    assert found is not None, name
    return f"{name} {found[1]}"
