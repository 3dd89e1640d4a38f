"""What an audit looks for: each rule is a pure function of what is known of one table.

A rule never raises, whatever a catalog or storage says; docs/audit.md has a section on each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.auditor.document import Finding
from reconciler.auditor.records import TableRecord
from reconciler.auditor.rules.drift import PROPERTY_DRIFT, SCHEMA_DRIFT
from reconciler.auditor.rules.entries import MISSING, STALE_COLUMNS, STILL_THERE, UNMANAGED, WRONG_TABLE_TYPE
from reconciler.auditor.rules.places import (
    INDIRECT_LOCATION,
    NESTED_LOCATION,
    SCHEME_MISMATCH,
    SHARED_LOCATION,
    UNKNOWN_SCHEME,
)
from reconciler.auditor.rules.rule import LIMITS, Rule, RuleLimits
from reconciler.auditor.rules.stored import (
    BROKEN_TAG,
    DANGLING,
    MISSING_FILES,
    NOT_LANCE,
    ORPHAN,
    SHORT_FILES,
    STALE,
    UNREADABLE,
    UNVERSIONED_DATA,
)
from reconciler.auditor.rules.upkeep import (
    AUTO_CLEANUP,
    MANY_FRAGMENTS,
    MANY_VERSIONS,
    MISSING_INDEX,
    RECLAIMABLE,
    SMALL_FRAGMENTS,
    STALE_INDEX,
    UNINDEXED_VECTORS,
)
from reconciler.model.desired import Source
from reconciler.model.names import Identifier, address

__all__ = ["LIMITS", "NEEDS_MANIFEST", "RULES", "STALE_COLUMNS", "Rule", "RuleLimits", "check", "unread_namespace"]

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        DANGLING,
        ORPHAN,
        NOT_LANCE,
        UNVERSIONED_DATA,
        MISSING_FILES,
        SHORT_FILES,
        BROKEN_TAG,
        SHARED_LOCATION,
        NESTED_LOCATION,
        INDIRECT_LOCATION,
        SCHEME_MISMATCH,
        UNKNOWN_SCHEME,
        WRONG_TABLE_TYPE,
        MISSING,
        STILL_THERE,
        UNMANAGED,
        PROPERTY_DRIFT,
        SCHEMA_DRIFT,
        STALE_COLUMNS,
        STALE,
        MANY_FRAGMENTS,
        SMALL_FRAGMENTS,
        MANY_VERSIONS,
        RECLAIMABLE,
        AUTO_CLEANUP,
        MISSING_INDEX,
        UNINDEXED_VECTORS,
        STALE_INDEX,
        UNREADABLE,
    )
}
"""Every rule by its name, in the order in which they are explained."""

NEEDS_MANIFEST = frozenset(
    rule.name for rule in (MISSING, STILL_THERE, UNMANAGED, PROPERTY_DRIFT, SCHEMA_DRIFT, MANY_FRAGMENTS, MISSING_INDEX)
)
"""The rules that compare with what a manifest says."""


def check(record: TableRecord, limits: RuleLimits, names: Collection[str]) -> Iterator[Finding]:
    """Yield what the rules called ``names`` find in one table."""
    for name in names:
        rule = RULES[name]
        for verdict in rule.check(record, limits):
            yield Finding(
                rule=rule.name,
                severity=verdict.severity or rule.severity,
                catalog=record.catalog,
                namespace=record.id[:-1],
                name=record.id[-1],
                reason=verdict.reason,
                remedy=verdict.remedy,
                location=record.location,
                owner=record.responsible,
                manager=record.manager,
                source=_source(record),
                details=dict(verdict.details),
            )


def _source(record: TableRecord) -> Source | None:
    source = None if record.desired is None else record.desired.source
    return None if source is None else Source(file=source.file, line=source.line)


def unread_namespace(catalog: str, namespace: Identifier, error: str) -> Finding:
    """Return the finding of a namespace that could not be read; ``error`` is without secrets."""
    return Finding(
        rule=UNREADABLE.name,
        severity=UNREADABLE.severity,
        catalog=catalog,
        namespace=namespace[:-1],
        name=namespace[-1] if namespace else "",
        reason=f"{address(catalog, namespace)} could not be read: {error}",
        remedy="Run the audit again if the catalog was not available; otherwise let whoever runs it read the "
        "namespace. Nothing is known of the tables in it.",
    )
