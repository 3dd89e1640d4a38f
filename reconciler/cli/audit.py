"""``lancens audit``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from reconciler.auditor.records import ROUNDS, Depth, Severity
from reconciler.auditor.rules import LIMITS, RULES
from reconciler.cli.metrics import RunMetrics, metrics_option
from reconciler.cli.options import CatalogSource, catalog_options, parallelism_option, session_options
from reconciler.cli.results import say, write_result
from reconciler.model.display import count
from reconciler.model.errors import LancensError

if TYPE_CHECKING:
    from reconciler.auditor.document import AuditDocument
    from reconciler.spark.session import Session

_MOST_NAMED = 10
_SEVERITIES = [severity.value for severity in Severity]
_TELL_UNREADABLE = {"unreadable", "unknown-scheme"}
_RULE = click.Choice(list(RULES))
_LIMIT_NAMES = [name.replace("_", "-") for name in LIMITS]


def _read_limits(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """Return the values of ``--limit`` by the names that the rules use.

    Raises:
        click.BadParameter: a name is unknown, or a value is not a whole number.
    """
    limits: dict[str, int] = {}
    for text in given:
        name, _equals, number = text.partition("=")
        if name not in _LIMIT_NAMES:
            raise click.BadParameter(f"'{name}' is not one of {', '.join(map(repr, _LIMIT_NAMES))}")
        if not (number.isascii() and number.isdecimal()):
            raise click.BadParameter(f"'{text}': expected a whole number from 0, as in {name}=100")
        limits[name.replace("-", "_")] = int(number)
    return limits


@click.command("audit", epilog=f"Rules: {', '.join(RULES)}.")
@catalog_options("Audit a catalog that no manifest describes.")
@click.option("--out", metavar="DIR", help="Write the report here: HTML, JSON, SARIF, JUnit and Parquet.")
@click.option("--history", metavar="URI", help="Append the run to this Lance dataset; the report shows the trend.")
@click.option(
    "--since-last",
    is_flag=True,
    help="Look in storage only at datasets with a new version since the last run in --history, and at a share of the "
    f"others, all of them in {ROUNDS} runs.",
)
@click.option(
    "--stale-after",
    type=click.IntRange(1, 36_500),
    default=180,
    metavar="DAYS",
    help="A last commit older than this makes a table stale.",
)
@click.option(
    "--depth",
    type=click.Choice([depth.value for depth in Depth]),
    default=Depth.FILES.value,
    help="Read the latest version of each dataset (quick), or list its files as well, once (files).",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    callback=_read_limits,
    help=f"A threshold of the rules: {', '.join(_LIMIT_NAMES)}. Can be repeated.",
)
@click.option("--rule", "rules", multiple=True, type=_RULE, metavar="RULE", help="Run this rule only. Can be repeated.")
@click.option("--skip-rule", "skipped", multiple=True, type=_RULE, metavar="RULE", help="Leave this rule out.")
@click.option(
    "--fail-on",
    type=click.Choice([*_SEVERITIES, "never"]),
    default="never",
    help="Exit 2 if there is a finding of this severity or higher, or an unreadable table with its rules left out.",
)
@metrics_option
@session_options
@parallelism_option("Requests to a catalog at once, of each task.")
def command(
    source: CatalogSource,
    out: str | None,
    history: str | None,
    since_last: bool,
    stale_after: int,
    depth: str,
    limits: Mapping[str, int],
    rules: tuple[str, ...],
    skipped: tuple[str, ...],
    fail_on: Literal["error", "warning", "note", "never"],
    session: Session,
    parallelism: int,
    run: RunMetrics,
) -> None:
    """Check every table and its data, and report each finding with a remedy. Nothing is changed.

    It runs in this process or on Spark (--engine). Exit 1 if something could not be read. With --impl it needs no
    manifest, and leaves out the rules that compare with one. Without --out it prints the most severe findings.

    \b
    Examples:
      lancens audit --impl hive3 --config uri=thrift://metastore:9083
      lancens audit --out report
      lancens audit prod.yaml --out report --history s3://ops/audits.lance --since-last --fail-on error
      lancens audit prod.yaml --out report --rule orphan --rule dangling
    """
    if since_last and history is None:
        raise click.UsageError("--since-last needs --history, which keeps what the last run saw")
    applied = _applied(rules, skipped, source.impl)
    manifest = source.load_existing()
    run.manifest = manifest.name if source.impl is None else "no manifest"  # no label holds a location
    folder = None if out is None else _create_folder(out)
    from reconciler.auditor import history as runs
    from reconciler.auditor.audit import AuditOptions, audit
    from reconciler.auditor.looks import Looks

    earlier = runs.read(history, {}) if history is not None else []
    options = AuditOptions(
        now=datetime.now(UTC),
        stale_after=timedelta(days=stale_after),
        depth=Depth(depth),
        limits=limits,
        rules=applied,
        parallelism=parallelism,
    )
    if history is not None:
        series, rounds = (manifest.name, options.settings().text), ROUNDS if since_last else 1
        options = replace(options, looks=Looks.of(history, earlier, series, options.now, rounds))
    with session as spark:
        document = run.document = audit(spark, manifest, options)
    if history is not None:
        document = runs.with_lives(runs.with_trend(document, earlier), history, {})
    if folder is not None:
        _write(document, folder)
    _print(document, folder)
    if history is not None and options.looks is not None:
        runs.append(history, document, {})
        options.looks.forget()
    sys.exit(_exit_code(document, fail_on))


def _applied(rules: tuple[str, ...], skipped: tuple[str, ...], impl: str | None) -> list[str]:
    """Return the names of the rules to run.

    Without a manifest, rules that compare with one run only if they are named.

    Raises:
        UsageError: no rule is left.
    """
    chosen = rules or [name for name, rule in RULES.items() if impl is None or not rule.needs_manifest]
    applied = [name for name in RULES if name in chosen and name not in skipped]
    if not applied:
        raise click.UsageError("every rule is left out; pass fewer --skip-rule")
    return applied


def _create_folder(out: str) -> Path:
    """Create and return the report's folder, before the audit rather than after it."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LancensError(f"{out} cannot be created: {error.strerror}; name a folder with --out") from None
    return folder


