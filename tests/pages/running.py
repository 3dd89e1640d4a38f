"""How the tests type what a section has a reader type, in a folder that is like the reader's."""

from __future__ import annotations

import io
import os
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, chdir, closing, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from unittest.mock import patch

import pytest

from tests.pages.blocks import Block, Section
from tests.servers.process import HUNG_SECONDS, free_port, running

__all__ = ["Place", "Run"]

_ANSWERS = b"yes\n" * 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a section is typed: a folder, what stands there in the place of the page's own names, and the variables.

    ``port`` is where its `lancens serve` listens: another program may have the port of the pages.
    """

    folder: Path
    request: pytest.FixtureRequest
    instead: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    port: int = field(default_factory=free_port)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, "utf-8")

    def edit(self, difference: str) -> None:
        """Change the manifest as a page shows it, at any depth; a line with an ellipsis is between two places."""
        path = self.folder / "lancens.yaml"
        text = "\n" + path.read_text("utf-8")
        for hunk in re.split("^…\n", difference, flags=re.MULTILINE):
            before, after = ([line[1:] for line in hunk.splitlines() if line[0] in signs] for signs in (" -", " +"))
            [(old, new)] = [
                (found, indent("\n".join(("", *after, "")), " " * depth))
                for depth in range(16)
                for found in re.findall(_pattern(before, depth), text)
            ]
            text = text.replace(old, new)
        path.write_text(text.removeprefix("\n"), "utf-8")

    def written(self, text: str) -> str:
        """Return a text of the page as it is typed here."""
        for its, ours in self.instead.items():
            if its in text:
                self.replaced.add(its)
                text = text.replace(its, ours)
        return text

    def type(self, *command: str | Path) -> str:
        """Run a command to which somebody at a terminal answers `yes`; return all that it prints."""
        ours, its = os.openpty()
        with closing(os.fdopen(ours, "wb", buffering=0)) as person, closing(os.fdopen(its, "rb")) as terminal:
            person.write(_ANSWERS)
            done = subprocess.run(
                [*map(str, command)],
                cwd=self.folder,
                env=self._environment(self.request.getfixturevalue("forking_lancens")),
                stdin=terminal,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=HUNG_SECONDS,
                check=False,
            )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def run(self, text: str, fixtures: Collection[str]) -> str:
        """Run Python that starts from the fixtures by their names, in this process; return what it prints."""
        self.write("typed.py", text)
        names = {name: self.request.getfixturevalue(name) for name in fixtures}
        with chdir(self.folder), patch.dict(os.environ, self.environment), redirect_stdout(io.StringIO()) as printed:
            runpy.run_path("typed.py", names, "__main__")
        return printed.getvalue()

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        """Run ``lancens serve`` as it is typed until the block ends; the block starts when it listens."""

        def answers() -> bool:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True

        command = command.replace("lancens serve", f"lancens serve --port {self.port}", 1)
        words = ["sh", "-c", f"exec {command}"]
        log = self.folder / "serve.log"
        with running(words, log, answers, environment=self._environment(), directory=self.folder):
            yield

    def _environment(self, *forking: Path) -> dict[str, str]:
        places = (self.folder / "bin", *forking, Path(sys.executable).parent, os.environ["PATH"])
        path = os.pathsep.join(map(str, places))
        return {**os.environ, "PATH": path, "NO_COLOR": "1", **self.environment}


@dataclass(frozen=True, slots=True)
class Run:
    """How a section is run: what makes the place, what is to be printed, and the fixtures that its Python starts from.

    Without ``make``, its reader has typed the sections above it on the page.
    """

    make: Callable[[Place], None] | None
    shows: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def type(self, section: Section, place: Place, leave_out: Collection[str] = ()) -> None:
        """Type the blocks of a section one after the other, without the lines that begin like one in ``leave_out``."""
        if self.make is not None:
            self.make(place)
        shown: list[str] = []
        with ExitStack() as servers:
            for block in section.blocks:
                if block.language == "python":
                    shown.append(place.run(place.written(block.text), self.given))
                elif block.language == "diff":
                    place.edit(block.text)
                elif block.file:
                    place.write(block.file, place.written(block.text))
                else:
                    shown.append(self._shell(block, place, servers, tuple(leave_out)))
        for text in self.shows:
            assert text in "".join(shown), "".join(shown)

    def _shell(self, block: Block, place: Place, servers: ExitStack, leave_out: tuple[str, ...]) -> str:
        lines = [line for line in block.commands if not line.startswith(leave_out)]
        lines = [one for one in place.written("\n".join(lines)).splitlines() if one]
        if not any(line.startswith("lancens serve") for line in lines):
            shown = place.type("sh", "-euc", "\n".join(lines))
            for printed in block.printed:
                assert _untimed("\n".join(printed)) in _untimed(shown), shown
            return shown
        for line in lines:
            servers.close()
            servers.enter_context(place.serving(line))
        return ""


def _pattern(lines: Iterable[str], depth: int) -> str:
    """Return what matches whole lines at a depth; an ellipsis among them is all lines as deep as it is."""
    patterns = (re.escape(f"{' ' * depth}{line}\n") for line in lines)
    return "\n" + "".join(re.sub("^(.*)…\\\\\n$", r"(?:\1.*\n)*", pattern) for pattern in patterns)


def _untimed(text: str) -> str:
    return re.sub(r"/tmp/\S*|\S*/lake\b", "/lake", text)
