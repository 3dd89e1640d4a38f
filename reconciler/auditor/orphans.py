"""Search the roots for orphans: datasets that no table points at.

The executors list directories level by level, from the roots down. A directory with ``_versions`` is a dataset.
One with data files in ``data`` was a dataset, or will be one. The search does not enter datasets, nor directories whose
names begin with ``_`` or ``.``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo, RootIndex, Search
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError
from reconciler.model.names import Identifier
from reconciler.pipeline.frames import frame_of
from reconciler.pipeline.reading import as_unicode
from reconciler.pipeline.rows import ReadFailure
from reconciler.pipeline.schemas import LONG, STRING, STRINGS, Row, chunks, record_batch, record_batches
from reconciler.pipeline.tasks import probe_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.pipeline.frames import Frame


DEEPEST = storage.DEEPEST
DATASETS = pa.schema([("catalog", STRING), ("id", STRINGS), ("location", STRING), ("data_place", STRING)])
"""The schema of an unregistered dataset, for the evaluator."""

_DATASET, _DIRECTORY, _FAILURE = "dataset", "directory", "failure"
_LISTED = pa.schema([(name, STRING) for name in ("catalog", "location", "data_place", "kind", "message")])
"""The schema of a dataset, a directory to search, or a failure to list a directory; ``kind`` tells which."""
_COUNTED = pa.schema([*_LISTED, ("number", LONG)])
"""The schema of a failure, or of the ``number`` of datasets or directories."""
_LISTINGS_AT_ONCE = 16


@dataclass(slots=True)
class OrphanSearchResult:
    """The result of a search.

    Args:
        datasets: the unregistered datasets, None for none; they have the columns that :class:`DatasetNamer` takes.
        number: the number of datasets.
        failures: the directories below a configured root that could not be listed.
        notes: the directories below the places of namespaces, which may be foreign, that could not be listed.
        is_cut_short: whether there are directories deeper than ``DEEPEST``.
    """

    datasets: Frame | None = None
    number: int = 0
    failures: list[ReadFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_cut_short: bool = False


def find_orphans(
    spark: SparkSession | None, search: Search, catalogs: Mapping[str, CatalogInfo], claims: Frame
) -> OrphanSearchResult:
    """Return the datasets under some roots that no entry or block points at.

    Directories and datasets stay on the executors; the driver gets their numbers, and the failures.

    Args:
        spark: the session to work in; None for this process.
        search: where to search.
        catalogs: the catalogs by name.
        claims: the places of entries and blocks (``storage.resolve_location``) as ``data_place``, and whether each is
            ``closed``, so that nothing below it is searched.
    """
    lister = _Lister(
        {name: catalog.options for name, catalog in catalogs.items()},
        frozenset(map(storage.resolve_location, search.closed)),
    )
    configured = [root for catalog in catalogs.values() for root in catalog.roots]
    result = OrphanSearchResult()
    roots: list[Row] = []
    for root in search.roots:
        location = storage.as_plain_path(root.location)
        if as_unicode(location) == location:
            roots.append(_listed_row(_DIRECTORY, root.catalog, location))
        else:  # Arrow cannot hold a lone surrogate
            result.notes.append(
                f"{root.catalog}: {_failure_row(root.catalog, location, 'it is not Unicode')['message']}"
            )
    level, number = frame_of(spark, pa.Table.from_pylist(roots, schema=_LISTED)), len(roots)
    for _ in range(DEEPEST + 1):
        if not number:
            break
        listed = level.map(lister, _LISTED, probe_tasks(number)).joined(claims, "data_place")
        unclaimed = listed.map(_unclaimed_rows, _LISTED).cut()
        level, number = unclaimed.where("kind", _DIRECTORY), _add_level(result, unclaimed, configured)
    result.is_cut_short = bool(number)
    result.failures.sort(key=lambda failure: (failure.catalog, failure.message))
    result.notes.sort()
    return result


def _add_level(result: OrphanSearchResult, unclaimed: Frame, configured: Collection[str]) -> int:
    """Add the rows of one level of directories to ``result``.

    Return the number of directories to search next. A directory that cannot be listed is a failure below one of the
    ``configured`` roots, else a note.
    """
    numbers: Counter[str] = Counter()
    for row in unclaimed.map(_failures_and_numbers, _COUNTED).rows():
        numbers[row["kind"]] += row["number"]
        if row["kind"] == _FAILURE:
            catalog, directory, message = row["catalog"], row["location"], row["message"]
            if any(locations.same(root, directory) or locations.is_under(root, directory) for root in configured):
                result.failures.append(ReadFailure(catalog=catalog, message=message))
            else:
                result.notes.append(f"{catalog}: {message}")
    if numbers[_DATASET]:
        datasets = unclaimed.where("kind", _DATASET)
        result.datasets = datasets if result.datasets is None else result.datasets.union(datasets)
        result.number += numbers[_DATASET]
    return numbers[_DIRECTORY]


def _unclaimed_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield unclaimed datasets, directories to search, and failures."""
    import pyarrow.compute as pc

    for batch in batches:
        is_open = pc.or_kleene(
            pc.is_null(batch["closed"]), pc.and_(pc.invert(batch["closed"]), _has_kind(batch, _DIRECTORY))
        )
        yield batch.select(_LISTED.names).filter(pc.or_(is_open, _has_kind(batch, _FAILURE)))


