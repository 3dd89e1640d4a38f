"""List the names of a service, level by level, and detect doubled names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from reconciler.backends.http.refusals import DisabledNamespaceError
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import InternalError, InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from reconciler.model.live import LiveNamespace
from reconciler.model.names import Identifier, Scope, check_name, join

RowT = TypeVar("RowT")
EntryT_co = TypeVar("EntryT_co", covariant=True)


class DoubledNameError(InternalError):
    """The service has two objects of one name; a call may reach either."""


def any_name(_: str) -> bool:
    """Return True: the caller is concerned by all names."""
    return True


def list_without_doubles(
    read: Callable[[], Iterable[RowT]],
    name: Callable[[RowT], str],
    concerns: Callable[[RowT], bool],
    problem: Callable[[str], str],
) -> list[RowT]:
    """Return the rows that ``read`` lists; raise if one of their names is doubled.

    Only rows that ``concerns`` accepts are checked. A list with a double is read again: an object that is dropped and
    created between two pages is on both.

    Raises:
        DoubledNameError: a name is listed twice; ``problem`` returns the message for it.
    """
    doubled: set[str] = set()
    for _ in range(2):
        rows = list(read())
        counts = Counter(map(name, rows))
        doubled = {name(row) for row in rows if counts[name(row)] > 1 and concerns(row)}
        if not doubled:
            return rows
    raise DoubledNameError(problem(min(doubled)))


def names_without_doubles(
    impl: str, kind: str, parent: Identifier, read: Callable[[], Iterable[str]], concerns: Callable[[str], bool]
) -> list[str]:
    """Return the names that ``read`` lists, by :func:`list_without_doubles`."""
    return list_without_doubles(
        read,
        str,
        concerns,
        lambda name: (
            f"{impl}: the service lists the {kind} `{join((*parent, name))}` twice: have one of the two removed there, "
            "or leave the name out with `scope`"
        ),
    )


def require_same_name(impl: str, requested: Sequence[str], stored: Sequence[str]) -> None:
    """Raise if the service stores an object under another name than requested.

    Some services fold names to lower case, and accept both forms in requests. Every apply would then create the
    requested name again, and remove the stored one.

    Raises:
        InvalidInputError: it stores another name; the text says which to write.
    """
    if tuple(requested) != tuple(stored):
        raise InvalidInputError(
            f"{impl}: the service keeps `{join(requested)}` as `{join(stored)}`: "
            f"write `{stored[-1]}` in place of `{requested[-1]}`"
        )


class ListingService(Protocol[EntryT_co]):
    """The calls that :func:`walk` needs: lists by namespace, reads by name."""

    def namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return a namespace, or raise NamespaceNotFoundError."""

    def namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """Return the names of the namespaces directly in ``parent``."""

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """Return the names of the tables directly in ``parent``."""

    def table(self, identifier: Identifier) -> EntryT_co:
        """Return a table, or raise TableNotFoundError or NamespaceNotFoundError."""


@dataclass(slots=True)
class WalkResult:
    """What :func:`walk` found: namespaces, identifiers of tables, notes."""

    namespaces: dict[Identifier, LiveNamespace] = field(default_factory=dict)
    tables: list[Identifier] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def walk(
    server: ListingService[object],
    starts: Collection[Identifier],
    scope: Scope,
    parallelism: int,
    name_problem: Callable[[str], str | None] = check_name,
) -> WalkResult:
    """List everything within ``scope``, from ``starts`` down level by level.

    Of each level, ``parallelism`` namespaces are read at a time. A name with a ``name_problem`` is a note.

    Raises:
        BackendError: naming what could not be read.
    """
    walked = WalkResult()

    def usable(kind: str, parent: Identifier, names: Iterable[str]) -> Iterator[Identifier]:
        for name in names:
            problem = name_problem(name)
            if problem is None:
                yield (*parent, name)
            else:
                parent_name = f"`{join(parent)}`" if parent else "the root"
                walked.notes.append(f"the {kind} `{name}` in {parent_name} cannot be shown: {problem}")

    level = list(starts)
    while level:
        below: list[Identifier] = []
        read = in_parallel(lambda parent: _contents(server, parent, scope, parent in starts), level, parallelism)
        for parent, contents in zip(level, read, strict=True):
            if contents is None:
                continue
            namespace, namespaces, tables = contents
            if namespace is not None:
                walked.namespaces[parent] = namespace
                if namespace.disabled:
                    walked.notes.append(
                        f"namespace `{join(parent)}` is disabled in the service; what it holds is left out"
                    )
            elif parent:
                walked.notes.append(
                    f"namespace `{join(parent)}` is listed, but the service says that it does not exist"
                )
            below += [
                child
                for child in usable("namespace", parent, namespaces)
                if scope.contains(child) or scope.reaches(child)
            ]
            walked.tables += [table for table in usable("table", parent, tables) if scope.contains(table)]
        level = below
    return walked


def load_listed(server: ListingService[EntryT_co], identifier: Identifier) -> EntryT_co | None:
    """Return a table that was just listed; None if it was removed since.

    A table that is still listed but missing is an error.
    """
    try:
        return server.table(identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        if not _is_listed(server.tables, identifier):
            return None
    return server.table(identifier)


_Contents = tuple[LiveNamespace | None, Sequence[str], Sequence[str]]


def _contents(server: ListingService[object], parent: Identifier, scope: Scope, is_start: bool) -> _Contents | None:
    """Return a listed namespace, and the names of its namespaces and tables.

    None if the namespace was removed. Apache's in-memory and JDBC catalogs create a namespace without its parent, and
    then list a parent that they cannot load: the first element is None then.
    """
    if is_start:
        return _read(server, parent, scope)
    for _ in range(2):
        try:
            return _read(server, parent, scope)
        except NamespaceNotFoundError:
            if not _is_listed(server.namespaces, parent):
                return None
    return None, server.namespaces(parent), ()


def _read(server: ListingService[object], parent: Identifier, scope: Scope) -> _Contents:
    try:
        return _read_enabled(server, parent, scope)
    except DisabledNamespaceError:
        return LiveNamespace(parent, disabled=True), (), ()


def _read_enabled(server: ListingService[object], parent: Identifier, scope: Scope) -> _Contents:
    namespace = server.namespace(parent) if parent else None
    if not scope.reaches(parent):
        return namespace, (), ()

    def is_in_scope(name: str) -> bool:
        return scope.contains((*parent, name))

    def is_reached(name: str) -> bool:
        return is_in_scope(name) or scope.reaches((*parent, name))

    return namespace, server.namespaces(parent, is_reached), server.tables(parent, is_in_scope)


def _is_listed(names_in: Callable[[Identifier, Callable[[str], bool]], list[str]], identifier: Identifier) -> bool:
    *parent, name = identifier
    try:
        return name in names_in(tuple(parent), name.__eq__)
    except NamespaceNotFoundError:
        return False
