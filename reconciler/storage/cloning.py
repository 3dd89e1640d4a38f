"""Write shallow clones of datasets, and recognise them.

A clone is a dataset of its own whose first version names the files of its base. Nothing is written below the base.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reconciler.model import locations
from reconciler.model.admission import StorageOptions, admission_of
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InvalidTableStateError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.model.live import Storage, StorageKind
from reconciler.model.tags import MAIN_BRANCH
from reconciler.storage.commits import commit_clone, end_cleanup, is_cleaned_up
from reconciler.storage.files import as_plain_path, content_of, resolve_location
from reconciler.storage.inspection import rows_of
from reconciler.storage.losses import VERSIONS
from reconciler.storage.opening import expect_admitted, open_dataset
from reconciler.storage.pylance import or_none, translated
from reconciler.storage.reading import examine, is_not_found, list_references, manifests, repair_of
from reconciler.storage.references import BRANCHES

_LOCATION, _BRANCH, _TRANSACTION = "lancens.clone.location", "lancens.clone.branch", "lancens.clone.transaction"
"""The properties of the first transaction of a clone that name its base; pylance records the version's number."""
_LARGEST_MANIFEST = 1 << 30
_BLOB_KEY = "lance-encoding:blob"


@dataclass(frozen=True, slots=True)
class FoundClone:
    """A dataset that :func:`write_clone` began as a clone of ``base``, or finished."""

    base: CloneBase
    is_finished: bool


def read_base(
    location: str, at: str | int | None, options: Mapping[str, str], target: str
) -> CloneBase | CloneRefusal | Storage:
    """Read the version of a dataset of which there is to be a clone at ``target``.

    Args:
        location, options: of the dataset.
        at: a tag, or the number of a version of the main branch; None is the latest one.
        target: the location of the clone.

    Returns:
        The version, or why it cannot be cloned there; without a dataset, the state of storage.
    """
    refusal = _problem_of_places(location, target)
    return examine(location, options, partial(_base_at, location, at, options)) if refusal is None else refusal


def _problem_of_places(location: str, target: str) -> CloneRefusal | None:
    base, clone = resolve_location(location), resolve_location(target)
    if base == clone or locations.is_under(base, clone) or locations.is_under(clone, base):
        return CloneRefusal(CloneProblem.INSIDE)
    stores = [_store_of(base), _store_of(clone)]
    if stores[0] == stores[1]:
        return None
    return CloneRefusal(CloneProblem.OTHER_STORE if stores[0] else CloneProblem.LOCAL_BASE)


def _store_of(location: str) -> str:
    """Return scheme and bucket of a resolved location; an empty text for this machine's disk."""
    return "" if locations.path_of(location) is not None else "/".join(location.split("/")[:3])


def _base_at(location: str, at: str | int | None, options: Mapping[str, str], dataset: Any) -> CloneBase | CloneRefusal:
    tag, branch, number = None, MAIN_BRANCH, at
    if isinstance(at, str):
        target = list_references(dataset.tags).get(at)
        if target is None:
            return CloneRefusal(CloneProblem.MISSING_TAG, at)
        tag, branch, number = at, target["branch"] or MAIN_BRANCH, target["version"]
    try:
        version = dataset if number is None else dataset.checkout_version((branch, number))
    except (OSError, ValueError) as error:
        if not is_not_found(error):
            raise
        return CloneRefusal(CloneProblem.MISSING_VERSION, str(number))
    expect_admitted(location, options, version)
    damage = repair_of(version)
    if damage is not None:
        return CloneRefusal(CloneProblem.DAMAGED, damage)
    blobs = next(_first_blobs(version.lance_schema.fields()), None)
    if blobs is not None:
        return CloneRefusal(CloneProblem.BLOBS, blobs)
    transaction = _transaction_of(version, _place_of(location, branch), options)
    return CloneBase(location, int(version.version), transaction, tag, branch, rows_of(version))


def _first_blobs(fields: Iterable[Any], above: str = "") -> Iterator[str]:
    """Yield the path of each column with blobs of the first format, which are in the data files."""
    for field in fields:
        path = f"{above}{field.name()}"
        if _BLOB_KEY in field.metadata:
            yield path
        yield from _first_blobs(field.children(), f"{path}.")


def _place_of(location: str, branch: str) -> str:
    """Return the location of a branch, whose versions are those of a dataset of its own."""
    place = as_plain_path(locations.pylance_uri(location))
    return place if branch == MAIN_BRANCH else locations.join(place, BRANCHES, branch)


