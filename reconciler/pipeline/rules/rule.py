"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from reconciler.pipeline.records import Severity, TableRecord

__all__ = ["Check", "Rule", "Times", "Verdict"]


@dataclass(frozen=True, slots=True)
class Times:
    """What ages are measured by: the present moment, with a time zone, and how old a last commit may be (None: any)."""

    now: datetime
    stale_after: timedelta | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says against a table. ``severity`` None is the rule's own; no text holds a secret."""

    reason: str
    remedy: str
    severity: Severity | None = None
    details: Mapping[str, str] = field(default_factory=dict)


Check: TypeAlias = Callable[[TableRecord, Times], Iterator[Verdict]]
"""A pure function; it never raises, whatever the record says."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A defect that an audit looks for.

    ``title`` says on one line what it is; ``help`` why that matters and what can be done. ``severity`` is the highest
    of its findings.
    """

    name: str
    severity: Severity
    title: str
    help: str
    check: Check
