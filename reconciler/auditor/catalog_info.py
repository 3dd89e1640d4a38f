"""Describe the catalogs of an audit, and choose the roots to search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.capabilities import LocationPolicy, Safeguard
from reconciler.model.concurrency import in_parallel
from reconciler.model.desired import DesiredCatalog, DesiredMirror
from reconciler.model.errors import CatalogError
from reconciler.model.names import EVERYTHING, Identifier, Scope, address
from reconciler.model.policies import Policies
from reconciler.operations.plan import selection_of
from reconciler.pipeline.reading import result_or_error
from reconciler.storage import has_driver, resolve_location

if TYPE_CHECKING:
    from reconciler.manifest import Manifest
    from reconciler.operations.connections import CatalogSpec


_CATALOGS_AT_ONCE = 16


_OPTION_METHODS = (Backend.own_storage_options, Backend.vended_storage_options)
"""The methods that a backend overrides if its entries or its service have the options for opening data."""


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """One catalog as an audit sees it.

    Args:
        spec: its configuration and scope.
        owner: the manifest's marker for it.
        options: pylance's options for its datasets; they may be secret.
        roots: the directories of its default locations, the configured one first.
        problem: the error of reading the roots, without secrets.
        stays_under_root: whether it refuses tables outside of its roots.
        safeguard: the property that protects its tables from deletion of their data.
        shows_columns: whether its entries may show columns.
        lists_tags: whether its entries can list the tags that lancens sets.
        has_table_options: whether its service, or the entry of a table, has options for opening the table's data.
        root_keys: the properties of namespaces that name the directory of their tables.
        mirror: the mirror of the manifest, if it is one.
        policies: what holds for its tables without a block.
        selection: the tables to check; the others are only known to be there.
        exclusions: what each glob of ``exclude`` matches here.
    """

    spec: CatalogSpec
    owner: str
    options: Mapping[str, str] = field(repr=False)
    roots: tuple[str, ...] = ()
    problem: str | None = None
    stays_under_root: bool = False
    safeguard: Safeguard | None = None
    shows_columns: bool = False
    lists_tags: bool = True
    has_table_options: bool = False
    root_keys: frozenset[str] = frozenset()
    mirror: DesiredMirror | None = None
    policies: Policies = field(default_factory=Policies)
    selection: Scope = EVERYTHING
    exclusions: tuple[Scope, ...] = ()

    @property
    def name(self) -> str:
        """The catalog's name in the manifest."""
        return self.spec.name


class SearchedRoot(NamedTuple):
    """A directory to search, and the catalog whose credentials open it."""

    catalog: str
    location: str


@dataclass(frozen=True, slots=True)
class Search:
    """Where to search for orphans: below ``roots``, but not below ``closed``.

    ``reasons`` explain what is left out. ``namespaces`` are the namespaces by the normal form of their directories.
    """

    roots: Sequence[SearchedRoot] = ()
    closed: Sequence[str] = ()
    reasons: Sequence[str] = ()
    namespaces: Mapping[str, Identifier] = field(default_factory=dict)


def read_catalog_info(
    manifest: Manifest, specs: Collection[CatalogSpec], exclude: Sequence[str] = ()
) -> dict[str, CatalogInfo]:
    """Connect to the catalogs of an audit, and return their facts by name; ``exclude`` are globs of addresses.

    Raises:
        CatalogError: a catalog refuses its configuration.
    """
    catalogs = in_parallel(
        lambda spec: _read_info(spec, manifest.catalogs[spec.name].desired, exclude), specs, _CATALOGS_AT_ONCE
    )
    return {catalog.name: catalog for catalog in catalogs}


def _read_info(spec: CatalogSpec, desired: DesiredCatalog, exclude: Sequence[str]) -> CatalogInfo:
    with spec.connect() as backend:
        roots, folds_case = result_or_error(spec, backend.roots), backend.capabilities().folds_case
        scopes = [
            scope.below(spec.name) for scope in (selection_of((), exclude), *(Scope((glob,)) for glob in exclude))
        ]
        selection, *exclusions = [scope.folded() if folds_case else scope for scope in scopes]
        return CatalogInfo(
            spec=spec,
            owner=desired.owner,
            options=backend.storage_options(),
            roots=() if isinstance(roots, CatalogError) else tuple(dict.fromkeys(roots)),
            problem=str(roots) if isinstance(roots, CatalogError) else None,
            stays_under_root=backend.capabilities().location_policy is LocationPolicy.UNDER_ROOT,
            safeguard=backend.capabilities().safeguard,
            shows_columns=backend.overrides(Backend.shown_columns),
            lists_tags=backend.capabilities().alter_table and backend.capabilities().table_markers,
            has_table_options=backend.hosts is not None or any(map(backend.overrides, _OPTION_METHODS)),
            root_keys=backend.capabilities().namespace_places,
            mirror=desired.mirror,
            policies=Policies(desired.policies),
            selection=selection,
            exclusions=tuple(exclusions),
        )


