"""Rules about the time of the last commit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import (
    REMOVE_ENTRY,
    RuleLimits,
    Verdict,
    dataset_call,
    rule,
)
from reconciler.model.display import count

_CLOCK_SKEW = timedelta(days=1)
"""How far in the future a commit may be: an audit takes hours, and commits go on."""


@rule(Severity.WARNING)
def future_commit(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """The last commit is in the future

    Its writer's clock was wrong by more than a day. A clean-up keeps such a version until its time has come, a query as
    of a time misses it, and the table is never stale.
    """
    committed = record.stored.committed
    if record.live is not None and committed is not None and committed > limits.now + _CLOCK_SKEW:
        yield Verdict(
            f"its last commit was on {committed:%Y-%m-%d}, which is in the future",
            "Correct the clock of the machine that writes the table. Its next commit has the right time; "
            f'`{dataset_call(record)}.delete("false")` is one that deletes no row.',
        )


@rule(Severity.WARNING)
def stale(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """The table has not been written for longer than expected

    Its last commit is older than the manifest expects (`expect.max_age_days`), which is a warning, or else than
    `--stale-after` allows (180 days by default), which is a note. Often the job that writes it has stopped, or the
    table is not used any more and only costs money.
    """
    committed = record.stored.committed
    if record.live is None or committed is None:
        return
    age = limits.now - committed
    expected = record.expect.max_age_days
    if expected is not None:
        if age > timedelta(days=expected):
            yield Verdict(
                f"its last commit was {age / timedelta(days=1):,.1f} days ago, on {committed:%Y-%m-%d}; its block "
                f"expects one every {count(expected, 'day')}",
                "Check whether the job that writes the table still runs, or correct `expect.max_age_days`.",
                Severity.WARNING,
            )
    elif limits.stale_after is not None and age > limits.stale_after:
        yield Verdict(
            f"its last commit was {age // timedelta(days=1):,} days ago, on {committed:%Y-%m-%d}",
            "Check whether the job that writes the table still runs. If the table is not needed any more, "
            f"{REMOVE_ENTRY}; if it is meant to stay as it is, nothing has to be done.",
            Severity.NOTE,
        )
