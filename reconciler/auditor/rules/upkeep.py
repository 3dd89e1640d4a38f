"""Rules about the cost of data: fragments, versions, files and indices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from reconciler.auditor.records import NOT_PROBED, LocationContent, Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, first_few, rule
from reconciler.model import figures
from reconciler.model.auto_cleanup import INTERVAL
from reconciler.model.display import count

_VECTOR = re.compile(r"fixed_size_list<(?:float|double|halffloat|bfloat)")
_UNINDEXED_SHARE = 0.1
_LONGEST = 40
_COMPACT = "Compact them with `lance.dataset(…).optimize.compact_files()`, best after each write of the table"


_REPLACE_OLD = (
    "pylance cannot add rows to an IVF index that pylance 0.20 or older wrote: replace it with "
    "`lance.dataset(…).create_index(…, replace=True)`."
)
_CLEAN_UP = (
    "`lance.dataset(…).cleanup_old_versions(older_than=…)` removes old versions, and files that only they need. First "
    "tag the versions that shallow clones were made of: a clone loses its data with them"
)


def _maintain_remedy(record: TableRecord, key: str) -> str:
    """Return the sentence that offers `lancens maintain` for a block with ``key``."""
    return f"`lancens maintain --select {quote(record.address)}` does it where its block has `maintain.{key}`."


def _dataset_of(record: TableRecord) -> LocationContent:
    """Return the content of a live table's dataset.

    It has no figure if there is no dataset, or it cannot be opened.
    """
    return record.stored if record.live is not None and record.stored.version is not None else NOT_PROBED


@rule(Severity.WARNING, needs_manifest=True)
def many_fragments(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table has more fragments than the manifest expects

    `expect.max_fragments` in the table's block, or in `defaults`, sets the limit. Each query opens each fragment.
    Frequent small writes leave a fragment a commit until the table is compacted.
    """
    stored, most = _dataset_of(record), record.expect.max_fragments
    if most is not None and (stored.fragments or 0) > most:
        yield Verdict(
            f"it has {count(stored.fragments or 0, 'fragment')}; the manifest expects {most:,} at most",
            f"{_COMPACT}; or correct `expect.max_fragments`. {_maintain_remedy(record, 'compact')}",
        )


