"""``--metrics FILE``: one run in numbers, in OpenMetrics' text format, which Prometheus' own readers take too.

docs/monitoring.md lists the names and labels. Labels hold names of the manifest and of lancens, never of an object.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.results import check_folder, print_line
from reconciler.model.errors import LancensError, MissingExtraError
from reconciler.model.files import write_file
from reconciler.operations.profile import Profile, span

if TYPE_CHECKING:
    from reconciler.applier.report import ApplyReport
    from reconciler.auditor.document import AuditDocument
    from reconciler.planner.plan import Plan

_INTERRUPTED = 130
_LAST_SUCCESS = "lancens_last_success_timestamp_seconds"
METRICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "lancens_exit_code": ("The exit code.", ()),
    "lancens_success": ("1 if the command did what it is for, which includes finding drift; otherwise 0.", ()),
    "lancens_last_run_timestamp_seconds": ("When the last run ended.", ()),
    _LAST_SUCCESS: ("When the last run with `lancens_success` 1 ended.", ()),
    "lancens_duration_seconds": ("The time that the run took.", ()),
    "lancens_tables": ("The Lance tables that were read.", ("catalog",)),
    "lancens_objects": ("Namespaces and tables by the state they were found in.", ("catalog", "state")),
    "lancens_changes": ("Changes by how they ended.", ("catalog", "action", "outcome")),
    "lancens_stage_seconds": ("The time that a stage took.", ("catalog", "stage")),
    "lancens_stage_calls": ("The requests to a catalog.", ("catalog", "stage")),
    "lancens_stage_bytes": ("The bytes of a catalog's answers.", ("catalog", "stage")),
    "lancens_findings": ("Findings of the audit.", ("rule", "severity")),
}
"""Each metric's help, and its labels after ``command`` and ``manifest``. All are gauges: the numbers of one run."""

_Sample = tuple[str, float, tuple[str, ...]]


@dataclass
class RunMetrics:
    """The results of one run, for ``--metrics``; the command fills them in."""

    command: str
    manifest: str = ""
    profile: Profile = field(default_factory=Profile)
    plan: Plan | None = None
    report: ApplyReport | None = None
    document: AuditDocument | None = None

    def write(self, path: str, code: int) -> None:
        """Write the metrics of a run that exited with ``code`` to the file ``path``.

        The time of the last success is kept from the file if this run failed.

        Raises:
            LancensError: the file cannot be written.
        """
        from prometheus_client.core import GaugeMetricFamily
        from prometheus_client.openmetrics.exposition import generate_latest

        families: dict[str, GaugeMetricFamily] = {}
        last_success = self._last_success(path)
        self.manifest = self.manifest or last_success.get("manifest", "")
        for name, (text, labels) in METRICS.items():
            families[name] = GaugeMetricFamily(name, text, labels=("command", "manifest", *labels))
        for name, value, label_values in (*self._exit_samples(code, last_success), *self._result_samples()):
            families[name].add_metric((self.command, self.manifest, *label_values), value)
        registry = SimpleNamespace(collect=families.values)
        write_file(path, generate_latest(registry))

    def _last_success(self, path: str) -> Mapping[str, Any]:
        """Return the labels and the ``value`` of the last success in the file.

        The result is empty if there is no file, or another command or manifest wrote it.
        """
        from prometheus_client.openmetrics.parser import text_string_to_metric_families

        with suppress(OSError, ValueError):  # there is no file yet, or another program's
            text = Path(path).read_text("utf-8")
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    known = self.manifest or sample.labels.get("manifest")
                    labels = {"command": self.command, "manifest": known}
                    if sample.name == _LAST_SUCCESS and sample.labels == labels:
                        return {**labels, "value": sample.value}
        return {}

    def _exit_samples(self, code: int, last_success: Mapping[str, Any]) -> Iterator[_Sample]:
        now = time()
        success = code in (0, 2) or (code == 3 and self.command != "apply")
        yield "lancens_exit_code", code, ()
        yield "lancens_success", success, ()
        yield "lancens_last_run_timestamp_seconds", now, ()
        if success or last_success:
            yield _LAST_SUCCESS, now if success else last_success["value"], ()
        yield "lancens_duration_seconds", self.profile.seconds, ()

    def _result_samples(self) -> Iterator[_Sample]:
        yield from _stage_samples(self.profile)
        if self.plan is not None:
            for catalog in self.plan.catalogs:
                yield "lancens_tables", catalog.tables, (catalog.name,)
            yield from _object_samples(self.plan)
            yield from _change_samples(self.plan, self.report)
        if self.document is not None:
            for coverage in self.document.coverage:
                yield "lancens_tables", coverage.tables, (coverage.name,)
            yield from _finding_samples(self.document)


