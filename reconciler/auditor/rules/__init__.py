"""The rules of an audit: each is a pure function of the record of one table.

A rule never raises, whatever a catalog or storage answers; docs/audit.md has a section on each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.auditor.document import Finding
from reconciler.auditor.records import TableRecord
from reconciler.auditor.rules import dates, drift, entries, integrity, locations, losses, stored, upkeep
from reconciler.auditor.rules.rule import LIMITS, Rule, RuleLimits
from reconciler.model.desired import Source
from reconciler.model.errors import LancensError
from reconciler.model.names import Identifier, address

__all__ = ["LIMITS", "RULES", "Rule", "RuleLimits", "check", "rules_to_apply", "unread_namespace"]

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for module in (stored, losses, dates, integrity, locations, entries, drift, upkeep)
    for rule in vars(module).values()
    if isinstance(rule, Rule)
}
"""Every rule by its name: all that these modules define, in their order there."""


def rules_to_apply(
    only: Collection[str] | None = None, skipped: Collection[str] = (), *, has_manifest: bool = True
) -> tuple[str, ...]:
    """Return the names of the rules to apply: those in ``only`` or all, without those ``skipped``.

    Without a manifest, a rule that compares with one is applied only if it is in ``only``.

    Raises:
        LancensError: there is no such rule, or none is left.
    """
    if unknown := sorted({*(only or ()), *skipped} - RULES.keys()):
        raise LancensError(f"there is no rule {unknown[0]}; the rules are {', '.join(RULES)}")
    if only is None:
        only = [name for name, rule in RULES.items() if has_manifest or not rule.needs_manifest]
    applied = tuple(name for name in RULES if name in only and name not in skipped)
    if skipped and not applied:
        raise LancensError("every rule is left out: skip fewer rules")
    return applied


def check(record: TableRecord, limits: RuleLimits, names: Collection[str]) -> Iterator[Finding]:
    """Yield the findings of the rules ``names`` about one table."""
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
    """Return the finding of a namespace that could not be read."""
    return Finding(
        rule=losses.unreadable.name,
        severity=losses.unreadable.severity,
        catalog=catalog,
        namespace=namespace[:-1],
        name=namespace[-1] if namespace else "",
        reason=f"{address(catalog, namespace)} could not be read: {error}",
        remedy="Run the audit again if the catalog was not available; otherwise give its user the right to read the "
        "namespace. Nothing is known of the tables in it.",
    )
