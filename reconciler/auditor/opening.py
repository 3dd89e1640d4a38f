"""Looking at datasets with what opens each: what is configured, what its entry says, what its service hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from reconciler import storage
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.records import Depth, Stored
from reconciler.auditor.storage_probe import probe_many
from reconciler.backends import optional
from reconciler.backends.base import Backend
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import CatalogError
from reconciler.model.live import StorageKind
from reconciler.model.names import split
from reconciler.spark.reading import tried
from reconciler.spark.rows import live_table
from reconciler.spark.schemas import Row

_TOGETHER = 256
"""How many are asked for before the first of them is opened: what is handed out runs out after a while."""


def probe_rows(rows: Sequence[Row], catalogs: Mapping[str, CatalogInfo], depth: Depth) -> list[Stored | None]:
    """Return what is at the location of each row, None where there is none; runs on the executors.

    A row has the ``catalog``, the ``location`` and, of a live table, ``key`` and ``live``.
    Where the catalog did not come to an answer, nothing is known of what is there.
    """
    found: list[Stored | None] = []
    with ExitStack() as stack:
        opener = _Opener(catalogs, stack)
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            options = opener.options_for(some)
            asked = zip(some, options, strict=True)
            looked = probe_many(
                ((None, {}) if isinstance(one, CatalogError) else (row["location"], one) for row, one in asked), depth
            )
            found += [
                Stored(StorageKind.UNKNOWN, str(one)) if isinstance(one, CatalogError) else stored
                for one, stored in zip(options, looked, strict=True)
            ]
    return found


class _Opener:
    """Says with which options of pylance's tables are opened; connects to the catalogs that have to be asked."""

    def __init__(self, catalogs: Mapping[str, CatalogInfo], stack: ExitStack) -> None:
        self._catalogs = catalogs
        self._stack = stack
        self._backends: dict[str, Backend | CatalogError] = {}

    def options_for(self, rows: Sequence[Row]) -> list[Mapping[str, str] | CatalogError]:
        """Return the options for each row, or why its catalog could not say them."""
        found: list[Mapping[str, str] | CatalogError] = [self._catalogs[row["catalog"]].options for row in rows]
        for name, places in self._asked(rows).items():
            for at, answer in zip(places, self._answers(name, [rows[at] for at in places]), strict=True):
                found[at] = answer
        return found

    def _answers(self, name: str, rows: Sequence[Row]) -> Sequence[Mapping[str, str] | CatalogError]:
        """Return what one catalog says of its tables."""
        spec, backend = self._catalogs[name].spec, self._backend(name)
        if isinstance(backend, CatalogError):
            return [backend] * len(rows)
        ask = partial(_options, backend)
        return in_parallel(lambda row: tried(spec, partial(ask, row)), rows, spec.parallelism)

    def _backend(self, name: str) -> Backend | CatalogError:
        if name not in self._backends:
            spec = self._catalogs[name].spec
            self._backends[name] = tried(spec, lambda: self._stack.enter_context(spec.connect()))
        return self._backends[name]

    def _asked(self, rows: Sequence[Row]) -> dict[str, list[int]]:
        """Return which rows have something said of how they are opened, by catalog."""
        asked: dict[str, list[int]] = {}
        for at, row in enumerate(rows):
            location = (row.get("live") or {}).get("location")
            if location and self._catalogs[row["catalog"]].opens_tables and storage.local_path(location) is None:
                asked.setdefault(row["catalog"], []).append(at)
        return asked


def _options(backend: Backend, row: Row) -> Mapping[str, str]:
    return optional.table_storage_options(backend, live_table(split(row["key"]), row["live"]))
