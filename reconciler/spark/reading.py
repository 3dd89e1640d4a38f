"""Reading one unit of a catalog on an executor, over a connection of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from reconciler.model.errors import CatalogError, ErrorCode, LancensError
from reconciler.model.live import Snapshot
from reconciler.model.names import ChildrenOf, Identifier, Only, address
from reconciler.model.redaction import scrub
from reconciler.spark.rows import coverage_row, rows_of
from reconciler.spark.units import Unit

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.operations.connections import CatalogSpec
    from reconciler.spark.schemas import Row


ResultT = TypeVar("ResultT")

LASTING = frozenset(
    {ErrorCode.UNSUPPORTED, ErrorCode.INVALID_INPUT, ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED}
)
"""The codes of what another attempt would meet again."""


class _UnitScope(ChildrenOf):
    """What is directly in the namespaces of a unit and within the manifest's scope, or leads to what is."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit.namespaces)
        self._scope = unit.spec.scope
        # A namespace may have the name of a table beside it, and is not left out with that.
        self._without = frozenset((*unit.namespaces[0], name) for name in unit.without) - unit.known

    @cached_property
    def outermost(self) -> frozenset[str]:
        """The outermost names of the namespaces and, as something of the root may be asked for, of the scope."""
        return super().outermost | self._scope.outermost

    def contains(self, identifier: Sequence[str]) -> bool:
        """Return whether ``identifier`` is to be read, as far as its name says."""
        if not super().contains(identifier) or tuple(identifier) in self._without:
            return False
        return self._scope.contains(identifier) or self._scope.reaches(identifier)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of some namespaces of a unit: all that is directly in them, or why it could not be."""

    namespaces: tuple[Identifier, ...]
    found: Snapshot | CatalogError


def read_unit(unit: Unit, *, last_attempt: bool = True) -> Iterator[Row]:
    """Yield the rows of what is in ``unit``, and for each namespace its coverage.

    Raises:
        CatalogError: something could not be read that can be at another attempt, and this is not the last one.
    """
    return _rows(unit, readings_of(unit, last_attempt=last_attempt))


def readings_of(unit: Unit, *, last_attempt: bool = True) -> Iterator[Reading]:
    """Yield what is in ``unit``, and in what is found in it that no unit was made for.

    Raises:
        CatalogError: as :func:`read_unit`.
    """
    with ExitStack() as stack:
        backend = tried(unit.spec, lambda: stack.enter_context(unit.spec.connect()))
        if isinstance(backend, CatalogError):
            yield _not_read(unit.namespaces, backend, last_attempt)
        else:
            yield from _readings(backend, unit, last_attempt)


def rows_in(backend: Backend, unit: Unit, *, last_attempt: bool = True) -> Iterator[Row]:
    """Yield what :func:`read_unit` does, through a connection that is there."""
    return _rows(unit, _readings(backend, unit, last_attempt))


def _readings(backend: Backend, unit: Unit, last_attempt: bool) -> Iterator[Reading]:
    """All namespaces are read at once; when that fails each is read alone, so that the error is that of the one."""
    snapshot = tried(unit.spec, lambda: _scan(backend, unit))
    if isinstance(snapshot, CatalogError):
        if len(unit.namespaces) == 1:
            yield _not_read(unit.namespaces, snapshot, last_attempt)
            return
        for namespace in unit.namespaces:
            yield from _readings(backend, replace(unit, namespaces=(namespace,)), last_attempt)
        return
    yield Reading(unit.namespaces, snapshot)
    new = [found for found in snapshot.namespaces if found not in unit.known and _may_hold_selected(unit, found)]
    if new:
        yield from _readings(backend, Unit(unit.spec, tuple(sorted(new)), selected=unit.selected), last_attempt)


def _rows(unit: Unit, readings: Iterable[Reading]) -> Iterator[Row]:
    catalog, selected = unit.spec.name, unit.selected
    for reading in readings:
        found = reading.found
        if isinstance(found, CatalogError):
            yield from (coverage_row(catalog, namespace, error=found) for namespace in reading.namespaces)
            continue
        yield from (row for row in rows_of(catalog, found) if selected.contains(row.get("namespace", ())))
        namespaces = Counter(identifier[:-1] for identifier in found.namespaces)
        tables = Counter(identifier[:-1] for identifier in found.tables)
        for namespace in filter(selected.contains, reading.namespaces):
            yield coverage_row(catalog, namespace, namespaces=namespaces[namespace], tables=tables[namespace])


def _may_hold_selected(unit: Unit, namespace: Identifier) -> bool:
    """Return whether something in ``namespace``, or below it, is within the scope and in a selected namespace."""
    selected = unit.selected
    return unit.spec.scope.reaches(namespace) and (selected.contains(namespace) or selected.reaches(namespace))


def _scan(backend: Backend, unit: Unit) -> Snapshot:
    """Return what is in ``unit``, and no more; a namespace that is gone holds nothing."""
    if unit.only is not None:
        names = Only((*unit.namespaces[0], name) for name in unit.only)
        found = unit.spec.scan(backend, names)
        tables = {name: live for name, live in found.tables.items() if names.contains(name)}
        within = Snapshot(tables=tables, notes=tuple(map(as_unicode, found.notes)))
    else:
        found = unit.spec.scan(backend, _UnitScope(unit))
        within = Snapshot(
            {name: live for name, live in found.namespaces.items() if _is_in(unit, name, tables=False)},
            {name: live for name, live in found.tables.items() if _is_in(unit, name, tables=True)},
            tuple(map(as_unicode, found.notes)),
        )
    for namespace in within.namespaces.values():
        require_unicode(unit.spec.name, namespace.id, namespace.properties)
    for table in within.tables.values():
        require_unicode(unit.spec.name, table.id, table.properties, table.location)
    return within


def _is_in(unit: Unit, identifier: Identifier, *, tables: bool) -> bool:
    if identifier[:-1] not in unit.namespaces:
        return False
    if tables:
        return unit.spec.scope.contains(identifier) and identifier[-1] not in unit.without
    return unit.spec.scope.contains(identifier) or unit.spec.scope.reaches(identifier)


def require_unicode(catalog: str, identifier: Identifier, properties: Mapping[str, str], *others: str) -> None:
    """Refuse a lone surrogate, which JSON can bring and Arrow cannot take."""
    try:
        "".join((*identifier, *properties.keys(), *properties.values(), *others)).encode()
    except UnicodeEncodeError:
        raise LancensError(f"{as_unicode(address(catalog, identifier))} holds text that is not Unicode") from None


def as_unicode(text: str) -> str:
    """Return ``text`` with lone surrogates written out."""
    return text.encode(errors="backslashreplace").decode()


def _not_read(namespaces: tuple[Identifier, ...], error: CatalogError, last_attempt: bool) -> Reading:
    if not last_attempt and error.code not in LASTING:
        raise error
    return Reading(namespaces, error)


def tried(spec: CatalogSpec, read: Callable[[], ResultT]) -> ResultT | CatalogError:
    """Return what ``read`` returns, or why it could not; nothing of that is secret, what it came from is not kept."""
    try:
        with spec.errors():
            return read()
    except CatalogError as error:
        return CatalogError(as_unicode(str(error)), error.code)
    except LancensError as error:
        return CatalogError(as_unicode(str(error)), ErrorCode.INVALID_INPUT)
    except Exception as error:  # noqa: BLE001 - whatever a third party's backend raises costs one namespace, no more
        text = as_unicode(scrub(str(error), spec.secrets))
        return CatalogError(f"{spec.name} ({spec.impl}): {type(error).__name__}: {text}", ErrorCode.INTERNAL)
