"""Define the contract of a backend: required methods, and optional ones.

``reconciler.namespace`` builds the operations of the Lance Namespace specification on them, once for all backends.
"""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import ClassVar, Self, TypeAlias, TypeVar, final

from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.backend_config import BackendConfig, parse_config
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import (
    BackendError,
    CatalogError,
    ErrorCode,
    InvalidInputError,
    NamespaceNotFoundError,
    NotLanceTableError,
    PermissionDeniedError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, ChildrenOf, Identifier, Only, Scope, join
from reconciler.model.redaction import scrub

_SHAPE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, UnicodeError)
"""Errors that code raises while it reads a malformed response of a service."""

LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

Check: TypeAlias = Callable[[LiveNamespace | LiveTable], None]
"""Takes an object as the commit read it; raises if it changed since the plan."""

_SUFFIX = ".lance"

_SETTINGS = (
    "parallelism",
    "hosts",
    "allows_outside",
    "extra_roots",
    "base_options",
    "outermost_names",
    "declared_locations",
)
"""Attributes that the caller sets on a new connection; pickled copies keep them."""


@dataclass(frozen=True, slots=True)
class _Properties:
    """The configuration as given; its ``repr`` hides the values."""

    values: Mapping[str, str] = field(repr=False)


class Backend(ABC):
    """A connection to one catalog; lancens builds every operation on its methods.

    A subclass MUST set ``impl``, ``known_capabilities`` and ``config_model`` and implement the methods marked
    *required*. The others have defaults: reading by name uses :meth:`scan`, and the rest answer for a catalog without
    the ability. Connections can be pickled: the copy connects again, with the same configuration and its secrets.

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

    known_capabilities: Capabilities
    """What services of this kind can do, before one is asked (:meth:`ask_capabilities`)."""

    in_process: ClassVar[bool] = False
    """Whether the catalog lives in the memory of one process, where no other process can read it."""

    reads_by_name: ClassVar[bool] = False
    """Whether a scan of named tables (``Only``) loads those tables and no others."""

    is_its_root: ClassVar[bool] = False
    """Whether the catalog is the directory ``root``, so that a copy of the directory is a catalog too."""

    parallelism: int = DEFAULT_PARALLELISM
    """The maximal number of concurrent requests of a scan or a list; callers may change it."""

    hosts: Collection[str] | None = None
    """The only hosts that the service may send clients to (``--allow-host``); None for any."""

    allows_outside: bool = False
    """Whether datasets may refer to files outside the catalog's roots (``--allow-outside``)."""

    extra_roots: Sequence[str] = ()
    """Further directories or URIs to which datasets may refer, such as those of ``serve --location``."""

    base_options: Mapping[str, StorageOptions] = {}
    """The options for opening the data that tables here are cloned from, by the manifest's name of its catalog."""

    outermost_names: frozenset[str] = frozenset()
    """The names on the outermost level that the manifest uses, for a service that cannot list that level."""

    declared_locations: Mapping[Identifier, str] = {}
    """The locations of namespaces in the manifest; a namespace may not have its own yet."""

    commits_together: ClassVar[int] = 1
    """How many concurrent changes one commit can take; an apply counts them as one change in flight."""

    checks_at_commit: ClassVar[bool] = False
    """Whether each change reads its object again and passes it to :meth:`_checked`, in its commit if it can."""

    drops_missing: ClassVar[bool] = False
    """Whether the specification lets DropNamespace without a mode succeed for a missing namespace."""

    _check: Check | None = None

    def __init__(self, **properties: str) -> None:
        self._properties = _Properties(properties)
        self.config = parse_config(self.config_model, self.impl, properties)
        self._capabilities_lock = threading.RLock()
        self._capabilities: Capabilities | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self.in_process:
            raise TypeError(
                f"{self.impl}: the catalog is in the memory of this process; another process cannot reach it"
            )
        state = {name: getattr(self, name) for name in _SETTINGS}
        return partial(type(self), **self._properties.values), (), state

    # ---- what a subclass implements ------------------------------------------------------------------------------

    @abstractmethod
    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return every namespace and Lance table within ``scope`` (required).

        It makes as few calls as the service allows. A namespace is included when it, or something that can be below it,
        is in ``scope``, so that the ancestors of every planned object are known.

        Raises:
            BackendError: naming what could not be read; never returns a part.
        """

    @abstractmethod
    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace (required).

        ``kind`` is one of ``capabilities.namespace_kinds``, or None for the backend's default. Systems with one kind of
        namespace ignore it.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: the parent does not exist.
        """

    @abstractmethod
    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace after checking that it is empty (required).

        Objects of every kind count. The check is right before the removal.

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

    @abstractmethod
    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a Lance table and return it, not its data (required).

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table; it stays.
        """

    # ---- what the service can do ---------------------------------------------------------------------------------

    @final
    def capabilities(self) -> Capabilities:
        """Return what the service can do; only the first call may send a request.

        Raises:
            BackendError: the service did not answer; the next call asks again.
        """
        with self._capabilities_lock:
            if self._capabilities is None:
                self._capabilities = self.ask_capabilities()
            return self._capabilities

    def ask_capabilities(self) -> Capabilities:
        """Return what this service can do; send a request if only the service knows.

        Raises:
            BackendError: the service did not answer.
        """
        return self.known_capabilities

    @classmethod
    def usual_capabilities(cls, config: BackendConfig | None) -> Capabilities:
        """Return what most services of this kind can do, for plans that ask none.

        ``config`` is None if it is not known.
        """
        return cls.known_capabilities

    @classmethod
    def overrides(cls, method: Callable[..., object]) -> bool:
        """Return whether this class overrides ``method`` of :class:`Backend`."""
        return getattr(cls, method.__name__) is not getattr(Backend, method.__name__)

    # ---- changes that a catalog may support ------------------------------------------------------------------------

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties.

        See ``capabilities.alter_namespace``.

        Raises:
            NamespaceNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a namespace cannot be changed")

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties; set its location if given.

        See ``capabilities.alter_table`` and ``capabilities.relocate_table``. Everything else of the entry stays.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a table cannot be changed")

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename the entry of a Lance table; its other fields stay.

        The rename is atomic: at every moment the table has exactly one of the two names.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table.
            TableAlreadyExistsError: the name ``to`` is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace of ``to`` does not exist.
            UnsupportedOperationError: the catalog cannot rename it.
        """
        raise UnsupportedOperationError(f"{self.impl}: a table cannot be renamed")

    def copy_table(self, table: LiveTable, to: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Copy the entry of ``table`` to the name ``to``, but with ``properties``.

        The copy has the same location. What cannot be copied is in ``capabilities.lost_on_move``.

        Raises:
            TableNotFoundError: the entry of ``table`` is gone.
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
        """
        return self.insert_table(to, table.location, properties)

    def checking(self, check: Check) -> Self:
        """Return a copy of this backend whose commits call ``check`` first.

        ``check`` gets the object that the commit alters, renames or removes, as just read. If it raises, nothing is
        written. Backends without ``checks_at_commit`` return themselves.
        """
        if not self.checks_at_commit:
            return self
        checking = object.__new__(type(self))  # `copy.copy` calls `__reduce__`, which connects again
        vars(checking).update(vars(self), _check=check)
        return checking

    def _checked(self, live: LiveT) -> LiveT:
        """Pass ``live`` to the check of :meth:`checking`, if any, and return it."""
        if self._check is not None:
            self._check(live)
        return live

    # ---- reading by name -------------------------------------------------------------------------------------------

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace; by default from a scan of this name.

        Raises:
            NamespaceNotFoundError: it or one of its parents does not exist.
        """
        if not identifier:
            return LiveNamespace(())
        namespace = self.scan(Only([identifier])).namespaces.get(identifier)
        if namespace is None:
            raise NamespaceNotFoundError(f"{self.impl}: namespace `{join(identifier)}` does not exist")
        return namespace

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table; by default from a scan of this name.

        Raises:
            TableNotFoundError: it does not exist.
            NotLanceTableError: it is not a Lance table.
            NamespaceNotFoundError: its namespace does not exist, where the service reports it.
        """
        snapshot = self.scan(Only([identifier]))
        if identifier in snapshot.tables:
            return snapshot.tables[identifier]
        self.load_namespace(identifier[:-1])
        if identifier in snapshot.odd or self.foreign_tables(identifier[:-1], [identifier[-1]]):
            raise NotLanceTableError(f"{self.impl}: `{join(identifier)}` is not a Lance table")
        raise TableNotFoundError(f"{self.impl}: table `{join(identifier)}` does not exist")

    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        """Return the names of all namespaces in ``parent``, in any order; by default from a scan.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """
        self.load_namespace(parent)
        return [child[-1] for child in self.scan(ChildrenOf([parent])).namespaces if child[:-1] == parent]

    def child_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of all Lance tables in ``parent``, in any order; by default from a scan.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """
        self.load_namespace(parent)
        return [table[-1] for table in self.scan(ChildrenOf([parent])).tables]

    # ---- reading in parts ------------------------------------------------------------------------------------------

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return the result of ``scan`` without the tables that cannot be loaded.

        Otherwise one broken table of another owner would stop every plan. Each skipped table becomes a note and a
        foreign table. The note does not quote the service, whose text may differ at every call. Saved plans and mirrors
        are decided on what ``scan`` reads.

        Raises:
            BackendError: naming anything else that could not be read.
        """
        return self.scan(scope)

    def candidate_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names in ``parent`` that may be Lance tables, without loading them.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist, where the service reports it.
        """
        return self.child_tables(parent)

    def confirmed_tables(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return which ``names`` of :meth:`candidate_tables` are Lance tables, in order."""
        return names

    def large_namespaces(self, more_than: int) -> Mapping[Identifier, Sequence[str]]:
        """Return the table names of each namespace with more than ``more_than`` tables.

        The pipeline splits these namespaces among tasks.
        """
        return {}

    # ---- objects beside Lance tables and namespaces ----------------------------------------------------------------

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of objects of other kinds in a namespace; they block its drop."""
        return ()

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the tables in ``namespace`` that are not registered as Lance tables.

        These are tables of other formats, views, and tables marked as Lance tables that have the wrong type. The list
        is complete, or limited to ``names``, with the location and the format that the catalog reports. A plan asks for
        the names of the tables that it would create, so that it plans none under a name that is taken.

        Raises:
            NamespaceNotFoundError: ``namespace`` does not exist; with ``names``, only if the service reports it.
        """
        return ()

    def leftovers(self, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
        """Return the entries that interrupted runs left behind, for a plan to remove.

        They have no owner: scans, lists and counts leave them out, and they keep no namespace from being dropped. They
        can be loaded and removed, unless another entry can be created in their place. ``scope`` is what is planned;
        entries outside of it that affect it are included.

        Raises:
            BackendError: naming what could not be read.
        """
        return ()

    # ---- locations -------------------------------------------------------------------------------------------------

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the location for a table whose block has none; None without a default.

        Raises:
            NamespaceNotFoundError: the location depends on a namespace that does not exist.
        """
        return None

    def roots(self) -> Sequence[str]:
        """Return the directories or URIs below which default locations are.

        By default this is the ``root`` of the configuration, if any.
        """
        root: str | None = getattr(self.config, "root", None)
        return () if root is None else (root,)

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the catalog cannot take a table at ``location``; None if it can.

        Plans call it, and applies again before they write data there. It sends no request. ``insert_table`` and
        ``alter_table`` refuse the same locations. The answer holds no secret.
        """
        return None

    def insert_table_placed_by_service(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table at a location that the service chooses.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
            InvalidInputError: the service does not choose.
        """
        raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` needs a location: no `root` is configured")

    @final
    def enter_table(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table at ``location``; with None, let the service choose.

        Raises:
            InvalidInputError: there is no location, and the service does not choose one.
        """
        if location is None:
            return self.insert_table_placed_by_service(identifier, properties)
        return self.insert_table(identifier, location, properties)

    def location_for_request(self, identifier: Identifier) -> str | None:
        """Return the location of a table that a namespace operation creates without one.

        Some specifications default to a place such as the current directory. That does not suit a manifest, which can
        be applied from anywhere.

        Raises:
            InvalidInputError, NamespaceNotFoundError: there is no default.
        """
        return self.default_location(identifier)

    def properties_for_request(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return ``properties`` with those that a namespace must be created with."""
        return properties

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return the table whose default location is ``path``, segments below a root."""
        return (*path[:-1], path[-1].removesuffix(_SUFFIX))

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return a location other than the default one, ``taken``, which holds other data.

        Raises:
            TableAlreadyExistsError: a table of this name cannot be elsewhere.
        """
        return f"{taken.removesuffix(_SUFFIX)}_{uuid.uuid4().hex[:12]}{_SUFFIX}"

    def stay_inside(self) -> None:  # noqa: B027 - most have no links
        """Ignore symbolic links that lead out of the root, from now on."""

    # ---- the columns that entries show -----------------------------------------------------------------------------

    def shown_columns(self, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
        """Return the columns that are stored in the entries of Lance tables.

        Tables without stored columns, and those that no longer exist, are left out of the result.

        Raises:
            BackendError: an entry could not be read.
        """
        return {}

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns to store in the entry of data with ``schema``, or None.

        It sends no request.
        """
        return None

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Replace the columns that the entry of a Lance table stores.

        Its other fields stay, as do the comments of columns that have none in ``columns``.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
            UnsupportedOperationError: the columns cannot be changed.
        """
        raise UnsupportedOperationError(f"{self.impl}: the columns that a table shows cannot be changed")

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns that an entry stores in Lance's own types, or None.

        Raises:
            TableNotFoundError, NotLanceTableError: as for ``load_table``.
        """
        return None

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return sentences on columns of ``schemas`` that new entries store inexactly."""
        return ()

    # ---- opening data ----------------------------------------------------------------------------------------------

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the options for opening a table's dataset, without vended credentials.

        It sends no request.
        """
        return self.storage_options()

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening a table's dataset, with vended credentials.

        ``writes`` asks for credentials that can write. They expire, and are never shown, saved or logged.
        """
        return self.own_storage_options(table)

    @final
    def table_storage_options(self, table: LiveTable, *, writes: bool = False) -> StorageOptions:
        """Return the options for opening a table's dataset; call it right before opening.

        ``writes`` says that the caller will write to the dataset.

        Raises:
            PermissionDeniedError: the table's location names a host that is not one of ``hosts``.
        """
        if not all(is_admitted(host, self.hosts) for host in hosts_in("location", table.location)):
            raise PermissionDeniedError(
                f"{self.impl}: the location of table `{join(table.id)}` names a host that is not allowed; name it "
                "with --allow-host"
            )
        return StorageOptions(self.vended_storage_options(table, writes=writes), self.admission())

    @final
    def storage_options(self) -> StorageOptions:
        """Return the options for opening this catalog's datasets with pylance."""
        return StorageOptions(self.config.storage, self.admission())

    @final
    def admission(self) -> Admission:
        """Return which files datasets may refer to; none while the roots are unreadable."""
        try:
            roots = (*self.roots(), *self.extra_roots)
        except BackendError:
            return Admission()
        bases = (root for options in self.base_options.values() for root in options.admission.roots)
        return Admission((*roots, *bases), not roots, self.allows_outside, self.hosts)

    # ---- about the service -----------------------------------------------------------------------------------------

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """Return a context manager for one request; it yields the response's context.

        The Lance Namespace specification leaves the meaning of a ``context`` to each implementation.
        """
        return nullcontext({})

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return writes that cannot succeed, by description, to test permissions.

        ``table`` is an unused name in a namespace that exists. Each write is sent unchecked, so that the error tells a
        missing object from denied access. Some services report a missing object first.
        """
        calls: dict[str, Callable[[], object]] = {}
        if self.capabilities().alter_table:
            changes = PropertyChanges({"lancens.doctor": table[-1]})
            calls["changing a table"] = partial(self.alter_table, table, changes)
        calls["deregistering a table"] = partial(self.remove_table, table)
        calls["dropping a namespace"] = partial(self.remove_namespace, (*table[:-2], table[-1]))
        return calls

    def server_time(self) -> datetime | None:
        """Return the time of the service's clock; None if it does not report one."""
        return None

    def traffic(self) -> Traffic | None:
        """Return the requests and bytes so far (``plan --profile``); None if not counted."""
        return None

    def close(self) -> None:  # noqa: B027 - most have none
        """Close the connections. A closed backend is not used again."""

    # ---- identifiers ---------------------------------------------------------------------------------------------

    @final
    def namespace_id(self) -> str:
        """Return the implementation and the service as text, without secrets."""
        return f"{self.impl}: {self.config.identity()}"

    @final
    def namespace_id_of(self, names: Sequence[str] | None, *, root: bool = True) -> Identifier:
        """Return the checked, folded identifier of a namespace; ``()`` is the root.

        Raises:
            InvalidInputError: a name or the depth is invalid here, or the root is not allowed.
        """
        identifier, deepest = self._checked_id(names), self.capabilities().max_depth
        if not identifier and not root:
            raise InvalidInputError(f"{self.impl}: the root namespace cannot be created, altered or dropped")
        if deepest is not None and len(identifier) > deepest:
            raise InvalidInputError(
                f"{self.impl}: namespace `{join(identifier)}` is {len(identifier)} levels deep; "
                f"namespaces have at most {deepest} here"
            )
        return identifier

    @final
    def table_id(self, names: Sequence[str] | None) -> Identifier:
        """Return the checked, folded identifier of a table.

        Raises:
            InvalidInputError: a name or the depth is invalid here.
        """
        identifier = self._checked_id(names)
        if not identifier:
            raise InvalidInputError(f"{self.impl}: a table needs an identifier")
        problem = self.capabilities().table_depth_problem(len(identifier) - 1)
        if problem is not None:
            raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` is {problem}")
        return identifier

    def _checked_id(self, names: Sequence[str] | None) -> Identifier:
        identifier = tuple(self.capabilities().folded(name) for name in names or ())
        for name in identifier:
            reason = self.capabilities().name_problem(name)
            if reason is not None:
                raise InvalidInputError(f"{self.impl}: `{name}` in `{join(identifier)}`: {reason}")
        return identifier


def snapshot_within(
    scope: Scope, namespaces: Iterable[LiveNamespace], tables: Iterable[LiveTable], notes: Iterable[str] = ()
) -> Snapshot:
    """Return the tables in ``scope``, and the namespaces in it or above it.

    For backends that read the whole catalog at once.
    """
    if scope.is_everything:
        return Snapshot({space.id: space for space in namespaces}, {table.id: table for table in tables}, tuple(notes))
    return Snapshot(
        {space.id: space for space in namespaces if scope.contains(space.id) or scope.reaches(space.id)},
        {table.id: table for table in tables if scope.contains(table.id)},
        tuple(notes),
    )


@contextmanager
def catalog_errors(name: str, impl: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Turn errors of a backend into errors that name the catalog and hold no secret.

    Raises:
        CatalogError: a ``BackendError`` was raised inside, or a response was malformed.
    """
    try:
        yield
    except BackendError as error:
        message = scrub(str(error), secrets).removeprefix(f"{impl}: ")
        raise CatalogError(f"{name} ({impl}): {message}", error.code) from error
    except _SHAPE_ERRORS as error:
        raise CatalogError(
            f"{name} ({impl}): cannot understand an answer of the service ({type(error).__name__}); "
            "run with --debug to see which, and report it if the service is what `impl` says",
            ErrorCode.INTERNAL,
        ) from error
