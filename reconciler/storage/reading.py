"""Read what a location holds, and versions, references and state of the dataset there."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.model import locations
from reconciler.model.auto_cleanup import AutoCleanup
from reconciler.model.errors import (
    BackendError,
    InvalidInputError,
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from reconciler.model.live import DatasetVersion, Storage, StorageKind
from reconciler.model.tags import MAIN_BRANCH
from reconciler.storage.files import contains, content_of, list_directory, version_of
from reconciler.storage.opening import PlaceRefusedError, expect_admitted, open_dataset, places_elsewhere
from reconciler.storage.pylance import (
    VERSION_GONE,
    connection_of,
    expression_problem,
    is_denied,
    is_expression_error,
    is_storage_error,
    message_of,
    repeated,
    translated,
)

if TYPE_CHECKING:
    from lance import LanceDataset

ReadT = TypeVar("ReadT")

RESERVED_MARKER = ".lance-reserved"
"""A file that reserves a directory for a table before data is written."""
DEREGISTERED_MARKER = ".lance-deregistered"
"""A file that takes a directory out of a directory namespace, whatever else it holds."""

# A first write that was interrupted before its commit leaves these; they count as no data.
_TRANSACTIONS = "_transactions"
_NO_DATA = frozenset({RESERVED_MARKER, DEREGISTERED_MARKER, _TRANSACTIONS, "_versions"})

# An Iceberg catalog keeps the metadata of a table below its location; a Lance table entered there has it too.
_ICEBERG_METADATA = "metadata"
_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
_GZIP = b"\x1f\x8b"
_LARGEST_METADATA = 16 * 1024 * 1024
"""Iceberg's metadata of a table without snapshots is a few kilobytes; a larger file is no companion."""

