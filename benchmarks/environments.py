"""Find the packages of `peers.lock`, which lancens is measured against."""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["PEERS", "peer_version"]

PEERS = Path(sys.prefix) / "peers" / "bin"
"""The commands of their virtual environment, which `make bench` creates."""

_LOCK = Path(__file__).parents[1] / "peers.lock"


def peer_version(name: str) -> str:
    """Return the name and the locked version of a package."""
    found = re.search(rf"^{name}==(\S+)", _LOCK.read_text("utf-8"), re.MULTILINE)
    assert found is not None, name
    return f"{name} {found[1]}"
