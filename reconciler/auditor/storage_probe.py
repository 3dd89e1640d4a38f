"""What storage and the catalogs say of tables, asked where the rows of the tables are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Any, TypeAlias, TypeVar

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.records import NOT_LOOKED_AT, Depth, Stored
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model.columns import Schema
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import BackendError, CatalogError
from reconciler.model.live import LiveTable, StorageKind
from reconciler.model.names import Identifier, split
from reconciler.planner.facts import EntryColumns
from reconciler.spark.reading import tried
from reconciler.spark.rows import live_table
from reconciler.spark.schemas import Row, chunks

_PROBES_AT_ONCE = 16
"""At places elsewhere, where a probe mostly waits. On this machine it works, and several are slower than one by one."""

_TOGETHER = 256
"""How many options are asked for before the first dataset is opened: credentials that are handed out expire."""

AnswerT = TypeVar("AnswerT")

Shown: TypeAlias = EntryColumns | str | None
"""The columns that an entry shows where the data has others, or why they could not be read."""


@dataclass(frozen=True, slots=True)
class Looker:
    """Answers what storage and the catalogs know of tables; connects to the catalogs that have to be asked.

    A row has the ``catalog``, the ``location`` and, of a live table, ``key`` and ``live``.

    Args:
        catalogs: all of them by name.
        stack: the connections are closed with it.
    """

    catalogs: Mapping[str, CatalogInfo]
    stack: ExitStack
    _backends: dict[str, Backend | CatalogError] = field(default_factory=dict)

    def stored(self, rows: Sequence[Row], depth: Depth) -> list[Stored]:
        """Return what is at the location of each row; not known where the catalog cannot say how to open it."""
        found: list[Stored] = []
        for some in chunks(rows, _TOGETHER):
            options = self._options(some)
            asked = zip(some, options, strict=True)
            looked = probe_many(
                ((None, {}) if isinstance(one, CatalogError) else (row["location"], one) for row, one in asked), depth
            )
            found += [
                Stored(StorageKind.UNKNOWN, str(one)) if isinstance(one, CatalogError) else stored
                for one, stored in zip(options, looked, strict=True)
            ]
        return found

    def shown(self, rows: Sequence[Row], stored: Sequence[Stored]) -> list[Shown]:
        """Return the columns that the entry of each row shows, where its data has others."""
        asked: defaultdict[str, dict[Identifier, Schema]] = defaultdict(dict)
        for row, found in zip(rows, stored, strict=True):
            if found.schema is not None and row.get("live") is not None and self.catalogs[row["catalog"]].shows_columns:
                asked[row["catalog"]][split(row["key"])] = found.schema
        compared: dict[str, Mapping[Identifier, Shown]] = {}
        for name, tables in asked.items():
            answer = self._ask(name, partial(_compared_columns, tables))
            compared[name] = dict.fromkeys(tables, str(answer)) if isinstance(answer, CatalogError) else answer
        return [compared.get(row["catalog"], {}).get(split(row.get("key") or "")) for row in rows]

    def _options(self, rows: Sequence[Row]) -> list[Mapping[str, str] | CatalogError]:
        """Return pylance's options for each row, or why its catalog could not say them."""
        found: list[Mapping[str, str] | CatalogError] = [self.catalogs[row["catalog"]].options for row in rows]
        asked: defaultdict[str, dict[int, LiveTable]] = defaultdict(dict)
        for at, row in enumerate(rows):
            live, name = row.get("live"), row["catalog"]
            if live is not None and self.catalogs[name].opens_tables:
                table = live_table(split(row["key"]), live)
                if table.location and storage.local_path(table.location) is None:
                    asked[name][at] = table
        for name, tables in asked.items():
            self._backend(name)  # before there are threads

            def options(table: LiveTable, name: str = name) -> Mapping[str, str] | CatalogError:
                return self._ask(name, lambda backend: optional.table_storage_options(backend, table))

            answers = in_parallel(options, tables.values(), self.catalogs[name].spec.parallelism)
            for at, answer in zip(tables, answers, strict=True):
                found[at] = answer
        return found

    def _ask(self, name: str, question: Callable[[Backend], AnswerT]) -> AnswerT | CatalogError:
        spec, backend = self.catalogs[name].spec, self._backend(name)
        return backend if isinstance(backend, CatalogError) else tried(spec, lambda: question(backend))

    def _backend(self, name: str) -> Backend | CatalogError:
        if name not in self._backends:
            spec = self.catalogs[name].spec
            self._backends[name] = tried(spec, lambda: self.stack.enter_context(spec.connect()))
        return self._backends[name]


