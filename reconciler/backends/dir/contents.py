"""The rows of ``__manifest``, and how changes of objects change them.

A row is an object's string identifier, its type, its location relative to the root and its properties as a JSON
object. Every change keeps columns that are unknown here.

pylance 4 to 7 can also store a row for each version of a table's data (``table_version_storage_enabled``),
``<table>$<20 digits>``. Such rows are not objects, and are removed with their table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from reconciler import storage
from reconciler.model import locations
from reconciler.model.errors import InternalError, InvalidInputError
from reconciler.model.live import PropertyChanges
from reconciler.model.names import DELIMITER, ChildrenOf, Identifier, Only, Scope, check_name, join, split

if TYPE_CHECKING:
    import pyarrow as pa


MANIFEST = "__manifest"
NAMESPACE = "namespace"
TABLE = "table"
_VERSION = "table_version"

COLUMNS = ("object_id", "object_type", "location", "metadata")

_MOST_NAMESPACES = 40
_MOST_NAMES = 1_000
"""A filter of more takes longer than one for everything between the first and the last."""
_AFTER_DELIMITER = chr(ord(DELIMITER) + 1)
_ENDS = (DELIMITER, _AFTER_DELIMITER)
_ROWS_AT_ONCE = 10_000
"""Rows take several times the memory as Python objects."""


_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*://")
_URI_SYNTAX = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


@dataclass(frozen=True)
class DirectoryPlaces:
    """Convert the stored locations of entries, relative to ``root``, and back.

    ``root`` is an absolute path or a URI, without a slash at its end. Stored locations are relative and unencoded, as
    pylance writes them; all others are paths, or URIs where the root is one.
    """

    root: str

    @cached_property
    def _is_uri(self) -> bool:
        return storage.local_path(self.root) is None

    def location(self, stored: str) -> str:
        """Return the location that the stored one of an entry stands for."""
        if _ABSOLUTE.match(stored):
            return stored
        relative = stored.removeprefix("./")
        if self._is_uri:
            relative = relative.translate(_URI_SYNTAX)
        return f"{self.root}/{relative}"

    def relative(self, location: str) -> str:
        """Return ``location`` as stored; empty when it is not under the root."""
        if not locations.is_under(self.root, location):
            return ""
        return locations.normalise(location)[len(locations.normalise(self.root).rstrip("/")) + 1 :]

    def stored(self, location: str) -> str:
        """Return the stored form of ``location``, absolute or relative to the root.

        Raises:
            InvalidInputError: it cannot be a table's location here.
        """
        reason = self.problem(location)
        if reason is not None:
            raise InvalidInputError(f"dir: {reason}")
        return self._below(location)

    def problem(self, location: str) -> str | None:
        """Return why ``location`` cannot be a table's here; None if it can."""
        reason = locations.check(location)
        if reason is not None:
            return reason
        relative = self._below(location)
        if not relative:
            shown = locations.redact(location)
            return f"{shown} is not under the root {self.root}; tables must be below it"
        if first_directory(relative) == MANIFEST:
            return f"{MANIFEST} is the list of tables and cannot be a table"
        return None

    def _below(self, location: str) -> str:
        return self.relative(locations.absolute(location, self.root))

    def occupied(self, stored: str) -> str:
        """Return the directory right under the root that holds a stored location."""
        if _ABSOLUTE.match(stored):
            stored = self.relative(stored)
        return first_directory(stored.removeprefix("./"))


