"""The packages that lancens is measured against, each in an environment of its own that is made once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["OCTODNS", "PEER", "peer_python"]

PEER = "lance-namespace-impls[hive3,glue]==0.4.2"
OCTODNS = "octodns==1.22.0"


def peer_python(package: str) -> Path:
    """Return the interpreter of an environment with ``package`` and all it depends on."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancens"
    folder = base / ("environment-" + "".join(letter if letter.isalnum() else "-" for letter in package))
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=base)) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
        subprocess.run([str(made / "bin/python"), "-m", "pip", "install", "-q", package], check=True)
        made.rename(folder)
        made.parent.rmdir()
    return folder / "bin/python"
