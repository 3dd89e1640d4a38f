"""Jar folders from Maven, kept between runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.servers.require import missing, tool

__all__ = ["cache_directory", "jars"]

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOAD_SECONDS = 600


def cache_directory() -> Path:
    """Return where what is slow to fetch is kept."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lancens"
    base.mkdir(parents=True, exist_ok=True)
    return base


def jars(pom: Path) -> Path:
    """Return a folder with the runtime dependencies of ``pom``, fetched once for each content of it."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    folder = cache_directory() / f"{pom.stem}-{digest}"
    if folder.is_dir():
        return folder
    maven = tool("mvn")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        output = Path(scratch) / "jars"
        command = [maven, "-B", "-q", "-ntp", "-f", str(pom), _PLUGIN]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={output}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False)
        if done.returncode != 0:
            missing(f"maven could not fetch the jars of {pom.name}: {done.stdout[-500:]}{done.stderr[-500:]}")
        try:
            output.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another run was faster, with the same jars
                raise
    return folder
