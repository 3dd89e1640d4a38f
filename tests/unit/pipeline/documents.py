"""Audit documents to look at: a small one with everything in it, and one of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from reconciler.auditor.document import (
    AuditDocument,
    AuditSettings,
    CatalogCoverage,
    Distribution,
    Finding,
    FindingCounts,
    ReportedTable,
    RuleInfo,
    RunSummary,
    SeverityCounts,
    Totals,
)
from reconciler.auditor.records import Severity
from reconciler.auditor.scales import AGES, SIZES, age_in_days
from reconciler.model.desired import Source
from reconciler.pipeline.rows import ReadFailure
from reconciler.planner.plan import ManifestRef

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
MANIFEST = ManifestRef(name="feature-store", digest="5b" * 32, files=("lancens.yaml", "teams/ads.yaml"))

RULES = (
    RuleInfo(
        name="dangling",
        severity=Severity.ERROR,
        title="The table's location holds nothing",
        help="Readers of the table fail. Write the data again, or take the entry out with `absent: true`.",
    ),
    RuleInfo(
        name="shared-location",
        severity=Severity.ERROR,
        title="Several tables are at one location",
        help="What is written to one of them appears in the other.",
    ),
    RuleInfo(
        name="property-drift",
        severity=Severity.WARNING,
        title="A property differs from the manifest",
        help="Run `lancens apply`, or write the new value in the manifest.",
    ),
    RuleInfo(
        name="orphan",
        severity=Severity.WARNING,
        title="A dataset that no table points at",
        help="It costs storage and nobody finds it. It is reported only, never deleted.",
    ),
    RuleInfo(
        name="unmanaged",
        severity=Severity.NOTE,
        title="A table that no manifest manages",
        help="`lancens import` writes a manifest of what is there.",
    ),
    RuleInfo(
        name="stale",
        severity=Severity.NOTE,
        title="Nothing was written for a long time",
        help="Ask its owner whether it is still needed.",
    ),
)

SETTINGS = AuditSettings(stale_after_days=365, rules=RULES)

_REASONS = {
    "dangling": ("nothing is at its location", "Write the data again, or say `absent: true` and apply."),
    "shared-location": ("prod/analytics/clicks is at the same location", "Correct one of the two locations."),
    "property-drift": ("`tier` is `silver`, the manifest says `gold`", "Run `lancens apply`."),
    "orphan": ("a dataset of 1.2 GiB that no table points at", "Register it, or let its owner remove it."),
    "unmanaged": ("no manifest manages it", "Add it to a manifest; `lancens import` writes one."),
    "stale": ("the last commit was 412 days ago", "Ask its owner whether it is still needed."),
}


def finding(
    rule: str,
    address: str,
    *,
    location: str | None = None,
    owner: str | None = "feature-store/lake",
    line: int | None = None,
    reason: str | None = None,
) -> Finding:
    catalog, *namespace, name = address.split("/")
    severity = next(info.severity for info in RULES if info.name == rule)
    why, remedy = _REASONS[rule]
    return Finding(
        rule=rule,
        severity=severity,
        catalog=catalog,
        namespace=tuple(namespace),
        name=name,
        reason=reason or why,
        remedy=remedy,
        location=location,
        owner=owner,
        source=None if line is None else Source(file="lancens.yaml", line=line),
        details={"tier": "silver"} if rule == "property-drift" else {},
    )


def counted(findings: Sequence[Finding]) -> FindingCounts:
    return FindingCounts.of(Counter(map(FindingCounts.group_of, findings)))


def severities(findings: Sequence[Finding]) -> SeverityCounts:
    return SeverityCounts(**Counter(each.severity.value for each in findings))


def document(
    findings: Sequence[Finding],
    tables: Sequence[ReportedTable],
    coverage: Sequence[CatalogCoverage],
    failures: Sequence[ReadFailure] = (),
    run_id: str = "2026-11-21T153000Z-4f2a",
) -> AuditDocument:
    """Return the document of an audit that found this; totals and distributions are those of ``tables``."""
    sizes = Counter(None if table.bytes is None else SIZES.bin_of(table.bytes) for table in tables)
    ages = Counter(AGES.bin_of(age_in_days(table.committed, NOW)) if table.committed else None for table in tables)
    return AuditDocument(
        lancens_version="0.1.0",
        run_id=run_id,
        started=NOW - timedelta(seconds=41),
        finished=NOW,
        manifest=MANIFEST,
        settings=SETTINGS,
        coverage=tuple(coverage),
        failures=tuple(failures),
        totals=Totals(
            catalogs=len(coverage),
            namespaces=sum(catalog.namespaces for catalog in coverage),
            tables=len(tables),
            rows=sum(table.rows or 0 for table in tables),
            bytes=sum(table.bytes or 0 for table in tables),
            fragments=sum(table.fragments or 0 for table in tables),
            bytes_on_disk=sum(table.bytes_on_disk or 0 for table in tables),
            reclaimable=sum(table.reclaimable or 0 for table in tables),
            findings=severities(findings),
        ),
        counts=counted(findings),
        findings=tuple(sorted(findings, key=lambda each: each.rank)),
        tables=tuple(tables),
        sizes=Distribution.of(SIZES, sizes),
        ages=Distribution.of(AGES, ages),
    )


def run(number: int, *, complete: bool = True, listed: bool = True, manifest: str = MANIFEST.name) -> RunSummary:
    """Return an earlier run, one of every week; ``listed`` says whether it listed the files of tables."""
    coverage = CatalogCoverage(name="lake", impl="dir", namespaces=3, namespaces_unread=int(not complete))
    return RunSummary(
        run_id=f"run-{number:03}",
        finished=NOW - timedelta(weeks=30 - number, hours=number % 5),
        manifest=manifest,
        complete=complete,
        settings=SETTINGS.text,
        totals=Totals(
            catalogs=2,
            namespaces=6,
            tables=6 + number // 4,
            rows=1_000_000 * (20 + number),
            bytes=(40 + number * (3 + number % 4)) << 30,
            fragments=300 + number,
            bytes_on_disk=(50 + number * (3 + number % 4)) << 30 if listed else None,
            reclaimable=(10 + number % 7) << 30 if listed else None,
            findings=SeverityCounts(
                error=max(0, 9 - number // 3) + number % 3, warning=max(0, 8 - number // 5), note=3
            ),
        ),
        coverage=(coverage,),
    )


def table(
    address: str,
    *,
    location: str | None = None,
    owner: str | None = "feature-store/lake",
    size: int | None = None,
    days: float | None = None,
    rules: Sequence[str] = (),
) -> ReportedTable:
    catalog, *names = address.split("/")
    return ReportedTable(
        catalog=catalog,
        namespace=tuple(names[:-1]),
        name=names[-1],
        location=location or f"s3://{catalog}/{'/'.join(names)}.lance",
        owner=owner,
        rows=None if size is None else size // 96,
        bytes=size,
        bytes_on_disk=None if size is None else size + size // 3,
        reclaimable=None if size is None else size // 4,
        fragments=None if size is None else 1 + size // (512 << 20),
        version=None if size is None else 1 + size % 97,
        committed=None if days is None else NOW - timedelta(days=days),
        rules=tuple(rules),
    )


def small_document() -> AuditDocument:
    """Return the document of ten tables in two catalogs, one of which could not be read as a whole."""
    findings = [
        finding("dangling", "lake/features/clicks", location="s3://lake/features/clicks.lance", line=23),
        finding("shared-location", "prod/analytics/orders", location="s3://prod/clicks.lance", owner=None),
        finding("shared-location", "prod/analytics/clicks", location="s3://prod/clicks.lance", owner=None),
        finding("property-drift", "lake/features/events", line=19),
        finding("orphan", "lake/old/clicks_2023.lance", location="s3://lake/old/clicks_2023.lance", owner=None),
        finding("unmanaged", "prod/analytics/orders", owner=None),
        finding("unmanaged", "prod/analytics/clicks", owner=None),
        finding("stale", "lake/features/eu/users", line=21),
    ]
    tables = [
        table("lake/features/clicks", rules=["dangling"]),
        table("lake/features/events", size=84 << 20, days=0.2, rules=["property-drift"]),
        table("lake/features/users", size=3 << 30, days=2),
        table("lake/features/eu/users", size=700 << 20, days=412, rules=["stale"]),
        table("lake/features/eu/visits", size=0, days=12),
        table("lake/models/embeddings", size=130 << 30, days=45),
        table("lake/models/labels", size=11 << 10, days=100),
        table("prod/analytics/clicks", size=19 << 30, days=0.5, owner=None, rules=["shared-location", "unmanaged"]),
        table("prod/analytics/orders", size=19 << 30, days=0.5, owner=None, rules=["shared-location", "unmanaged"]),
        table("prod/analytics/sessions", size=2 << 40, days=5, owner="web-team/prod"),
    ]
    coverage = [
        CatalogCoverage(name="lake", impl="dir", namespaces=3, tables=7, tables_looked_at=7),
        CatalogCoverage(name="prod", impl="glue", namespaces=3, namespaces_unread=1, tables=3, tables_looked_at=3),
    ]
    failures = [
        ReadFailure(
            catalog="prod",
            namespace=("finance",),
            message="prod (glue, eu-west-1): GetTables on finance, page 4: AccessDenied: the role lacks glue:GetTables",
        )
    ]
    notes = ("lake: orphans were not looked for more than 12 directories below `s3://lake`",)
    return document(findings, tables, coverage, failures).model_copy(update={"notes": notes})


def large_document(count: int) -> AuditDocument:
    """Return the document of ``count`` tables, with a finding for every fifth of them and everything read."""
    tables, findings = [], []
    for number in range(count):
        catalog = ("lake", "prod", "archive")[number % 3]
        address = f"{catalog}/team_{number // 3 % 400:03}/events_{number:06}"
        owner = None if number % 7 == 0 else f"team-{number % 12:02}/{catalog}"
        rule = RULES[(number // 5) % 13 % len(RULES)].name if number % 5 == 0 else None
        broken = rule == "dangling"
        size = None if broken else (number * 7919 % 1000) ** (1 + number % 4) * (1 << number % 11)
        tables.append(
            table(
                address,
                owner=owner,
                size=size,
                days=None if broken else (number * 31 % 997) ** 1.5 / 30,
                rules=[rule] if rule else [],
            )
        )
        if rule:
            findings.append(
                finding(rule, address, location=tables[-1].location, owner=owner, line=number % 900 if owner else None)
            )
    coverage = [
        CatalogCoverage(
            name=name,
            impl=impl,
            namespaces=400,
            tables=len(range(at, count, 3)),
            tables_looked_at=len(range(at, count, 3)),
            tables_unreadable=at,
        )
        for at, (name, impl) in enumerate((("lake", "dir"), ("prod", "glue"), ("archive", "iceberg")))
    ]
    return document(findings, tables, coverage)