@rule(Severity.NOTE)
def small_fragments(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """The table has many small fragments

    More than 100 fragments (`--limit small-fragments=N`) have less than 1 MiB of data each. Each query opens each of
    them, which in an object store takes longer than reading their data.
    """
    stored = _dataset_of(record)
    if (stored.small_fragments or 0) > limits.small_fragments:
        yield Verdict(
            f"{stored.small_fragments:,} of its {count(stored.fragments or 0, 'fragment')} have less than 1 MiB of "
            "data",
            f"{_COMPACT}. {_maintain_remedy(record, 'compact')}",
        )


@rule(Severity.WARNING)
def many_versions(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """The table has many versions

    More than the manifest expects (`expect.max_versions`), which is a warning, or else more than 1,000 (`--limit
    versions=N`), which is a note. Each version keeps the files that it needs, and opening the table lists all
    versions. `--depth quick` leaves this rule out.
    """
    stored = _dataset_of(record)
    if stored.files is None:
        return
    versions, expected = stored.files.versions, record.expect.max_versions
    if expected is not None and versions > expected:
        yield Verdict(
            f"it has {count(versions, 'version')}; the manifest expects {expected:,} at most",
            f"{_CLEAN_UP}. Or correct `expect.max_versions`.",
            Severity.WARNING,
        )
    elif expected is None and versions > limits.versions:
        yield Verdict(f"it has {count(versions, 'version')}", f"{_CLEAN_UP}.", Severity.NOTE)


@rule(Severity.NOTE)
def reclaimable(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """A clean-up would free much storage

    More than 1 GiB (`--limit reclaimable-mib=N`) of the table's files are needed by old versions only, or by none, such
    as those of failed writes and replaced indices. Data files with their blobs, deletion files, and files of indices
    and versions count. Files that tags and branches need are not freed: the finding says how much each holds. `--depth
    quick` leaves this rule out.
    """
    files = _dataset_of(record).files
    if files is None or files.reclaimable is None or files.reclaimable <= limits.reclaimable_bytes:
        return
    details = {"on disk": f"{files.bytes:,}", "reclaimable": f"{files.reclaimable:,}"}
    split = ""
    if files.cleanup is not None:
        old, unneeded = map(figures.size, files.cleanup)
        split = f": old versions need {old}, and no version needs {unneeded}"
        details |= {"old versions": f"{files.cleanup.old:,}", "no version": f"{files.cleanup.unneeded:,}"}
    held = first_few([f"{name} ({figures.size(size)})" for name, size in files.held])
    yield Verdict(
        f"{figures.size(files.reclaimable)} of the {figures.size(files.bytes)} on disk are needed neither by its "
        f"latest version, nor by a tag or branch{split}",
        f"{_CLEAN_UP}. Files that no version needs are removed only after 7 days."
        + (f" It frees nothing that these hold: {held}." if held else ""),
        details=details,
    )


@rule(Severity.NOTE)
def auto_cleanup(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table deletes its old versions by itself

    The configuration of the dataset has `lance.auto_cleanup.interval`, which LanceDB used to set on new tables. Each
    commit whose version is a multiple of it deletes old versions, and files that only they need. lancens never makes
    such a commit; it blocks a table that needs one.
    """
    cleanup = _dataset_of(record).cleanup
    if cleanup is None:
        return
    versions = [f"younger than {cleanup.older_than[:_LONGEST]}"] if cleanup.older_than is not None else []
    versions += [f"the latest {cleanup.retain_versions[:_LONGEST]}"] if cleanup.retain_versions is not None else []
    when = f"version {cleanup.next_due:,}, then every {cleanup.each:,}" if cleanup.each > 0 else "any version"
    yield Verdict(
        f"Lance deletes its old versions with the commit of {when}, by any writer; it keeps "
        f"{' and '.join(versions) or 'the latest'}, and tagged ones",
        f"Nothing has to be done if that is wanted. Otherwise delete the key: `lance.dataset(…).delete_config_keys(["
        f"'{INTERVAL}'])`. Tag the versions that have to stay.",
        details={"version": f"{cleanup.version:,}", "interval": cleanup.interval[:_LONGEST]},
    )


@rule(Severity.WARNING, needs_manifest=True)
def missing_index(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """An index that the manifest expects is missing

    `expect.indices` in the table's block, or in `defaults`, names the columns. Queries by these columns read the whole
    table. Often the table was overwritten, which removed its indices.
    """
    stored = _dataset_of(record)
    if stored.indices is None:
        return
    indexed = {column for index in stored.indices for column in index.columns}
    lacking = [column for column in record.expect.indices if column not in indexed]
    if lacking:
        columns = ", ".join(f"`{column}`" for column in lacking)
        yield Verdict(
            f"it lacks the {'index' if len(lacking) == 1 else 'indices'} on {columns} that the manifest expects",
            "Create it with `lance.dataset(…).create_index(…)` for vectors, or `create_scalar_index(…)`; or correct "
            f"`expect.indices`. {_maintain_remedy(record, 'indices')}",
        )


@rule(Severity.NOTE)
def unindexed_vectors(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """A column of vectors has no index

    A search by distance reads every vector of the table: more than 100,000 rows (`--limit unindexed-rows=N`). A column
    that the manifest expects an index on is a `missing-index`.
    """
    stored = _dataset_of(record)
    if stored.indices is None or stored.schema is None or (stored.rows or 0) <= limits.unindexed_rows:
        return
    indexed = {column for index in stored.indices for column in index.columns} | {*record.expect.indices}
    lacking = [column.name for column in stored.schema if _VECTOR.match(column.type) and column.name not in indexed]
    if lacking:
        columns = ", ".join(f"`{column}`" for column in lacking)
        yield Verdict(
            f"{columns} {'holds' if len(lacking) == 1 else 'hold'} vectors of {count(stored.rows or 0, 'row')}, "
            "without an index",
            "Create one with `lance.dataset(…).create_index(…)` if they are searched by distance; nothing has to be "
            "done if they are only read.",
        )


@rule(Severity.WARNING)
def stale_index(record: TableRecord, limits: RuleLimits) -> Iterator[Verdict]:
    """An index does not cover many rows

    Rows written after the index was created are searched one by one: more than 100,000 of them (`--limit
    unindexed-rows=N`), and more than a tenth of the table. Lance extends an index only on request.
    """
    stored = _dataset_of(record)
    if stored.indices is None or not stored.rows:
        return
    for index in stored.indices:
        left = 0 if index.rows is None else stored.rows - index.rows
        if left > limits.unindexed_rows and left > _UNINDEXED_SHARE * stored.rows:
            update = (
                "Update it with `lance.dataset(…).optimize.optimize_indices()`, best after each write of the table. "
                f"{_maintain_remedy(record, 'optimize_indices')}"
            )
            yield Verdict(
                f"its index `{index.name}` covers {index.rows:,} of {count(stored.rows, 'row')}",
                _REPLACE_OLD if index.is_old else update,
                details={"index": index.name, "rows without index": f"{left:,}"},
            )
