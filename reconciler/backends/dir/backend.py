"""``impl: dir``: a directory, local or in an object store, is the catalog.

Namespaces and tables have entries in the dataset ``__manifest`` of pylance's own directory namespace
(:mod:`~reconciler.backends.dir.manifest`). A directory under the root without an entry is a table too
(:mod:`~reconciler.backends.dir.listing`; Lance Namespace specification, "Lance Directory Namespace").

A root table whose location is directly under the root exists only while that directory exists and is not marked as
deregistered. pylance has the same rule; an entry from an interrupted registration so counts as missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from reconciler import storage
from reconciler.backends.base import Backend, snapshot_within
from reconciler.backends.dir.blocking_settings import blocking_settings, notes_on_settings
from reconciler.backends.dir.config import DirConfig
from reconciler.backends.dir.listing import SUFFIX, Directory, IsTaken
from reconciler.backends.dir.rows import (
    MANIFEST,
    NAMESPACE,
    TABLE,
    Row,
    ScanPart,
    StoredLocations,
    first_directory,
    invalid_at,
    metadata_of,
    part_of,
)
from reconciler.backends.odd_entries import NO_LOCATION, odd_entry, with_odd_entries
from reconciler.model import errors, locations
from reconciler.model.auto_cleanup import INTERVAL
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.live import (
    LIST_OF_OBJECTS,
    LiveNamespace,
    LiveTable,
    OddEntry,
    PropertyChanges,
    Snapshot,
)
from reconciler.model.names import DELIMITER, EVERYTHING, ChildrenOf, Identifier, Scope, check_name, join, split

if TYPE_CHECKING:
    from reconciler.backends.dir.contents import ManifestRows

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

# The directory of a table in a namespace, such as `1f2e3d4c_features$users`.
_DIRECTORY_IN_NAMESPACE = re.compile(r"[0-9a-f]{8}_(.*\$.*)", re.DOTALL)


class DirBackend(Backend):
    """A directory catalog. Each change is a commit of ``__manifest``; data stays."""

    impl = "dir"
    config_model = DirConfig
    is_its_root = True
    commits_together = 32
    config: DirConfig
    checks_at_commit = True
    known_capabilities = Capabilities(
        location_policy=LocationPolicy.UNDER_ROOT,
        one_name_space=True,
        rename_within=0,
        pinned_root_tables=True,
        lists_root=True,
    )

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        from reconciler.backends.dir.manifest import DirManifest  # needs pyarrow, which takes time to import

        self._stored_locations = StoredLocations(self.config.root)
        self._manifest = DirManifest(self._stored_locations, self.config.storage)
        self._directory = Directory(self.config.root, self.config.storage)

    # ---- reading -------------------------------------------------------------------------------------------------

    def stay_inside(self) -> None:
        """Ignore symbolic links that lead out of the root, from now on."""
        self._directory.stays_inside = True

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope`` by one read of the rows concerned.

        The root is listed only if a table directly under it can be in ``scope``.
        """
        part = part_of(scope)
        contents = self._manifest.read(part.row_filter if part else None)
        namespaces: dict[Identifier, LiveNamespace] = {}
        tables: dict[Identifier, LiveTable] = {}
        odd: dict[Identifier, OddEntry] = {}
        notes: list[str] = []
        for row, identifier, invalid, properties in _parsed_rows(contents.objects_in(part) if part else contents):
            if invalid is not None:
                if scope.contains(identifier[: invalid + 1]):
                    notes.append(f"`{row.object_id}` in {MANIFEST} cannot be shown: {check_name(identifier[invalid])}")
            elif row.object_type == NAMESPACE:
                namespaces[identifier] = LiveNamespace(identifier, properties)
            elif row.object_type == TABLE and row.location:
                tables[identifier] = LiveTable(identifier, self._stored_locations.location(row.location), properties)
            elif row.object_type == TABLE and scope.contains(identifier):
                odd[identifier] = odd_entry(NO_LOCATION, properties)
        notes += notes_on_settings(blocking_settings(contents.dataset))
        for identifier in sorted(self._namespaces_in_use(contents, part, namespaces).difference(namespaces)):
            if scope.contains(identifier) or scope.reaches(identifier):
                namespaces[identifier] = LiveNamespace(identifier)
                notes.append(f"namespace `{join(identifier)}` has no entry of its own, only what is in it")
        if part is None or part.includes_root:
            with storage.translated(self.config.root, self.config.storage):
                self._add_root_tables(contents, scope, tables, notes)
        return with_odd_entries(snapshot_within(scope, namespaces.values(), tables.values(), notes), odd)

    def _namespaces_in_use(
        self, contents: ManifestRows, part: ScanPart | None, entered: Iterable[Identifier]
    ) -> set[Identifier]:
        """Return the namespaces that hold objects, ancestors of ``part`` included."""
        in_use = contents.namespaces_in_use
        row_filter = part.missing_namespaces_filter({*in_use, *entered}) if part and not contents.is_whole else None
        return in_use if row_filter is None else in_use | self._manifest.read(row_filter).namespaces_in_use

    def _add_root_tables(
        self, contents: ManifestRows, scope: Scope, tables: dict[Identifier, LiveTable], notes: list[str]
    ) -> None:
        """Add tables without an entry to ``tables``, and remove those without a directory."""
        entries = {
            table.id: directory
            for table in tables.values()
            if len(table.id) == 1 and scope.contains(table.id) and (directory := self._root_directory(table))
        }
        present = set(self._directory.directories()) if entries else set()
        marked = self._directory.marked(present.intersection(entries.values()))
        for identifier, directory in entries.items():
            if directory not in present or directory in marked:
                del tables[identifier]
        taken = self._is_taken_by(contents.root_namespaces.__contains__, contents.occupied_directories.__contains__)
        listed, hidden = self._directory.tables(taken, lambda name: scope.contains((name,)))
        notes += hidden
        for name, directory in listed.items():
            if (name,) in tables:
                notes.append(f"the directory `{directory}` is hidden by the table `{name}`, which is elsewhere")
            else:
                tables[name,] = LiveTable((name,), self._stored_locations.location(directory))

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace; for ``LIST_OF_OBJECTS``, the settings that block commits."""
        contents = self._manifest.read()
        if identifier == LIST_OF_OBJECTS and contents.find(MANIFEST) is None:
            return LiveNamespace(identifier, blocking_settings(contents.dataset))
        return self._namespace(contents, identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one table."""
        return self._table(self._manifest.read(), identifier)

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the namespaces directly below ``parent``."""
        contents = self._manifest.read()
        if parent not in contents.children:
            self._namespace(contents, parent)
        return [name for name in contents.children.get(parent, ()) if check_name(name) is None]

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the tables in ``parent``."""
        if not parent:
            return [identifier[0] for identifier in self.scan(ChildrenOf([()])).tables]
        contents = self._manifest.read()
        self._namespace(contents, parent)
        return [*contents.table_names(join(parent))]

    def large_namespaces(self, more_than: int) -> dict[Identifier, list[str]]:
        """Return the names of the tables in each large namespace, by one read."""
        return self._manifest.read().large_namespaces(more_than)

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of entries other than tables and namespaces."""
        return self._manifest.read().foreign_objects.directly_in(join(identifier)).names

    def leftovers(self, scope: Scope) -> list[LiveNamespace | LiveTable]:
        """Return entries of deregistered root tables, and settings that block commits.

        The former come from an interrupted removal or registration. pylance refuses to register the name again, and
        shows the table where it does not look at directories.
        """
        contents, part = self._manifest.read(), part_of(scope)
        settings = blocking_settings(contents.dataset)
        blocking: list[LiveNamespace | LiveTable] = [LiveNamespace(LIST_OF_OBJECTS, settings)] if settings else []
        if part is not None and not part.includes_root:
            return blocking
        return blocking + [
            table for table in self._deregistered_tables(contents.directly_in("")) if scope.contains(table.id)
        ]

    def _deregistered_tables(self, rows: Iterable[Row]) -> list[LiveTable]:
        tables = [self._live_table(row) for row in rows if row.object_type == TABLE and not check_name(row.object_id)]
        directories = [self._root_directory(table) for table in tables]
        with storage.translated(self.config.root, self.config.storage):
            marked = self._directory.marked({*directories} - {""})
        return [table for table, directory in zip(tables, directories, strict=True) if directory in marked]

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace."""
        if self._directory_table(self._manifest.read(), identifier) is not None:
            raise errors.NamespaceAlreadyExistsError(f"dir: `{identifier[0]}` is a table, which it would hide")

        def change(contents: ManifestRows) -> tuple[ManifestRows, LiveNamespace]:
            self._namespace(contents, identifier[:-1])
            if contents.find(join(identifier)) or contents.below(join(identifier)):
                raise errors.NamespaceAlreadyExistsError(f"dir: `{join(identifier)}` already exists")
            row = Row(join(identifier), NAMESPACE, metadata=metadata_of(properties))
            return _with_rows(contents, identifier, row), LiveNamespace(identifier, row.properties())

        return self._manifest.update(change, join(identifier))

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove an empty namespace."""

        def change(contents: ManifestRows) -> tuple[ManifestRows, None]:
            self._checked(self._namespace(contents, identifier))
            if contents.below(join(identifier)):
                raise errors.NamespaceNotEmptyError(f"dir: namespace `{join(identifier)}` is not empty")
            return _with_rows(contents.without(join(identifier)), identifier), None

        self._manifest.update(change, join(identifier))

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties.

        For :data:`LIST_OF_OBJECTS`, this disables the auto clean-up of ``__manifest``.
        """
        if identifier == LIST_OF_OBJECTS and INTERVAL in changes.remove:
            self._manifest.end_cleanup()
            return self.load_namespace(identifier)

        def change(contents: ManifestRows) -> tuple[ManifestRows, LiveNamespace]:
            self._checked(self._namespace(contents, identifier))
            entry = contents.find(join(identifier)) or Row(join(identifier), NAMESPACE)
            row = replace(entry, metadata=entry.metadata_after(changes))
            return _with_rows(contents, identifier, row), LiveNamespace(identifier, row.properties())

        return self._manifest.update(change, join(identifier))

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table; one with a directory must keep that location."""
        row = Row(join(identifier), TABLE, self._stored_locations.stored(location), metadata_of(properties))
        table = self._live_table(row)

        def change(contents: ManifestRows) -> tuple[ManifestRows, LiveTable]:
            self._namespace(contents, identifier[:-1])
            entry = contents.find(row.object_id)
            if entry is not None and entry.object_type != TABLE:
                raise errors.TableAlreadyExistsError(f"dir: `{row.object_id}` is the name of a {entry.object_type}")
            listed = self._directory_table(contents, identifier)
            if self._entry_table(contents, identifier) or (
                listed and not locations.same(listed.location, table.location)
            ):
                raise errors.TableAlreadyExistsError(f"dir: table `{row.object_id}` already exists")
            return _with_rows(contents.without(row.object_id), identifier, row), table

        self._manifest.update(change, join(identifier))
        self._claim(table)
        return table

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a table; deregister its directory if it has one."""
        contents = self._manifest.expect_writable()
        row = contents.find(join(identifier)) if len(identifier) == 1 else None
        deregistered = self._deregistered_tables([row]) if row is not None else []
        removed = self._checked(deregistered[0] if deregistered else self._table(contents, identifier))
        text = join(identifier)
        is_shared = not self._release(removed, lambda: self._manifest.read().without(text))

        def change(contents: ManifestRows) -> tuple[ManifestRows, None]:
            row = contents.find(text)
            if row is None or row.object_type != TABLE:
                return contents, None
            live = self._live_table(row)
            try:
                self._checked(live)
            except Exception:
                self._retain(live)
                raise
            after = _with_rows(contents.without(text), identifier)
            if is_shared:  # the others may leave with this commit
                self._release(removed, lambda: self._current_after(after))
            return after, None

        self._manifest.update(change, text)
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties and, where given, set its location.

        The new directory is claimed before the commit, because an entry without a table's directory counts as missing,
        and again after it, because another client that leaves the directory may mark it in between. The old directory
        of a table in a namespace is marked before the commit, so that an interruption leaves no table of its own. That
        of a root table is marked after, because the table would be missing until then.
        """
        target = None if location is None else self._stored_locations.stored(location)

        def change(contents: ManifestRows) -> tuple[ManifestRows, tuple[LiveTable, LiveTable]]:
            live = self._checked(self._table(contents, identifier))
            entry = contents.find(join(identifier)) or Row(
                join(identifier), TABLE, self._stored_locations.relative(live.location)
            )
            row = replace(entry, location=target or entry.location, metadata=entry.metadata_after(changes))
            altered = self._live_table(row)
            if not locations.same(live.location, altered.location):
                # The rows of its versions, which are of the old data, leave with the table's own.
                remaining = contents = contents.without(row.object_id)
                self._claim(altered)
                if len(identifier) > 1:
                    self._release(live, lambda: self._current_after(remaining))
            return _with_rows(contents, identifier, row), (live, altered)

        before, altered = self._manifest.update(change, join(identifier))
        if not locations.same(before.location, altered.location):
            self._claim(altered)
            self._release(before, self._manifest.read)
        return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename a table in a namespace by one commit; its directory keeps its name."""
        if min(len(identifier), len(to)) == 1:
            raise errors.UnsupportedOperationError(
                f"dir: `{join(identifier)}` cannot be renamed to `{join(to)}`: a table directly under the root is "
                "named by its directory"
            )

        def change(contents: ManifestRows) -> tuple[ManifestRows, LiveTable]:
            self._checked(self._table(contents, identifier))
            self._namespace(contents, to[:-1])
            if contents.find(join(to)) or contents.below(join(to)):
                raise errors.TableAlreadyExistsError(f"dir: `{join(to)}` already exists")
            renamed = _with_rows(_with_rows(contents.renamed(join(identifier), join(to)), identifier), to)
            return renamed, self._table(renamed, to)

        return self._manifest.update(change, join(identifier))

    def default_location(self, identifier: Identifier) -> str:
        """Return pylance's location: ``name.lance``, or ``hash_namespace$name``.

        The hash is of the identifier, so a table that is created again finds its data. A root table without an entry
        keeps its directory.
        """
        if len(identifier) == 1:
            listed = self._directory_table(self._manifest.read(), identifier)
            return listed.location if listed else self._stored_locations.location(identifier[0] + SUFFIX)
        text = join(identifier)
        return self._stored_locations.location(f"{hashlib.sha256(text.encode()).hexdigest()[:8]}_{text}")

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return the table at ``path``; the directory of one in a namespace has all names."""
        nested = _DIRECTORY_IN_NAMESPACE.fullmatch(path[-1])
        return super().identifier_at(path if nested is None else nested[1].split(DELIMITER))

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return a location beside the default one, for a table in a namespace.

        A root table has no other, because its directory names it.
        """
        if len(identifier) > 1:
            return super().fresh_location(identifier, taken)
        raise errors.TableAlreadyExistsError(
            f"dir: {locations.redact(taken)} holds the data of an earlier table `{join(identifier)}`, and a table "
            "under the root is named by its directory: register the data, move it, or make the table in a namespace"
        )

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why no table can be at ``location``: it must be under the root."""
        return self._stored_locations.problem(location)

    # ---- entries and directories ------------------------------------------------------------------------------------

    def _namespace(self, contents: ManifestRows, identifier: Identifier) -> LiveNamespace:
        """Return a namespace, with or without an entry; the error names the outermost."""
        namespace = LiveNamespace(identifier)
        for depth in range(1, len(identifier) + 1):
            text = join(identifier[:depth])
            row = contents.find(text)
            if row is not None and row.object_type == NAMESPACE:
                namespace = LiveNamespace(identifier, row.properties())
            elif contents.below(text):
                namespace = LiveNamespace(identifier)
            else:
                raise errors.NamespaceNotFoundError(f"dir: namespace `{text}` does not exist")
        return namespace

    def _table(self, contents: ManifestRows, identifier: Identifier) -> LiveTable:
        self._namespace(contents, identifier[:-1])
        table = self._entry_table(contents, identifier) or self._directory_table(contents, identifier)
        if table is None:
            raise errors.TableNotFoundError(f"dir: table `{join(identifier)}` does not exist")
        return table

    def _entry_table(self, contents: ManifestRows, identifier: Identifier) -> LiveTable | None:
        row = contents.find(join(identifier))
        if row is None or row.object_type == NAMESPACE:
            return None
        if row.object_type != TABLE:
            raise errors.NotLanceTableError(f"dir: `{row.object_id}` is a {row.object_type}, not a Lance table")
        if not row.location:
            raise errors.NotLanceTableError(f"dir: `{row.object_id}` in {MANIFEST} is {NO_LOCATION}")
        table = self._live_table(row)
        directory = self._root_directory(table)
        with storage.translated(self.config.root, self.config.storage):
            if directory and (not self._directory.exists(directory) or self._directory.is_marked(directory)):
                return None
        return table

    def _directory_table(self, contents: ManifestRows, identifier: Identifier) -> LiveTable | None:
        if len(identifier) != 1:
            return None
        with storage.translated(self.config.root, self.config.storage):
            directory = self._directory.table(
                identifier[0], self._is_taken_by(contents.is_root_namespace, contents.is_occupied)
            )
        return LiveTable(identifier, self._stored_locations.location(directory)) if directory else None

    def _live_table(self, row: Row) -> LiveTable:
        identifier = tuple(row.object_id.split(DELIMITER))
        return LiveTable(identifier, self._stored_locations.location(row.location or ""), row.properties())

    def _root_directory(self, table: LiveTable) -> str:
        """Return the directory of a root table; ``""`` for all other tables."""
        relative = self._stored_locations.relative(table.location) if len(table.id) == 1 else ""
        return "" if "/" in relative else relative

    @staticmethod
    def _is_taken_by(is_namespace: IsTaken, is_occupied: IsTaken) -> IsTaken:
        """Return a predicate: does a directory belong to an entry or a namespace?"""
        return lambda directory: (
            any(map(is_namespace, {directory, directory.removesuffix(SUFFIX)})) or is_occupied(directory)
        )

    def _claim(self, table: LiveTable) -> None:
        """Undo the deregistration of a root table's directory, and create it if missing."""
        directory = self._root_directory(table)
        if directory:
            with storage.translated(self.config.root, self.config.storage):
                self._directory.unmark(directory)
                self._directory.reserve(directory)

    def _retain(self, table: LiveTable) -> None:
        """Unmark the directory of a table whose entry stays after all."""
        first = first_directory(self._stored_locations.relative(table.location))
        if first:
            with storage.translated(self.config.root, self.config.storage):
                self._directory.unmark(first)

    def _current_after(self, contents: ManifestRows) -> ManifestRows:
        """Return the current rows; ``contents`` if no other client committed meanwhile."""
        current = self._manifest.read()
        return contents if current.version == contents.version else current

    def _release(self, table: LiveTable, after: Callable[[], ManifestRows]) -> bool:
        """Deregister the directory that ``table`` leaves; return False if it is in use.

        A directory is marked only if it would become a table. ``after`` returns the rows without ``table``. A client
        that registers a table claims its directory afterwards: a table registered before the mark is in ``after()``,
        and one registered later removes the mark.
        """
        first = first_directory(self._stored_locations.relative(table.location))

        def is_left() -> bool:
            return self._directory.is_listable(first, lambda directory: after().is_occupied(directory))

        if not first or not is_left():
            return not first
        with storage.translated(self.config.root, self.config.storage):
            if self._directory.is_table(first, or_unfinished=True):
                self._directory.mark(first)
                if not is_left():
                    self._directory.unmark(first)
        return True


