"""Read one unit of a catalog over a connection of its own, in any process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends.base import Backend
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import CatalogError, ErrorCode, LancensError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable, Snapshot
from reconciler.model.names import ChildrenOf, Identifier, Only, address
from reconciler.model.redaction import scrub
from reconciler.pipeline.rows import coverage_row, foreign_row, rows_of
from reconciler.pipeline.units import Unit

if TYPE_CHECKING:
    from reconciler.operations.connections import CatalogSpec
    from reconciler.pipeline.schemas import Row


ResultT = TypeVar("ResultT")

_PERMANENT_CODES = frozenset(
    {ErrorCode.UNSUPPORTED, ErrorCode.INVALID_INPUT, ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED}
)
"""The codes of errors that another attempt would get again."""


class _UnitScope(ChildrenOf):
    """The scope of a unit's scan.

    It holds the objects in its namespaces that are in the catalog's scope, or above it.
    """

    def __init__(self, unit: Unit) -> None:
        # Only the unit of a single namespace has tables that other units read. A namespace may have the name of one.
        tables_of_others = frozenset((*unit.namespaces[0], table) for table in unit.without) - unit.known
        super().__init__(unit.namespaces, tables_of_others)
        self._scope = unit.spec.scope

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the namespaces and of the scope, as the root among the former has no name."""
        return super().outermost | self._scope.outermost

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether the unit may read ``identifier``, by its name alone."""
        if not super().contains(identifier):
            return False
        return self._scope.contains(identifier) or self._scope.reaches(identifier)


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of some namespaces of a unit, or the error of reading them.

    ``foreign`` has the tables of other formats in each, where they were asked for. Of the ``disabled`` namespaces the
    service shows nothing.
    """

    namespaces: tuple[Identifier, ...]
    content: Snapshot | CatalogError
    foreign: Mapping[Identifier, Sequence[ForeignTable] | CatalogError] = field(default_factory=dict)
    disabled: Collection[Identifier] = ()


def read_unit(unit: Unit, *, last_attempt: bool = True, foreign: bool = False) -> Iterator[Row]:
    """Read ``unit``, and yield its rows and a row of coverage for each namespace.

    Args:
        unit: what to read.
        last_attempt: whether nobody will read the unit again, so that an error becomes a row.
        foreign: whether to read tables of other formats, too.

    Raises:
        CatalogError: something could not be read; another attempt may succeed, and this is not the last one.
    """
    catalog, selected = unit.spec.name, unit.selected
    for reading in readings_of(unit, last_attempt=last_attempt, foreign=foreign):
        if isinstance(reading.content, CatalogError):
            yield from (coverage_row(catalog, namespace, error=reading.content) for namespace in reading.namespaces)
            continue
        yield from (row for row in rows_of(catalog, reading.content) if selected.contains(row.get("namespace", ())))
        namespaces = Counter(identifier[:-1] for identifier in reading.content.namespaces)
        tables = Counter(identifier[:-1] for identifier in reading.content.tables)
        for namespace in filter(selected.contains, reading.namespaces):
            foreign_tables = reading.foreign.get(namespace, ())
            error = None
            if isinstance(foreign_tables, CatalogError):
                error, foreign_tables = foreign_tables, ()
            if namespace in reading.disabled:
                message = f"{catalog} ({unit.spec.impl}): the service has disabled it, and shows nothing in it"
                error = CatalogError(message, ErrorCode.UNSUPPORTED)
            yield from (foreign_row(catalog, table) for table in foreign_tables)
            number = tables[namespace] + len(foreign_tables)
            yield coverage_row(catalog, namespace, namespaces=namespaces[namespace], tables=number, error=error)


def readings_of(unit: Unit, *, last_attempt: bool = True, foreign: bool = False) -> Iterator[Reading]:
    """Read ``unit``, and yield its content as objects; :func:`read_unit` yields it as rows.

    Namespaces in it that no unit has, as they were created after the listing, are read as well. The arguments and the
    errors raised are those of :func:`read_unit`.
    """
    with ExitStack() as stack:
        backend = result_or_error(unit.spec, lambda: stack.enter_context(unit.spec.connect()))
        if isinstance(backend, CatalogError):
            yield Reading(unit.namespaces, _final_error(backend, last_attempt))
        else:
            yield from _readings(backend, unit, last_attempt, foreign)


