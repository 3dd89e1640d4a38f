"""Hold the rows of ``__manifest``, and apply changes of objects to them.

A row is an object's string identifier, its type, its location relative to the root and its properties as a JSON
object. Every change keeps columns that are unknown here.

pylance 4 to 7 can also store a row for each version of a table's data (``table_version_storage_enabled``),
``<table>$<20 digits>``. Such rows are not objects, and are removed with their table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.backends.dir.rows import COLUMNS, NAMESPACE, TABLE, Row, ScanPart, StoredLocations, invalid_at
from reconciler.model.names import DELIMITER, Identifier, check_name, join, split

_VERSION = "table_version"
_ROWS_AT_ONCE = 10_000
"""Rows take several times the memory as Python objects."""


@dataclass(frozen=True)
class ManifestRows:
    """The rows of one version, or a part of them, and pending changes.

    ``original`` are the rows as read from ``dataset``; ``is_whole`` says whether these are all. ``changed`` maps object
    ids to their new rows, None for a removed one, so that many changes of one version need no copies of it.
    """

    locations: StoredLocations
    original: pa.Table
    dataset: Any = field(default=None, repr=False)
    is_whole: bool = True
    changed: Mapping[str, Row | None] = field(default_factory=dict)
    _looked_up: dict[str, Row | None] = field(default_factory=dict, repr=False)
    _version_names: list[pa.ChunkedArray] = field(default_factory=list, repr=False)
    """A cache of at most one entry, which all contents of one version share, like ``_looked_up``."""

    def __len__(self) -> int:
        return int(self.objects.num_rows)

    def __iter__(self) -> Iterator[Row]:
        for batch in self.objects.select(COLUMNS).to_batches(max_chunksize=_ROWS_AT_ONCE):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield Row(*values)

    @property
    def version(self) -> int:
        """The version of ``__manifest`` that was read; 0 without one."""
        return int(self.dataset.version) if self.dataset is not None else 0

    @cached_property
    def rows(self) -> pa.Table:
        """All rows after the changes; unknown columns keep their values."""
        return (
            pa.concat_tables([self.original.filter(self.is_unchanged), self.added_rows])
            if self.changed
            else self.original
        )

    @cached_property
    def is_unchanged(self) -> pa.ChunkedArray:
        """A mask of the ``original`` rows that no change replaces or removes."""
        return self._number_in_changed.is_null()

    @cached_property
    def added_rows(self) -> pa.Table:
        """The new rows, and the replacements of ``original`` ones."""
        positions = pc.indices_nonzero(self._number_in_changed.is_valid())
        place_of = dict(zip(self._number_in_changed.take(positions).to_pylist(), positions.to_pylist(), strict=True))
        new = [(place_of.get(number), row) for number, row in enumerate(self.changed.values()) if row is not None]
        before = pa.array([position for position, _ in new], pa.uint64())

        def values(name: str) -> pa.Array | pa.ChunkedArray:
            if name in COLUMNS:
                return pa.array([getattr(row, name) for _, row in new], self.original.schema.field(name).type)
            return self.original.column(name).take(before)

        return pa.table([values(name) for name in self.original.column_names], schema=self.original.schema)

    @cached_property
    def _number_in_changed(self) -> pa.ChunkedArray:
        """For each ``original`` row, its position in ``changed``, or null."""
        names = self.original.column("object_id")
        return pc.index_in(names, value_set=pa.array(list(self.changed), names.type))

    @cached_property
    def objects(self) -> pa.Table:
        """The rows of objects: all but those of table versions."""
        is_version = pc.equal(self.rows.column("object_type"), _VERSION)
        return self.rows.filter(pc.invert(is_version)) if pc.any(is_version).as_py() else self.rows

    def find(self, object_id: str) -> Row | None:
        """Return the row of ``object_id`` after the changes, if it exists."""
        if object_id in self.changed:
            return self.changed[object_id]
        if object_id not in self._looked_up:
            self._looked_up[object_id] = self._find_read(object_id)
        return self._looked_up[object_id]

    def prefetch(self, object_ids: Iterable[str]) -> None:
        """Look up the rows of many objects at once, which makes :meth:`find` fast."""
        names = self.original.column("object_id")
        new_ids = [*{*object_ids}.difference(self._looked_up)]
        at = pc.index_in(names, value_set=pa.array(new_ids, names.type))
        matches = pc.indices_nonzero(pc.is_valid(at))
        self._looked_up.update(dict.fromkeys(new_ids))
        for values in zip(*(self.original.column(name).take(matches).to_pylist() for name in COLUMNS), strict=True):
            self._looked_up[values[0]] = Row(*values)

    def _find_read(self, object_id: str) -> Row | None:
        position = int(pc.index(self.original.column("object_id"), object_id).as_py())
        return None if position < 0 else Row(*(self.original.column(name)[position].as_py() for name in COLUMNS))

    def below(self, parent: str) -> ManifestRows:
        """Return the objects below the namespace ``parent``; all for the root, ``""``."""
        if not parent:
            return self
        descendants = self.objects.filter(pc.starts_with(self.objects.column("object_id"), parent + DELIMITER))
        return ManifestRows(self.locations, descendants)

    def directly_in(self, parent: str) -> ManifestRows:
        """Return the objects in the namespace ``parent`` itself; in the root for ``""``."""
        below = self.below(parent)
        return ManifestRows(self.locations, below.objects.filter(pc.equal(below.parent_of_each, parent)))

    @property
    def names(self) -> list[str]:
        """The last name of each object's identifier."""
        return [text.rpartition(DELIMITER)[2] for text in self.objects.column("object_id").to_pylist()]

    def table_names(self, parent: str) -> Sequence[str]:
        """Return the sorted names of the tables in the namespace ``parent``, without invalid ones."""
        if parent not in self._table_names:
            names = self.directly_in(parent).of_type(TABLE).names
            self._table_names[parent] = tuple(sorted(name for name in names if check_name(name) is None))
        return self._table_names[parent]

    @cached_property
    def _table_names(self) -> dict[str, Sequence[str]]:
        """A cache of :meth:`table_names`."""
        return {}

    def of_type(self, object_type: str) -> ManifestRows:
        """Return the rows of one type of object."""
        return ManifestRows(self.locations, self.rows.filter(pc.equal(self.rows.column("object_type"), object_type)))

    @cached_property
    def foreign_objects(self) -> ManifestRows:
        """The objects that are neither tables nor namespaces."""
        types = self.objects.column("object_type")
        is_ours = pc.is_in(types, value_set=pa.array([NAMESPACE, TABLE], types.type))
        return ManifestRows(self.locations, self.objects.filter(pc.invert(is_ours)))

    @cached_property
    def parent_of_each(self) -> pa.ChunkedArray:
        """The string identifier of the namespace of each object; ``""`` is the root."""
        return _parents(self.objects.column("object_id"))

    @cached_property
    def parents(self) -> tuple[Identifier, ...]:
        """The namespaces that hold objects, each once, with the root if it holds any."""
        return tuple(split(text) for text in pc.unique(self.parent_of_each).to_pylist())

    @property
    def namespaces_in_use(self) -> set[Identifier]:
        """The namespaces that hold objects, with or without an entry of their own."""
        return {parent[:depth] for parent in self.parents for depth in range(1, len(parent[: invalid_at(parent)]) + 1)}

    def objects_in(self, part: ScanPart) -> ManifestRows:
        """Return the objects that a scan of ``part`` returns or has a note on."""
        parents = [*map(join, part.namespaces), *(join(parent) for parent in self.parents if part.has_note(parent))]
        names = self.objects.column("object_id")
        directly = pc.is_in(self.parent_of_each, value_set=pa.array(parents, pa.string()))
        if part.excluded:
            directly = pc.and_not(directly, pc.is_in(names, value_set=pa.array(map(join, part.excluded), pa.string())))
        itself = pc.is_in(names, value_set=pa.array(map(join, part.objects | part.ancestors), pa.string()))
        return ManifestRows(self.locations, self.objects.filter(pc.or_(directly, itself)))

    @cached_property
    def children(self) -> Mapping[Identifier, Collection[str]]:
        """The names of the namespaces directly in each namespace."""
        entered = map(split, self.of_type(NAMESPACE).rows.column("object_id").to_pylist())
        names: dict[Identifier, set[str]] = {(): set()}
        for namespace in filter(None, chain(self.namespaces_in_use, entered)):
            names.setdefault(namespace, set())
            names.setdefault(namespace[:-1], set()).add(namespace[-1])
        return names

    def large_namespaces(self, more_than: int) -> dict[Identifier, list[str]]:
        """Return the table names of each namespace with more than ``more_than`` tables.

        The root is left out.
        """
        tables = self.of_type(TABLE)
        numbers = pc.value_counts(tables.parent_of_each).to_pylist()
        large = [group["values"] for group in numbers if group["counts"] > more_than and group["values"]]
        return {split(parent): tables.directly_in(parent).names for parent in large}

    @cached_property
    def occupied_directories(self) -> frozenset[str]:
        """The directories right under the root that contain the location of an entry."""
        stored = self.rows.column("location")
        is_unusual = _is_unusual(stored)
        usual = pc.list_element(pc.split_pattern(stored.filter(pc.invert(is_unusual)), "/", max_splits=1), 0)
        unusual = map(self.locations.top_directory, stored.filter(is_unusual).to_pylist())
        return frozenset({*pc.unique(usual).to_pylist(), *unusual} - {None, ""})

    def is_occupied(self, directory: str) -> bool:
        """Return whether ``directory`` is one of :attr:`occupied_directories`.

        Each change makes new contents, so this computes neither all rows nor the whole set.
        """
        if "occupied_directories" in self.__dict__:
            return directory in self.occupied_directories
        written = (row.location or "" for row in self.changed.values() if row is not None)
        return any(self.locations.top_directory(location) == directory for location in written) or any(
            object_id not in self.changed for object_id in self._read_in(directory)
        )

    def _read_in(self, directory: str) -> list[str]:
        """Return the identifiers of the ``original`` rows whose location is in ``directory``.

        It looks at the locations in their usual form, and then at the few others.
        """
        stored = self.original.column("location")
        usual = pc.or_(pc.equal(stored, directory), pc.starts_with(stored, f"{directory}/"))
        rows = self.original.filter(pc.or_(usual, _is_unusual(stored)))
        ids_and_locations = zip(rows.column("object_id").to_pylist(), rows.column("location").to_pylist(), strict=True)
        return [text for text, location in ids_and_locations if self.locations.top_directory(location) == directory]

    @cached_property
    def root_namespaces(self) -> frozenset[str]:
        """The names of the namespaces right under the root that have an entry."""
        entries = self.of_type(NAMESPACE).rows.column("object_id")
        return frozenset(text for text in entries.to_pylist() if DELIMITER not in text)

    def is_root_namespace(self, name: str) -> bool:
        """Return whether ``name`` is one of :attr:`root_namespaces`, without computing them all."""
        if "root_namespaces" in self.__dict__:
            return name in self.root_namespaces
        row = self.find(name) if DELIMITER not in name else None
        return row is not None and row.object_type == NAMESPACE

    def put(self, *rows: Row) -> ManifestRows:
        """Return the contents with ``rows``, which replace those of the same objects."""
        return self._with_changes({row.object_id: row for row in rows})

    def without(self, *object_ids: str) -> ManifestRows:
        """Return the contents without the rows of ``object_ids``, and of their versions."""
        if not self._version_names:
            self._version_names.append(_version_names(self.original))
        return self._with_changes(dict.fromkeys([*object_ids, *_ids_below(object_ids, self._version_names[0])]))

    def _with_changes(self, changed: Mapping[str, Row | None]) -> ManifestRows:
        return replace(self, changed={**self.changed, **changed}) if changed else self

    def renamed(self, object_id: str, to: str) -> ManifestRows:
        """Return the contents with the row of ``object_id`` renamed to ``to``.

        The rows of its versions are renamed too; those of an earlier table ``to`` are removed.
        """
        rows = self.without(to).rows
        names = rows.column("object_id")
        index = rows.column_names.index("object_id")
        going = pa.array([object_id, *_ids_below([object_id], _version_names(rows))], names.type)
        ends = pc.utf8_slice_codeunits(names, len(object_id))
        new = pc.binary_join_element_wise(pa.scalar(to, names.type), ends, pa.scalar("", names.type))
        changed = pc.if_else(pc.is_in(names, value_set=going), new, names)
        return ManifestRows(self.locations, rows.set_column(index, rows.schema.field(index), changed), self.dataset)


def _is_unusual(stored: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of the ``stored`` locations that are absolute or begin with ``./``."""
    beginning = pc.or_(pc.starts_with(stored, "./"), pc.starts_with(stored, "/"))
    return pc.or_(beginning, pc.match_substring(stored, "://"))


def _version_names(rows: pa.Table) -> pa.ChunkedArray:
    """Return the identifiers of the rows that are versions."""
    return rows.column("object_id").filter(pc.equal(rows.column("object_type"), _VERSION))


def _ids_below(tables: Sequence[str], names: pa.ChunkedArray) -> list[str]:
    """Return those of ``names`` whose parent is one of ``tables``."""
    if not len(names):
        return []
    nested: list[str] = names.filter(pc.is_in(_parents(names), value_set=pa.array(tables, names.type))).to_pylist()
    return nested


def _parents(identifiers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the parent of each of ``identifiers``; ``""`` is the root."""
    parts = pc.split_pattern(identifiers, DELIMITER, max_splits=1, reverse=True)
    return pc.if_else(pc.match_substring(identifiers, DELIMITER), pc.list_element(parts, 0), "")
