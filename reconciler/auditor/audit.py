"""Audit catalogs: read entries, probe storage, apply rules, search for orphans.

The executors of Spark do the work, or this process without Spark. The driver gets counts, and as many findings and
tables as a report shows. Nothing is changed anywhere.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING

from reconciler.auditor.catalog_info import CatalogInfo, read_catalog_info, searchable_roots
from reconciler.auditor.document import (
    AuditDocument,
    AuditSettings,
    CatalogCoverage,
    Finding,
    FindingCounts,
    RuleInfo,
    SeverityCounts,
    Suppressed,
    Totals,
)
from reconciler.auditor.entries import Coverage, read_entries, with_relations
from reconciler.auditor.evaluate import CLAIMS, EVALUATED, Evaluator, base_claims
from reconciler.auditor.orphans import DATASETS, DEEPEST, DatasetNamer, find_orphans
from reconciler.auditor.probe_cache import ProbeCache
from reconciler.auditor.records import Severity
from reconciler.auditor.rules import LIMITS, RULES, RuleLimits, unread_namespace
from reconciler.auditor.suppressions import Suppressions
from reconciler.auditor.totals import (
    AMOUNTS_OF_FILES,
    FINDINGS,
    Figures,
    each_finding,
    excluding_in,
    figures_of,
    findings_of,
    suppressed_of,
    tables_of,
    tallies_of,
)
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.display import count
from reconciler.model.errors import LancensError
from reconciler.operations.connections import catalog_specs, secret_locations_of
from reconciler.operations.plan import check_begins_with_catalog, checkable, reference
from reconciler.pipeline.progress import stage
from reconciler.pipeline.tasks import probe_tasks, row_tasks
from reconciler.planner.placeholders import location_hider
from reconciler.storage import Depth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest
    from reconciler.pipeline.frames import Frame
    from reconciler.pipeline.session import SparkOptions


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of an audit.

    Args:
        now: the current time, with a time zone.
        stale_after: the age from which a table's last commit is stale, None for no age.
        depth: how much of each dataset is read.
        limits: the limits of ``LIMITS`` by name; the others are those of ``RuleLimits``.
        rules: the names of the rules to apply.
        parallelism: how many requests each task has in flight at a catalog.
        most_findings: how many findings the document holds; all of them are counted.
        most_tables: how many tables the document lists.
        history: the location of the runs to compare with and to append to; :func:`reconciler.auditor.run.run_audit`.
        since_last: whether to look in storage only where something changed since the last run in ``history``.
        exclude: globs over ``catalog/namespace/table``; their matches are not opened and have no findings. A note names
            one that matches nothing.

    Raises:
        LancensError: there is no last run without a history.
    """

    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    stale_after: timedelta | None = timedelta(days=180)
    depth: Depth = Depth.FILES
    limits: Mapping[str, int] = field(default_factory=dict)
    rules: Sequence[str] = tuple(RULES)
    parallelism: int = DEFAULT_PARALLELISM
    most_findings: int = 100_000
    most_tables: int = 100_000
    history: str | None = None
    since_last: bool = False
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.since_last and self.history is None:
            raise LancensError("`since-last` needs `history`, which keeps what the last run saw")

    def measures(self) -> RuleLimits:
        """Return the limits of the rules."""
        return RuleLimits(self.now, self.stale_after, **self.limits)

    def settings(self) -> AuditSettings:
        """Return the options for the document."""
        return AuditSettings(
            stale_after_days=None if self.stale_after is None else self.stale_after.days,
            rules=tuple(RuleInfo.model_validate(RULES[name], from_attributes=True) for name in self.rules),
            depth=self.depth,
            limits={name: getattr(self.measures(), name) for name in LIMITS},
            exclude=tuple(self.exclude),
        )


