"""What a catalog may be able to do beside the contract: small classes that a backend inherits where it can.

Whoever needs one of these asks by the function of the same name, which answers for the backends that cannot.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Self, TypeAlias

from reconciler.backends.base import Backend
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.errors import InvalidInputError, PermissionDeniedError, UnsupportedOperationError
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

Check: TypeAlias = Callable[[LiveNamespace | LiveTable], None]
"""Raises when an object is not what somebody goes by who is about to change it."""

_SUFFIX = ".lance"


# ---- names and lists -------------------------------------------------------------------------------------------------


class ReadsOneByOne(ABC):
    """A catalog that has to load each table to tell whose it is, and may not be able to list its outermost level."""

    @abstractmethod
    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what ``scan`` does, without the tables that the service lists and does not let be read.

        Another's broken table would stop every plan. Each of them is a note without the service's own words, which may
        differ at every call, and the foreign objects and tables have it. What decides about a table that was planned
        before, and what another catalog follows, is read by ``scan``.

        Raises:
            BackendError: naming what could not be read beside them.
        """

    @abstractmethod
    def possible_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of the Lance tables in ``parent``, and of others where telling takes a call each.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist, where the service tells.
        """

    @abstractmethod
    def tables_among(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return those of ``names``, some of :meth:`possible_tables`, that are Lance tables, in order."""

    @abstractmethod
    def set_outermost_names(self, names: Iterable[str]) -> None:
        """Say which names the manifest uses on the outermost level."""


def scan_readable(backend: Backend, scope: Scope = EVERYTHING) -> Snapshot:
    """Return what a scan finds, without what cannot be read where that is another's."""
    return backend.scan_readable(scope) if isinstance(backend, ReadsOneByOne) else backend.scan(scope)


def possible_tables(backend: Backend, parent: Identifier) -> Iterable[str]:
    """Return the names of the tables in ``parent``, and of what may be one."""
    return backend.possible_tables(parent) if isinstance(backend, ReadsOneByOne) else backend.child_tables(parent)


