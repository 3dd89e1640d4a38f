"""The contract a backend keeps: the few methods a catalog is made of, and no more.

``reconciler.namespace`` builds the operations of the Lance Namespace specification on them, once for all backends.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Self, TypeAlias

from reconciler.backends.identifiers import namespace_identifier, table_identifier
from reconciler.model.backend_config import BackendConfig, parse_config
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import InvalidInputError, PermissionDeniedError, UnsupportedOperationError
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

__all__ = ["Backend", "Check"]

Check: TypeAlias = Callable[[LiveNamespace | LiveTable], None]
"""Raises when an object is not what somebody goes by who is about to change it."""

_SUFFIX = ".lance"


@dataclass(frozen=True, slots=True)
class _Properties:
    """The configuration as it was given, with its secrets: not to be shown by accident."""

    values: Mapping[str, str] = field(repr=False)


class Backend(ABC):
    """What lancens asks of a catalog.

    A subclass MUST set ``impl``, ``capabilities`` and ``config_model`` and implement the methods marked *required*. It
    MAY override those marked *optional* where its system can do more. Connections can be pickled: the copy connects
    anew with the same configuration, secrets included.

    Rules for the methods of a subclass:

    * identifiers they receive have been checked and folded (:meth:`table_id`, :meth:`namespace_id_of`);
    * they are safe to call from several threads at once;
    * they raise :class:`~reconciler.model.errors.BackendError` types only, of the kind the catalog's specification
      names, and no text they raise holds a secret;
    * every list goes to its last page, or raises;
    * no call deletes data, nor makes a server delete it.
    """

    impl: ClassVar[str]
    config_model: ClassVar[type[BackendConfig]] = BackendConfig
    capabilities: Capabilities

    in_process: ClassVar[bool] = False
    """Whether the catalog lives in the memory of one process, where no other process can read it."""

    reads_by_name: ClassVar[bool] = False
    """Whether a scan of named tables (``Only``) costs as much as they do, whatever else is beside them."""

    is_its_root: ClassVar[bool] = False
    """Whether the catalog is the directory ``root`` with what is in it, so that a copy of that is a catalog too."""

    parallelism: int = DEFAULT_PARALLELISM
    """How many requests a scan or a list has in flight; whoever connects may set another number."""

    hosts: Collection[str] | None = None
    """The only hosts that the service may name, as ``--allow-host`` does; None for any."""

    commits_together: ClassVar[int] = 1
    """How many changes at once count as one against the parallelism of an apply, as the catalog takes all that come
    while it commits into its next commit."""

    drops_missing: ClassVar[bool] = False
    """Whether DropNamespace without a mode takes a namespace that does not exist for dropped, by its specification."""

    def __init__(self, **properties: str) -> None:
        self._properties = _Properties(properties)
        self.config = parse_config(self.config_model, self.impl, properties)

    def __reduce__(self) -> tuple[object, ...]:
        if self.in_process:
            raise TypeError(f"{self.impl}: the catalog is in the memory of this process, no other one can reach it")
        return _connected, (type(self), self._properties.values, self.parallelism, self.hosts)

    # ---- what a subclass implements ------------------------------------------------------------------------------

    @abstractmethod
    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return every namespace and Lance table within ``scope`` (required).

        Takes as few calls as the service admits. A namespace is included when it is in ``scope`` or something in
        ``scope`` can stand below it, so that the ancestors of whatever is planned are known.

        Raises:
            BackendError: naming what could not be read; never returns a part.
        """

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what :meth:`scan` does, without the tables that the service lists and does not let be read (optional).

        For a catalog that has to load each table to tell whose it is, where another's broken table would stop every
        plan. Each of them is a note without the service's own words, which may differ at every call, and
        :meth:`foreign_objects` and :meth:`foreign_tables` have it. What decides about a table that was planned before,
        and what another catalog follows, is read by :meth:`scan`.

        Raises:
            BackendError: naming what could not be read beside them.
        """
        return self.scan(scope)

    @abstractmethod
    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace (required).

        Raises:
            NamespaceNotFoundError: it or one of its parents does not exist.
        """

    @abstractmethod
    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table (required).

        Raises:
            TableNotFoundError: it does not exist.
            NotLanceTableError: it is not a Lance table.
            NamespaceNotFoundError: its namespace does not exist, where the service tells.
        """

    @abstractmethod
    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        """Return the names directly below ``parent``, complete, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """

    @abstractmethod
    def child_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of the Lance tables in ``parent``, complete, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """

    def possible_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of the Lance tables in ``parent``, and of others where telling takes a call each (optional).

        :meth:`tables_among` tells.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist, where the service tells.
        """
        return self.child_tables(parent)

    def tables_among(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return those of ``names``, some of :meth:`possible_tables`, that are Lance tables, in order (optional)."""
        return names

    @abstractmethod
    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace (required).

        ``kind`` is one of ``capabilities.namespace_kinds``, or None for the backend's own choice; systems with one
        kind of namespace have no use for it.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: the parent does not exist.
        """

    @abstractmethod
    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace that holds no object of any kind, asked right before (required).

        Raises:
            NamespaceNotEmptyError: it holds something, foreign objects included.
            NamespaceNotFoundError: it does not exist.
        """

    @abstractmethod
    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the catalog entry of a table; storage is not touched (required).

        Returns the entry with the location in force.

        Raises:
            TableAlreadyExistsError: the name is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace does not exist.
        """

    def insert_table_anywhere(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table where the service chooses to, for one that has no default location (optional).

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: see :meth:`insert_table`.
            InvalidInputError: the service does not choose.
        """
        raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` needs a location: no `root` is configured")

    @abstractmethod
    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the catalog entry of a Lance table and return it; storage is not touched (required).

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table; it stays.
        """

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties (optional: ``capabilities.alter_namespace``).

        Raises:
            NamespaceNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a namespace cannot be changed")

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties and, where given, move its entry to ``location`` (optional).

        See ``capabilities.alter_table`` and ``capabilities.relocate_table``. Everything else of the entry stays.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a table cannot be changed")

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a Lance table another name; its location and its properties stay, no file is touched.

        Optional: ``capabilities.rename_within`` says between which identifiers it is called. At every moment the table
        has one of the two names.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table.
            TableAlreadyExistsError: the name ``to`` is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace of ``to`` does not exist.
        """
        raise UnsupportedOperationError(f"{self.impl}: a table cannot be renamed")

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the calls for a request of a Lance client with this ``context`` (optional).

        What a context means is for each implementation to say. Without an answer of the backend's own, nothing.
        """
        return nullcontext()

    def checking(self, check: Check) -> Self:
        """Return this catalog for changes of one object that was read before (optional).

        Where a change is committed only on top of what was read for it, ``check`` gets the object that is altered,
        renamed or removed as that commit finds it; what it raises is raised, and nothing is written. Elsewhere the
        read right before the write has to do.
        """
        return self

    def asked_capabilities(self) -> Capabilities:
        """Return ``capabilities``, after asking the service for them where only it knows them (optional).

        Raises:
            BackendError: it could not be asked.
        """
        return self.capabilities

    def set_outermost_names(self, names: Iterable[str]) -> None:  # noqa: B027 - most have no use for it
        """Say which names the manifest uses on the outermost level, to a service that cannot list it (optional)."""

    def default_location(self, identifier: Identifier) -> str | None:
        """Return where a table goes that names no location; None when it has to name one (optional).

        Raises:
            NamespaceNotFoundError: the place hangs on a namespace that does not exist.
        """
        return None

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return which table goes to ``path`` below a root, the inverse of :meth:`default_location` (optional)."""
        return (*path[:-1], path[-1].removesuffix(_SUFFIX))

    def direct_location(self, identifier: Identifier) -> str | None:
        """Return where a table goes that is made through an operation and names no location (optional).

        The specifications of some catalogs name a place here, such as the current directory, that does not suit
        a manifest, which is applied from anywhere. Without an answer of the backend's own, the default location.

        Raises:
            InvalidInputError, NamespaceNotFoundError: there is no such place.
        """
        return self.default_location(identifier)

    def direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a namespace made through an operation, with what its catalog asks for (optional).

        It is to those of a manifest what :meth:`direct_location` is to locations.
        """
        return properties

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return a place for a new table whose default location ``taken`` holds something (optional).

        Raises:
            TableAlreadyExistsError: the catalog has no other place for a table of this name.
        """
        return f"{taken.removesuffix(_SUFFIX)}_{uuid.uuid4().hex[:12]}{_SUFFIX}"

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the catalog cannot take the table at ``location``, in words; None when it can (optional).

        Asked when planning and again before anything is written, so that no data is written at a place the entry is
        then refused for. It answers from what is configured, without a call, and :meth:`insert_table` and
        :meth:`alter_table` refuse the same locations. No secret is in the answer.
        """
        return None

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of what a namespace holds beside Lance tables and namespaces (optional).

        Tables of other formats, views, functions: whatever keeps the namespace from being dropped.
        """
        return ()

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the tables directly in ``namespace`` that are not entered as Lance tables are (optional).

        Those of other formats and views, and those that are marked as Lance tables and are of the wrong type, shown by
        a scan or not: complete, with the location and the format that the catalog says; where ``names`` are given,
        those of them that have one. A namespace that cannot hold tables has none. A plan asks for the names of the
        tables that it would make, so that none is planned where another table is in its way.

        Raises:
            NamespaceNotFoundError: ``namespace`` does not exist; where ``names`` are given, if the service tells.
        """
        return ()

    def leftovers(self, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
        """Return the entries that lancens made for a moment, and that stayed when it was interrupted (optional).

        A plan takes them away. They are nobody's, so no scan, list or count has them in it, and none keeps its
        namespace from being dropped; :meth:`load_table`, :meth:`remove_namespace` and :meth:`remove_table` know them,
        and :meth:`load_namespace` does unless another one can be made in its place. ``scope`` is what is planned; one
        that can harm what is in it need not be in it itself.

        Raises:
            BackendError: naming what could not be read.
        """
        return ()

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns that the entry of a Lance table shows; None where entries show none (optional).

        Raises:
            TableNotFoundError, NotLanceTableError: see :meth:`load_table`.
        """
        return None

    def shown_columns(self, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
        """Return the columns that the entries of Lance tables show, of those that show any (optional).

        Asked for tables whose storage is opened anyway; a table that has gone is left out.

        Raises:
            BackendError: an entry could not be read.
        """
        return {}

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns that an entry shows of data with ``schema``; None where it cannot show them (optional).

        It answers without a call, for a catalog that implements :meth:`shown_columns`.
        """
        return None

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Let the entry of a Lance table show ``columns``, from one of the two above (optional).

        Everything else of the entry stays, and so does what it says of a column that is given no comment.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
        """
        raise UnsupportedOperationError(f"{self.impl}: the columns that a table shows cannot be changed")

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return, in sentences, what the catalog cannot show as it is of the tables about to be made (optional)."""
        return ()

    def roots(self) -> Sequence[str]:
        """Return the directories and URIs under which this catalog's tables go by themselves (optional).

        Without an answer of the backend's own, the ``root`` of the configuration, where it has one.
        """
        root: str | None = getattr(self.config, "root", None)
        return () if root is None else (root,)

    def root_keys(self) -> frozenset[str]:
        """Return the properties of namespaces that say under which place tables go by themselves (optional).

        Without an answer of the backend's own, those that say where a namespace is.
        """
        return self.capabilities.namespace_places

    def storage_options(self) -> dict[str, str]:
        """Return the options for opening this catalog's datasets with pylance (optional)."""
        return dict(self.config.storage)

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the options for opening one table's dataset, without what a service hands out for it (optional).

        It answers without a call, where the entry has a say.
        """
        return self.storage_options()

    def table_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening one table's dataset, right before it is opened.

        ``writes`` says that something will be written to the dataset.

        Raises:
            PermissionDeniedError: the table's location names a host that is not one of ``hosts``.
        """
        if not all(is_admitted(host, self.hosts) for host in hosts_in("location", table.location)):
            raise PermissionDeniedError(
                f"{self.impl}: the location of table `{join(table.id)}` names a host that is not allowed; --allow-host "
                "names those that are"
            )
        return self.handed_out_options(table, writes=writes)

    def handed_out_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening one table's dataset, where its entry or the service has a say (optional).

        What a service hands out is asked for here and runs out after a while; it is never shown, saved or logged.
        """
        return self.own_storage_options(table)

    def vain_writes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return calls that write and of which nothing can come, by what they would do, in words (optional).

        ``table`` is a name that nothing has, in a namespace that there is. Each call goes to the service as the write
        itself does, without a look at what is there, so that the answer tells whether the credentials may make it: that
        the object is missing, or that they may not. Without calls of the backend's own, those whose service may answer
        before it looks at who asks.
        """
        calls: dict[str, Callable[[], object]] = {}
        if self.capabilities.alter_table:
            changes = PropertyChanges({"lancens.doctor": table[-1]})
            calls["changing a table"] = lambda: self.alter_table(table, changes)
        calls["deregistering a table"] = lambda: self.remove_table(table)
        calls["dropping a namespace"] = lambda: self.remove_namespace((*table[:-2], table[-1]))
        return calls

    def server_time(self) -> datetime | None:
        """Return what time the service says it is; None where it does not (optional)."""
        return None

    def traffic(self) -> Traffic | None:
        """Return what went over the connections so far; None where nobody counts (optional).

        ``lancens plan --profile`` tells it of each stage.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most have none
        """Give back connections (optional). A closed backend is not used again."""

    # ---- identifiers ---------------------------------------------------------------------------------------------

    def namespace_id(self) -> str:
        """Return a text that names this connection: the implementation and the service, without secrets."""
        return f"{self.impl}: {self.config.identity()}"

    def namespace_id_of(self, names: Sequence[str] | None, *, root: bool = True) -> Identifier:
        """Return the checked, folded identifier of a namespace; the empty one is the root.

        Raises:
            InvalidInputError: a name or the depth is not possible here, or the root was given where it cannot be.
        """
        return namespace_identifier(self.impl, self.capabilities, names, root=root)

    def table_id(self, names: Sequence[str] | None) -> Identifier:
        """Return the checked, folded identifier of a table.

        Raises:
            InvalidInputError: a name or the depth is not possible here.
        """
        return table_identifier(self.impl, self.capabilities, names)


def _connected(
    cls: type[Backend], properties: Mapping[str, str], parallelism: int, hosts: Collection[str] | None
) -> Backend:
    """Return what a pickled connection becomes."""
    backend = cls(**properties)
    backend.parallelism, backend.hosts = parallelism, hosts
    return backend
