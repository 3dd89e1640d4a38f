"""Applying a plan: check that nothing moved, then carry out its changes and keep a journal of them."""

from __future__ import annotations

from reconciler.applier.check import check_plan
from reconciler.applier.executor import StopSignal, execute
from reconciler.applier.journal import Journal
from reconciler.applier.journal_reader import JournalRecord, describe_journal, list_runs, read_journal
from reconciler.applier.report import ApplyReport, ChangeResult, Event, Status, result_line, summary_line

__all__ = [
    "ApplyReport",
    "ChangeResult",
    "Event",
    "Journal",
    "JournalRecord",
    "Status",
    "StopSignal",
    "check_plan",
    "describe_journal",
    "execute",
    "list_runs",
    "read_journal",
    "result_line",
    "summary_line",
]