def _compared_columns(tables: Mapping[Identifier, Schema], backend: Backend) -> Mapping[Identifier, Shown]:
    """Return the columns of those ``tables`` whose entries show others than their data has."""
    compared = {
        identifier: EntryColumns(columns, to_show)
        for identifier, columns in optional.shown_columns(backend, tables).items()
        if (to_show := optional.columns_to_show(backend, tables[identifier])) is not None
    }
    return {identifier: columns for identifier, columns in compared.items() if columns}


# ---- one location ----------------------------------------------------------------------------------------------------


def probe(location: str, options: Mapping[str, str], depth: Depth = Depth.FILES) -> Stored:
    """Return what ``location`` holds; whatever storage answers, an error included, is in the result.

    Of a dataset the latest manifest is read, which says rows, bytes and fragments; and its files are listed once, where
    ``depth`` asks for that.
    """
    if not location:
        return Stored(StorageKind.UNKNOWN, "the entry names no location")
    found = storage.examine(location, options, partial(_measured, location=location, options=options, depth=depth))
    if isinstance(found, Stored):
        return found
    if found.kind is StorageKind.NOTHING:
        return _nothing(location, options)
    return Stored(found.kind, found.detail, unversioned=_is_unversioned(found.kind, location, options))


def _is_unversioned(kind: StorageKind, location: str, options: Mapping[str, str]) -> bool:
    try:
        return kind is StorageKind.NOT_LANCE and storage.holds_data_files(location, options)
    except BackendError:
        return False


def _measured(dataset: Any, location: str, options: Mapping[str, str], depth: Depth) -> Stored:
    from reconciler.arrow_types import from_arrow_schema

    latest = dataset.get_version()
    summary: Mapping[str, str] = latest["metadata"]
    size = int(summary["total_files_size"])
    return Stored(
        StorageKind.DATASET,
        version=latest["version"],
        rows=int(summary["total_rows"]),
        # Datasets of old writers do not keep the sizes of their files; asking storage for each would cost too much.
        bytes=size if size or summary["total_data_files"] == "0" else None,
        fragments=int(summary["total_fragments"]),
        schema=from_arrow_schema(dataset.schema),
        committed=latest["timestamp"].astimezone(UTC),
        cleanup=storage.cleanup_of(dataset),
        small_fragments=storage.small_fragments_of(dataset),
        indices=storage.indices_of(dataset),
        files=storage.files_of(dataset, location, options) if depth is Depth.FILES else None,
    )


def _nothing(location: str, options: Mapping[str, str]) -> Stored:
    """Return that nothing is there, and whether the place is kept for a declared table."""
    try:
        with storage.translated(location, options):
            reserved = storage.RESERVED_MARKER in storage.list_directory(location, options)
    except BackendError as error:
        return Stored(StorageKind.UNKNOWN, str(error))
    return Stored(StorageKind.NOTHING, reserved=reserved)


def probe_many(questions: Iterable[tuple[str | None, Mapping[str, str]]], depth: Depth = Depth.FILES) -> list[Stored]:
    """Return what is at each of some places, given with pylance's options for it; None stands for no place."""
    asked = list(questions)
    return in_parallel(
        lambda question: NOT_LOOKED_AT if question[0] is None else probe(question[0], question[1], depth),
        asked,
        _PROBES_AT_ONCE
        if any(location is not None and storage.local_path(location) is None for location, _ in asked)
        else 1,
    )
