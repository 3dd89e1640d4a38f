"""What a rule is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from reconciler.auditor.records import Severity, TableRecord

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """What the rules measure by, where no block expects something else of its table.

    Args:
        now: the present moment, with a time zone.
        stale_after: how old a last commit may be; None for any age.
        small_fragments: how many small fragments a table may have.
        versions: how many versions.
        reclaimable_mib: how many MiB a clean-up may have to give back.
        unindexed_rows: how many rows may be searched without an index.
    """

    now: datetime
    stale_after: timedelta | None = timedelta(days=180)
    small_fragments: int = 100
    versions: int = 1_000
    reclaimable_mib: int = 1_024
    unindexed_rows: int = 100_000


LIMITS = ("small_fragments", "versions", "reclaimable_mib", "unindexed_rows")
"""Those that are counts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says against a table. ``severity`` None is the rule's own; no text holds a secret."""

    reason: str
    remedy: str
    severity: Severity | None = None
    details: Mapping[str, str] = field(default_factory=dict)


Check: TypeAlias = Callable[[TableRecord, RuleLimits], Iterator[Verdict]]
"""A pure function; it never raises, whatever the record says."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A defect that an audit looks for; made by :func:`rule`.

    ``title`` says on one line what it is; ``help`` why that matters and what can be done. ``severity`` is the highest
    of its findings. ``needs_manifest``: it compares with what a manifest says.
    """

    name: str
    severity: Severity
    title: str
    help: str
    check: Check
    needs_manifest: bool = False


def rule(severity: Severity, *, needs_manifest: bool = False) -> Callable[[Check], Rule]:
    """Make a function a rule of its name; its docstring is what users read: the title, then the help."""

    def decorated(check: Check) -> Rule:
        title, _, help_ = (inspect.getdoc(check) or "").partition("\n")
        return Rule(check.__name__.replace("_", "-"), severity, title, " ".join(help_.split()), check, needs_manifest)

    return decorated


def few(texts: Sequence[str], between: str = ", ") -> str:
    """Return the first of ``texts``, and how many more there are."""
    more = "" if len(texts) <= _MOST_NAMED else f" and {len(texts) - _MOST_NAMED:,} more"
    return between.join(texts[:_MOST_NAMED]) + more
