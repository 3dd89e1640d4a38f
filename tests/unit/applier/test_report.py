from __future__ import annotations

import io
import sys

import pytest

from reconciler.applier.report import ApplyReport, ChangeResult, Status, result_line, summary_line
from reconciler.cli.confirming import show_progress
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action, Change
from reconciler.planner.plan import ManifestRef, Plan

MADE = Change(
    catalog="lake",
    kind="namespace",
    identifier=("features",),
    action=Action.CREATE_NAMESPACE,
    code=ReasonCode.IN_MANIFEST,
)
GONE = Change(
    catalog="prod",
    kind="table",
    identifier=("a", "clicks"),
    action=Action.DEREGISTER_TABLE,
    code=ReasonCode.ABSENT,
)
SWAPPED = GONE.model_copy(update={"action": Action.RELOCATE_TABLE})
PLAN = Plan(manifest=ManifestRef(name="store", digest="d", files=()), changes=(MADE, GONE))


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (ChangeResult(MADE, Status.DONE, seconds=0.0121), "  ✓ lake  + features                    12 ms"),
        (ChangeResult(MADE, Status.DONE, seconds=2.34), "  ✓ lake  + features                    2.3 s"),
        (
            ChangeResult(GONE, Status.DONE, note="data at /x"),
            "  ✓ prod  - a/clicks                    0 ms  (data at /x)",
        ),
        (ChangeResult(GONE, Status.ALREADY), "  ✓ prod  - a/clicks                    already done"),
        (ChangeResult(SWAPPED, Status.FAILED, "throttled"), "  ✗ prod  ~ a/clicks                    throttled"),
        (
            ChangeResult(GONE, Status.SKIPPED, "it needs x"),
            "  · prod  - a/clicks                    skipped: it needs x",
        ),
        (ChangeResult(GONE, Status.KEPT, "kept, not empty"), "  ! prod  - a/clicks                    kept, not empty"),
        (ChangeResult(GONE, Status.FAILED, "a\x1b[31m"), "  ✗ prod  - a/clicks                    a\\x1b[31m"),
    ],
)  # fmt: skip
def test_a_result_is_one_line(result: ChangeResult, line: str) -> None:
    assert result_line(result) == line


def report(*results: ChangeResult, interrupted: bool = False) -> ApplyReport:
    return ApplyReport(results, ".lancens/2f9c1e.jsonl", interrupted)


def test_the_last_line_counts_everything() -> None:
    done, failed = ChangeResult(MADE, Status.DONE), ChangeResult(GONE, Status.FAILED, "no")
    line = summary_line(report(done, failed))
    assert line.startswith("Applied 1 of 2 changes: ")
    assert "1 failed, 0 skipped." in line
    assert line.endswith(".lancens/2f9c1e.jsonl")
    rest = (ChangeResult(GONE, Status.KEPT, "kept"), ChangeResult(GONE, Status.ALREADY))
    line = summary_line(report(done, *rest, interrupted=True))
    assert line.startswith("Stopped. Applied 2 of 3 changes: ")
    assert "0 failed, 0 skipped, 1 kept, 1 already" in line
    many = [ChangeResult(GONE, status, "why") for status in (Status.DONE, Status.SKIPPED) for _ in range(1200)]
    line = summary_line(report(*many))
    assert "Applied 1,200 of 2,400 " in line
    assert " 1,200 skipped" in line


@pytest.mark.parametrize(
    ("status", "ok"),
    [(Status.DONE, True), (Status.ALREADY, True), (Status.KEPT, True), (Status.FAILED, False), (Status.SKIPPED, False)],
)
def test_failed_and_skipped_changes_make_the_exit_code(status: Status, ok: bool) -> None:
    assert report(ChangeResult(MADE, Status.DONE), ChangeResult(GONE, status)).ok is ok


def test_a_pipe_gets_one_plain_line_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(len(PLAN.changes)) as progress:
        for change in PLAN.changes:
            progress(change)
            progress(ChangeResult(change, Status.ALREADY))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [result_line(ChangeResult(change, Status.ALREADY)) for change in PLAN.changes]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_the_lines_and_a_bar(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    with show_progress(len(PLAN.changes)) as progress:
        for change in PLAN.changes:
            progress(ChangeResult(change, Status.ALREADY))
    shown = screen.getvalue()
    assert "2/2" in shown
    assert "a/clicks" in shown
    assert ("\x1b[32m" in shown) is not no_color