def _write(document: AuditDocument, folder: Path) -> None:
    from reconciler.report.html import render_html
    from reconciler.report.json import render_json
    from reconciler.report.junit import render_junit_findings
    from reconciler.report.parquet import write_parquet
    from reconciler.report.sarif import render_sarif

    for name, text in (
        ("audit.json", render_json(document)),
        ("audit.sarif", render_sarif(document)),
        ("audit.junit.xml", render_junit_findings(document)),
        ("audit.html", render_html(document)),
    ):
        write_result(text, str(folder / name))
    try:
        write_parquet(document, folder)
    except OSError as error:
        raise LancensError(f"{folder} cannot be written: {error.strerror or error}") from None


def _exit_code(document: AuditDocument, fail_on: str) -> int:
    if not document.complete:
        return 1
    if fail_on == "never":
        return 0
    applied = {rule.name for rule in document.settings.rules}
    is_blind = document.tables_unreadable > 0 and not applied >= _TELL_UNREADABLE
    failing = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    return 2 if is_blind or any(getattr(document.totals.findings, severity) for severity in failing) else 0


def _print(document: AuditDocument, folder: Path | None) -> None:
    rest = _worst(document) if folder is None else [f"Report: {folder / 'audit.html'}"]
    for line in (*_summary(document), *rest):
        say(line)
    for line in _remarks(document):
        say(line, err=True)


def _summary(document: AuditDocument) -> Iterator[str]:
    """Yield the coverage, then the findings by rule."""
    from reconciler.model import figures

    totals, found = document.totals, document.totals.findings
    if not document.complete:
        missing = count(len(document.failures), "part")
        yield f"NOT COMPLETE: {missing} could not be read, so their content is unknown."
    where = f"{count(totals.namespaces, 'namespace')} of {count(totals.catalogs, 'catalog')}"
    data = figures.with_unknown(figures.size(totals.bytes), totals.bytes_unknown)
    yield f"Checked {count(totals.tables, 'table')} in {where}, {data} of data."
    if document.tables_unreadable:
        yield f"{count(document.tables_unreadable, 'table')} could not be opened."
    if document.carried_since is not None:
        yield f"Carried over since {figures.moment(document.carried_since)}: {document.carried_over}."
    if document.suppressed:
        yield f"{count(sum(one.findings for one in document.suppressed), 'finding')} suppressed by the manifest."
    if gone := sum(one.gone for one in document.past):
        yield f"{count(gone, 'finding')} gone since {figures.moment(document.history[-2].finished)}."
    if not found.total:
        yield "No findings."
        return
    yield f"{found.text}:"
    width = max(len(counted.rule) for counted in document.counts.by_rule)
    for counted in sorted(document.counts.by_rule, key=lambda rule: (-rule.error, -rule.warning, -rule.note)):
        yield f"  {counted.rule:<{width}}  {counted.text}"


def _worst(document: AuditDocument) -> Iterator[str]:
    """Yield the most severe findings with their remedies, as many as fit a terminal."""
    grave = [found for found in document.findings if found.severity is not Severity.NOTE]
    for found in grave[:_MOST_NAMED]:
        yield ""
        yield f"{found.severity.value}: {found.rule}: {found.address}"
        yield f"  {found.reason}"
        yield f"  {found.remedy}"
    if len(grave) > _MOST_NAMED:
        yield ""
        yield f"and {len(grave) - _MOST_NAMED:,} more errors and warnings, which --out DIR writes to a report"


def _remarks(document: AuditDocument) -> Iterator[str]:
    """Yield the notes and the failures."""
    failures = [f"{failure.address}: {failure.message}" for failure in document.failures]
    for lines in (document.notes, failures):
        yield from lines[:_MOST_NAMED]
        if len(lines) > _MOST_NAMED:
            yield f"and {len(lines) - _MOST_NAMED:,} more, which are in the report"
