"""Write shallow clones of datasets, and recognise them.

A clone is a dataset of its own whose first version names the files of its base. Nothing is written below the base.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from reconciler.model import locations
from reconciler.model.admission import StorageOptions, admission_of
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.columns import Schema
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.model.live import Storage, StorageKind
from reconciler.model.tags import MAIN_BRANCH, PIN, TagTarget
from reconciler.storage.clone_steps import CloneSteps
from reconciler.storage.commits import commit_clone, commit_step, end_cleanup, is_cleaned_up
from reconciler.storage.dataset_writes import addition_problem
from reconciler.storage.files import as_plain_path, content_of, resolve_location
from reconciler.storage.inspection import rows_of
from reconciler.storage.listing import VERSIONS
from reconciler.storage.opening import expect_admitted, open_dataset
from reconciler.storage.pylance import or_none, translated
from reconciler.storage.reading import examine, is_version_gone, list_references, manifests, repair_of
from reconciler.storage.references import BRANCHES

_RECORD = "lancens.clone"
"""The property of a clone's first transaction: its base, and the number of the version that finishes it."""
_LARGEST_MANIFEST = 1 << 30
_BLOB_KEY = "lance-encoding:blob"


@dataclass(frozen=True, slots=True)
class FoundClone:
    """A dataset that :func:`write_clone` began as a clone of ``base``, or finished.

    ``written`` is the number of its versions since.
    """

    base: CloneBase
    is_finished: bool
    written: int = 0


@dataclass(frozen=True, slots=True)
class TaggedBase:
    """The base of a clone, whether a tag there keeps its version, and the targets of the tags that are no pins."""

    base: CloneBase
    is_kept: bool
    tags: Mapping[str, str] = field(default_factory=dict)


def read_base(
    location: str,
    at: TagTarget | str | int | None,
    options: Mapping[str, str],
    target: str,
    columns_to_add: Callable[[Schema], Schema] | None = None,
) -> CloneBase | CloneRefusal | Storage:
    """Read the version of a dataset of which there is to be a clone at ``target``.

    Args:
        location, options: of the dataset.
        at: a tag, or a version: the target of a tag, or its number in the main branch; None is the latest one.
        target: the location of the clone.
        columns_to_add: returns the columns that apply would add to those of the version; None if the columns do not
            matter.

    Returns:
        The version, or why it cannot be cloned there; without a dataset, the state of storage.
    """
    refusal = _problem_of_places(location, target)
    if refusal is not None:
        return refusal

    def read(dataset: Any) -> CloneBase | CloneRefusal:
        found = _base_at(location, at, options, target, dataset)
        return found if isinstance(found, CloneRefusal) else _with_columns(*found, columns_to_add)

    return examine(location, options, read)


def _with_columns(
    base: CloneBase, version: Any, columns_to_add: Callable[[Schema], Schema] | None
) -> CloneBase | CloneRefusal:
    from reconciler.arrow_types import from_arrow_schema, to_arrow_schema

    if columns_to_add is None:
        return base
    columns = from_arrow_schema(version.schema)
    added = columns_to_add(columns)
    problem = or_none(partial(addition_problem, version, to_arrow_schema(added))) if added else None
    return replace(base, columns=columns) if problem is None else CloneRefusal(CloneProblem.FIXED_COLUMNS, problem)


def first_version(base: CloneBase, options: Mapping[str, str], target: str) -> int | None:
    """Return the number of the version of a new clone at ``target`` that equals its base; None if it is not known."""
    if _is_same_store(base.location, target):
        return base.version

    def read(dataset: Any) -> int:
        return _operations(base, dataset.checkout_version((base.branch, base.version)), target, options)[1]

    number = examine(base.location, options, read)
    return None if isinstance(number, Storage) else number


def _problem_of_places(location: str, target: str) -> CloneRefusal | None:
    base, clone = resolve_location(location), resolve_location(target)
    if base == clone or locations.is_under(base, clone) or locations.is_under(clone, base):
        return CloneRefusal(CloneProblem.INSIDE)
    is_local_base = locations.path_of(base) is not None and locations.path_of(clone) is None
    return CloneRefusal(CloneProblem.LOCAL_BASE) if is_local_base else None


def _is_same_store(location: str, target: str) -> bool:
    return _store_of(location) == _store_of(target)


def _store_of(location: str) -> str:
    """Return scheme and bucket of a location; an empty text for this machine's disk."""
    return "" if locations.path_of(location) is not None else "/".join(locations.normalise(location).split("/")[:3])


