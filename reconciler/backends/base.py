"""The contract a backend keeps: the few methods a catalog is made of, and no more.

``reconciler.namespace`` builds the operations of the Lance Namespace specification on them, once for all backends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, final

from reconciler.model.backend_config import BackendConfig, parse_config
from reconciler.model.capabilities import Capabilities
from reconciler.model.concurrency import DEFAULT_PARALLELISM
from reconciler.model.errors import BackendError, CatalogError, ErrorCode, InvalidInputError, UnsupportedOperationError
from reconciler.model.limits import folded, name_problem, table_depth_problem
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join
from reconciler.model.redaction import scrub

_SENSELESS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, UnicodeError)
"""What an answer of another shape than its specification's raises where nobody thought of that shape."""


@dataclass(frozen=True, slots=True)
class _Properties:
    """The configuration as it was given, with its secrets: not to be shown by accident."""

    values: Mapping[str, str] = field(repr=False)


class Backend(ABC):
    """What lancens asks of a catalog.

    A subclass MUST set ``impl``, ``capabilities`` and ``config_model`` and implement the methods marked *required*. It
    MAY override those marked *optional*. One whose catalog can do more inherits from ``reconciler.backends.optional``.
    Connections can be pickled: the copy connects anew with the same configuration, secrets included.

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

    outermost_names: frozenset[str] = frozenset()
    """The names on the outermost level that the manifest uses, for a service that cannot list that level."""

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
        state = {name: getattr(self, name) for name in ("parallelism", "hosts", "outermost_names")}
        return partial(type(self), **self._properties.values), (), state

    # ---- what a subclass implements ------------------------------------------------------------------------------

    @abstractmethod
    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return every namespace and Lance table within ``scope`` (required).

        Takes as few calls as the service admits. A namespace is included when it is in ``scope`` or something in
        ``scope`` can stand below it, so that the ancestors of whatever is planned are known.

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

    def default_location(self, identifier: Identifier) -> str | None:
        """Return where a table goes that names no location; None when it has to name one (optional).

        Raises:
            NamespaceNotFoundError: the place hangs on a namespace that does not exist.
        """
        return None

    def roots(self) -> Sequence[str]:
        """Return the directories and URIs under which this catalog's tables go by themselves (optional).

        Without an answer of the backend's own, the ``root`` of the configuration, where it has one.
        """
        root: str | None = getattr(self.config, "root", None)
        return () if root is None else (root,)

    @final
    def storage_options(self) -> dict[str, str]:
        """Return the options for opening this catalog's datasets with pylance."""
        return dict(self.config.storage)

    def close(self) -> None:  # noqa: B027 - most have none
        """Give back connections (optional). A closed backend is not used again."""

    # ---- identifiers ---------------------------------------------------------------------------------------------

    @final
    def namespace_id(self) -> str:
        """Return a text that names this connection: the implementation and the service, without secrets."""
        return f"{self.impl}: {self.config.identity()}"

    @final
    def namespace_id_of(self, names: Sequence[str] | None, *, root: bool = True) -> Identifier:
        """Return the checked, folded identifier of a namespace; the empty one is the root.

        Raises:
            InvalidInputError: a name or the depth is not possible here, or the root was given where it cannot be.
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
            InvalidInputError: a name or the depth is not possible here.
        """
        identifier = self._checked_id(names)
        if not identifier:
            raise InvalidInputError(f"{self.impl}: a table needs an identifier")
        problem = table_depth_problem(self.capabilities, len(identifier) - 1)
        if problem is not None:
            raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` is {problem}")
        return identifier

    def _checked_id(self, names: Sequence[str] | None) -> Identifier:
        identifier = tuple(folded(self.capabilities, name) for name in names or ())
        for name in identifier:
            reason = name_problem(self.capabilities, name)
            if reason is not None:
                raise InvalidInputError(f"{self.impl}: `{name}` in `{join(identifier)}`: {reason}")
        return identifier


def snapshot_within(
    scope: Scope, namespaces: Iterable[LiveNamespace], tables: Iterable[LiveTable], notes: Iterable[str] = ()
) -> Snapshot:
    """Return the tables in ``scope``, and the namespaces in it or above what can be in it."""
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
        CatalogError: for every ``BackendError`` raised inside, and for what an answer without sense leads to.
    """
    try:
        yield
    except BackendError as error:
        message = scrub(str(error), secrets).removeprefix(f"{impl}: ")
        raise CatalogError(f"{name} ({impl}): {message}", error.code) from error
    except _SENSELESS as error:
        raise CatalogError(
            f"{name} ({impl}): an answer of the service cannot be understood ({type(error).__name__}); "
            "run with --debug to see which, and report it if the service is what `impl` says",
            ErrorCode.INTERNAL,
        ) from error
