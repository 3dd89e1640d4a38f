"""Tables: read one by one or in bulk, created, altered and dropped. No call here deletes a file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from reconciler.backends.hive.columns import comments_of, with_columns, with_leading_columns
from reconciler.backends.hive.directories import Directories
from reconciler.backends.hive.entries import (
    EXTERNAL_TABLE,
    SAFEGUARD,
    DatabaseName,
    is_lance,
    new_table,
    set_table_parameters,
)
from reconciler.backends.hive.faults import creating, detail, translated
from reconciler.model.columns import ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    NotLanceTableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from reconciler.model.live import PropertyChanges

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Table
    from reconciler.backends.hive.metastore import Metastore


_log = logging.getLogger(__name__)

IS_LANCE = 'hive_filter_field_params__table_type LIKE "(?i)lance"'
"""LIKE and not ``=``, which fails where the schema keeps values in a CLOB, as Hive's own scripts make it."""

Wanted: TypeAlias = Callable[[DatabaseName, str], bool]
"""Whether a table of a database, by its name, is to be read."""

_LAST_CHANGE = "transient_lastDdlTime"
_TRIES = 5
"""How often a table is read again because another part of it was changed before it was written."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a metastore, ``workers`` calls at a time and ``batch_size`` tables a call."""

    impl: str
    metastore: Metastore
    directories: Directories
    workers: int
    batch_size: int

    # ---- reading -------------------------------------------------------------------------------------------------

    def lance_names(self, database: DatabaseName) -> list[str]:
        """Return the names of the Lance tables in ``database``; none where it does not exist."""
        picked = self.picked(database)
        if picked is not None:
            return picked
        return [table.tableName for table in self.every_table(database) if is_lance(table)]

    def lance_tables(self, databases: Sequence[DatabaseName], wanted: Wanted) -> dict[DatabaseName, list[Table]]:
        """Return the wanted Lance tables of each database, complete: one filter call a database, one call a batch.

        No other table is loaded, as far as the server picks the Lance tables by itself.

        Raises:
            BackendError: naming what could not be read.
        """

        def names_in(database: DatabaseName) -> list[str]:
            picked = self.picked(database)
            return [name for name in (self._names(database) if picked is None else picked) if wanted(database, name)]

        listed = dict(zip(databases, in_parallel(names_in, databases, self.workers), strict=True))
        return {
            database: [table for table in tables if is_lance(table)]
            for database, tables in self._loaded(listed).items()
        }

    def every_table(self, database: DatabaseName) -> list[Table]:
        """Return all tables and views in ``database``, complete; none where it does not exist."""
        return self._loaded({database: self._names(database)})[database]

    def named(self, database: DatabaseName, names: Collection[str]) -> list[Table]:
        """Return those of the named tables and views that exist, one call a batch."""
        batches = [(database, batch) for batch in _batches(sorted(names), self.batch_size)]
        return [table for tables in in_parallel(self.load_batch, batches, self.workers) for table in tables]

    def picked(self, database: DatabaseName) -> list[str] | None:
        """Return the names of the Lance tables as the server picks them, None where it refuses to."""
        from reconciler.backends.hive.gen import ttypes

        with translated(self.impl, f"listing the tables of `{database}`", missing=NamespaceNotFoundError):
            try:
                return list(
                    self.metastore.read(lambda client: client.get_table_names_by_filter(database.wire, IS_LANCE, -1))
                )
            except ttypes.UnknownDBException:
                return []
            except (ttypes.MetaException, ttypes.InvalidOperationException) as error:
                _log.debug(
                    "%s: the metastore refuses the filter on `%s` (%s); every table is loaded instead",
                    self.impl,
                    database,
                    detail(error),
                )
                return None

    def _names(self, database: DatabaseName) -> list[str]:
        with translated(self.impl, f"listing the tables of `{database}`", missing=NamespaceNotFoundError):
            return list(self.metastore.read(lambda client: client.get_all_tables(database.wire)))

    def _loaded(self, listed: Mapping[DatabaseName, Sequence[str]]) -> dict[DatabaseName, list[Table]]:
        """Return the tables named; those that are gone are left out."""
        batches = [
            (database, batch) for database, names in listed.items() for batch in _batches(names, self.batch_size)
        ]
        found: dict[DatabaseName, list[Table]] = {database: [] for database in listed}
        for (database, _), tables in zip(batches, in_parallel(self.load_batch, batches, self.workers), strict=True):
            found[database] += tables
        for database, names in listed.items():
            missing = set(names) - {table.tableName for table in found[database]}
            found[database] += self._look_again(database, missing)
        return found

    def load_batch(self, batch: tuple[DatabaseName, Sequence[str]]) -> list[Table]:
        """Return those of the named tables that exist."""
        from reconciler.backends.hive.gen.ttypes import GetTablesRequest

        database, names = batch
        request = GetTablesRequest(dbName=database.name, tblNames=list(names), catName=database.catalog)
        try:
            with translated(self.impl, f"loading tables of `{database}`", missing=NamespaceNotFoundError):
                return list(self.metastore.read(lambda client: client.get_table_objects_by_name_req(request)).tables)
        except NamespaceNotFoundError:
            return []

    def _look_again(self, database: DatabaseName, missing: Iterable[str]) -> Iterator[Table]:
        """Yield those of the tables that were listed but not loaded that are still there."""
        for name in sorted(missing):
            try:
                yield self.fetch(database, name)
            except TableNotFoundError:
                _log.debug("%s: table `%s$%s` went away while it was read", self.impl, database, name)

    def fetch(self, database: DatabaseName, name: str) -> Table:
        """Return the struct of a table, of whatever kind it is.

        Raises:
            TableNotFoundError: there is none.
        """
        from reconciler.backends.hive.gen.ttypes import GetTableRequest

        request = GetTableRequest(dbName=database.name, tblName=name, catName=database.catalog)
        with translated(self.impl, f"table `{database}${name}`", missing=TableNotFoundError):
            table: Table = self.metastore.read(lambda client: client.get_table_req(request)).table
        return table

    def find(self, database: DatabaseName, name: str) -> Table:
        """Return the struct of a Lance table.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is no Lance table.
        """
        table = self.fetch(database, name)
        if not is_lance(table):
            raise NotLanceTableError(f"{self.impl}: table `{database}${name}` is not a Lance table")
        return table

    # ---- writing -------------------------------------------------------------------------------------------------

    def create(self, database: DatabaseName, name: str, location: str, properties: Mapping[str, str]) -> Table:
        """Create a Lance table and return it as the server has it, with the location in force.

        Raises:
            TableAlreadyExistsError: the name is taken.
            InvalidInputError: the server does not take it; a missing database is one reason.
        """
        self.directories.make(location, database=database)
        table = new_table(name, database, location, properties)
        what = f"creating table `{database}${name}`"
        with creating(self.impl, what, exists=TableAlreadyExistsError, look=lambda: self.fetch(database, name)):
            self.metastore.write(lambda client: client.create_table(table))
        return self.find(database, name)

    def drop(self, database: DatabaseName, name: str) -> None:
        """Drop the entry of a table; its data stays, whatever the table's type.

        Raises:
            TableNotFoundError: there is none.
        """
        with translated(self.impl, f"dropping table `{database}${name}`", missing=TableNotFoundError):
            self.metastore.write(lambda client: client.drop_table(database.wire, name, False))

    def alter(self, database: DatabaseName, name: str, changes: PropertyChanges, location: str | None) -> Table:
        """Merge ``changes`` into a Lance table's parameters and, where given, set its location.

        When somebody else changes the table at the same moment it is read and merged again, unless the change was to
        the same parameters or the location. 2.3 and 4.x tell so; on 3.x the last one to write wins.

        Raises:
            TableNotFoundError: there is no such table.
            ConcurrentModificationError: what is to be changed was changed by somebody else.
        """
        first: Table | None = None
        for _ in range(_TRIES):
            table = self.find(database, name)
            if first is not None and _part(table, changes, location) != _part(first, changes, location):
                break
            first = first or table
            last_change = table.parameters.get(_LAST_CHANGE)
            altered = deepcopy(table)
            set_table_parameters(altered, changes.applied_to(table.parameters))
            altered.sd.location = location or table.sd.location
            if self._write(database, name, altered, last_change, stamped=True):
                return self.find(database, name)
        raise self._changed(database, name)

    def show(self, database: DatabaseName, name: str, columns: ShownColumns) -> None:
        """Let the entry of a Lance table show ``columns``; all else of it stays.

        A server that refuses to change the type of a column (``hive.metastore.disallow.incompatible.col.type.changes``)
        guards the partitions of tables of other formats. Here nothing reads data by what an entry shows, so the columns
        from the first difference on are taken away first.

        Raises:
            TableNotFoundError: there is no such table.
            ConcurrentModificationError: somebody else keeps changing it, where the server tells.
            InvalidTableStateError: the server refuses the columns.
        """
        comments: dict[str, str | None] = {}
        for _ in range(_TRIES):
            table = self.find(database, name)
            last_change = table.parameters.get(_LAST_CHANGE)
            comments |= comments_of(table)
            try:
                if self._write(database, name, with_columns(table, columns, comments), last_change, stamped=True):
                    return
            except InvalidTableStateError:
                shorter = with_leading_columns(table, columns)
                if shorter is None:
                    raise
                self._write(database, name, shorter, last_change, stamped=True)
        raise self._changed(database, name)

    def rename(self, database: DatabaseName, name: str, to: DatabaseName, new_name: str) -> Table:
        """Give a Lance table another name, in another database too; its location stays.

        The table is made external in an alter of its own where it is not: 3.1 would move its directory otherwise.

        Raises:
            TableNotFoundError: there is no such table.
            TableAlreadyExistsError: the new name is taken.
            ConcurrentModificationError: somebody has changed it meanwhile, where the server tells.
        """
        table = self.find(database, name)
        if SAFEGUARD.missing(table.parameters) or table.tableType != EXTERNAL_TABLE:
            table = self.alter(database, name, PropertyChanges(), None)
        with suppress(TableNotFoundError):
            self.fetch(to, new_name)
            raise TableAlreadyExistsError(f"{self.impl}: table `{to}${new_name}` already exists")
        renamed = deepcopy(table)
        renamed.dbName, renamed.tableName = to.name, new_name
        if not self._write(database, name, renamed, table.parameters.get(_LAST_CHANGE)):
            raise self._changed(database, name)
        return self.find(to, new_name)

    def _changed(self, database: DatabaseName, name: str) -> ConcurrentModificationError:
        return ConcurrentModificationError(f"{self.impl}: table `{database}${name}` was changed by somebody else")

    def _write(
        self, database: DatabaseName, name: str, table: Table, last_change: str | None, *, stamped: bool = False
    ) -> bool:
        """Write a table that was last changed at ``last_change``; return False when it has been changed since.

        ``stamped`` says to keep the time of this change with it.
        """
        from reconciler.backends.hive.gen.ttypes import EnvironmentContext, MetaException

        if stamped:
            table.parameters[_LAST_CHANGE] = _later_than(last_change)
        options = {"DO_NOT_UPDATE_STATS": "true"}
        if last_change is not None:
            options.update(expected_parameter_key=_LAST_CHANGE, expected_parameter_value=last_change)
        context = EnvironmentContext(properties=options)
        what = f"altering table `{database}${name}`"
        with translated(self.impl, what, missing=TableNotFoundError, refused=InvalidTableStateError):
            try:
                self.metastore.write(
                    lambda client: client.alter_table_with_environment_context(database.wire, name, table, context)
                )
            except MetaException as error:
                if "has been modified" in str(error.message):
                    return False
                raise
        return True


def _part(table: Table, changes: PropertyChanges, location: str | None) -> object:
    """Return the part of a table that a change is about."""
    parameters = table.parameters
    touched = {key: parameters.get(key) for key in (*changes.set, *changes.remove)}
    return touched, table.sd.location if location is not None else None


def _later_than(last_change: str | None) -> str:
    """Return the time of a change made now, in seconds; later than the last, so that it tells the two states apart."""
    last = int(last_change) if last_change and last_change.isdecimal() else 0
    return str(max(int(time.time()), last + 1))


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
