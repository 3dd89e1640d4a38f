"""What a dataset says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.model import locations
from reconciler.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from reconciler.model.live import StorageKind
from reconciler.storage.files import list_directory, version_of
from reconciler.storage.probing import probe
from reconciler.storage.pylance import open_dataset, translated

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset


@dataclass(frozen=True, slots=True)
class Reference:
    """Which version of a dataset is meant; by default the latest of its main branch.

    ``tag`` stands alone; ``version`` counts on ``branch``.
    """

    version: int | None = None
    tag: str | None = None
    branch: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether it is the default."""
        return self == Reference()


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a dataset says of itself; ``summary`` is the metadata of the version."""

    version: int
    schema: pa.Schema
    num_deleted_rows: int
    num_fragments: int
    summary: Mapping[str, str]


_LATEST = Reference()
_MAIN = "main"


@contextmanager
def opened(location: str, options: Mapping[str, str], reference: Reference = _LATEST) -> Iterator[LanceDataset]:
    """Give the dataset at ``location`` as ``reference`` says, for reading; errors of pylance inside become ours.

    Raises:
        InvalidInputError: ``reference`` names a tag beside a version or a branch.
        InvalidTableStateError: there is no Lance dataset, or none that can be read.
        TableVersionNotFoundError, TableTagNotFoundError, TableBranchNotFoundError: there is one, without what
            ``reference`` names.
        PermissionDeniedError, ServiceUnavailableError: storage did not let it be read.
    """
    with translated(location, options):
        _refuse_other_than_dataset(location, options)
        yield _checked_out(open_dataset(location, options), location, reference)


def describe(location: str, options: Mapping[str, str], reference: Reference = _LATEST) -> Metadata:
    """Return the metadata of the dataset at ``location``.

    Raises:
        BackendError: see :func:`opened`.
    """
    with opened(location, options, reference) as dataset:
        stats = dataset.stats.dataset_stats()
        summaries: dict[int, dict[str, str]] = {known["version"]: known["metadata"] for known in dataset.versions()}
        return Metadata(
            version=dataset.version,
            schema=dataset.schema,
            num_deleted_rows=stats["num_deleted_rows"],
            num_fragments=stats["num_fragments"],
            summary=summaries.get(dataset.version, {}),
        )


def require_version(location: str, options: Mapping[str, str], version: int) -> None:
    """Return when the dataset at ``location`` has ``version`` on its main branch.

    Raises:
        TableVersionNotFoundError: it has not.
        BackendError: see :func:`opened`.
    """
    with opened(location, options, Reference(version)):
        pass


def manifests(location: str, options: Mapping[str, str], branch: str | None = None) -> dict[int, str]:
    """Return the file of each version of a branch of the dataset at ``location``, as an object store names it.

    Raises:
        OSError, ValueError, RuntimeError: as storage reports them; see :func:`opened`.
    """
    folder = locations.join(location, *(() if branch in (None, _MAIN) else ("tree", str(branch))), "_versions")
    path = locations.normalise(folder).partition("://")[2].partition("/")[2] or locations.normalise(folder).lstrip("/")
    names = list_directory(folder, options)
    return {number: f"{path}/{name}" for name in names if (number := version_of(name)) is not None}


def _checked_out(dataset: LanceDataset, location: str, reference: Reference) -> LanceDataset:
    shown = locations.redact(location)
    if reference.tag is not None:
        if reference.version is not None or reference.branch is not None:
            raise InvalidInputError("a tag names one version of one branch; give no version or branch beside it")
        if reference.tag not in dataset.tags.list():
            raise TableTagNotFoundError(f"{shown} has no tag `{reference.tag}`")
        return dataset.checkout_version(reference.tag)
    if reference.branch is not None:
        if reference.branch != _MAIN and reference.branch not in dataset.branches.list():
            raise TableBranchNotFoundError(f"{shown} has no branch `{reference.branch}`")
        dataset = dataset.checkout_version((reference.branch, None))
    if reference.version in (None, dataset.version):
        return dataset
    if reference.version not in {known["version"] for known in dataset.versions()}:
        raise TableVersionNotFoundError(f"{shown} has no version {reference.version}; the latest is {dataset.version}")
    return dataset.checkout_version((reference.branch, reference.version))


def _refuse_other_than_dataset(location: str, options: Mapping[str, str]) -> None:
    found = probe(location, options)
    if found.kind is StorageKind.NOTHING:
        raise InvalidTableStateError(f"{locations.redact(location)} is not a Lance dataset: nothing is written there")
    if found.kind is StorageKind.NOT_LANCE:
        raise InvalidTableStateError(f"{locations.redact(location)} is not a Lance dataset: {found.detail}")
