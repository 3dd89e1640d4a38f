"""A real browser, where one is installed, without a network: run once a page, or driven for what a person does."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tests.servers.require import missing

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
# The DevTools protocol has its pipes at these descriptors.
_WITH_PIPES = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass(frozen=True)
class Visit:
    """The page as it was after its script ran, what the console said, and the addresses it asked for."""

    dom: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


def executable() -> str:
    """Return the browser to use; without one the test is skipped, or fails in continuous integration."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        missing(f"no browser: none of {', '.join(_NAMES)} is installed; `make system` says what to do")
    return found


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


class Driver:
    """A page that is looked at and worked with as a person would, over the browser's DevTools protocol."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._session: str | None = None
        self.faults: list[str] = []

    def open(
        self,
        page: Path,
        fragment: str = "",
        *,
        dark: bool = False,
        scripts: bool = True,
        width: int = 1280,
        height: int = 900,
    ) -> None:
        """Open ``page`` in a window of this many pixels, and wait until its script has run."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url=f"{page.as_uri()}#{fragment}")
        self._wait_for("Page.loadEventFired")

    def evaluate(self, script: str) -> Any:
        """Return what ``script`` comes to in the page, after what it promises."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other: a character, or ``Tab``, ``Enter``, ``Escape``."""
        texts = {"Enter": "\r", "Tab": "", "Escape": ""}
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        for key in keys:
            text = texts.get(key, key)
            pressed = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
            self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
            self._call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def picture(self, path: Path) -> None:
        """Write what the window shows to ``path``."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _wait_for(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        message: dict[str, Any] = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.faults.append(json.dumps(message["params"]))
        return message


@contextmanager
def driven(folder: Path) -> Iterator[Driver]:
    """Start a browser to drive, and end it after the block; ``folder`` takes its files."""
    theirs_to_read, commands = os.pipe()
    answers, theirs_to_write = os.pipe()
    # Out of the way of the descriptors that they are to have.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_to_read, theirs_to_write)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _WITH_PIPES, *map(str, ends), executable(), *_FLAGS),
            *(f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=ends,
    )
    for end in (theirs_to_read, theirs_to_write, *ends):
        os.close(end)
    try:
        with os.fdopen(commands, "wb") as written, os.fdopen(answers, "rb") as read:
            yield Driver(written, read)
    finally:
        process.terminate()
        process.wait(timeout=60)
