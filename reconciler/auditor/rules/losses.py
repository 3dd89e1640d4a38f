"""Rules about lost and damaged data: files, versions, tags and branches, and what cannot be read at all."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import (
    RuleLimits,
    Verdict,
    dataset_call,
    first_few,
    is_live_with,
    location_text,
    quoted_location,
    rewrite_call,
    rule,
)
from reconciler.model import locations
from reconciler.model.auto_cleanup import INTERVAL
from reconciler.model.display import count
from reconciler.model.figures import UNKNOWN
from reconciler.model.live import StorageKind
from reconciler.model.tags import MAIN_BRANCH
from reconciler.storage import MOST_VERSIONS, BrokenReference, Files, Salvage, has_driver

_COPY_REMEDY = (
    "If this is not meant, have its writer copy the data into the dataset. If it is, keep the places below the "
    "catalog's roots, or pass `--allow-outside`, and `--allow-host` for another host."
)


def _restore_remedy(record: TableRecord, files: Files) -> str:
    """Return how to repair a dataset whose latest version has lost files."""
    indices = [name for name in files.owners if isinstance(name, str)]
    if indices and len(indices) == len(files.owners):
        drops = " ".join(f"`{dataset_call(record)}.drop_index({name!r})`" for name in indices)
        return f"Only an index is damaged, and no row: drop it, {drops}, and create it again."
    if files.complete_version is None:
        remedy = f"Restore the files from a copy: none of the last {MOST_VERSIONS} versions has all of its files."
        if files.salvage is None or not _takes_commits(record):
            return remedy
        return f"{remedy} Without one, {_salvage_call(record, files.salvage)}."
    return (
        f"Restore the files from a copy. Without one, go back to version {files.complete_version}, the newest that has "
        f"all of its files: `{_back_call(record, files.complete_version)}`."
    )


def _back_call(record: TableRecord, version: int | None) -> str:
    """Return the call that commits the rows of an older version again.

    It writes them anew where a commit would change them, or be refused.
    """
    old = dataset_call(record, version=version)
    return f"{old}.restore()" if _takes_commits(record) else rewrite_call(record, old)


def _takes_commits(record: TableRecord) -> bool:
    """Return whether pylance makes a commit that refers to data files of the dataset, and changes no rows by that."""
    defects = record.stored.defects
    return not (defects.shared_fields or defects.shared_fragments or defects.has_mixed_formats)


def _salvage_call(record: TableRecord, salvage: Salvage) -> str:
    """Return how to go on without the fragments that lost files, as a clause."""
    broken = [*salvage.broken]
    runs = [[*run] for _, run in groupby(broken, lambda number: number - bisect_left(broken, number))]
    ids = ", ".join(f"*range({run[0]}, {run[-1] + 1})" if len(run) > 2 else str(run)[1:-1] for run in runs)
    commit = f"lance.LanceOperation.Delete([], [{ids}], 'its files are lost'), read_version={salvage.version}"
    kept, lost = (UNKNOWN if rows is None else f"{rows:,}" for rows in (salvage.rows, salvage.lost_rows))
    no_cleanup = f"turn off its clean-up, `{dataset_call(record)}.delete_config_keys({[INTERVAL]})`, and "
    return (
        f"{no_cleanup if salvage.cleans_up else ''}commit a version without the {count(len(broken), 'fragment')} "
        f"that lost files: `lance.LanceDataset.commit({quoted_location(record)}, {commit})`. It keeps "
        f"{count(salvage.whole, 'fragment')} and removes no file (rows kept: {kept}, lost: {lost})"
    )


def _lost_files(
    record: TableRecord, names_in: Callable[[Files], Sequence[str]], one: str, many: str
) -> Iterator[Verdict]:
    """Yield what happened to files of the latest version; ``one`` and ``many`` say it of one file, and of several."""
    files = record.stored.files
    if files is not None and (names := names_in(files)):
        reason = f"{count(len(names), 'file')} of its latest version {one if len(names) == 1 else many}"
        yield Verdict(f"{reason}: {first_few(names)}", _restore_remedy(record, files))


@rule(Severity.ERROR)
def missing_files(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files of the latest version of the data are missing

    The manifest of the latest version names data files, deletion files, blobs or files of an index that do not exist,
    in the dataset or in a base of it, such as the dataset that it is a clone of. The dataset opens, and every query
    that needs them fails: a copy was interrupted, or a lifecycle rule of the bucket or a person deleted them. The rule
    lists the table's files once and reads its deletion files, which `--depth quick` leaves out.
    """
    yield from _lost_files(record, attrgetter("missing"), "is not there", "are not there")


