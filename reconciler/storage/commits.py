"""Every commit on a dataset: the very next version of the one that was looked at, and none that cleans up old ones.

Lance cleans a dataset up right after a commit whose version its ``lance.auto_cleanup.interval`` divides, by any
client, and pylance 14 has no flag that skips it. So the version of a commit has to be known before it is made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reconciler.model import locations
from reconciler.model.auto_cleanup import FOUND_BY_NAME, UNSEEN, UNSEEN_REMEDY, AutoCleanup, can_clean_up_unseen
from reconciler.model.errors import ConcurrentModificationError, InvalidTableStateError
from reconciler.storage.bucket import BucketVersions
from reconciler.storage.files import local_path
from reconciler.storage.metadata import manifests
from reconciler.storage.probing import cleanup_of
from reconciler.storage.pylance import open_dataset, translated

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["commit_first", "commit_whole", "expect_no_cleanup", "is_latest", "next_versions"]


def expect_no_cleanup(location: str, cleanup: AutoCleanup | None, commits: int = 1) -> None:
    """Return when none of the next ``commits`` versions would clean up.

    Raises:
        InvalidTableStateError: one would.
    """
    due = cleanup.due_within(commits) if cleanup is not None else None
    if cleanup is not None and due is not None:
        raise InvalidTableStateError(f"{locations.redact(location)}: {cleanup.reason(due)}; {cleanup.remedy}")


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
        InvalidTableStateError: one of the commits would clean up; or as :func:`translated`.
    """
    with translated(location, options), _opened(location, options) as (dataset, versions):
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

    def __init__(self, location: str, inner: Any) -> None:
        self._location, self._inner = location, inner
        self.left: list[int] = []

    def namespace_id(self) -> str:
        return self._location

    def describe_table(self, request: Any) -> Any:
        return SimpleNamespace(
            location=locations.pylance_uri(self._location), managed_versioning=True, storage_options=None
        )

    def list_table_versions(self, request: Any) -> Any:
        return self._inner.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        return self._inner.describe_table_version(request)

    def create_table_version(self, request: dict[str, Any]) -> Any:
        if [request["version"]] != self.left[:1]:
            raise ConcurrentModificationError(f"version {request['version']} is not the next one")
        made = self._inner.create_table_version(request)
        del self.left[0]
        return made


@contextmanager
def _opened(location: str, options: Mapping[str, str]) -> Iterator[tuple[Any, _NextVersions]]:
    """Give the dataset, opened so that the versions of its commits are given out here, wherever that can be.

    pylance's directory namespace writes a version only where there is none, and finds a dataset by its name.

    Raises:
        InvalidTableStateError: nothing there writes a version only where there is none.
    """
    import lance
    from lance.namespace import DirectoryNamespace

    directory: Any = DirectoryNamespace

    def namespace(root: str) -> _NextVersions:
        given = {f"storage.{key}": text for key, text in options.items()}
        return _NextVersions(location, directory(root=root, manifest_enabled="false", **given))

    def opened(versions: _NextVersions, name: str) -> Any:
        namespace_client: Any = versions
        return lance.dataset(namespace_client=namespace_client, table_id=[name], storage_options=dict(options) or None)

    path, found = local_path(location), FOUND_BY_NAME.fullmatch(locations.pylance_uri(location))
    if path is not None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "t.lance").symlink_to(path.resolve())
            versions = namespace(folder)
            yield opened(versions, "t"), versions
    elif found is not None:
        versions = namespace(found[1])
        yield opened(versions, found[2]), versions
    elif locations.pylance_uri(location).startswith("s3://"):
        versions = _NextVersions(location, BucketVersions(location, options))
        yield opened(versions, location), versions
    elif can_clean_up_unseen(location):
        raise InvalidTableStateError(f"{locations.redact(location)}: {UNSEEN}; {UNSEEN_REMEDY}")
    else:
        yield open_dataset(location, options), _NextVersions(location, None)
