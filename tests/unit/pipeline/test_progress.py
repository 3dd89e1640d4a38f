"""What is said while the pipeline works."""

from __future__ import annotations

import io
import re
import sys

import pytest

from reconciler.pipeline.progress import stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_stays_of_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with stage(None, "Reading 3 namespaces") as note:
        note("1,204 tables")
        note("2 notes")
    out, err = capsys.readouterr()
    assert out == ""
    what, _, counts = err.partition(": ")
    assert what == "Reading 3 namespaces"
    assert re.fullmatch(r"1,204 tables, 2 notes  \d+\.\d s\n", counts)


def test_no_line_stays_of_one_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), stage(None, "Reading 3 namespaces"):
        raise ValueError("broken")
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_what_is_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with stage(None, "Reading [3] namespaces"):
        shown = terminal.getvalue()
    assert "Reading [3] namespaces" in shown
    assert re.search(r"Reading \[3\] namespaces  \d+\.\d s\n$", terminal.getvalue())


def test_a_dumb_terminal_gets_the_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with stage(None, "Reading"):
        assert terminal.getvalue() == ""