def _stage_samples(profile: Profile) -> Iterator[_Sample]:
    for name in ("seconds", "calls", "bytes"):
        sums: Counter[tuple[str, str]] = Counter()
        for stage in profile.stages:
            if (amount := getattr(stage, name)) is not None:
                sums[stage.catalog or "", stage.stage] += amount
        for labels, total in sums.items():
            yield f"lancens_stage_{name}", total, labels


def _object_samples(plan: Plan) -> Iterator[_Sample]:
    """Yield the objects of each catalog by state.

    A plan of selected objects does not know how many of the others are in step.
    """
    by_state = {"drifted": (*plan.changes, *plan.waiting), "blocked": plan.blocked, "protected": plan.guards}
    counts = Counter((entry.catalog, state) for state, entries in by_state.items() for entry in entries)
    in_manifest = {entry.key for entries in by_state.values() for entry in entries if entry.source is not None}
    out_of_step = Counter(catalog for catalog, *_ in in_manifest)
    for catalog in plan.catalogs:
        name = catalog.name
        states = {state: counts[name, state] for state in by_state} | {"unmanaged": catalog.unmanaged_tables}
        if not (plan.options.select or plan.options.exclude):
            states["in_step"] = catalog.desired_objects + (catalog.mirrored_tables or 0) - out_of_step[name]
        for state, number in states.items():
            yield "lancens_objects", number, (name, state)


def _change_samples(plan: Plan, report: ApplyReport | None) -> Iterator[_Sample]:
    """Yield the number of changes by outcome; without ``report``, nothing was applied."""
    outcomes = [(change, "waiting") for change in plan.waiting]
    if report is None:
        outcomes += [(change, "planned") for change in plan.changes]
    else:
        outcomes += [(result.change, result.status.value) for result in report.results]
    counts = Counter((change.catalog, change.action.value, outcome) for change, outcome in outcomes)
    for labels, number in counts.items():
        yield "lancens_changes", number, labels


def _finding_samples(document: AuditDocument) -> Iterator[_Sample]:
    """Yield the number of findings of every rule that was applied, 0 included."""
    counts = {count.rule: count for count in document.counts.by_rule}
    for rule in document.settings.rules:
        for severity in ("error", "warning", "note"):
            yield "lancens_findings", getattr(counts.get(rule.name), severity, 0), (rule.name, severity)


def metrics_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--metrics``; the command receives a :class:`RunMetrics` to fill in as ``run``."""

    @functools.wraps(command)
    def run_and_measure(metrics: str | None, **options: Any) -> None:
        name = click.get_current_context().command.name or ""
        run = RunMetrics(name)
        if metrics is not None:
            check_folder(metrics)
            if find_spec("prometheus_client") is None:
                raise MissingExtraError("`--metrics`", "metrics")
        try:
            with span(name, {}):
                command(run=run, **options)
        except BaseException as error:
            if metrics is not None:
                _write_after_error(error, run, metrics)
            raise
        if metrics is not None:
            run.write(metrics, 0)

    return click.option(
        "--metrics",
        metavar="FILE",
        help="Write the run in numbers, in OpenMetrics' text format, also if it fails.",
    )(run_and_measure)


def _write_after_error(error: BaseException, run: RunMetrics, path: str) -> None:
    """Write the metrics of a run that ended with ``error``.

    If they cannot be written, that is only printed: ``error`` stays the one to report.
    """
    code: object = error.code if isinstance(error, SystemExit) else 1
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        code = _INTERRUPTED
    try:
        run.write(path, code if isinstance(code, int) else 0)
    except LancensError as failure:
        print_line(str(failure), err=True)