def _transaction_of(version: Any, place: str, options: Mapping[str, str]) -> str:
    """Return the UUID of the commit of a version; a digest of its manifest if the transaction is lost."""
    transaction = or_none(partial(version.read_transaction, version.version))
    if transaction is not None:
        return str(transaction.uuid)
    name = manifests(place, options)[version.version].rpartition("/")[2]
    content = content_of(locations.join(place, VERSIONS), name, options, _LARGEST_MANIFEST)
    return hashlib.sha256(content or b"").hexdigest()


def find_clone(location: str, options: Mapping[str, str]) -> FoundClone | Storage | None:
    """Return the clone at ``location``; None for another dataset. Without a dataset, return the state of storage.

    Later commits to it do not matter, as long as no clean-up removes its first version.
    """
    return examine(location, options, _found_in)


def clone_of(location: str, options: Mapping[str, str]) -> CloneBase | None:
    """Return the base of a finished clone at ``location``; None for anything else."""
    found = find_clone(location, options)
    return found.base if isinstance(found, FoundClone) and found.is_finished else None


def _found_in(dataset: Any) -> FoundClone | None:
    if not dataset.base_paths():
        return None
    first = min(known["version"] for known in dataset.version_refs())
    transaction = or_none(partial(dataset.read_transaction, first))
    record = {} if transaction is None else transaction.transaction_properties
    if not record.keys() >= {_LOCATION, _BRANCH, _TRANSACTION}:
        return None
    base = CloneBase(record[_LOCATION], transaction.read_version, record[_TRANSACTION], branch=record[_BRANCH])
    return FoundClone(base, is_finished=not is_cleaned_up(dataset))


def write_clone(
    base: CloneBase, base_options: Mapping[str, str], target: str, target_options: Mapping[str, str]
) -> None:
    """Write a shallow clone of ``base`` at ``target``, or finish one that was begun there.

    The base is opened with the options of the clone, as its readers do, and with the admission of its own.

    Raises:
        ConcurrentModificationError: the base has no such version any more, or another one of its number.
        TableAlreadyExistsError: ``target`` holds another dataset.
        UnsupportedOperationError: a clone cannot lie there.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as :func:`translated`.
    """
    admission = admission_of(base_options)
    admission = replace(admission, roots=(*admission.roots, locations.normalise(base.location)))
    options = StorageOptions(target_options, admission)
    refusal = _problem_of_places(base.location, target)
    if refusal is not None:
        raise UnsupportedOperationError(
            f"{locations.redact(target)}: no clone of {locations.redact(base.location)} can lie there "
            f"({refusal.problem.value})"
        )
    if not _is_begun(base, target, options):
        _expect_base(base, options)
        record = {_LOCATION: base.location, _BRANCH: base.branch, _TRANSACTION: base.transaction}
        branch = None if base.branch == MAIN_BRANCH else base.branch
        try:
            with translated(target, options):
                commit_clone(target, _place_of(base.location, base.branch), branch, base.version, record, options)
        except BackendError:
            _expect_base(base, options)
            if not _is_begun(base, target, options):  # another run may have committed it just before
                raise
        _expect_base(base, options)
    with translated(target, options):
        clone = open_dataset(target, options)
        if is_cleaned_up(clone):
            end_cleanup(clone)


def _is_begun(base: CloneBase, target: str, options: Mapping[str, str]) -> bool:
    """Return whether ``target`` holds a clone of ``base``; False if nothing is there.

    Raises:
        TableAlreadyExistsError: it holds another dataset.
        InvalidTableStateError, PermissionDeniedError: it holds something else, or cannot be read.
    """
    found = find_clone(target, options)
    shown = locations.redact(target)
    if isinstance(found, Storage):
        if found.kind is StorageKind.NOTHING:
            return False
        error = PermissionDeniedError if found.kind is StorageKind.DENIED else InvalidTableStateError
        raise error(f"{shown}: {found.detail}")
    if found is None or not base.is_same_version(found.base):
        raise TableAlreadyExistsError(f"{shown} already holds a Lance dataset, which is no clone of this version")
    return True


def _expect_base(base: CloneBase, options: Mapping[str, str]) -> None:
    """Raise ConcurrentModificationError if the dataset has no such version any more."""
    place, transaction = _place_of(base.location, base.branch), None
    with translated(base.location, options):
        try:
            transaction = _transaction_of(open_dataset(place, options, version=base.version), place, options)
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
    if transaction != base.transaction:
        raise ConcurrentModificationError(
            f"{locations.redact(base.location)}: version {base.version} is gone, or another dataset has been written "
            "there since the plan; plan again"
        )
