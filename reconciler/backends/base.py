"""The contract of a backend: the few methods that every catalog must have.

``reconciler.namespace`` builds the operations of the Lance Namespace specification on them, once for all backends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, final

from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.backend_config import BackendConfig, parse_config
from reconciler.model.capabilities import Capabilities
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import BackendError, CatalogError, ErrorCode, InvalidInputError, UnsupportedOperationError
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join
from reconciler.model.redaction import scrub

_SENSELESS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, UnicodeError)
"""What code raises on an answer that does not have the shape of its specification."""

_SETTINGS = ("parallelism", "hosts", "allows_outside", "beside", "outermost_names", "homes")
"""The attributes that are set on a new connection, and that a pickled copy keeps."""


@dataclass(frozen=True, slots=True)
class _Properties:
    """The configuration as given; it holds secrets, so its ``repr`` leaves them out."""

    values: Mapping[str, str] = field(repr=False)


class Backend(ABC):
    """What lancens asks of a catalog.

    A subclass MUST set ``impl``, ``capabilities`` and ``config_model`` and implement the methods marked *required*. It
    MAY override those marked *optional*. One whose catalog can do more inherits from ``reconciler.backends.optional``.
    Connections can be pickled: the copy makes its own connection, with the same configuration and its secrets.

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
    """Whether a scan of named tables (``Only``) loads those tables and no others."""

    is_its_root: ClassVar[bool] = False
    """Whether the catalog is the directory ``root``, so that a copy of the directory is a catalog too."""

    parallelism: int = DEFAULT_PARALLELISM
    """How many requests a scan or a list has in flight; the caller that connects may change it."""

    hosts: Collection[str] | None = None
    """The only hosts that the service may name, as ``--allow-host`` does; None for any."""

    allows_outside: bool = False
    """Whether datasets may refer to places outside the catalog's roots, as ``--allow-outside`` lets them."""

    beside: Sequence[str] = ()
    """Places beside the roots to which datasets may refer, such as those of ``serve --location``."""

    outermost_names: frozenset[str] = frozenset()
    """The names on the outermost level that the manifest uses, for a service that cannot list that level."""

    homes: Mapping[Identifier, str] = {}
    """The locations that the manifest gives namespaces: they count before a namespace has its own."""

    commits_together: ClassVar[int] = 1
    """How many concurrent changes count as one against the parallelism of an apply, where one commit takes them all."""

    drops_missing: ClassVar[bool] = False
    """Whether the specification lets DropNamespace without a mode succeed for a missing namespace."""

    def __init__(self, **properties: str) -> None:
        self._properties = _Properties(properties)
        self.config = parse_config(self.config_model, self.impl, properties)

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
            NamespaceNotFoundError: its namespace does not exist, where the service reports it.
        """

    @abstractmethod
    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        """Return the names of all namespaces in ``parent``, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
        """

    @abstractmethod
    def child_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of all Lance tables in ``parent``, in any order (required).

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist.
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

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties (optional).

        See ``capabilities.alter_namespace``.

        Raises:
            NamespaceNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a namespace cannot be changed")

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties; set its location (optional).

        See ``capabilities.alter_table`` and ``capabilities.relocate_table``. Everything else of the entry stays.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
        """
        raise UnsupportedOperationError(f"{self.impl}: the properties of a table cannot be changed")

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the location of a table that names none, if there is one (optional).

        Raises:
            NamespaceNotFoundError: the location depends on a namespace that does not exist.
        """
        return None

    def roots(self) -> Sequence[str]:
        """Return the roots of tables without a location (optional).

        The default is the ``root`` of the configuration, where it has one.
        """
        root: str | None = getattr(self.config, "root", None)
        return () if root is None else (root,)

    @final
    def storage_options(self) -> StorageOptions:
        """Return the options for opening this catalog's datasets with pylance."""
        return StorageOptions(self.config.storage, self.admission())

    @final
    def admission(self) -> Admission:
        """Return the places that datasets of this catalog may refer to; none while its roots cannot be read."""
        try:
            roots = (*self.roots(), *self.beside)
        except BackendError:
            return Admission()
        return Admission(roots, not roots, self.allows_outside, self.hosts)

    def close(self) -> None:  # noqa: B027 - most have none
        """Close the connections (optional). A closed backend is not used again."""

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
        identifier, deepest = self._checked_id(names), self.capabilities.max_depth
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
        problem = self.capabilities.table_depth_problem(len(identifier) - 1)
        if problem is not None:
            raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` is {problem}")
        return identifier

    def _checked_id(self, names: Sequence[str] | None) -> Identifier:
        identifier = tuple(self.capabilities.folded(name) for name in names or ())
        for name in identifier:
            reason = self.capabilities.name_problem(name)
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
    """Turn an error of a backend into one that names the catalog and holds no secret.

    Raises:
        CatalogError: for every ``BackendError`` raised inside, and for an answer of an unexpected shape.
    """
    try:
        yield
    except BackendError as error:
        message = scrub(str(error), secrets).removeprefix(f"{impl}: ")
        raise CatalogError(f"{name} ({impl}): {message}", error.code) from error
    except _SENSELESS as error:
        raise CatalogError(
            f"{name} ({impl}): cannot understand an answer of the service ({type(error).__name__}); "
            "run with --debug to see which, and report it if the service is what `impl` says",
            ErrorCode.INTERNAL,
        ) from error