def _with_rows(contents: ManifestRows, identifier: Identifier, *rows: Row) -> ManifestRows:
    """Return ``contents`` with ``rows``, and with entries for all ancestors.

    pylance declares tables in namespaces without an entry; such a namespace stays when its last table is removed.
    """
    texts = (join(identifier[:depth]) for depth in range(1, len(identifier)))
    return contents.put(*(Row(text, NAMESPACE) for text in texts if contents.find(text) is None), *rows)


def _parsed_rows(rows: Iterable[Row]) -> Iterator[tuple[Row, Identifier, int | None, dict[str, str]]]:
    """Yield each row, its identifier, the position of an invalid name, its properties.

    Many tables share a namespace and properties, which are parsed and held once.
    """
    parents: dict[str, tuple[Identifier, int | None]] = {}
    known: dict[str | None, dict[str, str]] = {}
    for row in rows:
        above, joined, name = row.object_id.rpartition(DELIMITER)
        if above + joined not in parents:
            names = split(above) if above or not joined else ("",)  # `$a` is not `a`
            parents[above + joined] = names, invalid_at(names)
        parent, invalid = parents[above + joined]
        if invalid is None and check_name(name) is not None:
            invalid = len(parent)
        properties = known.get(row.metadata)
        if properties is None:
            is_shown = invalid is None and row.object_type in (NAMESPACE, TABLE)
            properties = row.properties() if is_shown else {}
            if is_shown:
                known[row.metadata] = properties
        yield row, (*parent, name), invalid, properties
