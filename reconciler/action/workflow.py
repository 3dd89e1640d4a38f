"""What is written to the log of a step: workflow commands, and text that must not be taken for one.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands. The runner acts on a line that
begins with ``::`` and on ``##[`` anywhere in a line, so foreign text is printed between ``::stop-commands::TOKEN`` and
``::TOKEN::`` with a token nobody can know.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Level = Literal["notice", "warning", "error"]

_SHORTEST_MASK = 4


def annotate(level: Level, message: str, *, title: str, file: str = "", line: int = 0, column: int = 0) -> None:
    """Print the command that puts ``message`` beside a line of a file, or on the page of the run."""
    place = {"file": file, "line": str(line or ""), "col": str(column or ""), "title": title}
    properties = ",".join(f"{key}={_property(value)}" for key, value in place.items() if value)
    _print(f"::{level} {properties}::{_data(message)}")


def mask(secret: str) -> None:
    """Make the runner replace ``secret`` wherever a log would show it; the runner does not print this command.

    A text of several lines is masked line by line, as the log is.
    """
    for line in secret.splitlines():
        if len(line.strip()) >= _SHORTEST_MASK:
            _print(f"::add-mask::{_data(line)}")


@contextmanager
def verbatim(title: str) -> Iterator[None]:
    """Let nothing that is printed inside be taken for a command; it stands in a group of its own."""
    token = secrets.token_hex(16)
    _print(f"::group::{_data(title)}")
    _print(f"::stop-commands::{token}")
    try:
        yield
    finally:
        _print(f"::{token}::")
        _print("::endgroup::")


def _print(command: str) -> None:
    print(command, flush=True)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
