"""Probe the storage of tables, and compare the columns of their entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial
from typing import Any, TypeAlias, TypeVar

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.probe_cache import ProbeCache
from reconciler.auditor.records import NOT_PROBED, LocationContent
from reconciler.backends.base import Backend
from reconciler.model.columns import Schema
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, CatalogError
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier, split
from reconciler.model.tags import FoundTags
from reconciler.pipeline.reading import result_or_error
from reconciler.pipeline.rows import live_table
from reconciler.pipeline.schemas import Row, chunks
from reconciler.planner.facts import EntryColumns
from reconciler.storage import Depth

_PROBES_AT_ONCE = 16
"""How many remote locations to probe at once; local ones are faster one by one."""

_OPTIONS_AT_ONCE = 256
"""How many tables' options to fetch before opening their datasets; more might expire, if they are vended."""

ResultT = TypeVar("ResultT")

ColumnMismatch: TypeAlias = EntryColumns | str | None
"""The columns of an entry that differ from the data's, or the error."""


@dataclass(frozen=True, slots=True)
class TableProber:
    """Probe tables, and connect to their catalogs where that is needed.

    The methods take rows with the columns ``catalog`` and ``location``; those of live tables have ``key`` and ``live``,
    too, and ``look``, the result of an earlier audit, if a history is kept.

    Args:
        catalogs: the catalogs by name.
        stack: connections are closed when it closes.
        cache: the results of earlier audits, if a history is kept.
        explained: from how many reclaimable bytes on pylance is asked what a clean-up would free; None for never.
    """

    catalogs: Mapping[str, CatalogInfo]
    stack: ExitStack
    cache: ProbeCache | None = None
    explained: int | None = None
    _backends: dict[str, Backend | CatalogError] = field(default_factory=dict)

    def probe(self, rows: Sequence[Row], depth: Depth) -> list[LocationContent]:
        """Return the content of each row's location; write new results to the cache."""
        results: list[LocationContent] = []
        for chunk in chunks(rows, _OPTIONS_AT_ONCE):
            locations = [row["location"] for row in chunk]
            is_remote = any(location is not None and storage.local_path(location) is None for location in locations)
            requests = zip(chunk, self._options(chunk), strict=True)
            results += in_parallel(
                lambda request: self._probe_row(*request, depth), requests, _PROBES_AT_ONCE if is_remote else 1
            )
        if self.cache is not None:
            self.cache.write(rows, results)
        return results

    def _probe_row(self, row: Row, options: Mapping[str, str] | CatalogError, depth: Depth) -> LocationContent:
        """Return the content of a row's location, from the cache if nothing was committed since."""
        location: str | None = row["location"]
        if isinstance(options, CatalogError):
            return LocationContent(StorageKind.UNKNOWN, str(options))
        if location is None:
            return NOT_PROBED
        if self.cache is None or not location or "look" not in row:  # no results of unregistered datasets are kept
            return probe(location, options, depth, self.explained)
        cached = self.cache.cached(row)
        # Read the state before probing, so that the next audit notices a commit in between.
        state = storage.latest_state(location, options, None if cached is None else cached.state)
        if cached is not None and state == cached.state:
            return cached
        return replace(probe(location, options, depth, self.explained), state=state)

    def column_mismatches(self, rows: Sequence[Row], stored: Sequence[LocationContent]) -> list[ColumnMismatch]:
        """Return for each row how the columns of its entry differ from its data's.

        The result is None for a row whose columns agree. ``stored`` are the contents of the rows' locations.
        """
        schemas: defaultdict[str, dict[Identifier, Schema]] = defaultdict(dict)
        for row, content in zip(rows, stored, strict=True):
            if (
                content.schema is not None
                and row.get("live") is not None
                and self.catalogs[row["catalog"]].shows_columns
            ):
                schemas[row["catalog"]][split(row["key"])] = content.schema
        mismatches: dict[str, Mapping[Identifier, ColumnMismatch]] = {}
        for name, tables in schemas.items():
            result = self._call(name, partial(_column_mismatches, tables))
            mismatches[name] = dict.fromkeys(tables, str(result)) if isinstance(result, CatalogError) else result
        return [mismatches.get(row["catalog"], {}).get(split(row.get("key") or "")) for row in rows]

    def tags(self, rows: Sequence[Row], names: Sequence[Collection[str]]) -> list[Mapping[str, str] | None]:
        """Return the version that each tag in ``names`` refers to, for each row.

        None for a row without names, and for a dataset that does not exist or cannot be read.
        """
        positions = [position for position, tag_names in enumerate(names) if tag_names]
        options = dict(zip(positions, self._options([rows[position] for position in positions]), strict=True))

        def read(position: int) -> Mapping[str, str] | None:
            row_options = options[position]
            if isinstance(row_options, CatalogError):
                return None
            tags = storage.find_tags(rows[position]["location"], row_options, {}, names[position])
            return tags.there if isinstance(tags, FoundTags) else None

        targets = dict(zip(positions, in_parallel(read, positions, _PROBES_AT_ONCE), strict=True))
        return [targets.get(position) for position in range(len(rows))]

    def _options(self, rows: Sequence[Row]) -> list[Mapping[str, str] | CatalogError]:
        """Return pylance's options for each row, or the error of its catalog."""
        results: list[Mapping[str, str] | CatalogError] = [self.catalogs[row["catalog"]].options for row in rows]
        remote_tables: defaultdict[str, dict[int, LiveTable]] = defaultdict(dict)
        for position, row in enumerate(rows):
            live, name = row.get("live"), row["catalog"]
            if live is not None and self.catalogs[name].has_table_options:
                table = live_table(split(row["key"]), live)
                if table.location and storage.local_path(table.location) is None:
                    remote_tables[name][position] = table
        for name, tables in remote_tables.items():
            self._backend(name)  # connect before threads do

            def options(table: LiveTable, name: str = name) -> Mapping[str, str] | CatalogError:
                return self._call(name, lambda backend: backend.table_storage_options(table))

            answers = in_parallel(options, tables.values(), self.catalogs[name].spec.parallelism)
            for position, answer in zip(tables, answers, strict=True):
                results[position] = answer
        return results

    def _call(self, name: str, call: Callable[[Backend], ResultT]) -> ResultT | CatalogError:
        """Return what ``call`` returns for a catalog's backend, or its error."""
        spec, backend = self.catalogs[name].spec, self._backend(name)
        return backend if isinstance(backend, CatalogError) else result_or_error(spec, lambda: call(backend))

    def _backend(self, name: str) -> Backend | CatalogError:
        """Return the connection to a catalog, opened at its first use, or its error."""
        if name not in self._backends:
            spec = self.catalogs[name].spec
            self._backends[name] = result_or_error(spec, lambda: self.stack.enter_context(spec.connect()))
        return self._backends[name]


