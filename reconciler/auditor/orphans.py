"""Search the roots for orphans: datasets that no table points at.

The executors list directories, one level below the roots after the other. A directory with ``_versions`` is a dataset.
One with data files in ``data`` was a dataset, or will be one. The search does not enter datasets, nor directories whose
names begin with ``_`` or ``.``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo, RootIndex, Search, SearchedRoot
from reconciler.model import locations
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError
from reconciler.spark.frames import frame_of
from reconciler.spark.reading import as_unicode
from reconciler.spark.rows import ReadFailure
from reconciler.spark.schemas import STRING, STRINGS, Row, record_batch
from reconciler.spark.tasks import batched, probe_tasks, unbatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.spark.frames import Frame


DEEPEST = storage.DEEPEST
_DATASET, _DIRECTORY, _FAILURE = "dataset", "directory", "failure"
_LISTED = pa.schema([(name, STRING) for name in ("catalog", "location", "claimed", "kind", "message")])
_DATASETS = pa.schema([("catalog", STRING), ("id", STRINGS), ("location", STRING), ("claimed", STRING)])
_LISTINGS_AT_ONCE = 16


@dataclass(slots=True)
class OrphanSearchResult:
    """The result of a search.

    Args:
        datasets: the unregistered datasets.
        failures: the directories below a configured root that could not be listed.
        notes: the directories below the places of namespaces, which may be foreign, that could not be listed.
        is_cut_short: whether there are directories deeper than ``DEEPEST``.
    """

    datasets: list[SearchedRoot] = field(default_factory=list)
    failures: list[ReadFailure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_cut_short: bool = False


def find_orphans(
    spark: SparkSession | None, search: Search, catalogs: Mapping[str, CatalogInfo], claims: Frame
) -> OrphanSearchResult:
    """Return the datasets under the roots of ``search`` that are not claimed.

    Args:
        spark: the session to work in; None for this process.
        search: where to search.
        catalogs: the catalogs by name.
        claims: the places of entries and blocks (``storage.place_of``) as ``claimed``, and whether each is ``closed``,
            so that nothing below it is searched.
    """
    lister = _Lister(
        {name: catalog.options for name, catalog in catalogs.items()},
        frozenset(map(storage.place_of, search.closed)),
    )
    configured = [root for catalog in catalogs.values() for root in catalog.roots]
    found = OrphanSearchResult()
    level: list[SearchedRoot] = []
    for root in search.roots:
        place = SearchedRoot(root.catalog, storage.as_plain_path(root.location))
        if as_unicode(place.location) == place.location:
            level.append(place)
        else:  # Arrow cannot hold a lone surrogate
            found.notes.append(f"{place.catalog}: {_failure(place, 'it is not Unicode')['message']}")
    for _ in range(DEEPEST + 1):
        if not level:
            break
        level = _search_level(spark, level, lister, claims, found, configured)
    found.is_cut_short = bool(level)
    found.datasets = sorted(set(found.datasets))
    found.failures.sort(key=lambda failure: (failure.catalog, failure.message))
    found.notes.sort()
    return found


def _search_level(
    spark: SparkSession | None,
    level: list[SearchedRoot],
    lister: _Lister,
    claims: Frame,
    found: OrphanSearchResult,
    configured: Collection[str],
) -> list[SearchedRoot]:
    """Search the directories of ``level``, and return the next level.

    The driver holds the directories between levels: the plan of a frame of all levels would double with each.
    """
    places = frame_of(spark, batched(level, _LISTINGS_AT_ONCE))
    listed = places.map(lister, _LISTED, probe_tasks(len(level)))
    below: list[SearchedRoot] = []
    for row in listed.joined(claims, "claimed").rows():
        place = SearchedRoot(row["catalog"], row["location"])
        if row["kind"] == _FAILURE:
            directory = place.location
            own = (locations.same(root, directory) or locations.is_under(root, directory) for root in configured)
            if any(own):
                found.failures.append(ReadFailure(catalog=place.catalog, message=row["message"]))
            else:
                found.notes.append(f"{place.catalog}: {row['message']}")
        elif row["kind"] == _DIRECTORY:
            below += [] if row["closed"] else [place]
        elif row["closed"] is None:
            found.datasets.append(place)
    return below


@dataclass(frozen=True, slots=True)
class _Lister:
    """Lists directories, in any process.

    ``options`` are pylance's for each catalog; ``closed`` are the places that are not entered.
    """

    options: Mapping[str, Mapping[str, str]] = field(repr=False)
    closed: frozenset[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield ``_LISTED``: datasets, and the directories in other directories."""
        for places in unbatched(batches):
            for rows in in_parallel(lambda place: list(self._list(place)), places, _LISTINGS_AT_ONCE):
                if rows:
                    yield record_batch(rows, _LISTED)

    def _list(self, place: SearchedRoot) -> Iterator[Row]:
        catalog, directory = place
        try:
            looked = storage.look_into(directory, self.options[catalog])
        except BackendError as error:
            yield _failure(place, str(error))
            return
        if looked.is_dataset:
            yield _listed(_DATASET, catalog, directory)
        if looked.is_data:
            yield _listed(_DATASET, catalog, directory.rstrip("/").rpartition("/")[0])
        for below in looked.below:
            if as_unicode(below) != below:
                yield _failure(SearchedRoot(catalog, below), "its name is not Unicode")
            elif (found := _listed(_DIRECTORY, catalog, below))["claimed"] not in self.closed:
                yield found


def _listed(kind: str, catalog: str, location: str) -> Row:
    return {"kind": kind, "catalog": catalog, "location": location, "claimed": storage.place_of(location)}


def _failure(place: SearchedRoot, reason: str) -> Row:
    location = as_unicode(place.location)
    message = as_unicode(f"{locations.redact(location)} could not be searched for orphans: {reason}")
    return {"kind": _FAILURE, "catalog": place.catalog, "location": location, "message": message}


def named_datasets(datasets: Sequence[SearchedRoot], catalogs: Mapping[str, CatalogInfo], search: Search) -> pa.Table:
    """Return ``datasets`` as rows for the evaluator.

    A dataset belongs to the catalog with the innermost root around it, or else the innermost directory of a namespace;
    its ``id`` is the path below that, in the namespace.
    """
    configured = {
        locations.normalise(root): name for name, catalog in catalogs.items() for root in reversed(catalog.roots)
    }
    owners = {locations.normalise(root.location): root.catalog for root in search.roots} | configured
    index = RootIndex(owners)
    rows: list[Row] = []
    for dataset in datasets:
        place = locations.normalise(dataset.location)
        root = index.of(place) or place
        path = place.removeprefix(root).strip("/") or root.rpartition("/")[2]
        within = () if root in configured else search.namespaces.get(root, ())
        named = {"catalog": owners.get(root, dataset.catalog), "id": [*within, *path.split("/")]}
        rows.append({**named, "location": dataset.location, "claimed": place})
    return pa.Table.from_pylist(rows, schema=_DATASETS)
