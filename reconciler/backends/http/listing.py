"""Complete lists of a service's names, level by level, no name twice."""

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
    """The service holds a name twice; a call may reach either."""


def every_name(_: str) -> bool:
    """Return True: a double of any name concerns the caller."""
    return True


def list_without_doubles(
    read: Callable[[], Iterable[RowT]],
    name: Callable[[RowT], str],
    concerns: Callable[[RowT], bool],
    problem: Callable[[str], str],
) -> list[RowT]:
    """Return the rows that ``read`` lists, without doubles that concern the caller.

    A list with a double is read again: what is dropped and created between two pages is on both.

    Raises:
        DoubledNameError: with the ``problem`` of a name that is there twice.
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
    """Return the names that ``read`` lists, as :func:`list_without_doubles` does."""
    return list_without_doubles(
        read,
        str,
        concerns,
        lambda name: (
            f"{impl}: the service lists the {kind} `{join((*parent, name))}` twice: have one of the two removed there, "
            "or leave the name out with `scope`"
        ),
    )


def require_kept(impl: str, requested: Sequence[str], stored: Sequence[str]) -> None:
    """Raise unless a service keeps an object under the name it was asked by.

    Some fold names to lower case, and answer to either form. Every apply would find the other name missing, create it
    again and remove the one that is there.

    Raises:
        InvalidInputError: it keeps another name; the text says what to write.
    """
    if tuple(requested) != tuple(stored):
        raise InvalidInputError(
            f"{impl}: the service keeps `{join(requested)}` as `{join(stored)}`: "
            f"write `{stored[-1]}` in place of `{requested[-1]}`"
        )


class Lister(Protocol[EntryT_co]):
    """The calls on a service that lists by namespace and reads entry by entry."""

    def namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return a namespace, or raise NamespaceNotFoundError."""

    def namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names of the namespaces directly in ``parent``."""

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names of the tables directly in ``parent``."""

    def table(self, identifier: Identifier) -> EntryT_co:
        """Return a table, or raise TableNotFoundError or NamespaceNotFoundError."""


@dataclass(slots=True)
class Walked:
    """The namespaces, the identifiers of the tables and the notes of a walk."""

    namespaces: dict[Identifier, LiveNamespace] = field(default_factory=dict)
    tables: list[Identifier] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def walk(
    server: Lister[object],
    starts: Collection[Identifier],
    scope: Scope,
    parallelism: int,
    name_problem: Callable[[str], str | None] = check_name,
) -> Walked:
    """Return what is within ``scope``, from ``starts`` down level by level.

    Of each level, ``parallelism`` namespaces are read at a time. A name with a ``name_problem`` is a note.

    Raises:
        BackendError: naming what could not be read.
    """
    walked = Walked()

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


def load_listed(server: Lister[EntryT_co], identifier: Identifier) -> EntryT_co | None:
    """Return a table, None when it vanished since it was listed.

    One that is still listed and missing is an error.
    """
    try:
        return server.table(identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        if not _is_listed(server.tables, identifier):
            return None
    return server.table(identifier)


_Contents = tuple[LiveNamespace | None, Sequence[str], Sequence[str]]


def _contents(server: Lister[object], parent: Identifier, scope: Scope, is_start: bool) -> _Contents | None:
    """Return a namespace and the names in it; None when it vanished.

    Servers that let a namespace be created without its parent, as Apache's in-memory and JDBC catalogs do, list the
    parent and yet do not know it. It is None here, and holds no tables.
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


def _read(server: Lister[object], parent: Identifier, scope: Scope) -> _Contents:
    try:
        return _read_enabled(server, parent, scope)
    except DisabledNamespaceError:
        return LiveNamespace(parent, disabled=True), (), ()


def _read_enabled(server: Lister[object], parent: Identifier, scope: Scope) -> _Contents:
    namespace = server.namespace(parent) if parent else None
    if not scope.reaches(parent):
        return namespace, (), ()

    def inside(name: str) -> bool:
        return scope.contains((*parent, name))

    def wanted(name: str) -> bool:
        return inside(name) or scope.reaches((*parent, name))

    return namespace, server.namespaces(parent, wanted), server.tables(parent, inside)


def _is_listed(names_in: Callable[[Identifier, Callable[[str], bool]], list[str]], identifier: Identifier) -> bool:
    *parent, name = identifier
    try:
        return name in names_in(tuple(parent), name.__eq__)
    except NamespaceNotFoundError:
        return False