def _column_mismatches(tables: Mapping[Identifier, Schema], backend: Backend) -> Mapping[Identifier, ColumnMismatch]:
    """Return those of ``tables`` whose entries show other columns.

    ``tables`` are the schemas of their data.
    """
    compared = {
        identifier: EntryColumns(columns, to_show)
        for identifier, columns in backend.shown_columns(tables).items()
        if (to_show := backend.columns_to_show(tables[identifier])) is not None
    }
    return {identifier: columns for identifier, columns in compared.items() if columns}


# ---- one location ----------------------------------------------------------------------------------------------------


def probe(
    location: str, options: Mapping[str, str], depth: Depth = Depth.FILES, explained: int | None = None
) -> LocationContent:
    """Return the content of ``location``; errors of storage are in the result.

    It reads the latest manifest of a dataset, which has rows, bytes and fragments, and lists its files once if
    ``depth`` asks for that.
    """
    if not location:
        return LocationContent(StorageKind.UNKNOWN, "the entry names no location")
    read = partial(_dataset_content, location=location, options=options, depth=depth, explained=explained)
    content = storage.examine(location, options, read)
    if isinstance(content, LocationContent):
        return content
    if content.kind is StorageKind.NOTHING:
        return _empty_location(location, options)
    seeks_recovery = content.kind is StorageKind.UNKNOWN and depth.includes(Depth.FILES)
    return LocationContent(
        content.kind,
        content.detail,
        unversioned=_is_unversioned(content.kind, location, options),
        recovery=storage.recovery_of(location, options) if seeks_recovery else None,
        bases=content.elsewhere,
    )


def _is_unversioned(kind: StorageKind, location: str, options: Mapping[str, str]) -> bool:
    """Return whether a location holds data files but no version of a dataset."""
    try:
        return kind is StorageKind.NOT_LANCE and storage.holds_data_files(location, options)
    except BackendError:
        return False


def _dataset_content(
    dataset: Any, location: str, options: Mapping[str, str], depth: Depth, explained: int | None
) -> LocationContent:
    """Return the content of an open dataset."""
    from reconciler.arrow_types import from_arrow_schema

    latest = dataset.get_version()
    return LocationContent(
        StorageKind.DATASET,
        version=latest["version"],
        rows=storage.rows_of(dataset),
        bytes=storage.bytes_of(dataset),
        fragments=int(latest["metadata"]["total_fragments"]),
        schema=from_arrow_schema(dataset.schema),
        committed=latest["timestamp"].astimezone(UTC),
        cleanup=storage.cleanup_of(dataset),
        bases=storage.places_elsewhere(location, dataset),
        base=storage.tagged_base(dataset, options),
        small_fragments=storage.small_fragments_of(dataset, lists_files=depth.includes(Depth.FILES)),
        indices=storage.indices_of(dataset),
        defects=storage.defects_of(dataset),
        files=storage.files_of(dataset, location, options, depth, explained) if depth.includes(Depth.FILES) else None,
    )


def _empty_location(location: str, options: Mapping[str, str]) -> LocationContent:
    """Classify an empty location: object, directory, or reserved directory."""
    try:
        with storage.translated(location, options):
            reserved = storage.RESERVED_MARKER in storage.list_directory(location, options)
            is_object = storage.is_object(location, options)
    except BackendError as error:
        return LocationContent(StorageKind.UNKNOWN, str(error))
    if is_object:
        return LocationContent(StorageKind.NOT_LANCE, "it is an object, not a directory")
    return LocationContent(StorageKind.NOTHING, reserved=reserved)
