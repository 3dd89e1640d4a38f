"""Keep the runs of audits in a Lance dataset, one row and commit a run.

A run is appended whole or not at all; concurrent appends all succeed. The schema is marked with a format version, so
that no other dataset and no later format is read as a history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from reconciler import storage
from reconciler.auditor.document import AuditDocument, PastFinding, RunSummary, Suppressed
from reconciler.auditor.probe_cache import FOLDER
from reconciler.auditor.rules.losses import unreadable
from reconciler.auditor.rules.stored import orphan
from reconciler.auditor.suppressions import Suppressions
from reconciler.model import locations
from reconciler.model.errors import BackendError, ConcurrentModificationError, LancensError
from reconciler.model.live import Storage, StorageKind
from reconciler.pipeline.schemas import Row

FORMAT_VERSION = 1
_MARK = b"lancens.history"
_ATTEMPTS = 30
_RUNS_SHOWN = 200


def append(uri: str, document: AuditDocument, options: Mapping[str, str]) -> None:
    """Append the run of ``document`` to the history at ``uri``, or create it.

    Args:
        uri: a location for pylance.
        document: the audit.
        options: pylance's storage options.

    Raises:
        LancensError: ``uri`` holds something else or a history of a later lancens, or cannot be written.
    """
    import lance

    rows = _run_table(document)
    with _history_errors(uri, options):
        for _ in range(_ATTEMPTS):
            dataset = _open(uri, options)
            if dataset is None:
                storage.commit_first(uri, rows, options)
            elif dataset.count_rows(filter=_run_filter(document.run_id)):  # an earlier attempt has committed it
                return
            else:
                with suppress(ConcurrentModificationError), storage.next_versions(uri, options) as latest:
                    lance.write_dataset(rows, latest, mode="append")
    raise _unusable_error(uri, f"other writers won each of {_ATTEMPTS} attempts; run the audit again")


def read(uri: str, options: Mapping[str, str]) -> list[RunSummary]:
    """Return the runs in the history at ``uri`` as they were appended.

    There are none if it is new.

    Raises:
        LancensError: ``uri`` holds something else or a history of a later lancens, or cannot be read.
    """
    with _history_errors(uri, options):
        rows = storage.read_latest(partial(_open, uri, options), _summary_rows)
    try:
        return [RunSummary.model_validate(row) for row in rows]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise _unusable_error(uri, f"a run in it is damaged at {path}: {first['msg']}") from None


def with_trend(document: AuditDocument, runs: Iterable[RunSummary]) -> AuditDocument:
    """Return ``document`` with the latest runs of its manifest and settings.

    They are its ``history``; its own run is the last.
    """
    current = document.summary()
    earlier = [run for run in runs if run.series == current.series and run.run_id != current.run_id]
    return document.model_copy(update={"history": (*earlier[-_RUNS_SHOWN:], current)})


def with_past_findings(document: AuditDocument, uri: str, options: Mapping[str, str]) -> AuditDocument:
    """Return ``document`` with its findings' first times, and past findings.

    Past findings are those of the run before that it has not.

    Args:
        document: the audit, from :func:`with_trend`: the last run but one of its ``history`` has the past findings.
        uri: the location of the history.
        options: pylance's storage options.

    Raises:
        LancensError: the history cannot be read.
    """
    before = _findings_of(document.history[-2].run_id, uri, options) if len(document.history) > 1 else []
    earlier = {life.fingerprint: life for life in before if not life.gone}
    since = {name: life.first_seen for name, life in earlier.items()}
    findings = [
        finding.model_copy(update={"first_seen": since.get(finding.fingerprint, document.finished)})
        for finding in document.findings
    ]
    ended = earlier.keys() - {finding.fingerprint for finding in findings}
    unread = {finding.address for finding in findings if finding.rule == unreadable.name}
    partly_read = _partly_read_catalogs(document)
    suppressed = _by_suppressions(document.suppressed)
    gone = {
        name: not suppressed(earlier[name]) and _is_gone(document, unread, partly_read, earlier[name]) for name in ended
    }
    past = [life.model_copy(update={"gone": gone[name]}) for name, life in earlier.items() if name in ended]
    return document.model_copy(update={"findings": tuple(findings), "past": tuple(past)})


def _partly_read_catalogs(document: AuditDocument) -> frozenset[str]:
    """Return the catalogs that were not read completely, or whose unreadable tables are not listed."""
    lists_unread = unreadable.name in {rule.name for rule in document.settings.rules}
    unread = () if lists_unread else (catalog.name for catalog in document.coverage if catalog.tables_unreadable)
    return document.incomplete_catalogs.union(unread)


def _by_suppressions(suppressed: Sequence[Suppressed]) -> Callable[[PastFinding], bool]:
    """Return whether a finding of an earlier run is suppressed, or its table may be: as unreadable."""
    declared = Suppressions(suppressed, ())
    in_use = Suppressions([suppression for suppression in suppressed if suppression.findings], ())

    def is_suppressed(life: PastFinding) -> bool:
        as_unreadable = life.model_copy(update={"rule": unreadable.name})
        return declared.covering(life) is not None or in_use.covering(as_unreadable) is not None

    return is_suppressed


def _is_gone(document: AuditDocument, unread: Collection[str], partly_read: Collection[str], life: PastFinding) -> bool:
    """Return whether a finding of an earlier run is gone.

    It may merely be left out or unread. An orphan is gone only if everything was read: a root that is not searched
    hides the orphans of other catalogs, too.
    """
    is_unread = (
        life.address in unread or life.catalog in partly_read or (life.rule == orphan.name and not document.complete)
    )
    return not (is_unread or document.findings_left_out)


def _findings_of(run_id: str, uri: str, options: Mapping[str, str]) -> list[PastFinding]:
    """Return the findings of a run, and the past findings that it lists."""
    with _history_errors(uri, options):
        runs = _open(uri, options).to_table(columns=["findings"], filter=_run_filter(run_id)).to_pylist()
    return [PastFinding.model_validate(life) for run in runs for life in run["findings"]]


def rows(uri: str, options: Mapping[str, str], columns: Collection[str]) -> Iterator[Row]:
    """Yield the ``columns`` of every run.

    Raises:
        LancensError: there is no history, or it cannot be read.
    """
    with _history_errors(uri, options):
        dataset = _open(uri, options)
        if dataset is None:
            raise _unusable_error(uri, "nothing is there; `lancens audit --history` makes one")
        for batch in dataset.to_batches(columns=list(columns)):
            yield from batch.to_pylist()


# ---- the dataset -----------------------------------------------------------------------------------------------------


def schema() -> pa.Schema:
    """Return the schema of the history, which has a row for each run."""
    text, number = pa.string(), pa.int64()
    counts = [(severity, number) for severity in ("error", "warning", "note")]
    sums = ("rows", "bytes", "rows_unknown", "bytes_unknown", "fragments", "bytes_on_disk", "reclaimable")
    totals = ("catalogs", "namespaces", "tables", *sums)
    figures = [(name, number) for name in totals]
    names = [(name, text) for name in ("rule", "severity", "catalog")]
    when = [(name, pa.timestamp("us", tz="UTC")) for name in ("first_seen", "last_seen")]
    lives = [("fingerprint", text), *names, ("namespace", pa.list_(text)), ("name", text), *when, ("gone", pa.bool_())]
    seen = ("namespaces", "namespaces_unread", "tables", "tables_looked_at", "tables_unreadable")
    return pa.schema(
        [
            ("run_id", text),
            ("finished", pa.timestamp("us", tz="UTC")),
            ("manifest", text),
            ("complete", pa.bool_()),
            ("settings", text),
            ("totals", pa.struct([*figures, ("findings", pa.struct(counts))])),
            ("coverage", pa.list_(pa.struct([("name", text), ("impl", text), *((name, number) for name in seen)]))),
            ("by_rule", pa.list_(pa.struct([("rule", text), *counts]))),
            ("by_catalog", pa.list_(pa.struct([("catalog", text), *counts]))),
            ("findings", pa.list_(pa.struct(lives))),
        ],
        metadata={_MARK: str(FORMAT_VERSION)},
    )


def _run_table(document: AuditDocument) -> pa.Table:
    """Return the row of a run: its summary, its findings and past ones."""
    now = document.finished
    current = {"last_seen": now, "gone": False}
    records = [
        {**finding.model_dump(), **current, "first_seen": finding.first_seen or now, "fingerprint": finding.fingerprint}
        for finding in document.findings
    ]
    records += [finding.model_dump() for finding in document.past]
    lives = [{**life, "severity": life["severity"].value} for life in records]
    return pa.Table.from_pylist([{**document.summary().model_dump(), "findings": lives}], schema=schema())


def _open(uri: str, options: Mapping[str, str]) -> Any:
    """Return the history at ``uri`` as an open dataset; None if there is none yet.

    Raises:
        LancensError: ``uri`` holds something else, or a history of another version.
    """
    dataset = storage.examine(uri, options, lambda opened: opened)
    if isinstance(dataset, Storage):
        # Lance never reads what an interrupted first audit leaves.
        cut_off = dataset.kind is StorageKind.NOT_LANCE and storage.holds_first_write(uri, _MARK, options, FOLDER)
        if dataset.kind is StorageKind.NOTHING or cut_off:
            return None
        raise _unusable_error(uri, dataset.detail)
    version = (dataset.schema.metadata or {}).get(_MARK, b"").decode()
    if not version.isdecimal():
        raise _unusable_error(
            uri, "it holds a Lance dataset that is not an audit history; give --history a place of its own"
        )
    if int(version) > FORMAT_VERSION:
        raise _unusable_error(
            uri, f"it has version {version}, this lancens knows {FORMAT_VERSION}; install a later lancens"
        )
    missing = [name for name in schema().names if name not in dataset.schema.names]
    if missing:
        raise _unusable_error(
            uri, f"it has no column `{missing[0]}`, as an earlier lancens wrote it; give --history a new place"
        )
    return dataset


def _summary_rows(dataset: Any | None) -> list[Row]:
    """Return the runs in the history without their findings; none without a history."""
    names = [name for name in schema().names if name != "findings"]  # which are many
    rows: list[Row] = [] if dataset is None else dataset.to_table(columns=names).to_pylist()
    return rows


def _run_filter(run_id: str) -> str:
    return "run_id = '" + run_id.replace("'", "''") + "'"


@contextmanager
def _history_errors(uri: str, options: Mapping[str, str]) -> Iterator[None]:
    """Raise errors of storage as a LancensError, which names the history."""
    try:
        with storage.translated(uri, options):
            yield
    except BackendError as error:
        raise _unusable_error(uri, str(error)) from None


def _unusable_error(uri: str, why: str) -> LancensError:
    return LancensError(f"{locations.redact(uri)} cannot be used as the history of audits: {why}")