def _readings(backend: Backend, unit: Unit, last_attempt: bool, foreign: bool) -> Iterator[Reading]:
    """Read all namespaces at once; if that fails, read each alone.

    Then read the namespaces directly in them that no unit has.
    """
    scanned = result_or_error(unit.spec, lambda: _scan(backend, unit))
    if isinstance(scanned, CatalogError):
        if len(unit.namespaces) == 1:
            yield Reading(unit.namespaces, _final_error(scanned, last_attempt))
            return
        for namespace in unit.namespaces:
            yield from _readings(backend, replace(unit, namespaces=(namespace,)), last_attempt, foreign)
        return
    snapshot, disabled = scanned
    foreign_tables: Mapping[Identifier, Sequence[ForeignTable] | CatalogError] = {}
    if foreign and unit.only is None and backend.overrides(Backend.foreign_tables):
        foreign_tables = dict(zip(unit.namespaces, _foreign_tables(backend, unit, last_attempt), strict=True))
    yield Reading(unit.namespaces, snapshot, foreign_tables, disabled)
    unlisted = [
        namespace
        for namespace in snapshot.namespaces
        if namespace not in unit.known and _may_hold_selected(unit, namespace)
    ]
    if unlisted:
        late_unit = Unit(unit.spec, tuple(sorted(unlisted)), selected=unit.selected)
        yield from _readings(backend, late_unit, last_attempt, foreign)


def _may_hold_selected(unit: Unit, namespace: Identifier) -> bool:
    """Return whether ``namespace`` or one below it is selected and in scope."""
    selected = unit.selected
    return unit.spec.scope.reaches(namespace) and (selected.contains(namespace) or selected.reaches(namespace))


def _scan(backend: Backend, unit: Unit) -> tuple[Snapshot, Collection[Identifier]]:
    """Return the content of ``unit``, and its disabled namespaces.

    A namespace that was dropped is empty. A unit of named tables has no namespaces: another unit reads those.
    """
    scope, name = unit.spec.scope, unit.spec.name
    selection = _UnitScope(unit) if unit.only is None else Only((*unit.namespaces[0], table) for table in unit.only)
    snapshot = unit.spec.scan(backend, selection)
    namespaces = {
        identifier: live
        for identifier, live in snapshot.namespaces.items()
        if unit.only is None
        and identifier[:-1] in unit.namespaces
        and (scope.contains(identifier) or scope.reaches(identifier))
    }
    tables = {
        identifier: live
        for identifier, live in snapshot.tables.items()
        if unit.has(identifier) and scope.contains(identifier)
    }
    for namespace in namespaces.values():
        _require_unicode(name, namespace.id, namespace.properties)
    for table in tables.values():
        _require_unicode(name, table.id, table.properties, table.location)
    disabled = {
        identifier for identifier in unit.namespaces if (live := snapshot.namespaces.get(identifier)) and live.disabled
    }
    odd_entries = {identifier: entry for identifier, entry in snapshot.odd.items() if unit.has(identifier)}
    return Snapshot(namespaces, tables, tuple(map(as_unicode, snapshot.notes)), odd_entries), disabled


def _foreign_tables(backend: Backend, unit: Unit, last_attempt: bool) -> list[Sequence[ForeignTable] | CatalogError]:
    """Return the tables of other formats in each namespace of ``unit``, or the error."""

    def read(namespace: Identifier) -> Sequence[ForeignTable]:
        try:
            tables = backend.foreign_tables(namespace)
        except NamespaceNotFoundError:
            return ()
        for table in tables:
            _require_unicode(unit.spec.name, table.id, {}, table.location or "", table.format)
        return [table for table in tables if unit.spec.scope.contains(table.id)]

    results = in_parallel(
        lambda namespace: result_or_error(unit.spec, partial(read, namespace)), unit.namespaces, backend.parallelism
    )
    return [_final_error(result, last_attempt) if isinstance(result, CatalogError) else result for result in results]


def _require_unicode(catalog: str, identifier: Identifier, properties: Mapping[str, str], *texts: str) -> None:
    """Raise a LancensError if a text of an object has a lone surrogate.

    JSON can hold one, Arrow cannot.
    """
    try:
        "".join((*identifier, *properties.keys(), *properties.values(), *texts)).encode()
    except UnicodeEncodeError:
        raise LancensError(f"{as_unicode(address(catalog, identifier))} holds text that is not Unicode") from None


def as_unicode(text: str) -> str:
    """Return ``text`` with lone surrogates escaped."""
    return text.encode(errors="backslashreplace").decode()


def _final_error(error: CatalogError, last_attempt: bool) -> CatalogError:
    """Return ``error`` if no other attempt is left or would succeed, else raise it."""
    if not last_attempt and error.code not in _PERMANENT_CODES:
        raise error
    return error


def result_or_error(spec: CatalogSpec, read: Callable[[], ResultT]) -> ResultT | CatalogError:
    """Return the result of ``read``, or its error without secrets or cause."""
    try:
        with spec.errors():
            return read()
    except CatalogError as error:
        return CatalogError(as_unicode(str(error)), error.code)
    except LancensError as error:
        return CatalogError(as_unicode(str(error)), ErrorCode.INVALID_INPUT)
    except Exception as error:  # noqa: BLE001 - an error of a third party's backend must cost one namespace only
        text = as_unicode(scrub(str(error), spec.secrets))
        return CatalogError(f"{spec.name} ({spec.impl}): {type(error).__name__}: {text}", ErrorCode.INTERNAL)
