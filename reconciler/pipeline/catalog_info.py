"""What an audit knows of each catalog before it reads the tables: how to open its datasets, and where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reconciler import locations
from reconciler.backends.base import Backend
from reconciler.errors import CatalogError
from reconciler.pipeline.reading import tried
from reconciler.state import DesiredCatalog, DesiredMirror, LocationPolicy, Safeguard

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.operations.connections import CatalogSpec

__all__ = ["CatalogInfo", "Place", "RootIndex", "Search", "read_catalog_info", "searchable_roots"]

_CATALOGS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """One catalog as an audit sees it.

    Args:
        spec: how to reach it.
        owner: the manifest's marker for it.
        options: pylance's, for its datasets; they may be secret.
        roots: under which its tables go by themselves, the configured one first.
        problem: why the roots are not known, without secrets; None when they are.
        stays_under_root: whether it takes no table anywhere else.
        has_foreign: whether it may hold tables of other kinds.
        safeguard: the property without which its tables are not safe.
        shows_columns: whether its entries may show columns.
        places: the properties of namespaces that say where their tables go by themselves.
        mirror: the line by which it follows another one.
    """

    spec: CatalogSpec
    owner: str
    options: Mapping[str, str] = field(repr=False)
    roots: tuple[str, ...] = ()
    problem: str | None = None
    stays_under_root: bool = False
    has_foreign: bool = False
    safeguard: Safeguard | None = None
    shows_columns: bool = False
    places: frozenset[str] = frozenset()
    mirror: DesiredMirror | None = None

    @property
    def name(self) -> str:
        """The catalog's name in the manifest."""
        return self.spec.name


class Place(NamedTuple):
    """A directory, and the catalog whose credentials open it."""

    catalog: str
    location: str


@dataclass(frozen=True, slots=True)
class Search:
    """Where to search for orphans: ``roots`` and what is below them, but not ``closed``; ``reasons`` for the rest."""

    roots: Sequence[Place] = ()
    closed: Sequence[str] = ()
    reasons: Sequence[str] = ()


def read_catalog_info(manifest: Manifest, specs: Collection[CatalogSpec]) -> dict[str, CatalogInfo]:
    """Return what is known of each catalog, by its name.

    Raises:
        CatalogError: a catalog does not take its configuration.
    """
    if not specs:
        return {}
    with ThreadPoolExecutor(max_workers=min(len(specs), _CATALOGS_AT_ONCE)) as pool:
        found = pool.map(lambda spec: _read(spec, manifest.catalogs[spec.name].desired), specs)
        return {catalog.name: catalog for catalog in found}


def _read(spec: CatalogSpec, desired: DesiredCatalog) -> CatalogInfo:
    with spec.connect() as backend:
        roots = tried(spec, backend.roots)
        return CatalogInfo(
            spec=spec,
            owner=desired.owner,
            options=backend.storage_options(),
            roots=() if isinstance(roots, CatalogError) else tuple(dict.fromkeys(roots)),
            problem=str(roots) if isinstance(roots, CatalogError) else None,
            stays_under_root=backend.capabilities.location_policy is LocationPolicy.UNDER_ROOT,
            has_foreign=type(backend).foreign_tables is not Backend.foreign_tables,
            safeguard=backend.capabilities.safeguard,
            shows_columns=type(backend).shown_columns is not Backend.shown_columns,
            places=backend.capabilities.namespace_places,
            mirror=desired.mirror,
        )


class RootIndex:
    """Finds the root that a location belongs to in as many steps as the location has directories."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._by_place = {locations.normalise(root): root for root in reversed(tuple(roots))}
        self._first = next(reversed(self._by_place.values()), None)

    def of(self, location: str) -> str | None:
        """Return the innermost root that ``location`` is at or below; the first one when it is below none."""
        place = locations.normalise(location)
        while place not in self._by_place:
            above = place.rpartition("/")[0]
            if not above:
                return self._by_place.get("/", self._first) if place.startswith("/") else self._first
            place = above
        return self._by_place[place]


def searchable_roots(catalogs: Collection[CatalogInfo], unread: Mapping[str, str]) -> Search:
    """Return where orphans can be told: a dataset is called one only where all that may register it was read.

    Args:
        catalogs: all of them.
        unread: the catalogs of which something could not be read, each with the address of that.
    """
    elsewhere = sorted(
        unread[catalog.name] for catalog in catalogs if catalog.name in unread and not catalog.stays_under_root
    )
    if elsewhere:
        why = f"Orphans were not looked for: a table in {elsewhere[0]}, which could not be read, may be anywhere"
        return Search(reasons=(why,))
    reasons: list[str] = []
    roots: list[tuple[str, bool, Place]] = []
    for catalog in catalogs:
        reason = _reason_to_skip(catalog, unread)
        if reason is not None and catalog.roots:
            reasons.append(f"Orphans were not looked for below the roots of {catalog.name}: {reason}")
        for root in catalog.roots:
            directory = locations.normalise(root).rstrip("/") + "/"
            roots.append((directory, reason is None, Place(catalog.name, root)))
    searched: list[Place] = []
    closed: list[str] = []
    around: str | None = None
    # What is below a directory comes right after it, and of one directory what is closed comes first.
    for directory, is_open, place in sorted(roots, key=lambda item: item[:2]):
        if around is None or not directory.startswith(around):
            around = directory
            searched += [place] if is_open else []
        if not is_open:
            closed.append(place.location)
    return Search(searched, closed, reasons)


def _reason_to_skip(catalog: CatalogInfo, unread: Mapping[str, str]) -> str | None:
    if catalog.name in unread:
        return f"{unread[catalog.name]} could not be read"
    if not catalog.spec.scope.is_everything:
        return "its `scope` leaves out tables that may be there"
    return None