_NOTHING = Storage(StorageKind.NOTHING)
LEGACY_FORMAT = "0.1"
_REFERENCE_GONE = re.compile(r"not found\b.*/_refs/", re.IGNORECASE)
_TAG = re.compile(r"[\w.-]+")  # pylance has another error for a name that it does not take
_NOT_FOUND = re.compile(r"was not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A version of a dataset; by default the latest of its main branch.

    ``tag`` stands alone; ``version`` counts on ``branch``.
    """

    version: int | None = None
    tag: str | None = None
    branch: str | None = None


_LATEST = Reference()


def probe(location: str, options: Mapping[str, str]) -> Storage:
    """Return what ``location`` holds; an error never counts as nothing.

    A directory holds nothing if it is empty, or has only markers of a directory namespace, an uncommitted first write,
    an Iceberg catalog's metadata of a Lance table, or a temporary directory of a metastore.
    """
    return examine(location, options, partial(describe_dataset, location))


def describe_dataset(location: str, dataset: Any) -> Storage:
    """Return what :func:`probe` returns for an open ``lance.LanceDataset``."""
    from reconciler.arrow_types import from_arrow_schema

    return Storage(
        StorageKind.DATASET,
        from_arrow_schema(dataset.schema),
        repair_of(dataset) or "",
        cleanup=cleanup_of(dataset),
        version=checked_out_version(dataset),
        elsewhere=places_elsewhere(location, dataset),
    )


def checked_out_version(dataset: Any) -> DatasetVersion:
    """Return the version at which a ``lance.LanceDataset`` is opened, from its loaded manifest."""
    version = dataset.get_version()
    return DatasetVersion(int(version["version"]), version["timestamp"].astimezone(UTC).isoformat())


def version_at(location: str, options: Mapping[str, str], number: int) -> DatasetVersion | Storage:
    """Return version ``number`` of a dataset, or the state of storage without one.

    If that version does not exist, as after a clean-up, return the latest one.
    """

    def read(dataset: Any) -> DatasetVersion:
        try:
            return checked_out_version(dataset if dataset.version == number else dataset.checkout_version(number))
        except (OSError, ValueError) as error:
            if not is_version_gone(error):
                raise
            return checked_out_version(dataset)

    return examine(location, options, read)


def is_not_found(error: Exception) -> bool:
    """Return whether pylance found no dataset, or no such version of one."""
    return _NOT_FOUND.search(str(error)) is not None


def is_version_gone(error: Exception) -> bool:
    """Return whether a dataset has no such version, or another writer removed it while pylance read it."""
    return is_not_found(error) or VERSION_GONE.search(str(error)) is not None


def list_references(references: Any) -> Mapping[str, Any]:
    """List the ``tags`` or ``branches`` object of a dataset by name; retry if one was deleted during the listing."""
    listing: Mapping[str, Any] = repeated(references.list, _REFERENCE_GONE)
    return listing


def has_tag(dataset: Any, name: str) -> bool:
    """Return whether a dataset has a tag; pylance lists none if it cannot read the file of any one."""
    if _TAG.fullmatch(name) is None:
        return False
    try:
        dataset.tags.get_version(name)
    except ValueError:
        return False
    return True


def cleanup_of(dataset: Any) -> AutoCleanup | None:
    """Return the auto clean-up of a ``lance.LanceDataset``; None if it has none."""
    return AutoCleanup.of(dataset.config(), int(dataset.version))


def has_statistics(dataset: Any) -> bool:
    """Return whether pylance knows the bytes of columns; for files of format 0.1 it says 0."""
    return dataset.data_storage_version != LEGACY_FORMAT and True not in formats_of(dataset.get_fragments())


def shared_fields(fragments: Iterable[Any]) -> Iterator[int]:
    """Yield the number of each fragment in which two fields share an id."""
    for fragment in fragments:
        ids = [number for file in fragment.data_files() for number in file.fields if number >= 0]
        if len(ids) > len({*ids}):
            yield fragment.fragment_id


def formats_of(fragments: Iterable[Any]) -> set[bool]:
    """Return whether the data files of fragments are of format 0.1: both, if they are mixed."""
    return {is_legacy(file) for fragment in fragments for file in fragment.data_files()}


def is_legacy(file: Any) -> bool:
    """Return whether a data file has the format 0.1, which has no version 0.3: that is what 2.0 was called first."""
    return (file.file_major_version, file.file_minor_version) < (0, 3)


def repair_of(dataset: Any) -> str | None:
    """Return why lancens leaves the repair of a dataset to others; None if pylance commits to it as it is.

    The manifest tells; pylance's `validate()` finds more, in the footers of files. With its next commit, pylance 14
    gives new ids to fields that share one. Files that were written just before keep the old ids: as columns of nulls.
    """
    fragments = dataset.get_fragments()
    for number in shared_fields(fragments):
        return f"fields of fragment {number} share an id, as pylance 0.10 wrote them"
    formats = formats_of(fragments)
    if formats and formats != {dataset.data_storage_version == LEGACY_FORMAT}:
        return "its files are of format 0.1 and of later ones, or of others than the dataset says"
    return None


class UncountedRowsError(ValueError):
    """Raised for indices on fragments whose rows their writer did not count."""


def described_indices(dataset: Any) -> list[Any]:
    """Return pylance's descriptions of the indices of a ``lance.LanceDataset``.

    Raises:
        UncountedRowsError: pylance 0.7 did not count the rows of its fragments.
    """
    try:
        return list(dataset.describe_indices())
    except (OSError, RuntimeError, ValueError):
        if all(fragment.metadata.physical_rows for fragment in dataset.get_fragments()):
            raise
        raise UncountedRowsError(
            "pylance 0.7 did not count the rows of its fragments, and pylance 14 describes no index without; any "
            "commit counts them, such as `lance.dataset(…).update_config({…})`"
        ) from None


def is_old_index(index: Any) -> bool:
    """Return whether pylance 14 cannot add rows to a described index: IVF indices of pylance 0.20 and older."""
    return str(index.index_type).startswith("IVF_") and any(not segment.index_version for segment in index.segments)


def damage_of(dataset: Any, location: str, options: Mapping[str, str]) -> str | None:
    """Return why pylance's `validate()` fails, which reads the footer of each data file; None if it passes."""
    try:
        dataset.validate()
    except BaseException as error:
        if not is_storage_error(error):
            raise
        return message_of(error, location, options)
    return None


def examine(location: str, options: Mapping[str, str], read: Callable[[Any], ReadT]) -> ReadT | Storage:
    """Call ``read`` with the dataset at ``location``; without one, return the state of storage.

    A storage error, in ``read`` too, becomes a ``Storage`` of kind DENIED or UNKNOWN.
    """
    try:
        if locations.path_of(location) is not None:
            path = locations.normalise(location)
            try:
                os.lstat(path)
            except FileNotFoundError:
                return _NOTHING  # pylance takes a millisecond to find out
            if Path(path).is_file():
                return Storage(StorageKind.NOT_LANCE, detail="it is a file, not a directory")
        connection = connection_of(location, options)
        if connection is not None and not connection.is_shared and not list_directory(location, options):
            return _NOTHING  # pylance would connect anew to find out
        try:
            return read(open_dataset(location, options, to_read=True))
        except ValueError as error:
            if not is_not_found(error):
                raise
        return _state_without_dataset(location, options)
    except BaseException as error:
        if not is_storage_error(error):
            raise
        text = message_of(error, location, options)
        kind = StorageKind.DENIED if is_denied(error, text) else StorageKind.UNKNOWN
        return Storage(kind, detail=text, elsewhere=error.places if isinstance(error, PlaceRefusedError) else ())


def _state_without_dataset(location: str, options: Mapping[str, str]) -> Storage:
    names = (name for name in list_directory(location, options) if not locations.is_new_place(name))
    entries = sorted(set(names) - _NO_DATA)
    if not entries or (
        entries == [_ICEBERG_METADATA] and _holds_iceberg_metadata(locations.join(location, *entries), options)
    ):
        return _NOTHING
    # The names may be confidential, and this text appears in plans, comments and answers.
    amount = "1 file or directory" if len(entries) == 1 else f"{len(entries):,} files or directories"
    return Storage(StorageKind.NOT_LANCE, detail=f"it holds {amount} and no version of a dataset")


def _holds_iceberg_metadata(folder: str, options: Mapping[str, str]) -> bool:
    """Return whether ``folder`` holds only Iceberg's metadata of a Lance table."""
    names = [name for name in list_directory(folder, options) if not name.startswith(".")]
    return bool(names) and all(
        name.endswith(_ICEBERG_FILES) and _marks_lance_table(folder, name, options) for name in names
    )


def _marks_lance_table(folder: str, name: str, options: Mapping[str, str]) -> bool:
    """Return whether Iceberg metadata marks a Lance table, or is gone: a catalog removes it if its commit lost a race.

    See the Lance specification, "Lance Table Identification".
    """
    try:
        metadata = content_of(folder, name, options, _LARGEST_METADATA)
    except (OSError, ValueError, RuntimeError):
        if name in list_directory(folder, options):
            raise
        return True
    if metadata is None:
        return name not in list_directory(folder, options)
    try:
        if metadata.startswith(_GZIP):
            metadata = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(metadata, _LARGEST_METADATA)
        document = json.loads(metadata)
        return str(document["properties"]["table_type"]).lower() == "lance"
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
        return False


@contextmanager
def opened(location: str, options: Mapping[str, str], reference: Reference = _LATEST) -> Iterator[LanceDataset]:
    """Yield the dataset at ``location`` for reading, checked out at ``reference``.

    Raises:
        InvalidInputError: ``reference`` names a tag beside a version or a branch.
        InvalidTableStateError: there is no Lance dataset, or it cannot be read.
        TableVersionNotFoundError, TableTagNotFoundError, TableBranchNotFoundError: ``reference`` does not exist.
        PermissionDeniedError, ServiceUnavailableError: storage denied access or did not answer.
    """
    with translated(location, options):
        storage = probe(location, options)
        if storage.kind in (StorageKind.NOTHING, StorageKind.NOT_LANCE):
            reason = storage.detail or "nothing is written there"
            raise InvalidTableStateError(f"{locations.redact(location)} is not a Lance dataset: {reason}")
        dataset = _check_out(open_dataset(location, options), location, reference)
        expect_admitted(location, options, dataset)
        yield dataset


def manifests(location: str, options: Mapping[str, str], branch: str | None = None) -> dict[int, str]:
    """Return the manifest file of each version of a branch, as a key of the store.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`opened`.
    """
    folder = locations.join(location, *(() if branch in (None, MAIN_BRANCH) else ("tree", str(branch))), "_versions")
    path = locations.normalise(folder).partition("://")[2].partition("/")[2] or locations.normalise(folder).lstrip("/")
    names = list_directory(folder, options)
    return {number: f"{path}/{name}" for name in names if (number := version_of(name)) is not None}


def latest_state(location: str, options: Mapping[str, str], before: str | None = None) -> str | None:
    """Return the latest manifest, the number of manifests and a latest transaction; None if there is none, or unknown.

    A dataset that is written anew has its version 1 again, and other transactions. A clean-up leaves fewer manifests.
    If the state ``before`` still holds, that takes one listing and a question for one file, otherwise two listings.
    """
    with suppress(BackendError), translated(location, options):
        expect_admitted(location, options)
        versions = manifests(location, options)
        if not versions:
            return None
        now = f"{versions[max(versions)].rpartition('/')[2]} {len(versions)}"
        known, _, transaction = (before or "").rpartition(" ")
        if known == now and contains(location, f"{_TRANSACTIONS}/{transaction}", options):
            return before
        names = [name.partition("-") for name in list_directory(locations.join(location, _TRANSACTIONS), options)]
        last = max(((int(name[0]), "".join(name)) for name in names if name[0].isdecimal()), default=(0, ""))
        return f"{now} {last[1]}"
    return None


def _check_out(dataset: LanceDataset, location: str, reference: Reference) -> LanceDataset:
    shown = locations.redact(location)
    if reference.tag is not None:
        if reference.version is not None or reference.branch is not None:
            raise InvalidInputError("a tag names one version of one branch; give it without version and branch")
        if not has_tag(dataset, reference.tag):
            raise TableTagNotFoundError(f"{shown} has no tag `{reference.tag}`")
        return dataset.checkout_version(reference.tag)
    if reference.branch is not None:
        if reference.branch != MAIN_BRANCH and reference.branch not in list_references(dataset.branches):
            raise TableBranchNotFoundError(f"{shown} has no branch `{reference.branch}`")
        dataset = dataset.checkout_version((reference.branch, None))
    if reference.version in (None, dataset.version):
        return dataset
    if reference.version not in {known["version"] for known in dataset.versions()}:
        raise TableVersionNotFoundError(f"{shown} has no version {reference.version}; the latest is {dataset.version}")
    return dataset.checkout_version((reference.branch, reference.version))


def count_rows(
    location: str, options: Mapping[str, str], version: int | None, branch: str | None, predicate: str | None
) -> int:
    """Return how many rows of a version match ``predicate``; all without one.

    Raises:
        InvalidInputError: ``predicate`` is not a condition on the columns, or fails on a value.
        BackendError: see :func:`opened`.
    """
    with opened(location, options, Reference(version, branch=branch)) as dataset:
        try:
            return int(dataset.count_rows(filter=predicate))
        except (OSError, ValueError) as error:
            if predicate is None or not is_expression_error(error):
                raise
            reason = expression_problem(dataset.schema, lambda empty: empty.count_rows(filter=predicate))
            raise InvalidInputError(f"`predicate` is not a condition on this table: {reason}") from None
