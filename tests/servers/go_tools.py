"""Commands written in Go, built once from the Go module proxy and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.servers.jars import cache_directory
from tests.servers.require import missing, tool

__all__ = ["act", "actionlint"]

_ACT = ("github.com/nektos/act", "v0.2.89")
_ACTIONLINT = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")


def act() -> Path:
    """Return the command that runs workflows on this machine."""
    return _built(*_ACT)


def actionlint() -> Path:
    """Return the command that checks workflows."""
    return _built(*_ACTIONLINT)


def _built(package: str, version: str) -> Path:
    name = package.rpartition("/")[2]
    folder = cache_directory()
    target = folder / f"{name}-{version}"
    if target.exists():
        return target
    go = tool("go")
    # Built aside and moved into place, so that two runs at once never see half of it.
    with tempfile.TemporaryDirectory(dir=folder) as building:
        done = subprocess.run(
            [go, "install", f"{package}@{version}"],
            env={**os.environ, "GOBIN": building},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            missing(f"{name} {version} could not be built: {done.stderr[-500:]}")
        shutil.move(Path(building, name), target)
    return target
