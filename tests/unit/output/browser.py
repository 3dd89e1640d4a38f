"""A real browser, where one is installed, run once a page and without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
_CONSOLE = re.compile(r":CONSOLE[:(]\d+\)?\] (.*)")
_NO_INITIATOR = "not an origin"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
)


@dataclass(frozen=True)
class Visit:
    """The page as it was after its script ran, what the console said, and the addresses it asked for."""

    dom: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


def executable() -> str:
    """Return the browser to use; without one the test is skipped, or fails in continuous integration."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    message = f"no browser: none of {', '.join(_NAMES)} is installed"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def visit(page: Path, folder: Path, fragment: str = "") -> Visit:
    """Open ``page`` with the given fragment of its address; ``folder`` takes the browser's files."""
    log = folder / "requests.json"
    done = subprocess.run(
        [
            executable(),
            *_FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            "--dump-dom",
            f"{page.as_uri()}#{fragment}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    console = tuple(found[1] for line in done.stderr.splitlines() if (found := _CONSOLE.search(line)))
    return Visit(done.stdout, console, tuple(_requests(log)))


def _requests(log: Path) -> list[str]:
    """Return the addresses the page asked for; what the browser does on its own account has no initiator."""
    document = json.loads(log.read_text(encoding="utf-8"))
    started = document["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    found = (event.get("params", {}) for event in document["events"] if event["type"] == started)
    return [request["url"] for request in found if request.get("initiator", _NO_INITIATOR) != _NO_INITIATOR]
