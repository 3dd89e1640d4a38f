"""Commit to datasets, right after the version that was read, without setting off a clean-up.

Lance cleans up right after any client's commit whose version is a multiple of ``lance.auto_cleanup.interval``.
pylance 14 has no flag to skip that, so the version of a commit must be known before it is made.
"""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import CLEANUP_REMEDY, PREFIX, UNBOUND_REMEDY, AutoCleanup, why_unbound
from reconciler.model.errors import (
    BackendError,
    ConcurrentModificationError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from reconciler.storage.files import local_path, rename_new
from reconciler.storage.opening import expect_admitted, open_dataset
from reconciler.storage.pylance import translated
from reconciler.storage.reading import cleanup_of, manifests, repair_of

if TYPE_CHECKING:
    import pyarrow as pa

# In words of pylance, and in no name of a file or column, such as `concurrent_users.lance`.
_CONFLICT = re.compile(
    r"(?<![\w/.`'\"-])(?:conflict|concurrent(?:ly)?) |commitconflict|concurrentmodification", re.IGNORECASE
)


def expect_no_cleanup(location: str, cleanup: AutoCleanup | None, commits: int = 1) -> None:
    """Raise if one of the next ``commits`` versions would set off the auto clean-up.

    Raises:
        InvalidTableStateError: naming the version and what to do.
    """
    reason = cleanup.reason(commits) if cleanup is not None else None
    if reason is not None:
        raise InvalidTableStateError(f"{locations.redact(location)}: {reason}; {CLEANUP_REMEDY}")


def expect_no_repair(location: str, dataset: Any) -> None:
    """Raise if pylance would repair a dataset with its next commit, or cannot commit to it at all.

    Raises:
        InvalidTableStateError: naming the reason.
    """
    reason = repair_of(dataset)
    if reason is not None:
        raise InvalidTableStateError(f"{locations.redact(location)}: {reason}")


def commit_first(location: str, table: pa.Table, options: Mapping[str, str]) -> bool:
    """Commit ``table`` as the first version of a dataset; return False if one exists.

    pylance's ``write_dataset(mode="create")`` checks first, and then overwrites a dataset that was made in between.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance

    uri, storage_options = locations.pylance_uri(location), dict(options) or None
    fragments = lance.fragment.write_fragments(table, uri, storage_options=storage_options) if table.num_rows else []
    return commit_whole(location, None, table.schema, fragments, options)


def commit_whole(
    location: str, dataset: Any | None, schema: Any, fragments: Iterable[Any], options: Mapping[str, str]
) -> bool:
    """Commit ``fragments`` as the whole content of the next version.

    The version is the one after ``dataset``, or the first if that is None.

    Returns:
        False if another writer committed that version first.

    Raises:
        InvalidTableStateError: the commit would set off the auto clean-up.
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance
    from lance.commit import CommitConflictError

    if dataset is not None:
        expect_no_cleanup(location, cleanup_of(dataset))
    fragments = list(fragments)
    expect_written(location, fragments)
    into, version = (locations.pylance_uri(location), 0) if dataset is None else (dataset, dataset.version)
    operation, storage_options = lance.LanceOperation.Overwrite(schema, fragments), dict(options) or None
    try:
        # With `max_retries=0` pylance commits an `Overwrite`, and no other operation, right after `read_version` only.
        lance.LanceDataset.commit(into, operation, read_version=version, max_retries=0, storage_options=storage_options)
    except CommitConflictError:
        return False
    except (OSError, ValueError):
        if dataset is not None or not manifests(location, options):
            raise
        return False
    return True


def expect_written(location: str, fragments: Iterable[Any]) -> None:
    """Raise if a data file on a local disk is shorter than its fragment says: pylance 14 hides that the disk is full.

    Raises:
        OSError: naming the file.
    """
    folder = local_path(location)
    if folder is None:
        return
    for file in (file for fragment in fragments for file in fragment.files):
        path = folder / "data" / file.path
        size = path.stat().st_size
        if file.file_size_bytes is not None and size < file.file_size_bytes:
            raise OSError(errno.ENOSPC, f"{path} has {size:,} of {file.file_size_bytes:,} bytes; is the disk full?")


def is_latest(location: str, version: int, options: Mapping[str, str]) -> bool:
    """Return whether ``version``, committed just now, is the latest one.

    Otherwise others committed after it, or had used that number before a clean-up freed it.
    """
    return max(manifests(location, options), default=0) == version


def end_cleanup(dataset: Any) -> None:
    """Delete the configuration of the auto clean-up, in a commit that therefore cleans nothing.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    dataset.delete_config_keys([key for key in dataset.config() if key.startswith(PREFIX)])


def is_cleaned_up(dataset: Any) -> bool:
    """Return whether a dataset's configuration has a key of the auto clean-up."""
    return any(key.startswith(PREFIX) for key in dataset.config())


def commit_clone(location: str, operation: Any, record: Mapping[str, str], options: Mapping[str, str]) -> Any:
    """Commit the first version of a clone, and return it; fail if a dataset exists.

    Args:
        location: of the clone.
        operation: of pylance.
        record: properties of the transaction, which pylance's ``shallow_clone`` cannot write.

    Raises:
        TableAlreadyExistsError: another writer created a dataset at the same time.
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance
    from lance.dataset import Transaction

    version = operation.ref_version if isinstance(operation, lance.LanceOperation.Clone) else 0
    transaction = Transaction(version, operation, transaction_properties=dict(record))
    uri, storage_options = locations.pylance_uri(location), dict(options) or None
    clone = lance.LanceDataset.commit(uri, transaction, max_retries=0, storage_options=storage_options)
    if min(manifests(location, options)) < clone.version:
        raise TableAlreadyExistsError(f"{locations.redact(location)} holds another dataset, created at the same time")
    return clone


def commit_step(location: str, number: int, operation: Any, options: Mapping[str, str]) -> None:
    """Commit ``operation`` as version ``number``, unless the dataset has that version.

    Raises:
        BackendError: see :func:`next_versions`.
    """
    import lance

    with next_versions(location, options) as dataset:
        if dataset.version < number:
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


@contextmanager
def next_versions(location: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Yield the dataset for one commit, which becomes the next version or fails.

    Raises:
        ConcurrentModificationError: another writer committed in between.
        UnsupportedOperationError: pylance cannot guarantee the next version in this store.
        InvalidTableStateError: the commit would set off the auto clean-up; or as :func:`translated`.
    """
    with translated(location, options):
        versions = _NextVersionOnly(location, options)
        dataset = versions.open()
        base_version = int(dataset.version)
        versions.next = base_version + 1
        try:
            yield dataset
        except Exception:
            if not is_latest(location, int(dataset.version), options):
                raise versions.lost_race() from None
            raise
        if dataset.version != base_version and not is_latest(location, int(dataset.version), options):
            nullable = {field.name: field.nullable for field in open_dataset(location, options).schema}
            if any(nullable.get(field.name) not in (True, field.nullable) for field in dataset.schema):
                raise versions.lost_race()


@contextmanager
def rebased_versions(location: str, options: Mapping[str, str], commits: int = 1) -> Iterator[Any]:
    """Yield the dataset for ``commits`` commits that pylance may rebase onto other writers' versions.

    None of them sets off the auto clean-up: before each, the configuration of the version that it follows is read.

    Raises:
        ConcurrentModificationError: another writer's commit conflicts with this one.
        UnsupportedOperationError: pylance cannot tell in this store which version a commit becomes.
        InvalidTableStateError: one of the commits would set off the auto clean-up; or as :func:`translated`.
    """
    with translated(location, options):
        versions = _VersionsWithoutCleanup(location, options)
        dataset = versions.open(commits)
        try:
            yield dataset
        except BackendError:  # of an executor, whose text may name a conflict of another kind
            raise
        except Exception as error:
            if versions.refusal is not None:
                raise InvalidTableStateError(f"{versions.refusal}{versions.remainder}") from None
            if _CONFLICT.search(str(error)):
                raise versions.lost_race() from None
            raise


class _VersionNamespace(ABC):
    """The part of a Lance namespace that pylance calls to commit a version.

    A subclass admits versions. pylance first writes each manifest under a temporary name, and leaves that file behind
    if the version is refused; ``remainder`` is the part of the error message that names the file.
    """

    remainder = ""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._folder = locations.join(location, "_versions")

    def open(self, commits: int = 1) -> Any:
        """Return the latest version of the dataset, which asks this namespace before each of ``commits`` commits.

        Raises:
            UnsupportedOperationError: pylance asks no namespace in this store.
            InvalidTableStateError: one of the commits would set off the auto clean-up.
        """
        import lance

        reason = why_unbound(self._location)
        if reason is not None:
            raise UnsupportedOperationError(f"{locations.redact(self._location)}: {reason}; {UNBOUND_REMEDY}")
        if locations.scheme(self._location) == "shared-memory":  # only this process writes there
            dataset = open_dataset(self._location, self._options)
        else:
            client: Any = self
            storage_options = dict(self._options) or None
            expect_admitted(self._location, self._options)
            dataset = lance.dataset(namespace_client=client, table_id=["t"], storage_options=storage_options)
            expect_admitted(self._location, self._options, dataset)
        expect_no_cleanup(self._location, cleanup_of(dataset), commits)
        expect_no_repair(self._location, dataset)
        return dataset

    @abstractmethod
    def admit(self, version: int) -> None:
        """Raise if ``version`` must not be committed."""

    def namespace_id(self) -> str:
        return self._location

    def describe_table(self, request: Any) -> Any:
        return SimpleNamespace(
            location=locations.pylance_uri(self._location), managed_versioning=True, storage_options=None
        )

    def list_table_versions(self, request: dict[str, Any]) -> dict[str, Any]:
        paths = sorted(manifests(self._location, self._options).items(), reverse=bool(request.get("descending")))
        listed = [{"version": version, "manifest_path": path} for version, path in paths]
        return {"versions": listed[: request.get("limit")]}

    def describe_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        paths = manifests(self._location, self._options)
        version = request.get("version") or max(paths)
        return {"version": {"version": version, "manifest_path": paths[version]}}

    def create_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        version, staged = request["version"], request["manifest_path"]
        try:
            self.admit(version)
        except BackendError:
            self.remainder = f"; the refused commit left `_versions/{staged.rpartition('/')[2]}`, which no reader opens"
            raise
        path = f"{staged.rpartition('.manifest')[0]}.manifest"
        rename_new(self._folder, staged.rpartition("/")[2], path.rpartition("/")[2], self._options)
        return {"version": {"version": version, "manifest_path": path, "manifest_size": request["manifest_size"]}}

    def lost_race(self) -> ConcurrentModificationError:
        """Return the error for a commit that lost the race against another writer's."""
        shown = locations.redact(self._location)
        return ConcurrentModificationError(
            f"{shown}: another writer has changed the dataset in the meantime{self.remainder}"
        )


class _NextVersionOnly(_VersionNamespace):
    """Admits only the version ``next``, and only once.

    By itself pylance rebases a commit of columns onto changes of the configuration, which may configure a clean-up.
    """

    next: int | None = None

    def admit(self, version: int) -> None:
        if version != self.next:
            raise ConcurrentModificationError(f"version {version} is not the next one")

    def create_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        committed = super().create_table_version(request)
        self.next = None
        return committed


class _VersionsWithoutCleanup(_VersionNamespace):
    """Admits the next version unless its commit sets off a clean-up; ``refusal`` is the error if one was refused."""

    refusal: InvalidTableStateError | None = None

    def admit(self, version: int) -> None:
        import lance

        if not is_latest(self._location, version - 1, self._options):  # pylance goes on with the next one
            raise ConcurrentModificationError(f"version {version} is not the next one")
        uri, storage_options = locations.pylance_uri(self._location), dict(self._options) or None
        # A commit takes over the configuration of the version that it follows, which is never cleaned up meanwhile.
        followed = lance.dataset(uri, version=version - 1, storage_options=storage_options)
        try:
            expect_no_cleanup(self._location, cleanup_of(followed))
        except InvalidTableStateError as error:
            self.refusal = error
            raise