def tables_among(backend: Backend, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
    """Return those of some :func:`possible_tables` that are Lance tables."""
    return backend.tables_among(parent, names) if isinstance(backend, ReadsOneByOne) else names


class LearnsCapabilities(ABC):
    """A catalog of which only the service knows what it can do."""

    @abstractmethod
    def asked_capabilities(self) -> Capabilities:
        """Return ``capabilities``, after asking the service.

        Raises:
            BackendError: it could not be asked.
        """


def asked_capabilities(backend: Backend) -> Capabilities:
    """Return what a catalog can do, asked where only the service knows."""
    return backend.asked_capabilities() if isinstance(backend, LearnsCapabilities) else backend.capabilities


class HoldsOthers(ABC):
    """A catalog whose namespaces hold more than Lance tables and namespaces."""

    @abstractmethod
    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of what else a namespace holds: whatever keeps it from being dropped."""


def foreign_objects(backend: Backend, identifier: Identifier) -> Sequence[str]:
    """Return the names of what a namespace holds beside Lance tables and namespaces."""
    return backend.foreign_objects(identifier) if isinstance(backend, HoldsOthers) else ()


class HoldsForeignTables(ABC):
    """A catalog that holds tables of other formats."""

    @abstractmethod
    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the tables directly in ``namespace`` that are not entered as Lance tables are.

        Those of other formats and views, and those that are marked as Lance tables and are of the wrong type, shown by
        a scan or not: complete, with the location and the format that the catalog says; where ``names`` are given,
        those of them that have one. A namespace that cannot hold tables has none. A plan asks for the names of the
        tables that it would make, so that none is planned where another table is in its way.

        Raises:
            NamespaceNotFoundError: ``namespace`` does not exist; where ``names`` are given, if the service tells.
        """


def foreign_tables(
    backend: Backend, namespace: Identifier, names: Collection[str] | None = None
) -> Sequence[ForeignTable]:
    """Return the tables of other formats directly in ``namespace``."""
    return backend.foreign_tables(namespace, names) if isinstance(backend, HoldsForeignTables) else ()


class LeavesEntries(ABC):
    """A catalog in which lancens makes entries for a moment."""

    @abstractmethod
    def leftovers(self, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
        """Return the entries that stayed when lancens was interrupted.

        A plan takes them away. They are nobody's, so no scan, list or count has them in it, and none keeps its
        namespace from being dropped; loading and removing know them, unless another one can be made in its place.
        ``scope`` is what is planned; one that can harm what is in it need not be in it itself.

        Raises:
            BackendError: naming what could not be read.
        """


def leftovers(backend: Backend, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
    """Return the entries that interrupted runs of lancens left."""
    return backend.leftovers(scope) if isinstance(backend, LeavesEntries) else ()


# ---- changes ---------------------------------------------------------------------------------------------------------


class Renames(ABC):
    """A catalog that gives tables other names; ``capabilities.rename_within`` says between which identifiers."""

    @abstractmethod
    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a Lance table another name; its location and its properties stay, no file is touched.

        At every moment the table has one of the two names.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table.
            TableAlreadyExistsError: the name ``to`` is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace of ``to`` does not exist.
        """


def rename_table(backend: Backend, identifier: Identifier, to: Identifier) -> LiveTable:
    """Rename a table where the catalog can.

    Raises:
        UnsupportedOperationError: it cannot.
    """
    if not isinstance(backend, Renames):
        raise UnsupportedOperationError(f"{backend.impl}: a table cannot be renamed")
    return backend.rename_table(identifier, to)


class PlacesTables(ABC):
    """A service that chooses where the tables go that have no default location."""

    @abstractmethod
    def insert_table_anywhere(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table where the service chooses to.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
            InvalidInputError: the service does not choose.
        """


def insert_table(
    backend: Backend, identifier: Identifier, location: str | None, properties: Mapping[str, str]
) -> LiveTable:
    """Create the entry of a table at ``location``, or without one where the service chooses.

    Raises:
        InvalidInputError: there is no location, and the service does not choose one.
    """
    if location is not None:
        return backend.insert_table(identifier, location, properties)
    if not isinstance(backend, PlacesTables):
        shown = join(identifier)
        raise InvalidInputError(f"{backend.impl}: table `{shown}` needs a location: no `root` is configured")
    return backend.insert_table_anywhere(identifier, properties)


class ChecksAtCommit(ABC):
    """A catalog where a change is committed only on top of what was read for it."""

    @abstractmethod
    def checking(self, check: Check) -> Self:
        """Return this catalog for changes of one object that was read before.

        ``check`` gets the object that is altered, renamed or removed as that commit finds it; what it raises is raised,
        and nothing is written.
        """


def checking(backend: Backend, check: Check) -> Backend:
    """Return the catalog with a check at its commits; elsewhere the read right before the write has to do."""
    return backend.checking(check) if isinstance(backend, ChecksAtCommit) else backend


class TakesContext(ABC):
    """A service that is told the context of a Lance client's request."""

    @abstractmethod
    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the calls for a request with this ``context``."""


def in_context(backend: Backend, context: Mapping[str, str]) -> AbstractContextManager[None]:
    """Return what surrounds the calls for a request; what a context means is for each implementation to say."""
    return backend.in_context(context) if isinstance(backend, TakesContext) else nullcontext()


# ---- places ----------------------------------------------------------------------------------------------------------


class LaysOutRoots(ABC):
    """A catalog that lays out its root in a way of its own."""

    @abstractmethod
    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return which table goes to ``path`` below a root, the inverse of ``default_location``."""

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return a place for a new table whose default location ``taken`` holds something.

        Raises:
            TableAlreadyExistsError: the catalog has no other place for a table of this name.
        """
        del identifier
        return suffixed_location(taken)


def plain_identifier_at(path: Sequence[str]) -> Identifier:
    """Return which table goes to ``path`` where directories are named as namespaces and tables are."""
    return (*path[:-1], path[-1].removesuffix(_SUFFIX))


def identifier_at(backend: Backend, path: Sequence[str]) -> Identifier:
    """Return which table goes to ``path`` below a root."""
    return backend.identifier_at(path) if isinstance(backend, LaysOutRoots) else plain_identifier_at(path)


def suffixed_location(taken: str) -> str:
    """Return a place beside ``taken`` that nobody else uses."""
    return f"{taken.removesuffix(_SUFFIX)}_{uuid.uuid4().hex[:12]}{_SUFFIX}"


def fresh_location(backend: Backend, identifier: Identifier, taken: str) -> str:
    """Return a place for a new table whose default location holds something."""
    return backend.fresh_location(identifier, taken) if isinstance(backend, LaysOutRoots) else suffixed_location(taken)


class PlacesDirectly(ABC):
    """A catalog whose specification names a place for tables that are made through an operation.

    It is one, such as the current directory, that does not suit a manifest, which is applied from anywhere.
    """

    @abstractmethod
    def direct_location(self, identifier: Identifier) -> str | None:
        """Return where such a table goes that names no location.

        Raises:
            InvalidInputError, NamespaceNotFoundError: there is no such place.
        """

    def direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a namespace made through an operation, with what its catalog asks for."""
        del identifier
        return properties


def direct_location(backend: Backend, identifier: Identifier) -> str | None:
    """Return where a table goes that is made through an operation and names no location."""
    if isinstance(backend, PlacesDirectly):
        return backend.direct_location(identifier)
    return backend.default_location(identifier)


def direct_properties(backend: Backend, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of a namespace that is made through an operation."""
    return backend.direct_properties(identifier, properties) if isinstance(backend, PlacesDirectly) else properties


class RefusesLocations(ABC):
    """A catalog that does not take every location."""

    @abstractmethod
    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the catalog cannot take the table at ``location``, in words; None when it can.

        Asked when planning and again before anything is written, so that no data is written at a place the entry is
        then refused for. It answers from what is configured, without a call, and ``insert_table`` and ``alter_table``
        refuse the same locations. No secret is in the answer.
        """


def location_problem(backend: Backend, identifier: Identifier, location: str) -> str | None:
    """Return why the catalog cannot take the table at ``location``; None when it can."""
    return backend.location_problem(identifier, location) if isinstance(backend, RefusesLocations) else None


class FollowsLinks(ABC):
    """A catalog whose tables may be symbolic links."""

    @abstractmethod
    def stay_inside(self) -> None:
        """Take links that lead out of its root for no tables from now on."""


class KeepsRoots(ABC):
    """A catalog in which more properties of namespaces than their own places say where tables go by themselves."""

    @abstractmethod
    def root_keys(self) -> frozenset[str]:
        """Return those properties."""


def root_keys(backend: Backend) -> frozenset[str]:
    """Return the properties of namespaces that say under which place tables go by themselves."""
    return backend.root_keys() if isinstance(backend, KeepsRoots) else backend.capabilities.namespace_places


# ---- the columns that entries show -----------------------------------------------------------------------------------


class ShowsColumns(ABC):
    """A catalog whose entries show columns."""

    @abstractmethod
    def shown_columns(self, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
        """Return the columns that the entries of Lance tables show, of those that show any.

        Asked for tables whose storage is opened anyway; a table that has gone is left out.

        Raises:
            BackendError: an entry could not be read.
        """

    @abstractmethod
    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns that an entry shows of data with ``schema``, without a call; None where it cannot."""


def shown_columns(backend: Backend, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
    """Return the columns that the entries of Lance tables show."""
    return backend.shown_columns(identifiers) if isinstance(backend, ShowsColumns) else {}


def columns_to_show(backend: Backend, schema: Schema) -> ShownColumns | None:
    """Return the columns that an entry shows of data with ``schema``."""
    return backend.columns_to_show(schema) if isinstance(backend, ShowsColumns) else None


class ChangesShownColumns(ShowsColumns):
    """A catalog in which the columns that an entry shows can be changed."""

    @abstractmethod
    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Let the entry of a Lance table show ``columns``.

        Everything else of the entry stays, and so does what it says of a column that is given no comment.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """


def show_columns(backend: Backend, identifier: Identifier, columns: ShownColumns) -> None:
    """Let the entry of a Lance table show ``columns``.

    Raises:
        UnsupportedOperationError: it cannot be changed.
    """
    if not isinstance(backend, ChangesShownColumns):
        raise UnsupportedOperationError(f"{backend.impl}: the columns that a table shows cannot be changed")
    backend.show_columns(identifier, columns)


class ShowsSchema(ABC):
    """A catalog whose entries show columns in Lance's own types."""

    @abstractmethod
    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns that the entry of a Lance table shows.

        Raises:
            TableNotFoundError, NotLanceTableError: as for ``load_table``.
        """


def shown_schema(backend: Backend, identifier: Identifier) -> Schema | None:
    """Return the columns that the entry of a Lance table shows; None where entries show none."""
    return backend.shown_schema(identifier) if isinstance(backend, ShowsSchema) else None


class NotesSchemas(ABC):
    """A catalog that cannot show every column as it is."""

    @abstractmethod
    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return, in sentences, what it cannot show of the tables about to be made."""


def schema_notes(backend: Backend, schemas: Iterable[Schema]) -> Sequence[str]:
    """Return, in sentences, what the catalog cannot show as it is of the tables about to be made."""
    return backend.schema_notes(schemas) if isinstance(backend, NotesSchemas) else ()


# ---- opening data ----------------------------------------------------------------------------------------------------


class OpensByEntry(ABC):
    """A catalog whose entries have a say in how their data is opened."""

    @abstractmethod
    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the options for opening one table's dataset, without a call, and so without what is handed out."""


def own_storage_options(backend: Backend, table: LiveTable) -> dict[str, str]:
    """Return the options for opening one table's dataset, without what a service hands out for it."""
    return backend.own_storage_options(table) if isinstance(backend, OpensByEntry) else backend.storage_options()


class HandsOutCredentials(ABC):
    """A service that hands out credentials for the data of its tables."""

    @abstractmethod
    def handed_out_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening one table's dataset, with what the service hands out for it.

        That runs out after a while; it is never shown, saved or logged.
        """


def table_storage_options(backend: Backend, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
    """Return the options for opening one table's dataset, right before it is opened.

    ``writes`` says that something will be written to the dataset.

    Raises:
        PermissionDeniedError: the table's location names a host that is not one of ``backend.hosts``.
    """
    if not all(is_admitted(host, backend.hosts) for host in hosts_in("location", table.location)):
        raise PermissionDeniedError(
            f"{backend.impl}: the location of table `{join(table.id)}` names a host that is not allowed; --allow-host "
            "names those that are"
        )
    if isinstance(backend, HandsOutCredentials):
        return backend.handed_out_options(table, writes=writes)
    return own_storage_options(backend, table)


# ---- for a look at the service ---------------------------------------------------------------------------------------


class TriesWrites(ABC):
    """A catalog that has calls of its own by which to see whether the credentials may write."""

    @abstractmethod
    def vain_writes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return calls that write and of which nothing can come, by what they would do, in words.

        ``table`` is a name that nothing has, in a namespace that there is. Each call goes to the service as the write
        itself does, without a look at what is there, so that the answer tells whether the credentials may make it: that
        the object is missing, or that they may not.
        """


def vain_writes(backend: Backend, table: Identifier) -> Mapping[str, Callable[[], object]]:
    """Return calls that write and of which nothing can come; a service may answer some before it looks at who asks."""
    if isinstance(backend, TriesWrites):
        return backend.vain_writes(table)
    calls: dict[str, Callable[[], object]] = {}
    if backend.capabilities.alter_table:
        changes = PropertyChanges({"lancens.doctor": table[-1]})
        calls["changing a table"] = lambda: backend.alter_table(table, changes)
    calls["deregistering a table"] = lambda: backend.remove_table(table)
    calls["dropping a namespace"] = lambda: backend.remove_namespace((*table[:-2], table[-1]))
    return calls


class TellsTime(ABC):
    """A service that says what time it is."""

    @abstractmethod
    def server_time(self) -> datetime | None:
        """Return what time the service says it is; None where it does not."""


def server_time(backend: Backend) -> datetime | None:
    """Return what time the service says it is; None where it does not."""
    return backend.server_time() if isinstance(backend, TellsTime) else None


class CountsTraffic(ABC):
    """A catalog that counts what goes over its connections; ``lancens plan --profile`` tells it of each stage."""

    @abstractmethod
    def traffic(self) -> Traffic:
        """Return what went over the connections so far."""


def traffic(backend: Backend) -> Traffic | None:
    """Return what went over the connections so far; None where nobody counts."""
    return backend.traffic() if isinstance(backend, CountsTraffic) else None
