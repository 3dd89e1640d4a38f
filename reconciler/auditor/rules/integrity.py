"""Rules about versions that contradict themselves: field and fragment ids, formats, row counts, index coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, dataset_call, first_few, rewrite_call, rule
from reconciler.storage import NO_DEFECTS, Defects


def _defects_of(record: TableRecord) -> Defects:
    """Return the defects of a live table's latest version."""
    return record.stored.defects if record.live is not None else NO_DEFECTS


def _fragments_text(numbers: Sequence[int]) -> str:
    return f"fragment{'s' * (len(numbers) > 1)} {first_few([*map(str, numbers)])}"


def _rewrite_remedy(record: TableRecord) -> str:
    """Return how to write all rows again as a new version."""
    return (
        f"Stop its writers, and write all rows as a new version: `{rewrite_call(record, dataset_call(record))}`. "
        "Create its indices again. The old versions stay."
    )


def _repair_remedy(record: TableRecord) -> str:
    """Return the beginning of the sentence that has pylance repair a manifest, without a change of rows."""
    return f'`{dataset_call(record)}.delete("false")` deletes no row; its commit'


@rule(Severity.ERROR)
def shared_field_ids(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Two columns of a fragment have one field id

    pylance 0.10 wrote such versions when columns were added after others were dropped. Reads are right, but the next
    commit of a current pylance may turn columns into nulls. lancens commits nothing to such a dataset.
    """
    numbers = _defects_of(record).shared_fields
    if numbers:
        yield Verdict(
            f"fields of {_fragments_text(numbers)} share an id; the next commit of pylance may turn columns into nulls",
            _rewrite_remedy(record),
        )


@rule(Severity.ERROR)
def fragment_ids(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Fragments share a number, or are out of order

    Lance 0.16 and earlier wrote two fragments with one number, and 0.10 and earlier put fragments out of order.
    Deletes, updates and indices address rows by these numbers, so they may reach the wrong ones. pylance 14 refuses
    each commit to a version with shared numbers.
    """
    defects = _defects_of(record)
    if defects.shared_fragments:
        yield Verdict(
            f"several fragments have the number {first_few([*map(str, defects.shared_fragments)])}; pylance refuses "
            "each commit",
            _rewrite_remedy(record),
        )
    elif defects.is_unsorted:
        yield Verdict("its fragments are not in the order of their numbers", f"{_repair_remedy(record)} sorts them.")


@rule(Severity.ERROR)
def mixed_formats(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Data files of format 0.1 and of later formats are mixed

    Lance 0.16 appended files of another format than the dataset's. Reads are right, but pylance refuses each commit.
    """
    if _defects_of(record).has_mixed_formats:
        yield Verdict(
            "some of its data files have format 0.1, and some a later one; pylance refuses each commit",
            _rewrite_remedy(record),
        )


@rule(Severity.WARNING)
def wrong_row_counts(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The version records another number of rows than its files hold

    pylance 0.8 counted deleted rows twice when it wrote to a dataset of 0.7. Tools that take the number of rows from
    the version are wrong; pylance counts in the files.
    """
    numbers = _defects_of(record).miscounted
    if numbers:
        yield Verdict(
            f"it records another number of rows for {_fragments_text(numbers)} than "
            f"{'its' if len(numbers) == 1 else 'their'} files hold",
            f"{_repair_remedy(record)} counts again.",
        )


@rule(Severity.ERROR)
def overlapping_index(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Two segments of an index cover the same fragment

    pylance 0.21 wrote such indices when they were updated. A query by the index may return a row twice, or none that
    was added later.
    """
    names = [f"`{name}`" for name in _defects_of(record).overlapping_indices]
    if names:
        yield Verdict(
            f"two segments of {first_few(names)} cover the same fragment",
            f"{_repair_remedy(record)} reads from the index what each covers. Or drop the index, and create it again.",
        )
