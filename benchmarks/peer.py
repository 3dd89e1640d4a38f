"""The package that lancens is measured against, installed beside it and not into it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["PEER", "environment"]

PEER = "lance-namespace-impls==0.4.2"


def environment() -> dict[str, str]:
    """Return the environment of a process that can import the peer; it is fetched once.

    Its own dependencies are left out: lancens has newer ones of the same packages, which it runs on.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancens"
    folder = base / PEER.replace("==", "-")
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=base) as scratch:
            output = Path(scratch) / "packages"
            install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(output), PEER]
            subprocess.run(install, check=True)
            output.rename(folder)
    paths = [str(folder), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
