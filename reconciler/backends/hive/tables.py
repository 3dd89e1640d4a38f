"""Read, create, alter and drop the entries of tables. No call deletes a file."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field

from reconciler.backends.hive import entries
from reconciler.backends.hive.gen import ttypes
from reconciler.backends.hive.gen.ttypes import Table
from reconciler.backends.hive.metastore import Metastore
from reconciler.backends.http.rate_limit import Clock
from reconciler.model import errors, locations
from reconciler.model.columns import ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier, join

_log = logging.getLogger(__name__)

LANCE_FILTER = 'hive_filter_field_params__table_type LIKE "(?i)lance"'
"""Uses LIKE: ``=`` fails if the metastore's database stores values as CLOB, as Hive's scripts set it up."""

_LAST_CHANGE = "transient_lastDdlTime"
_OWN = "0"
"""Leads the time of a change by lancens, so that no other client's change in that second has an equal one."""
_RECENT_SECONDS = 5
"""More than this clock may be ahead of the server's."""
_ATTEMPTS = 5
"""How often a write is tried if other clients keep changing other parts of the table."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a metastore."""

    impl: str
    metastore: Metastore
    clock: Clock = field(default_factory=Clock)

    # ---- reading -------------------------------------------------------------------------------------------------

    def lance_names(self, database: Identifier) -> list[str]:
        """Return the names of the Lance tables in ``database``, which may not exist."""
        names = self.filtered_names(database)
        if names is not None:
            return names
        return [table.tableName for table in self.all_tables(database) if entries.is_lance(table)]

    def marked_tables(
        self, databases: Sequence[Identifier], is_wanted: Callable[[Identifier], bool]
    ) -> dict[Identifier, list[Table]]:
        """Return the entries in each database that are marked as Lance tables.

        Only identifiers that ``is_wanted`` accepts are returned. It takes one call for each database, and one for each
        batch. If the server refuses the filter, all tables are loaded.

        Raises:
            BackendError: naming what could not be read.
        """

        def names_in(database: Identifier) -> list[str]:
            names = self.filtered_names(database)
            return [
                name for name in (self._all_names(database) if names is None else names) if is_wanted((*database, name))
            ]

        listed = dict(zip(databases, in_parallel(names_in, databases, self.metastore.config.pool_size), strict=True))
        loaded = self._load_all(listed).items()
        return {database: [table for table in tables if entries.is_marked(table)] for database, tables in loaded}

    def all_tables(self, database: Identifier) -> list[Table]:
        """Return all tables and views in ``database``; none if it does not exist."""
        return self._load_all({database: self._all_names(database)})[database]

    def tables_named(self, database: Identifier, names: Collection[str]) -> list[Table]:
        """Return the existing tables and views with these names; one call reads a batch."""
        return [table for _, tables in self._load_batches({database: sorted(names)}) for table in tables]

    def filtered_names(self, database: Identifier) -> list[str] | None:
        """Return the names of Lance tables by the server's filter; None if it refuses."""
        name, doing = entries.wire_name(database), f"listing the tables of `{join(database)}`"
        try:
            return self.metastore.read(
                lambda client: list(client.get_table_names_by_filter(name, LANCE_FILTER, -1)), doing
            )
        except errors.NamespaceNotFoundError:
            return []
        except (errors.InternalError, errors.InvalidInputError, errors.PermissionDeniedError) as error:
            if not isinstance(error.__cause__, (ttypes.MetaException, ttypes.InvalidOperationException)):
                raise
            _log.debug("%s; the metastore refuses the filter, so every table is loaded", error)
            return None

    def _all_names(self, database: Identifier) -> list[str]:
        name, doing = entries.wire_name(database), f"listing the tables of `{join(database)}`"
        return self.metastore.read(lambda client: list(client.get_all_tables(name)), doing)

    def _load_all(self, listed: Mapping[Identifier, Sequence[str]]) -> dict[Identifier, list[Table]]:
        """Load the tables with these names that still exist."""
        loaded: dict[Identifier, list[Table]] = {database: [] for database in listed}
        for database, tables in self._load_batches(listed):
            loaded[database] += tables
        for database, names in listed.items():
            for name in sorted(set(names) - {table.tableName for table in loaded[database]}):
                with suppress(errors.TableNotFoundError):  # dropped since it was listed
                    loaded[database].append(self.fetch((*database, name)))
        return loaded

    def _load_batches(self, listed: Mapping[Identifier, Sequence[str]]) -> Iterator[tuple[Identifier, list[Table]]]:
        """Load the named tables in batches of one call; yield each with its database."""
        config = self.metastore.config
        batches = [
            (database, names[start : start + config.batch_size])
            for database, names in listed.items()
            for start in range(0, len(names), config.batch_size)
        ]
        loaded = in_parallel(self.load_batch, batches, config.pool_size)
        return zip((database for database, _ in batches), loaded, strict=True)

    def load_batch(self, batch: tuple[Identifier, Sequence[str]]) -> list[Table]:
        """Load a batch: a database and names; return the tables that exist."""
        database, names = batch
        doing = f"loading tables of `{join(database)}`"
        request = ttypes.GetTablesRequest(
            dbName=database[-1], tblNames=list(names), catName=entries.catalog_name(database)
        )
        try:
            return self.metastore.read(lambda client: list(client.get_table_objects_by_name_req(request).tables), doing)
        except errors.NamespaceNotFoundError:
            return []

    def fetch(self, identifier: Identifier) -> Table:
        """Return the struct of a table of any format.

        Raises:
            TableNotFoundError: there is none.
        """
        *database, name = identifier
        request = ttypes.GetTableRequest(dbName=database[-1], tblName=name, catName=entries.catalog_name(database))
        doing = f"table `{join(identifier)}`"
        answer = self.metastore.read(
            lambda client: client.get_table_req(request), doing, missing=errors.TableNotFoundError
        )
        table: Table = answer.table
        return table

    def find(self, identifier: Identifier) -> Table:
        """Return the struct of a Lance table.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is no Lance table.
        """
        table = self.fetch(identifier)
        if not entries.is_lance(table):
            raise errors.NotLanceTableError(f"{self.impl}: table `{join(identifier)}` is not a Lance table")
        return table

    # ---- writing -------------------------------------------------------------------------------------------------

    def create(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> Table:
        """Create a Lance table and return it with the location in force.

        Raises:
            TableAlreadyExistsError: the name is taken.
            InvalidInputError: the server rejects it; a missing database is one reason.
        """
        make_directory(self.metastore, location, identifier[:-1])
        return self._create(identifier, entries.plain_table(identifier, location), properties)

    def copy(self, origin: Identifier, identifier: Identifier, properties: Mapping[str, str]) -> Table:
        """Create a Lance table with every field of another, and return it.

        Raises:
            TableNotFoundError: the other does not exist.
            TableAlreadyExistsError, InvalidInputError: as for :meth:`create`.
        """
        table = deepcopy(self.find(origin))
        table.catName, (table.dbName, table.tableName) = entries.catalog_name(identifier[:-1]), identifier[-2:]
        table.id = None
        return self._create(identifier, table, properties)

    def _create(self, identifier: Identifier, table: Table, properties: Mapping[str, str]) -> Table:
        entries.set_table_parameters(table, properties)
        self._stamp(table, None)
        self.metastore.create(
            lambda client: client.create_table(table),
            f"creating table `{join(identifier)}`",
            errors.TableAlreadyExistsError,
            lambda: self.fetch(identifier),
        )
        return self.find(identifier)

    def drop(self, identifier: Identifier) -> None:
        """Drop the entry of a table of any type; its data stays.

        Raises:
            TableNotFoundError: there is none.
        """
        database, doing = entries.wire_name(identifier[:-1]), f"dropping table `{join(identifier)}`"
        self.metastore.write(
            lambda client: client.drop_table(database, identifier[-1], False), doing, missing=errors.TableNotFoundError
        )

    def alter(
        self,
        identifier: Identifier,
        changes: PropertyChanges,
        location: str | None,
        check: Callable[[Table], object] = lambda _: None,
    ) -> Table:
        """Merge ``changes`` into a Lance table's parameters; set its location if given.

        ``check`` gets the table before the merge. After a concurrent change the table is read and merged again, unless
        another client changed the same fields. The concurrent change may be this one: a metastore that loses the
        response of its database repeats the call. Only 2.3 and 4.x report conflicts; on 3.x the last write wins.

        Raises:
            TableNotFoundError: there is no such table.
            ConcurrentModificationError: another client changed the same part of it.
        """
        first: Table | None = None
        for _ in range(_ATTEMPTS):
            table = self._settled(identifier, check)
            last_change = table.parameters.get(_LAST_CHANGE)
            altered = deepcopy(table)
            entries.set_table_parameters(altered, changes.applied_to(table.parameters))
            altered.sd.location = location or table.sd.location
            if first is not None and altered == table:
                return table
            if first is not None and _changed_part(table, changes, location) != _changed_part(first, changes, location):
                break
            first = first or table
            if self._write(identifier, altered, last_change):
                return self.find(identifier)
        raise self._changed_error(identifier)

    def set_columns(self, identifier: Identifier, columns: ShownColumns, check: Callable[[Table], object]) -> None:
        """Replace the columns of a Lance table's entry; its other fields stay.

        ``check`` gets the table before the change. To protect partitions of other formats, a server can refuse to
        change a column's type (``hive.metastore.disallow.incompatible.col.type.changes``). No reader of Lance data uses
        the columns of an entry, so the columns from the first difference on are then removed first.

        Raises:
            TableNotFoundError: there is no such table.
            ConcurrentModificationError: other clients keep changing it, where the server reports it.
            InvalidTableStateError: the server refuses the columns.
        """
        comments: dict[str, str | None] = {}
        for _ in range(_ATTEMPTS):
            table = self._settled(identifier, check)
            last_change = table.parameters.get(_LAST_CHANGE)
            comments |= entries.comments_of(table)
            try:
                if self._write(identifier, entries.with_columns(table, columns, comments), last_change):
                    return
            except errors.InvalidTableStateError:
                shorter = entries.with_leading_columns(table, columns)
                if shorter is None:
                    raise
                self._write(identifier, shorter, last_change)
        raise self._changed_error(identifier)

    def rename(self, identifier: Identifier, to: Identifier, check: Callable[[Table], object]) -> Table:
        """Rename a Lance table, also to another database; its location stays.

        ``check`` gets the table before the change. A managed table is first made external: otherwise 3.1 would move its
        directory.

        Raises:
            TableNotFoundError: there is no such table.
            TableAlreadyExistsError: the new name is taken.
            ConcurrentModificationError: another client changed it, where the server reports it.
        """
        table = self._settled(identifier, check)
        if entries.SAFEGUARD.missing(table.parameters) or table.tableType != entries.EXTERNAL_TABLE:
            table = self.alter(identifier, PropertyChanges(), None)
        with suppress(errors.TableNotFoundError):
            self.fetch(to)
            raise errors.TableAlreadyExistsError(f"{self.impl}: table `{join(to)}` already exists")
        renamed = deepcopy(table)
        renamed.dbName, renamed.tableName = to[-2:]
        if not self._write(identifier, renamed, table.parameters.get(_LAST_CHANGE)):
            raise self._changed_error(identifier)
        return self.find(to)

    def _changed_error(self, identifier: Identifier) -> errors.ConcurrentModificationError:
        return errors.ConcurrentModificationError(
            f"{self.impl}: table `{join(identifier)}` was changed by another client"
        )

    def _settled(self, identifier: Identifier, check: Callable[[Table], object]) -> Table:
        """Return a Lance table once a further change by another client would show.

        Servers note the time of a change in whole seconds. Within the second of a change by another client, the next
        one would be overwritten unnoticed, so this method waits for its end, which comes at most a second after a read.

        Raises:
            TableNotFoundError: there is no such table.
            ConcurrentModificationError: other clients keep changing it.
        """
        last_change: str | None = None
        for _ in range(_ATTEMPTS):
            table = self.find(identifier)
            check(table)
            before, last_change = last_change, table.parameters.get(_LAST_CHANGE, "")
            if last_change == before or not self._is_recent(last_change):
                return table
            self.clock.sleep(1)
        raise self._changed_error(identifier)

    def _is_recent(self, last_change: str) -> bool:
        """Return whether another client made a change in what may be the server's current second."""
        is_others = last_change.isdecimal() and not last_change.startswith(_OWN)
        return is_others and int(last_change) > self.clock.now() - _RECENT_SECONDS

    def _stamp(self, table: Table, last_change: str | None) -> None:
        """Store the time of this change, which is later than ``last_change``."""
        last = int(last_change) if last_change and last_change.isdecimal() else 0
        table.parameters[_LAST_CHANGE] = f"{_OWN}{max(int(self.clock.now()), last + 1)}"

    def _write(self, identifier: Identifier, table: Table, last_change: str | None) -> bool:
        """Write a table with the time of this change; return False if it changed since ``last_change``."""
        self._stamp(table, last_change)
        options = {"DO_NOT_UPDATE_STATS": "true"}
        if last_change is not None:
            options.update(expected_parameter_key=_LAST_CHANGE, expected_parameter_value=last_change)
        context = ttypes.EnvironmentContext(properties=options)
        database, name = entries.wire_name(identifier[:-1]), identifier[-1]
        try:
            self.metastore.write(
                lambda client: client.alter_table_with_environment_context(database, name, table, context),
                f"altering table `{join(identifier)}`",
                missing=errors.TableNotFoundError,
                refused=errors.InvalidTableStateError,
            )
        except errors.ConcurrentModificationError:
            return False
        return True


def make_directory(metastore: Metastore, location: str, database: Identifier = (entries.DEFAULT_DATABASE,)) -> None:
    """Make the server create the directory ``location``, without leaving an entry.

    A server that fails in a create deletes the directory that it made, with all files in it. If two clients create one
    object at once, the slower one's failure would delete the files of the faster one. The server does not delete a
    directory that existed before the create, so this function creates it first.

    It requests a table at a new path below ``location``, with a primary key on a column that the table does not have.
    The server creates the path, and so ``location`` above it, rejects the key, rolls back the table and deletes the new
    path; ``location`` stays. There is no entry at any moment, so an interruption leaves none.

    Args:
        location: the directory to create.
        database: an existing database in which the caller may create tables.

    Raises:
        InvalidInputError: the server has no library for the scheme of ``location``.
        PermissionDeniedError: the caller may not create tables in ``database``, or directories there.
    """
    table = entries.plain_table((*database, f"lancens_{uuid.uuid4().hex}"), locations.new_place_in(location))
    invalid_key = ttypes.SQLPrimaryKey(
        table_db=table.dbName,
        table_name=table.tableName,
        column_name="missing",
        key_seq=1,
        pk_name=table.tableName,
        catName=table.catName,
    )
    doing = f"making directory {locations.redact(location)}"
    try:
        metastore.write(lambda client: client.create_table_with_constraints(table, [invalid_key], []), doing)
    except errors.InvalidInputError as error:
        if not isinstance(error.__cause__, ttypes.InvalidObjectException):
            raise
        return  # the key is rejected, or the database is missing, which the next create reports
    # A service that ignores keys has created the table; its path is empty.
    metastore.write(lambda client: client.drop_table(entries.wire_name(database), table.tableName, False), doing)


def _changed_part(table: Table, changes: PropertyChanges, location: str | None) -> object:
    """Return the values of the fields that a change sets or removes."""
    parameters = table.parameters
    touched = {key: parameters.get(key) for key in (*changes.set, *changes.remove)}
    return touched, table.sd.location if location is not None else None
