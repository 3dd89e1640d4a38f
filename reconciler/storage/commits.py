"""Every commit on a dataset: the very next version of the one that was looked at, and none that cleans up old ones.

Lance cleans a dataset up right after a commit whose version its ``lance.auto_cleanup.interval`` divides, by any
client, and pylance 14 has no flag that skips it. So the version of a commit has to be known before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import CLEANUP_REMEDY, UNBOUND_REMEDY, AutoCleanup, unbound
from reconciler.model.errors import ConcurrentModificationError, InvalidTableStateError, UnsupportedOperationError
from reconciler.storage.files import rename_new
from reconciler.storage.pylance import open_dataset, translated
from reconciler.storage.reading import cleanup_of, manifests

if TYPE_CHECKING:
    import pyarrow as pa


def expect_no_cleanup(location: str, cleanup: AutoCleanup | None, commits: int = 1) -> None:
    """Return when none of the next ``commits`` versions would clean up.

    Raises:
        InvalidTableStateError: one would.
    """
    due = cleanup.due_within(commits) if cleanup is not None else None
    if cleanup is not None and due is not None:
        raise InvalidTableStateError(f"{locations.redact(location)}: {cleanup.reason(due)}; {CLEANUP_REMEDY}")


def commit_first(location: str, table: pa.Table, options: Mapping[str, str]) -> bool:
    """Commit ``table`` as the first version of a dataset; return False where there is one already.

    ``write_dataset(mode="create")`` looks whether a dataset is there and then overwrites what has come since.

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
    """Commit ``fragments`` as all there is in the version after that of ``dataset``, the first one where it is None.

    Returns:
        whether that was done; not where others have made that version.

    Raises:
        InvalidTableStateError: the commit would clean up.
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`translated`.
    """
    import lance
    from lance.commit import CommitConflictError

    if dataset is not None:
        expect_no_cleanup(location, cleanup_of(dataset))
    into, version = (locations.pylance_uri(location), 0) if dataset is None else (dataset, dataset.version)
    operation, given = lance.LanceOperation.Overwrite(schema, list(fragments)), dict(options) or None
    try:
        # Without retries pylance puts an `Overwrite`, and nothing else, only right after the version that was read.
        lance.LanceDataset.commit(into, operation, read_version=version, max_retries=0, storage_options=given)
    except CommitConflictError:
        return False
    except (OSError, ValueError):
        if dataset is not None or not manifests(location, options):
            raise
        return False
    return True


def is_latest(location: str, version: int, options: Mapping[str, str]) -> bool:
    """Return whether a ``version`` that was committed just now is the latest one.

    Where it is not, others have gone on from it, or had taken that number before, and a clean-up has freed it.
    """
    return max(manifests(location, options)) == version


@contextmanager
def next_versions(location: str, options: Mapping[str, str], commits: int = 1) -> Iterator[Any]:
    """Give the dataset at ``location`` for ``commits`` commits that add or relax columns, or rows.

    Each gets the very next version or fails.

    Raises:
        ConcurrentModificationError: somebody else committed meanwhile.
        UnsupportedOperationError: pylance has no way to be sure of the next version in this store.
        InvalidTableStateError: one of the commits would clean up; or as :func:`translated`.
    """
    reason = unbound(location)
    if reason is not None:
        raise UnsupportedOperationError(f"{locations.redact(location)}: {reason}; {UNBOUND_REMEDY}")
    with translated(location, options):
        dataset, versions = _opened(location, options)
        expect_no_cleanup(location, cleanup_of(dataset), commits)
        looked_at = int(dataset.version)
        versions.left = [looked_at + number for number in range(1, commits + 1)]
        try:
            yield dataset
        except Exception:
            if not is_latest(location, int(dataset.version), options):
                raise _beaten(location) from None
            raise
        if dataset.version != looked_at and not is_latest(location, int(dataset.version), options):
            there = {field.name: field.nullable for field in open_dataset(location, options).schema}
            if any(there.get(field.name) not in (True, field.nullable) for field in dataset.schema):
                raise _beaten(location)


def _beaten(location: str) -> ConcurrentModificationError:
    shown = locations.redact(location)
    return ConcurrentModificationError(f"{shown}: another writer has changed the dataset meanwhile")


class _NextVersions:
    """What pylance asks of a namespace that gives out the versions of a dataset: no other than those that are left.

    Left alone, pylance puts a commit of columns on top of changes of the configuration, which may set up a clean-up.
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


def _opened(location: str, options: Mapping[str, str]) -> tuple[Any, _NextVersions]:
    """Return the dataset, opened so that the versions of its commits are given out here.

    In the memory of this process they are not: nobody else writes there.
    """
    import lance

    versions: Any = _NextVersions(location, options)
    if locations.scheme(location) == "shared-memory":
        return open_dataset(location, options), versions
    return lance.dataset(namespace_client=versions, table_id=["t"], storage_options=dict(options) or None), versions