def first_directory(relative: str) -> str:
    """Return the first directory of a relative path."""
    return relative.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Row:
    """One object; ``location`` and ``metadata`` are as stored, as text or None."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None

    def properties(self) -> dict[str, str]:
        """Return the properties; values other than text are JSON.

        Raises:
            InternalError: the metadata is not a JSON object.
        """
        return {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in self._document().items()
        }

    def metadata_after(self, changes: PropertyChanges) -> str | None:
        """Return the metadata with ``changes`` merged in; other values stay as stored."""
        document = self._document()
        for key in changes.remove:
            document.pop(key, None)
        document.update(changes.set)
        return metadata_of(document)

    def _document(self) -> dict[str, Any]:
        if not self.metadata:
            return {}
        try:
            document = json.loads(self.metadata)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise InternalError(f"dir: {MANIFEST}: the metadata of `{self.object_id}` is not a JSON object")
        return document


def metadata_of(properties: Mapping[str, Any]) -> str | None:
    """Return the stored form of ``properties``."""
    if not properties:
        return None
    return json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class ManifestRows:
    """The rows of one version, or a part of them, and the changes made to them.

    ``read`` is what was read of ``dataset``; ``is_whole`` says whether that is all of it. ``changed`` has the
    replacements of rows, None for a removed one, so that many changes of one version need no copies of it.
    """

    places: DirectoryPlaces
    read: pa.Table
    dataset: Any = field(default=None, repr=False)
    is_whole: bool = True
    changed: Mapping[str, Row | None] = field(default_factory=dict)
    _looked_up: dict[str, Row | None] = field(default_factory=dict, repr=False)
    _version_names: list[pa.ChunkedArray] = field(default_factory=list, repr=False)
    """At most one; all contents that come from one version share it, and the rows that were looked up."""

    def __len__(self) -> int:
        return int(self.objects.num_rows)

    def __iter__(self) -> Iterator[Row]:
        for batch in self.objects.select(COLUMNS).to_batches(max_chunksize=_ROWS_AT_ONCE):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield Row(*values)

    @cached_property
    def rows(self) -> pa.Table:
        """All rows after the changes; columns unknown here keep their values."""
        import pyarrow as pa

        return pa.concat_tables([self.read.filter(self.stays), self.added]) if self.changed else self.read

    @cached_property
    def stays(self) -> pa.ChunkedArray:
        """For each row read, whether it is still there unchanged."""
        return self._number_in_changed.is_null()

    @cached_property
    def added(self) -> pa.Table:
        """The rows that are new, or in the place of one that was read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.indices_nonzero(self._number_in_changed.is_valid())
        place_of = dict(zip(self._number_in_changed.take(places).to_pylist(), places.to_pylist(), strict=True))
        new = [(place_of.get(number), row) for number, row in enumerate(self.changed.values()) if row is not None]
        before = pa.array([place for place, _ in new], pa.uint64())

        def values(name: str) -> pa.Array | pa.ChunkedArray:
            if name in COLUMNS:
                return pa.array([getattr(row, name) for _, row in new], self.read.schema.field(name).type)
            return self.read.column(name).take(before)

        return pa.table([values(name) for name in self.read.column_names], schema=self.read.schema)

    @cached_property
    def _number_in_changed(self) -> pa.ChunkedArray:
        """For each row read, the position in ``changed`` of its replacement, or null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self.read.column("object_id")
        return pc.index_in(names, value_set=pa.array(list(self.changed), names.type))

    @cached_property
    def objects(self) -> pa.Table:
        """The rows without those of versions."""
        import pyarrow.compute as pc

        is_version = pc.equal(self.rows.column("object_type"), _VERSION)
        return self.rows.filter(pc.invert(is_version)) if pc.any(is_version).as_py() else self.rows

    def find(self, object_id: str) -> Row | None:
        """Return the row of ``object_id``."""
        if object_id in self.changed:
            return self.changed[object_id]
        if object_id not in self._looked_up:
            self._looked_up[object_id] = self._look_up(object_id)
        return self._looked_up[object_id]

    def look_up(self, object_ids: Iterable[str]) -> None:
        """Find the rows of many objects at once, for :meth:`find`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self.read.column("object_id")
        asked = [*{*object_ids}.difference(self._looked_up)]
        at = pc.index_in(names, value_set=pa.array(asked, names.type))
        places = pc.indices_nonzero(pc.is_valid(at))
        self._looked_up.update(dict.fromkeys(asked))
        for values in zip(*(self.read.column(name).take(places).to_pylist() for name in COLUMNS), strict=True):
            self._looked_up[values[0]] = Row(*values)

    def _look_up(self, object_id: str) -> Row | None:
        import pyarrow.compute as pc

        position = int(pc.index(self.read.column("object_id"), object_id).as_py())
        return None if position < 0 else Row(*(self.read.column(name)[position].as_py() for name in COLUMNS))

    def below(self, parent: str) -> ManifestRows:
        """Return the objects below the namespace ``parent``; all for the root, ``""``."""
        import pyarrow.compute as pc

        if not parent:
            return self
        found = self.objects.filter(pc.starts_with(self.objects.column("object_id"), parent + DELIMITER))
        return ManifestRows(self.places, found)

    def directly_in(self, parent: str) -> ManifestRows:
        """Return the objects in the namespace ``parent`` itself; in the root for ``""``."""
        import pyarrow.compute as pc

        below = self.below(parent)
        return ManifestRows(self.places, below.objects.filter(pc.equal(below.parent_of_each, parent)))

    def of_type(self, object_type: str) -> ManifestRows:
        """Return the rows of one type of object."""
        import pyarrow.compute as pc

        return ManifestRows(self.places, self.rows.filter(pc.equal(self.rows.column("object_type"), object_type)))

    @cached_property
    def parent_of_each(self) -> pa.ChunkedArray:
        """The string identifier of the namespace of each object; ``""`` is the root."""
        return _parents(self.objects.column("object_id"))

    @cached_property
    def parents(self) -> tuple[Identifier, ...]:
        """The namespaces that hold objects, each once, with the root if it holds any."""
        import pyarrow.compute as pc

        return tuple(split(text) for text in pc.unique(self.parent_of_each).to_pylist())

    @cached_property
    def children(self) -> Mapping[Identifier, Collection[str]]:
        """The names of the namespaces directly in each namespace."""
        entered = map(split, self.of_type(NAMESPACE).rows.column("object_id").to_pylist())
        found: dict[Identifier, set[str]] = {(): set()}
        for namespace in filter(None, chain(namespaces_in_use(self), entered)):
            found.setdefault(namespace, set())
            found.setdefault(namespace[:-1], set()).add(namespace[-1])
        return found

    def large_namespaces(self, more_than: int) -> dict[Identifier, list[str]]:
        """Return the names of the tables in each namespace with more than ``more_than``, but the root."""
        import pyarrow.compute as pc

        tables = self.of_type(TABLE)
        numbers = pc.value_counts(tables.parent_of_each).to_pylist()
        large = [one["values"] for one in numbers if one["counts"] > more_than and one["values"]]
        return {
            split(parent): [row.object_id.rpartition(DELIMITER)[2] for row in tables.directly_in(parent)]
            for parent in large
        }

    @cached_property
    def occupied(self) -> frozenset[str]:
        """The directories right under the root that are, or hold, a table's location."""
        import pyarrow.compute as pc

        stored = self.rows.column("location")
        usual = pc.list_element(pc.split_pattern(stored.filter(pc.invert(self._unusual)), "/", max_splits=1), 0)
        unusual = map(self.places.occupied, stored.filter(self._unusual).to_pylist())
        return frozenset({*pc.unique(usual).to_pylist(), *unusual} - {None, ""})

    def is_occupied(self, directory: str) -> bool:
        """Return whether ``directory``, right under the root, is occupied.

        Each change makes new contents, so this does not compute the whole set: it looks at the locations in their usual
        form, and then at the few others.
        """
        import pyarrow.compute as pc

        if "occupied" in self.__dict__:
            return directory in self.occupied
        stored = self.rows.column("location")
        usual = pc.or_(pc.equal(stored, directory), pc.starts_with(stored, f"{directory}/"))
        if pc.any(pc.and_not(usual, self._unusual)).as_py():
            return True
        return any(self.places.occupied(location) == directory for location in stored.filter(self._unusual).to_pylist())

    @cached_property
    def _unusual(self) -> pa.ChunkedArray:
        """Which locations are absolute, or begin with ``./``."""
        import pyarrow.compute as pc

        stored = self.rows.column("location")
        beginning = pc.or_(pc.starts_with(stored, "./"), pc.starts_with(stored, "/"))
        return pc.or_(beginning, pc.match_substring(stored, "://"))

    @cached_property
    def root_namespaces(self) -> frozenset[str]:
        """The names of the namespaces right under the root that have an entry."""
        entries = self.of_type(NAMESPACE).rows.column("object_id")
        return frozenset(text for text in entries.to_pylist() if DELIMITER not in text)

    def put(self, *rows: Row) -> ManifestRows:
        """Return the contents with ``rows``, which replace those of the same objects."""
        return self._with({row.object_id: row for row in rows})

    def without(self, *object_ids: str) -> ManifestRows:
        """Return the contents without the rows of ``object_ids``, and of their versions."""
        if not self._version_names:
            self._version_names.append(_version_names(self.read))
        return self._with(dict.fromkeys([*object_ids, *_below_one_of(object_ids, self._version_names[0])]))

    def _with(self, changed: Mapping[str, Row | None]) -> ManifestRows:
        return replace(self, changed={**self.changed, **changed}) if changed else self

    def renamed(self, object_id: str, to: str) -> ManifestRows:
        """Return the contents with the row of ``object_id`` renamed to ``to``.

        The rows of its versions are renamed too; those of an earlier table ``to`` are removed.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.without(to).rows
        names = rows.column("object_id")
        index = rows.column_names.index("object_id")
        going = pa.array([object_id, *_below_one_of([object_id], _version_names(rows))], names.type)
        ends = pc.utf8_slice_codeunits(names, len(object_id))
        new = pc.binary_join_element_wise(pa.scalar(to, names.type), ends, pa.scalar("", names.type))
        changed = pc.if_else(pc.is_in(names, value_set=going), new, names)
        return ManifestRows(self.places, rows.set_column(index, rows.schema.field(index), changed))


def _version_names(rows: pa.Table) -> pa.ChunkedArray:
    """Return the identifiers of the rows that are versions."""
    import pyarrow.compute as pc

    return rows.column("object_id").filter(pc.equal(rows.column("object_type"), _VERSION))


def _below_one_of(tables: Sequence[str], names: pa.ChunkedArray) -> list[str]:
    """Return those of ``names`` that are in one of ``tables``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(names):
        return []
    found: list[str] = names.filter(pc.is_in(_parents(names), value_set=pa.array(tables, names.type))).to_pylist()
    return found