def audit(
    engine: SparkSession | SparkOptions | None,
    manifest: Manifest,
    options: AuditOptions,
    cache: ProbeCache | None = None,
) -> AuditDocument:
    """Return the findings about the tables and datasets of ``manifest``.

    Tables are those in its scope, datasets those under its roots.

    The document names what could not be read. ``engine`` is the session to work in, or where to start Spark if the
    catalogs are not small; None is this process. ``cache`` holds the probe results of earlier audits.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
        LancensError: a catalog refuses its configuration, or cannot be reached by Spark.
        SelectionError: a glob to exclude begins with no catalog of the manifest.
    """
    began = monotonic()
    suppressions = Suppressions.of(manifest, options.now.date())
    check_begins_with_catalog(options.exclude, manifest)
    specs = catalog_specs(manifest, parallelism=options.parallelism)
    catalogs = read_catalog_info(manifest, specs, options.exclude)
    with ExitStack() as stack:
        spark, entries, coverage = read_entries(engine, manifest, catalogs, stack, cache)
        evaluator = Evaluator(
            catalogs,
            options.measures(),
            options.rules,
            coverage.unread_in(),
            coverage.teams,
            options.depth,
            suppressions,
            cache,
        )
        evaluated, figures = _evaluate_tables(spark, entries, coverage.tables, evaluator, stack)
        orphans = None
        if "orphan" in options.rules:
            orphans = _evaluate_orphans(spark, evaluated, evaluator, coverage, stack)
        with stage(spark, "Adding up"):
            checked = evaluated if orphans is None else evaluated.union(orphans)
            document = _document(manifest, checked, figures, coverage, catalogs, options, suppressions)
    finished = options.now + timedelta(seconds=monotonic() - began)
    return _with_manifest_locations(document.model_copy(update={"finished": finished}), manifest)


def _with_manifest_locations(document: AuditDocument, manifest: Manifest) -> AuditDocument:
    """Return ``document`` with placeholders for locations that are secret.

    The manifest takes those from the environment or a file.
    """
    quoted = partial(json.dumps, ensure_ascii=False)
    replacements = {
        quoted(location)[1:-1]: quoted(text)[1:-1] for location, text in secret_locations_of(manifest).items()
    }
    return (
        AuditDocument.model_validate_json(location_hider(replacements)(document.model_dump_json()))
        if replacements
        else document
    )


def _evaluate_tables(
    spark: SparkSession | None, entries: Frame, number: int, evaluator: Evaluator, stack: ExitStack
) -> tuple[Frame, Figures]:
    """Probe ``number`` tables and apply the rules.

    Return rows of ``EVALUATED``, and the figures of the live tables.
    """
    with stage(spark, f"Looking at {count(number, 'table')} in storage"):
        evaluated = (
            with_relations(entries.persisted(stack), number)
            .map(evaluator, EVALUATED, probe_tasks(number))
            .persisted(stack)
        )
        return evaluated, figures_of(evaluated)  # this query computes the frame, so it belongs to the stage


def _evaluate_orphans(
    spark: SparkSession | None, evaluated: Frame, evaluator: Evaluator, coverage: Coverage, stack: ExitStack
) -> Frame | None:
    """Search the roots for unregistered datasets.

    Return rows of ``EVALUATED`` for them, None if there are none. What could not be searched is added to ``coverage``.
    """
    search = searchable_roots(evaluator.catalogs.values(), evaluator.unread, coverage.directories)
    coverage.notes += search.reasons
    if not search.roots:
        return None
    with stage(spark, f"Searching {count(len(search.roots), 'root')} for orphans") as note:
        claim_rows = evaluated.select(*CLAIMS.names).union(evaluated.select("bases").map(base_claims, CLAIMS))
        claims = claim_rows.aggregated(("data_place",), {"closed": "max"}).cut(row_tasks(coverage.tables))
        result = find_orphans(spark, search, evaluator.catalogs, claims)
        coverage.failures += result.failures
        coverage.notes += result.notes
        if result.is_cut_short:
            coverage.notes.append(f"Orphans were not looked for more than {DEEPEST} directories below a root")
        if result.datasets is None:
            note(count(0, "orphan"))
            return None
        named = result.datasets.map(DatasetNamer.of(evaluator.catalogs, search), DATASETS)
        orphans = named.map(evaluator, EVALUATED, probe_tasks(result.number)).persisted(stack)
        counted = orphans.aggregated(("sound",), {"name": "count"}).rows()
        note(count(sum(row["name"] for row in counted if not row["sound"]), "orphan"))
    return orphans


