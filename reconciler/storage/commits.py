"""Every commit on a dataset, right after the version read and without a clean-up.

Lance cleans up right after any client's commit whose version is a multiple of ``lance.auto_cleanup.interval``.
pylance 14 has no flag to skip that, so the version of a commit must be known before it is made.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import CLEANUP_REMEDY, UNBOUND_REMEDY, AutoCleanup, unbound
from reconciler.model.errors import ConcurrentModificationError, InvalidTableStateError, UnsupportedOperationError
from reconciler.storage.files import local_path, rename_new
from reconciler.storage.pylance import open_dataset, translated
from reconciler.storage.reading import cleanup_of, manifests

if TYPE_CHECKING:
    import pyarrow as pa


def expect_no_cleanup(location: str, cleanup: AutoCleanup | None, commits: int = 1) -> None:
    """Raise if one of the next ``commits`` versions would set off the auto clean-up.

    Raises:
        InvalidTableStateError: naming the version and what to do.
    """
    due = cleanup.due_within(commits) if cleanup is not None else None
    if cleanup is not None and due is not None:
        raise InvalidTableStateError(f"{locations.redact(location)}: {cleanup.reason(due)}; {CLEANUP_REMEDY}")


def commit_first(location: str, table: pa.Table, options: Mapping[str, str]) -> bool:
    """Commit ``table`` as the first version of a dataset; return False if one exists.

    pylance's ``write_dataset(mode="create")`` checks first, and then overwrites a dataset that was made in between.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance

    uri, given = locations.pylance_uri(location), dict(options) or None
    fragments = lance.fragment.write_fragments(table, uri, storage_options=given) if table.num_rows else []
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
    _expect_written(location, fragments)
    into, version = (locations.pylance_uri(location), 0) if dataset is None else (dataset, dataset.version)
    operation, given = lance.LanceOperation.Overwrite(schema, fragments), dict(options) or None
    try:
        # With `max_retries=0` pylance commits an `Overwrite`, and no other operation, right after `read_version` only.
        lance.LanceDataset.commit(into, operation, read_version=version, max_retries=0, storage_options=given)
    except CommitConflictError:
        return False
    except (OSError, ValueError):
        if dataset is not None or not manifests(location, options):
            raise
        return False
    return True


def _expect_written(location: str, fragments: Iterable[Any]) -> None:
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
    return max(manifests(location, options)) == version


@contextmanager
def next_versions(location: str, options: Mapping[str, str], commits: int = 1) -> Iterator[Any]:
    """Yield the dataset for ``commits`` commits, each of the next version or failing.

    Raises:
        ConcurrentModificationError: another writer committed in between.
        UnsupportedOperationError: pylance cannot guarantee the next version in this store.
        InvalidTableStateError: one of the commits would set off the auto clean-up; or as :func:`translated`.
    """
    import lance

    reason = unbound(location)
    if reason is not None:
        raise UnsupportedOperationError(f"{locations.redact(location)}: {reason}; {UNBOUND_REMEDY}")
    with translated(location, options):
        versions: Any = _NextVersions(location, options)
        if locations.scheme(location) == "shared-memory":  # only this process writes there
            dataset = open_dataset(location, options)
        else:
            given = dict(options) or None
            dataset = lance.dataset(namespace_client=versions, table_id=["t"], storage_options=given)
        expect_no_cleanup(location, cleanup_of(dataset), commits)
        looked_at = int(dataset.version)
        versions.left = [looked_at + number for number in range(1, commits + 1)]
        try:
            yield dataset
        except Exception:
            if not is_latest(location, int(dataset.version), options):
                raise _lost_race(location) from None
            raise
        if dataset.version != looked_at and not is_latest(location, int(dataset.version), options):
            there = {field.name: field.nullable for field in open_dataset(location, options).schema}
            if any(there.get(field.name) not in (True, field.nullable) for field in dataset.schema):
                raise _lost_race(location)


def _lost_race(location: str) -> ConcurrentModificationError:
    shown = locations.redact(location)
    return ConcurrentModificationError(f"{shown}: another writer has changed the dataset in the meantime")


class _NextVersions:
    """A namespace, as far as pylance asks one to commit versions.

    It admits the versions in ``left`` only.

    By itself pylance rebases a commit of columns onto changes of the configuration, which may configure a clean-up.
    """

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._folder = locations.join(location, "_versions")
        self.left: list[int] = []

    def namespace_id(self) -> str:
        return self._location

    def describe_table(self, request: Any) -> Any:
        return SimpleNamespace(
            location=locations.pylance_uri(self._location), managed_versioning=True, storage_options=None
        )

    def list_table_versions(self, request: dict[str, Any]) -> dict[str, Any]:
        found = sorted(manifests(self._location, self._options).items(), reverse=bool(request.get("descending")))
        listed = [{"version": version, "manifest_path": path} for version, path in found]
        return {"versions": listed[: request.get("limit")]}

    def describe_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        found = manifests(self._location, self._options)
        version = request.get("version") or max(found)
        return {"version": {"version": version, "manifest_path": found[version]}}

    def create_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        version, staged = request["version"], request["manifest_path"]
        if [version] != self.left[:1]:
            raise ConcurrentModificationError(f"version {version} is not the next one")
        path = f"{staged.rpartition('.manifest')[0]}.manifest"
        rename_new(self._folder, staged.rpartition("/")[2], path.rpartition("/")[2], self._options)
        del self.left[0]
        return {"version": {"version": version, "manifest_path": path, "manifest_size": request["manifest_size"]}}