@rule(Severity.ERROR)
def short_files(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files of the latest version of the data are truncated

    They have fewer bytes than were written, or are deletion files that cannot be decoded: a copy or an upload was
    interrupted, or the disk was full. Every query that needs them fails. The rule lists the table's files once and
    reads its deletion files, which `--depth quick` leaves out.
    """
    fewer = "fewer bytes than were written"
    yield from _lost_files(record, attrgetter("short"), f"has {fewer}", f"have {fewer}")


@rule(Severity.ERROR)
def damaged_files(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Files of the latest version have all their bytes and cannot be read

    The end of a data or index file, which says where everything in it is, was overwritten: by a disk, a copy or a
    person. Every query that needs the file fails, or ends its process. The rule reads the ends of files at `--depth
    footers`, and all rows at `--depth rows`. Lance files have no checksums: a changed value that can still be decoded
    is not found.
    """
    yield from _lost_files(record, attrgetter("damaged"), "cannot be read", "cannot be read")
    files = record.stored.files
    if files is not None and not files.damaged and files.invalid is not None:
        yield Verdict(
            f"pylance's `validate()` fails: {files.invalid}",
            "Restore the dataset from a copy. Without one, go back to a version that passes: "
            "`lance.dataset(…, version=N).validate()`, then `restore()`.",
        )


@rule(Severity.ERROR)
def lost_version(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A later version was committed, and its manifest is gone

    Readers silently get the version before it, with the rows of then. Lance's own hint, or a transaction, names the
    later one: somebody deleted the newest file below `_versions`, or a copy left it out. The next commit takes the
    number and hides the loss. If the hint is gone, too, it is a warning: the writer may have stopped before its commit.
    Object stores have no hint, and the loss of only the newest version is not found there.
    """
    files, version = record.stored.files, record.stored.version
    if files is None:
        return
    restore = f"make version {version} the latest on purpose: `{_back_call(record, version)}`."
    if files.missing_version is not None:
        yield Verdict(
            f"version {files.missing_version} was committed, and its manifest is gone; readers get version {version}",
            f"Restore the newest file below `_versions` from a copy before anything is written. Without one, {restore}",
        )
    elif files.uncertain_version is not None:
        yield Verdict(
            f"a writer began version {files.uncertain_version}, and Lance's version hint is gone: it was committed and "
            f"lost, or never committed; readers get version {version}",
            f"Look for a newer file below `_versions` in a copy, before anything is written. Without one, {restore}",
            Severity.WARNING,
        )


@rule(Severity.ERROR)
def broken_tag(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A tag names a version that cannot be read

    The version's file below `_versions` is missing or damaged, files that the version needs are missing or short, or
    the tag's own file below `_refs/tags` is damaged. A query by the tag fails, and a clean-up no longer keeps the rest
    of the version. The rule needs one listing of the table's files, which `--depth quick` leaves out.
    """
    files = record.stored.files
    if files is not None and files.broken_tags:
        named = [str(tag) for tag in files.broken_tags]
        deleted = first_few([f"`{dataset_call(record)}.tags.delete({tag.name!r})`" for tag in files.broken_tags])
        yield Verdict(
            f"{count(len(named), 'tag')} cannot be read: {first_few(named)}",
            "Restore the version and its files from a copy, before a clean-up removes the rest. A tag that is not "
            f"needed can be deleted: {deleted}.",
        )


@rule(Severity.ERROR)
def broken_branch(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """A branch cannot be read, or its own file is lost

    Files below `tree/`, or files of the main branch that only this branch needs, are missing or short: a query of the
    branch fails. Or the branch can be read, and its file below `_refs/branches` is damaged, with which every clean-up
    fails, or gone, so that the next clean-up deletes files that the branch needs. The rule needs one listing of the
    table's files, which `--depth quick` leaves out.
    """
    files = record.stored.files
    if files is None:
        return
    broken = [branch for branch in files.broken_branches if not branch.lost_file]
    if broken:
        back = first_few(
            [
                f"`{dataset_call(record)}.checkout_version(({branch.name!r}, {branch.complete_version})).restore()`"
                for branch in broken
                if branch.complete_version is not None
            ]
        )
        deleted = first_few([f"`{dataset_call(record)}.branches.delete({branch.name!r})`" for branch in broken])
        yield Verdict(
            f"{'a branch' if len(broken) == 1 else f'{len(broken):,} branches'} cannot be read: "
            f"{first_few([str(branch) for branch in broken])}",
            "Restore the files from a copy."
            + (f" Without one, go back to the newest version that has all of its files: {back}." if back else "")
            + f" A branch that is not needed can be deleted: {deleted}.",
        )
    unreferenced = [branch for branch in files.broken_branches if branch.lost_file]
    if unreferenced:
        yield Verdict(
            f"{'a branch has' if len(unreferenced) == 1 else f'{len(unreferenced):,} branches have'} no readable file "
            f"below `_refs/branches`: {first_few([str(branch) for branch in unreferenced])}; a clean-up fails, or "
            "deletes files that it needs",
            " ".join(("Restore it from a copy, before any clean-up.", *_reference_remedies(record, unreferenced))),
        )


def _reference_remedies(record: TableRecord, branches: Sequence[BrokenReference]) -> Iterator[str]:
    """Yield how to write the files of ``branches`` again.

    A session encodes the paths below it again, so it begins at the file.
    """
    for branch in branches:
        if branch.content is not None:
            session = f"lance.file.LanceFileSession({quoted_location(record, '_refs', 'branches', branch.file)})"
            yield (
                f"Without one, write it again: `pathlib.Path({branch.file!r}).write_text({branch.content!r})`, then "
                f"`{session}.upload_file({branch.file!r}, '')`."
            )


@rule(Severity.ERROR)
def unreadable(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The dataset or the namespace cannot be read

    A dataset that cannot be opened (damaged, denied, or storage did not answer) is useless to all users with the same
    rights, and no other rule can check it; `probe: false` in its block says that this is expected. The tables of a
    namespace that cannot be read are unknown: none of them is reported as missing, and none of their datasets as an
    orphan.
    """
    if record.desired is not None and not record.desired.probe:
        return
    if record.location and not has_driver(record.location):
        return  # unknown_scheme reports it
    if is_live_with(record, StorageKind.DENIED) and record.stored.bases:
        yield Verdict(f"{location_text(record)} is not opened: {record.stored.detail}", _COPY_REMEDY)
    elif is_live_with(record, StorageKind.DENIED):
        yield Verdict(
            f"storage denies reading {location_text(record)}: {record.stored.detail}",
            "Give the user of the audit the right to read it, with credentials in `storage.*` of the catalog "
            f"`{record.catalog}` or a grant on the storage.",
        )
    elif is_live_with(record, StorageKind.UNKNOWN):
        yield Verdict(f"{location_text(record)} cannot be opened: {record.stored.detail}", _reopen_remedy(record))
    elif record.stored.files is not None and record.stored.files.problem is not None:
        yield Verdict(
            f"the files at {location_text(record)} cannot be listed: {record.stored.files.problem}",
            "Give the user of the audit the right to list them, or use `--depth quick`, which reads the latest version "
            "only.",
            Severity.WARNING,
        )


@rule(Severity.NOTE)
def reads_elsewhere(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The dataset refers to places outside its directory

    A shallow clone, a dataset with several bases, or one with symbolic links has files elsewhere: another writer may
    change its rows, and a clean-up may remove them. It is opened only if the places are below the roots
    of its catalog, or `--allow-outside` lets them be. Copy the data into the dataset unless this is meant.
    """
    if record.live is not None and record.stored.bases:
        bases = first_few([*map(locations.redact, record.stored.bases)])
        yield Verdict(f"the dataset at {location_text(record)} refers to {bases}", _COPY_REMEDY)


@rule(Severity.WARNING)
def untagged_base(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """No tag keeps the version that a clone needs

    A shallow clone reads the files of one version of its base. A clean-up of the base removes them once that version is
    old, unless a tag keeps it. Tag it.
    """
    known = record.stored.base
    if record.live is not None and known is not None and not known.is_kept:
        base = known.base
        of_branch = "" if base.branch == MAIN_BRANCH else f" of branch `{base.branch}`"
        version = base.version if base.branch == MAIN_BRANCH else (base.branch, base.version)
        place = json.dumps(locations.redact(locations.pylance_uri(base.location)), ensure_ascii=False)
        yield Verdict(
            f"the clone at {location_text(record)} needs version {base.version}{of_branch} of "
            f"{locations.redact(base.location)}, which no tag keeps",
            f'Tag it, such as by `lance.dataset({place}).tags.create("clone", {version!r})`, and remove the tag when '
            "the clone is gone.",
        )


def _reopen_remedy(record: TableRecord) -> str:
    """Return how to make a dataset readable that could not be opened."""
    recovery = record.stored.recovery
    if recovery is None:
        return "Run the audit again once storage answers, or correct the location or the storage options."
    if recovery.is_mixed and recovery.version is not None:
        call = f"{dataset_call(record, version=recovery.version)}.migrate_manifest_paths_v2()"
        return f"Its manifests follow two naming schemes: `{call}` gives all of them the newer names."
    if recovery.version is None and recovery.salvage is None:
        return f"Restore the files below `_versions` from a copy: of the last {MOST_VERSIONS} versions none is whole."
    damaged = first_few([f"`_versions/{name}`" for name in recovery.damaged])
    # Every commit reads the latest manifest first, and so does a clone: the damaged one has to go.
    folder = f"lance.file.LanceFileSession({quoted_location(record, '_versions')})"
    taken = " ".join(
        f"`{folder}.{call}`"
        for name in recovery.damaged
        for call in (f"download_file({name!r}, {name!r})", f"delete_file({name!r})")
    )
    back = (
        f"go back to version {recovery.version}, the newest that has all of its files: "
        f"`{dataset_call(record, version=recovery.version)}.restore()`"
        if recovery.salvage is None
        else _salvage_call(record, recovery.salvage)
    )
    return f"Restore {damaged} from a copy. Without one, keep it here instead, {taken}, and {back}."