def _base_at(
    location: str, at: TagTarget | str | int | None, options: Mapping[str, str], target: str, dataset: Any
) -> tuple[CloneBase, Any] | CloneRefusal:
    wanted = _wanted(at, dataset)
    if isinstance(wanted, CloneRefusal):
        return wanted
    tag, branch = at if isinstance(at, str) else None, MAIN_BRANCH if wanted is None else wanted.branch
    try:
        version = dataset if wanted is None else dataset.checkout_version((branch, wanted.version))
    except (OSError, ValueError) as error:
        if not is_version_gone(error):
            raise
        return CloneRefusal(CloneProblem.MISSING_VERSION, str(wanted.version if wanted is not None else None))
    expect_admitted(location, options, version)
    damage = repair_of(version)
    if damage is not None:
        return CloneRefusal(CloneProblem.DAMAGED, damage)
    blobs = next(_first_blobs(version.lance_schema.fields()), None)
    if blobs is not None:
        return CloneRefusal(CloneProblem.BLOBS, blobs)
    place = _place_of(location, branch)
    if not _is_same_store(location, target):
        refusal = CloneSteps(version, _manifest_of(version, place, options), place).refusal(target)
        if refusal is not None:
            return refusal
    transaction = _transaction_of(version, place, options)
    return CloneBase(location, int(version.version), transaction, tag, branch, rows_of(version)), version


def _wanted(at: TagTarget | str | int | None, dataset: Any) -> TagTarget | CloneRefusal | None:
    """Return the version that is to be cloned, or why there is none; None for the latest one."""
    if not isinstance(at, str):
        return TagTarget(at) if isinstance(at, int) else at
    found = list_references(dataset.tags).get(at)
    if found is None:
        return CloneRefusal(CloneProblem.MISSING_TAG, at)
    return TagTarget(found["version"], found["branch"] or MAIN_BRANCH)


def _first_blobs(fields: Iterable[Any], above: str = "") -> Iterator[str]:
    """Yield the path of each column with blobs of the first format, which are in the data files."""
    for column in fields:
        path = f"{above}{column.name()}"
        if _BLOB_KEY in column.metadata:
            yield path
        yield from _first_blobs(column.children(), f"{path}.")


def _place_of(location: str, branch: str) -> str:
    """Return the location of a branch, whose versions are those of a dataset of its own."""
    place = as_plain_path(locations.pylance_uri(location))
    return place if branch == MAIN_BRANCH else locations.join(place, BRANCHES, branch)


def _transaction_of(version: Any, place: str, options: Mapping[str, str]) -> str:
    """Return the UUID of the commit of a version; a digest of its manifest if the transaction is lost."""
    transaction = or_none(partial(version.read_transaction, version.version))
    manifest = b"" if transaction is not None else _manifest_of(version, place, options)
    return hashlib.sha256(manifest).hexdigest() if transaction is None else str(transaction.uuid)


def _manifest_of(version: Any, place: str, options: Mapping[str, str]) -> bytes:
    name = manifests(place, options)[version.version].rpartition("/")[2]
    return content_of(locations.join(place, VERSIONS), name, options, _LARGEST_MANIFEST) or b""


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
    transaction = _first_transaction(dataset) if dataset.base_paths() else None
    record = None if transaction is None else transaction.transaction_properties.get(_RECORD)
    try:
        location, branch, version, transaction, last = json.loads(record or "[]")
        base = CloneBase(str(location), int(version), str(transaction), branch=str(branch))
        written, is_finished = dataset.version - int(last), not is_cleaned_up(dataset)
        return FoundClone(base, written >= 0 and is_finished, max(written, 0))
    except (ValueError, TypeError):  # not of this version of lancens
        return None


def _first_transaction(dataset: Any) -> Any:
    """Return the transaction of the oldest version of a dataset; None if it is lost."""
    first = min(known["version"] for known in dataset.version_refs())
    return or_none(partial(dataset.read_transaction, first))


def tagged_base(dataset: Any, options: Mapping[str, str]) -> TaggedBase | None:
    """Return the base of a clone, by whichever client, with the tags there.

    None for another dataset, and where it is unknown. Only a base that the dataset refers to is opened.
    """
    places = {resolve_location(base.path) for base in dataset.base_paths().values()}
    if not places:
        return None
    found = _found_in(dataset)
    base = _cloned_by_pylance(dataset) if found is None else found.base
    if base is None or resolve_location(_place_of(base.location, base.branch)) not in places:
        return None
    opened = partial(open_dataset, base.location, options, to_read=True)
    tags = or_none(lambda: list_references(opened().tags).items())
    if tags is None:
        return None
    targets = {name: str(TagTarget(tag["version"], tag["branch"] or MAIN_BRANCH)) for name, tag in tags}
    is_kept = str(TagTarget(base.version, base.branch)) in targets.values()
    return TaggedBase(base, is_kept, {name: to for name, to in targets.items() if not name.startswith(PIN)})


def _cloned_by_pylance(dataset: Any) -> CloneBase | None:
    import lance

    operation = getattr(_first_transaction(dataset), "operation", None)
    if not isinstance(operation, lance.LanceOperation.Clone) or operation.branch_name is not None:
        return None
    branch = operation.ref_name or MAIN_BRANCH
    location = operation.ref_path.removesuffix(f"/{BRANCHES}/{branch}")
    return CloneBase(location, operation.ref_version, "", branch=branch)