def _parents(identifiers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the parent of each of ``identifiers``; ``""`` is the root."""
    import pyarrow.compute as pc

    parts = pc.split_pattern(identifiers, DELIMITER, max_splits=1, reverse=True)
    return pc.if_else(pc.match_substring(identifiers, DELIMITER), pc.list_element(parts, 0), "")


# ---- the part that a scan is about -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """The part of ``__manifest`` that a scan is about.

    ``whole`` are namespaces with all their children but those ``without``; ``named`` are single objects. A scope of
    literal names (``ChildrenOf``, ``Only``) becomes a filter that Lance applies while it reads. Names are compared as
    text, never as patterns.
    """

    scope: Scope
    whole: frozenset[Identifier]
    named: frozenset[Identifier]
    without: frozenset[Identifier] = frozenset()

    @cached_property
    def above(self) -> frozenset[Identifier]:
        """The namespaces above the wanted objects, without the root; scans return them."""
        inside = chain(self.named, ((*namespace, "") for namespace in self.whole))
        return frozenset(found[:depth] for found in inside for depth in range(1, len(found)))

    @property
    def is_about_root(self) -> bool:
        """Whether something directly under the root can be wanted."""
        return () in self.whole or any(len(name) == 1 for name in self.named)

    @property
    def row_filter(self) -> str | None:
        """The filter for the rows that the scan needs, and may be for others; None for all of them.

        Objects directly under the root need every row: a directory there is not a table if an entry of any namespace is
        in it.
        """
        if self.is_about_root:
            return None
        if len(self.whole) > _MOST_NAMESPACES or len(self.named) > _MOST_NAMES:
            texts = [*map(join, self.named), *(join(one) + end for one in self.whole for end in _ENDS)]
            wanted = [f"(object_id >= {_quoted(min(texts))} AND object_id <= {_quoted(max(texts))})"]
        else:
            wanted = [*map(_below, self.whole), *map(_is, self.named)]
        return " OR ".join([*wanted, *map(_is, self.above - self.named)]) or "false"

    def rows_of(self, contents: ManifestRows) -> ManifestRows:
        """Return the rows of the objects and notes of the scan."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parents = [*map(join, self.whole), *(join(parent) for parent in contents.parents if self._has_note(parent))]
        names = map(join, self.named | self.above)
        directly = pc.is_in(contents.parent_of_each, value_set=pa.array(parents, pa.string()))
        if self.without:
            left_out = pa.array(map(join, self.without), pa.string())
            directly = pc.and_not(directly, pc.is_in(contents.objects.column("object_id"), value_set=left_out))
        itself = pc.is_in(contents.objects.column("object_id"), value_set=pa.array(names, pa.string()))
        return ManifestRows(contents.places, contents.objects.filter(pc.or_(directly, itself)))

    def _has_note(self, parent: Identifier) -> bool:
        """Return whether a note on an invalid name in ``parent`` is in scope."""
        invalid = invalid_at(parent)
        return invalid is not None and self.scope.contains(parent[: invalid + 1])

    def beside(self, known: Iterable[Identifier]) -> str | None:
        """Return the filter for rows below the namespaces above that are not ``known``.

        They say whether those namespaces exist. None if that is known, or follows from the rows of :attr:`row_filter`.
        """
        return " OR ".join(map(_below, self.above.difference(self.whole, known))) or None


def part_of(scope: Scope) -> Part | None:
    """Return the part for a scope of literal names; None for one of patterns."""
    if isinstance(scope, ChildrenOf):
        return Part(scope, scope.namespaces, frozenset(), scope.without)
    if isinstance(scope, Only):
        return Part(scope, frozenset(), scope.identifiers)
    return None


def invalid_at(identifier: Identifier) -> int | None:
    """Return the position of the first name that is invalid, None for none."""
    return next((at for at, name in enumerate(identifier) if check_name(name) is not None), None)


def namespaces_in_use(contents: ManifestRows) -> set[Identifier]:
    """Return the namespaces that hold something, with or without an entry."""
    return {parent[:depth] for parent in contents.parents for depth in range(1, len(parent[: invalid_at(parent)]) + 1)}


def _below(namespace: Identifier) -> str:
    """Return the filter for everything below ``namespace``, as a range of names."""
    text = join(namespace)
    return f"(object_id >= {_quoted(text + DELIMITER)} AND object_id < {_quoted(text + _AFTER_DELIMITER)})"


def _is(identifier: Identifier) -> str:
    return f"object_id = {_quoted(join(identifier))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