def _document(
    manifest: Manifest,
    evaluated: Frame,
    figures: Figures,
    coverage: Coverage,
    catalogs: Mapping[str, CatalogInfo],
    options: AuditOptions,
    suppressions: Suppressions,
) -> AuditDocument:
    """Return the document: findings, counts, coverage and tables.

    It is not yet ``finished``.
    """
    findings, counts, suppressed = _findings(evaluated, coverage, options, suppressions)
    severities = SeverityCounts(
        **{severity.value: sum(getattr(rule, severity.value) for rule in counts.by_rule) for severity in Severity}
    )
    tables = tables_of(evaluated, options.most_tables)
    unknown = () if options.depth.includes(Depth.FILES) else AMOUNTS_OF_FILES
    unread_in = coverage.unread_in()
    return AuditDocument(
        lancens_version=version("lancens"),
        run_id=uuid.uuid4().hex,
        started=options.now,
        finished=options.now,
        manifest=reference(manifest),
        settings=options.settings(),
        coverage=tuple(
            CatalogCoverage(
                name=name,
                impl=catalog.spec.impl,
                namespaces=coverage.namespaces.get(name, 0),
                namespaces_unread=len(unread_in.get(name, frozenset()) - {()}),
                tables=figures.tables[name],
                tables_looked_at=figures.tables[name] - figures.carried[name],
                tables_unreadable=figures.unreadable[name],
            )
            for name, catalog in catalogs.items()
        ),
        carried_since=figures.carried_since,
        failures=(*coverage.unread, *coverage.failures),
        notes=(
            *coverage.notes,
            *_unused_suppressions(suppressed, options),
            *_unused_exclusions(evaluated, manifest, coverage, options),
        ),
        totals=Totals(
            catalogs=len(catalogs),
            namespaces=sum(coverage.namespaces.values()),
            tables=figures.tables.total(),
            findings=severities,
            **{name: amount for name, amount in figures.amounts.items() if name not in unknown},
        ),
        counts=counts,
        findings=tuple(findings),
        findings_left_out=max(0, severities.total - options.most_findings),
        suppressed=suppressed,
        tables=tuple(tables),
        tables_left_out=figures.tables.total() - len(tables),
        sizes=figures.sizes,
        ages=figures.ages,
    )


def _findings(
    evaluated: Frame, coverage: Coverage, options: AuditOptions, suppressions: Suppressions
) -> tuple[Sequence[Finding], FindingCounts, Sequence[Suppressed]]:
    """Return the most severe findings, the counts of all, and the suppressions in force."""
    unread = [unread_namespace(failure.catalog, failure.namespace, failure.message) for failure in coverage.unread]
    driver_findings = [
        (finding, suppressions.covering(finding))
        for finding in (*unread, *suppressions.findings())
        if finding.rule in options.rules
    ]
    numbers = Counter(position for _, position in driver_findings if position is not None)
    if suppressions.in_force:
        numbers += suppressed_of(evaluated)
    unsuppressed = [finding for finding, position in driver_findings if position is None]
    rows = evaluated.where("sound", False).map(each_finding, FINDINGS)
    first = findings_of(rows, options.most_findings)
    # Count on the executors only if there are more findings than these.
    is_cut = len(first) == options.most_findings
    tallies = tallies_of(rows) if is_cut else Counter(map(FindingCounts.group_of, first))
    tallies.update(map(FindingCounts.group_of, unsuppressed))
    urgent = sorted([*unsuppressed, *first], key=lambda finding: finding.rank)
    return urgent[: options.most_findings], FindingCounts.of(tallies), suppressions.with_numbers(numbers)


def _unused_suppressions(suppressed: Sequence[Suppressed], options: AuditOptions) -> Iterator[str]:
    """Yield a note on each suppression without a finding."""
    for suppression in suppressed:
        if not suppression.findings and suppression.rule in options.rules:
            scope = f"`{suppression.rule}` for `{suppression.match}`"
            yield f"{suppression.source}: the suppression of {scope} matches no finding in {suppression.catalog}"


def _unused_exclusions(
    evaluated: Frame, manifest: Manifest, coverage: Coverage, options: AuditOptions
) -> Iterator[str]:
    """Yield a note on each glob of ``exclude`` that matches nothing, unless what it names may not have been read."""
    if not options.exclude:
        return
    needed = checkable(options.exclude, manifest, manifest.catalogs.keys() - coverage.unread_in().keys())
    matching = excluding_in(evaluated) if needed else set()
    for position, glob in enumerate(options.exclude):
        if glob in needed and position not in matching:
            yield f"`{glob}` of `--exclude` matches no table; names are catalog/namespace/table"
