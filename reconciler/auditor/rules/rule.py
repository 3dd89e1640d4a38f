"""What rules are made of: limits, verdicts, and the decorator that makes a function a rule."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from reconciler.auditor.records import Severity, TableRecord
from reconciler.model import locations
from reconciler.model.live import StorageKind

REMOVE_ENTRY = "remove the entry with `absent: true` in a manifest and `lancens apply`, which keeps all data"
"""How to remove the entry of a table that is not needed, as the end of a sentence."""

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """The limits of the rules; the expectations of a table's block take precedence.

    Args:
        now: the current time, with a time zone.
        stale_after: the allowed age of a last commit; None for any age.
        small_fragments: the allowed number of small fragments.
        versions: the allowed number of versions.
        reclaimable_mib: the MiB that a clean-up may be able to free.
        unindexed_rows: the rows that may be searched without an index.
    """

    now: datetime
    stale_after: timedelta | None = timedelta(days=180)
    small_fragments: int = 100
    versions: int = 1_000
    reclaimable_mib: int = 1_024
    unindexed_rows: int = 100_000

    @property
    def reclaimable_bytes(self) -> int:
        """The bytes that a clean-up may be able to free."""
        return self.reclaimable_mib << 20


LIMITS = ("small_fragments", "versions", "reclaimable_mib", "unindexed_rows")
"""The limits that ``--limit`` can set."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A defect that a rule found.

    ``severity`` None is the rule's own. No text holds a secret.
    """

    reason: str
    remedy: str
    severity: Severity | None = None
    details: Mapping[str, str] = field(default_factory=dict)


Check: TypeAlias = Callable[[TableRecord, RuleLimits], Iterator[Verdict]]
"""The function of a rule: it yields the defects of one table, is pure, and never raises, whatever the record says."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of defect that an audit finds; see :func:`rule`.

    ``title`` names the defect on one line; ``help`` says why it matters and what to do. ``severity`` is the highest of
    its findings. ``needs_manifest`` is set if the rule compares with a manifest.
    """

    name: str
    severity: Severity
    title: str
    help: str
    check: Check
    needs_manifest: bool = False


def rule(severity: Severity, *, needs_manifest: bool = False) -> Callable[[Check], Rule]:
    """Return a decorator that makes a function a rule, named after it, whose findings have at most ``severity``.

    Users read the function's docstring: the title on its first line, then the help.
    """

    def rule_of(check: Check) -> Rule:
        title, _, help_ = (inspect.getdoc(check) or "").partition("\n")
        return Rule(check.__name__.replace("_", "-"), severity, title, " ".join(help_.split()), check, needs_manifest)

    return rule_of


def first_few(texts: Sequence[str], separator: str = ", ") -> str:
    """Return the first few of ``texts`` as one text, and the number of the others, as ``a, b, c and 7 more``."""
    more = "" if len(texts) <= _MOST_NAMED else f" and {len(texts) - _MOST_NAMED:,} more"
    return separator.join(texts[:_MOST_NAMED]) + more


def dataset_call(record: TableRecord, **arguments: object) -> str:
    """Return the call that opens a table's dataset, as a user types it."""
    keywords = "".join(f", {name}={value!r}" for name, value in arguments.items())
    return f"lance.dataset({quoted_location(record)}{keywords})"


def quoted_location(record: TableRecord, *names: str) -> str:
    """Return the table's location, or what is below it, as a user types it."""
    location = locations.redact(locations.pylance_uri(record.location or ""))
    return json.dumps(locations.join_names(location, *names) if names else location, ensure_ascii=False)


def rewrite_call(record: TableRecord, dataset: str) -> str:
    """Return the call that writes all rows of ``dataset``, which is a call as well, as a new version of the table."""
    return f'lance.write_dataset({dataset}.scanner().to_reader(), {quoted_location(record)}, mode="overwrite")'


def location_text(record: TableRecord) -> str:
    """Return the table's location without secrets, and a warning if Lance opens only a part of it."""
    if not record.location:
        return "its location"
    cut = ", of which Lance opens the part before `?` or `#` (`%3F` and `%23` in a name)"
    return locations.redact(record.location) + (cut if locations.is_cut(record.location) else "")


def is_live_with(record: TableRecord, kind: StorageKind) -> bool:
    """Return whether the table is a live Lance table whose location holds ``kind``."""
    return record.live is not None and record.stored.kind is kind
