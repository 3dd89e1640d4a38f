"""Split catalogs into units, each of which one task reads.

The driver lists the namespaces first. A namespace that this list misses, because it was created later or could not be
listed, is read by the task that finds it. So all units together hold what one scan of the catalog returns, and each
namespace has its coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING

from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import LancensError
from reconciler.model.names import EVERYTHING, Identifier, check_name

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.model.desired import DesiredTable
    from reconciler.model.names import Scope
    from reconciler.operations.connections import CatalogSpec


_CATALOGS_AT_ONCE = 16

DEFAULT_PARTITIONS = 256
"""About how many tasks read all catalogs together, at most, by default."""

DEFAULT_SPLIT = 10_000
"""With more tables than this a namespace is read in parts, by default."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some namespaces of one catalog, or a part of one, that one task reads.

    Args:
        spec: the catalog.
        namespaces: the namespaces.
        known: the listed namespaces directly in them, which other units read.
        only: for a part of a namespace that reads named tables, their names; None reads all tables.
        without: for the part of a namespace that reads all other tables, the names that the other parts read.
        selected: the scope whose namespaces have rows; those above it have rows of errors only.
        blocks: the desired tables of the unit.
    """

    spec: CatalogSpec
    namespaces: tuple[Identifier, ...]
    known: frozenset[Identifier] = frozenset()
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    selected: Scope = EVERYTHING
    blocks: tuple[DesiredTable, ...] = ()

    def has(self, table: Identifier) -> bool:
        """Return whether ``table`` belongs to the unit."""
        name = table[-1]
        return table[:-1] in self.namespaces and name not in self.without and (self.only is None or name in self.only)


@dataclass(frozen=True, slots=True)
class Listing:
    """The namespaces of a catalog.

    Args:
        spec: the catalog.
        selected: the namespaces to read.
        children: the namespaces directly in each.
        large: the names of the tables in each namespace that has more than ``split``.
        split: the number of tables that are read in one part.
    """

    spec: CatalogSpec
    selected: Scope
    children: Mapping[Identifier, Sequence[Identifier]]
    large: Mapping[Identifier, Sequence[str]] = field(default_factory=dict)
    split: int = DEFAULT_SPLIT


def list_units(
    specs: Collection[CatalogSpec],
    *,
    partitions: int = DEFAULT_PARTITIONS,
    split: int = DEFAULT_SPLIT,
    namespaces: Scope = EVERYTHING,
    in_process: bool = False,
) -> list[Unit]:
    """Return the units of the catalogs, at most about ``partitions``.

    A namespace is a unit of its own while there are few enough of them. One with more than ``split`` tables has several
    units, where the catalog reads tables by name. Only ``namespaces`` are read. Unless ``in_process``,
    other processes read the units.

    Raises:
        LancensError: a catalog cannot be reached from other processes, or refuses its configuration. A namespace that
            cannot be listed is no error yet: the task that reads it reports the error.
    """
    if not in_process:
        require_reachable(specs)
    listings = list_catalogs(specs, split=split, namespaces=namespaces)
    size = ceil(sum(len(listing.children) for listing in listings) / partitions)
    return [unit for listing in listings for unit in units_in(listing, max(size, 1))]


def list_catalogs(
    specs: Collection[CatalogSpec], *, split: int = DEFAULT_SPLIT, namespaces: Scope = EVERYTHING
) -> list[Listing]:
    """Return the namespaces of each catalog; see :func:`list_units`."""
    return in_parallel(partial(_list_catalog, split=split, selected=namespaces), specs, _CATALOGS_AT_ONCE)


def require_reachable(specs: Iterable[CatalogSpec]) -> None:
    """Raise a LancensError for a catalog that no other process can read."""
    from reconciler.backends import registry

    for spec in specs:
        if registry.backend_class(spec.impl).in_process:
            raise LancensError(
                f"{spec.name} ({spec.impl}): the catalog lives in the memory of one process, so the processes of Spark "
                "cannot read it; leave it out of the manifest, or do without Spark (--engine local)"
            )


def _list_catalog(spec: CatalogSpec, split: int, selected: Scope) -> Listing:
    """List the namespaces of a catalog, and the tables of large ones."""
    children: dict[Identifier, Sequence[Identifier]] = {}
    level: list[Identifier] = [()] if spec.scope.reaches(()) else []
    with spec.connect() as backend:
        if backend.capabilities().folds_case:
            selected = selected.folded()
        while level:
            listed = in_parallel(partial(_children, backend, spec.scope), level, backend.parallelism)
            for parent, names in zip(level, listed, strict=True):
                if selected.contains(parent) or (names is None and selected.reaches(parent)):
                    children[parent] = names or ()
            below = filter(spec.scope.reaches, chain.from_iterable(names or () for names in listed))
            level = [child for child in below if selected.contains(child) or selected.reaches(child)]
        large = _names_in_large(backend, spec.scope, children, split)
    in_parts = {namespace: names for namespace, names in large.items() if len(names) > split}
    return Listing(spec, selected, children, in_parts, split)


def _children(backend: Backend, scope: Scope, parent: Identifier) -> Sequence[Identifier] | None:
    """Return the namespaces in ``parent`` in or above ``scope``, None if unknown."""
    deepest = backend.capabilities().max_depth
    if deepest is not None and len(parent) >= deepest:
        return ()
    children = _identifiers_in(parent, backend.child_namespaces)
    return children and [child for child in children if scope.contains(child) or scope.reaches(child)]


def _names_in_large(
    backend: Backend, scope: Scope, parents: Collection[Identifier], split: int
) -> dict[Identifier, Sequence[str]]:
    """Return the names of possible tables within ``scope`` in each namespace that may have more than ``split``."""
    if backend.reads_by_name:
        read = partial(_identifiers_in, names=backend.candidate_tables)
        listed = [identifiers or () for identifiers in in_parallel(read, parents, backend.parallelism)]
    else:
        try:
            names = backend.large_namespaces(split)
        except Exception:  # noqa: BLE001 - as below
            names = {}
        parents = [parent for parent in parents if parent in names]
        listed = [_identifiers_in(parent, names.__getitem__) or () for parent in parents]
    tables_of = zip(parents, listed, strict=True)
    return {parent: [table[-1] for table in tables if scope.contains(table)] for parent, tables in tables_of}


def _identifiers_in(parent: Identifier, names: Callable[[Identifier], Iterable[str]]) -> Sequence[Identifier] | None:
    """Return the identifiers in ``parent``, None if they cannot be listed."""
    try:
        return [(*parent, name) for name in sorted(set(names(parent))) if check_name(name) is None]
    except Exception:  # noqa: BLE001 - a third party's backend may raise anything; the task that reads it reports it
        return None


def units_in(listing: Listing, size: int) -> Iterator[Unit]:
    """Yield the units of a catalog, ``size`` namespaces each, by name.

    A namespace that is read in parts is alone in its units.
    """
    small = sorted(listing.children.keys() - listing.large.keys())
    for start in range(0, len(small), size):
        group = tuple(small[start : start + size])
        known = frozenset(chain.from_iterable(listing.children[parent] for parent in group))
        yield Unit(listing.spec, group, known, selected=listing.selected)
    for parent, names in listing.large.items():
        parts = range(0, len(names), listing.split)
        first, *later_parts = (frozenset(names[start : start + listing.split]) for start in parts)
        # The first part reads every table that the later parts do not name, so tables created since are read, too.
        known, later_names = frozenset(listing.children[parent]), frozenset(names) - first
        yield Unit(listing.spec, (parent,), known, without=later_names, selected=listing.selected)
        for part in later_parts:
            yield Unit(listing.spec, (parent,), only=part, selected=listing.selected)