class RootIndex:
    """Find the root that a location belongs to, by walking up its directories."""

    def __init__(self, roots: Iterable[str]) -> None:
        ordered = tuple(roots)
        self._by_place = {locations.objects_of(locations.normalise(root)): root for root in reversed(ordered)}
        self._first = next(iter(ordered), None)

    def of(self, location: str) -> str | None:
        """Return the innermost root at or above ``location``, or else the first root."""
        place = locations.objects_of(locations.normalise(location))
        while place not in self._by_place:
            above = place.rpartition("/")[0]
            if not above:
                return self._by_place.get("/", self._first) if place.startswith("/") else self._first
            place = above
        return self._by_place[place]


def searchable_roots(
    catalogs: Collection[CatalogInfo],
    unread: Mapping[str, Collection[Identifier]],
    directories: Mapping[str, Mapping[Identifier, str]],
) -> Search:
    """Return where to search for orphans.

    A root is searched only if all entries that may register its datasets were read.

    Args:
        catalogs: the catalogs.
        unread: the namespaces of each catalog that could not be read. If tables may be outside the catalog's root,
            each excludes the nearest directory known at or above it. Otherwise, or if none is known, it excludes all
            roots of its catalog.
        directories: the directory of each namespace that names one, by catalog.
    """
    reasons: list[str] = []
    roots: list[tuple[str, bool, SearchedRoot]] = []
    for catalog in catalogs:
        own_directories = directories.get(catalog.name, {})
        closed = _roots_to_skip(catalog, unread.get(catalog.name, ()), own_directories, reasons)
        candidates = dict.fromkeys((*catalog.roots, *own_directories.values()))
        if not candidates and catalog.problem is None:
            reasons.append(
                f"Orphans were not looked for in {catalog.name}: neither it nor any of its namespaces names a place "
                "where tables go; a `root` in its `config` would"
            )
        for root in candidates:
            problem = _search_problem(root)
            if problem is not None:
                reasons.append(
                    f"Orphans were not looked for below {locations.redact(root)} of {catalog.name}: {problem}"
                )
                continue
            directory = resolve_location(root).rstrip("/") + "/"
            roots.append((directory, root not in closed, SearchedRoot(catalog.name, root)))
    searched: list[SearchedRoot] = []
    skipped: list[str] = []
    outermost: str | None = None
    # Sorting puts a directory right before those below it, and its closed entry before its open one.
    for directory, is_open, searched_root in sorted(roots, key=lambda item: item[:2]):
        if outermost is None or not directory.startswith(outermost):
            outermost = directory
            searched += [searched_root] if is_open else []
        if not is_open:
            skipped.append(searched_root.location)
    namespaces = {
        locations.normalise(directory): namespace
        for own_directories in directories.values()
        for namespace, directory in own_directories.items()
    }
    return Search(searched, skipped, reasons, namespaces)


def _roots_to_skip(
    catalog: CatalogInfo, unread: Collection[Identifier], directories: Mapping[Identifier, str], reasons: list[str]
) -> frozenset[str]:
    """Return the roots and directories of a catalog to leave out of the search.

    Add why to ``reasons``.
    """
    everything = frozenset((*catalog.roots, *directories.values()))
    if not catalog.spec.scope.is_everything:
        if everything:
            reasons.append(
                f"Orphans were not looked for below the roots of {catalog.name}: its `scope` leaves out tables that "
                "may be there"
            )
        return everything
    closed: set[str] = set()
    for identifier in sorted(unread):
        unread_address = address(catalog.name, identifier)
        around = (directories.get(identifier[:depth]) for depth in range(len(identifier), 0, -1))
        # Below its roots such a catalog may put tables of any namespace in any directory.
        directory = None if catalog.stays_under_root else next(filter(None, around), None)
        below = "the roots of " + catalog.name if directory is None else locations.redact(directory)
        reason = f"Orphans were not looked for below {below}: {unread_address} could not be read"
        if not catalog.stays_under_root:
            reason += ", and an orphan elsewhere may be one of its tables"
        if everything:
            reasons.append(reason)
        closed |= set(everything if directory is None else {directory})
    return frozenset(closed)


def _search_problem(root: str) -> str | None:
    """Return why a root, or the directory of a namespace, cannot be searched.

    The result is None if it can.
    """
    if not has_driver(root):
        return "Lance has no driver for it"
    return "it is the root of all files of this machine" if locations.normalise(root) == "/" else None