def _failures_and_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the failures, and the numbers of datasets and of directories."""
    for batch in batches:
        failures = batch.filter(_has_kind(batch, _FAILURE)).to_pylist()
        numbers = Counter(batch["kind"].to_pylist())
        rows = [{**row, "number": 1} for row in failures]
        rows += [{"kind": kind, "number": numbers[kind]} for kind in (_DATASET, _DIRECTORY) if numbers[kind]]
        yield record_batch(rows, _COUNTED)


def _has_kind(batch: pa.RecordBatch, kind: str) -> pa.Array:
    """Return for each row whether it is of ``kind``."""
    import pyarrow.compute as pc

    return pc.equal(batch["kind"], kind)


@dataclass(frozen=True, slots=True)
class _Lister:
    """List directories, in any process.

    ``options`` are pylance's for each catalog; ``closed`` are the places that are not entered.
    """

    options: Mapping[str, Mapping[str, str]] = field(repr=False)
    closed: frozenset[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List the directories in ``batches``.

        Yield rows of ``_LISTED`` for the datasets and directories in each.
        """
        return record_batches(chain.from_iterable(map(self._batch_rows, batches)), _LISTED)

    def _batch_rows(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """Yield the rows of each directory of ``batch``; one directory can hold millions."""
        for chunk in chunks(batch.to_pylist(), _LISTINGS_AT_ONCE):
            for directory, content in zip(chunk, in_parallel(self._list, chunk, _LISTINGS_AT_ONCE), strict=True):
                yield from self._content_rows(directory["catalog"], directory["location"], content)

    def _list(self, directory: Row) -> storage.DirectoryContent | BackendError:
        try:
            return storage.classify_directory(directory["location"], self.options[directory["catalog"]])
        except BackendError as error:
            return error

    def _content_rows(
        self, catalog: str, directory: str, content: storage.DirectoryContent | BackendError
    ) -> Iterator[Row]:
        """Yield the rows of one directory.

        They are a failure, or the dataset that it belongs to, and its directories.
        """
        if isinstance(content, BackendError):
            yield _failure_row(catalog, directory, str(content))
            return
        if content.is_dataset:
            yield _listed_row(_DATASET, catalog, directory)
        if content.is_data:
            yield _listed_row(_DATASET, catalog, directory.rstrip("/").rpartition("/")[0])
        for below, place in zip(content.below, storage.resolve_locations(content.below), strict=True):
            if as_unicode(below) != below:
                yield _failure_row(catalog, below, "its name is not Unicode")
            elif place not in self.closed:
                yield _listed_row(_DIRECTORY, catalog, below, place)


def _listed_row(kind: str, catalog: str, location: str, place: str | None = None) -> Row:
    return {
        "kind": kind,
        "catalog": catalog,
        "location": location,
        "data_place": place or storage.resolve_location(location),
    }


def _failure_row(catalog: str, directory: str, reason: str) -> Row:
    location = as_unicode(directory)
    message = as_unicode(f"{locations.redact(location)} could not be searched for orphans: {reason}")
    return {"kind": _FAILURE, "catalog": catalog, "location": location, "message": message}


@dataclass(frozen=True, slots=True)
class DatasetNamer:
    """Give unregistered datasets a catalog and an ``id``, in any process.

    A dataset belongs to the catalog of the innermost root around it, or else of the innermost directory of a namespace.
    Its ``id`` is the path below that; in a namespace's directory, the namespace comes first.

    Args:
        configured: the catalogs by the normal form of their configured roots.
        owners: the catalogs by the normal form of their configured roots and of the directories that were searched.
        namespaces: the namespaces by the normal form of their directories.
    """

    configured: Mapping[str, str]
    owners: Mapping[str, str]
    namespaces: Mapping[str, Identifier]

    @classmethod
    def of(cls, catalogs: Mapping[str, CatalogInfo], search: Search) -> DatasetNamer:
        """Return the namer of the datasets that ``search`` finds."""
        configured = {
            locations.normalise(root): name for name, catalog in catalogs.items() for root in reversed(catalog.roots)
        }
        searched = {locations.normalise(root.location): root.catalog for root in search.roots}
        return cls(configured, searched | configured, search.namespaces)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of ``DATASETS``.

        ``batches`` have the columns ``catalog`` and ``location``.
        """
        index = RootIndex(self.owners)
        for batch in batches:
            yield record_batch(
                (self._dataset_row(row["catalog"], row["location"], index) for row in batch.to_pylist()), DATASETS
            )

    def _dataset_row(self, catalog: str, location: str, index: RootIndex) -> Row:
        place = locations.normalise(location)
        root = index.of(place) or place
        path = place.removeprefix(root).strip("/") or root.rpartition("/")[2]
        namespace = () if root in self.configured else self.namespaces.get(root, ())
        identity = {"catalog": self.owners.get(root, catalog), "id": [*namespace, *path.split("/")]}
        return {**identity, "location": location, "data_place": place}