def write_clone(
    base: CloneBase,
    base_options: Mapping[str, str],
    target: str,
    target_options: Mapping[str, str],
    before: Callable[[], None] = lambda: None,
) -> None:
    """Write a shallow clone of ``base`` at ``target``, or finish one that was begun there.

    The base is opened with the options of the clone, as its readers do, and with the admission of its own. ``before``
    is called before the first write, once nothing but that clone is found there.

    Raises:
        ConcurrentModificationError: the base has no such version any more, or another one of its number; or another
            run writes the clone.
        TableAlreadyExistsError: ``target`` holds another dataset.
        UnsupportedOperationError: a clone cannot lie there.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as :func:`translated`.
    """
    to_base = _admitting(StorageOptions(target_options, admission_of(base_options)), base.location)
    version = _version_of(base, to_base)
    options = _admitting(to_base, *(path.path for path in version.base_paths().values()))
    with translated(target, options):
        operations, last = _operations(base, version, target, to_base)
        found, clone = _begun(base, target, options), None
        before()
        if found is None:
            record = json.dumps([base.location, base.branch, base.version, base.transaction, last])
            try:
                clone = commit_clone(target, operations[0], {_RECORD: record}, options)
            except (OSError, ValueError):
                _version_of(base, to_base)
                if _begun(base, target, options) is None:  # another run may have committed it just before
                    raise
        if found is not None and found.is_finished:
            return
        for number, operation in enumerate(operations[1:], 2):
            commit_step(target, number, operation, options)
        if clone is None or not _shares_files(clone, version):  # which no dataset does that was written there meanwhile
            _version_of(base, to_base)
        clone = open_dataset(target, options) if clone is None else clone
        if is_cleaned_up(clone):
            end_cleanup(clone)


def _shares_files(clone: Any, version: Any) -> bool:
    """Return whether the first fragment of a clone has the file of that of a version; the names of files are unique."""
    first = [
        next((file.path for part in one.get_fragments()[:1] for file in part.data_files()), "")
        for one in (clone, version)
    ]
    return first[0] == first[1] != ""


def _admitting(options: StorageOptions, *places: str) -> StorageOptions:
    """Return options that admit ``places`` as well."""
    return StorageOptions(options, replace(options.admission, roots=(*options.admission.roots, *places)))


def _operations(base: CloneBase, version: Any, target: str, options: Mapping[str, str]) -> tuple[list[Any], int]:
    """Return the operations that make a clone, one for each commit, and the number of the last version.

    Raises:
        UnsupportedOperationError: none do.
    """
    import lance

    place = _place_of(base.location, base.branch)
    refusal = _problem_of_places(base.location, target)
    if refusal is None and _is_same_store(base.location, target):
        branch = None if base.branch == MAIN_BRANCH else base.branch
        # In another store, pylance 14 would write the manifest of the clone into that of the base.
        last = base.version + (1 if is_cleaned_up(version) else 0)  # the commit that ends the clean-up
        return [lance.LanceOperation.Clone(True, branch, base.version, place, None)], last
    steps = CloneSteps(version, _manifest_of(version, place, options), place)
    refusal = refusal or steps.refusal(target)
    if refusal is not None:
        raise UnsupportedOperationError(
            f"{locations.redact(target)}: no clone of {locations.redact(base.location)} can lie there: "
            f"{refusal.problem.value} {refusal.detail}"
        )
    operations = steps.operations()
    return operations, len(operations)


def _begun(base: CloneBase, target: str, options: Mapping[str, str]) -> FoundClone | None:
    """Return the clone of ``base`` at ``target``; None if nothing is there.

    Raises:
        TableAlreadyExistsError: it holds another dataset.
        InvalidTableStateError, PermissionDeniedError: it holds something else, or cannot be read.
    """
    found = find_clone(target, options)
    shown = locations.redact(target)
    if isinstance(found, Storage):
        if found.kind is StorageKind.NOTHING:
            return None
        error = PermissionDeniedError if found.kind is StorageKind.DENIED else InvalidTableStateError
        raise error(f"{shown}: {found.detail}")
    if found is None or not base.is_same_version(found.base):
        raise TableAlreadyExistsError(f"{shown} already holds a Lance dataset, which is no clone of this version")
    return found


def expect_base(base: CloneBase, options: Mapping[str, str]) -> None:
    """Raise ConcurrentModificationError if a dataset does not have the version of a base any more."""
    _version_of(base, options)


def _version_of(base: CloneBase, options: Mapping[str, str]) -> Any:
    """Open the version of a base.

    Raises:
        ConcurrentModificationError: the dataset has no such version any more.
        InvalidTableStateError, PermissionDeniedError, ServiceUnavailableError: as :func:`translated`.
    """
    place = _place_of(base.location, base.branch)
    with translated(base.location, options):
        try:
            version = open_dataset(place, options, version=base.version)
            if _transaction_of(version, place, options) == base.transaction:
                return version
        except (OSError, ValueError) as error:
            if not is_version_gone(error):
                raise
    raise ConcurrentModificationError(
        f"{locations.redact(base.location)}: version {base.version} is gone, or another dataset has been written there "
        "since the plan; plan again"
    )
