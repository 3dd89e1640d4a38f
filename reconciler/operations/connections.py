"""Connections to the catalogs of a manifest, with errors that hold no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends import registry
from reconciler.backends.base import catalog_errors
from reconciler.model import locations
from reconciler.model.backend_config import plain_key
from reconciler.model.capabilities import Capabilities
from reconciler.model.concurrency import DEFAULT_PARALLELISM, in_parallel
from reconciler.model.errors import ManifestError, Problem, SelectionError
from reconciler.model.names import EVERYTHING, Identifier, Scope
from reconciler.model.redaction import fast_digest, is_sensitive, scrub, slow_digest
from reconciler.planner.placeholders import location_hider

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest, ResolvedConfig
    from reconciler.model.admission import StorageOptions
    from reconciler.model.desired import DesiredCatalog
    from reconciler.model.live import Snapshot


ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class CatalogSpec:
    """How to reach one catalog of a manifest, in any process: it can be pickled.

    Args:
        name: the catalog's name in the manifest.
        impl: the name of its implementation.
        properties: its configuration, resolved; it may hold secrets.
        secrets: texts that no error may show.
        is_literal: whether the configuration is as written, except for credentials.
        scope: the part of the catalog that the manifest covers.
        outermost_names: the names on the outermost level that the manifest uses, in ``scope`` too.
        parallelism: how many requests a connection has in flight.
        portable: locations below the manifest's folder, each with its path relative to the folder.
        is_whole: whether a table that cannot be read is an error, because other changes depend on it.
        hosts: the only hosts that its service may name; None for any.
        allows_outside: whether datasets may refer to places outside its roots.
        namespace_properties: the properties that the manifest gives namespaces, if their tables go where these say.
        bases: the catalogs whose tables are cloned here, by name.
    """

    name: str
    impl: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Collection[str] = field(default=(), repr=False)
    scope: Scope = EVERYTHING
    outermost_names: frozenset[str] = frozenset()
    parallelism: int = DEFAULT_PARALLELISM
    portable: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_whole: bool = False
    hosts: Collection[str] | None = None
    allows_outside: bool = False
    is_literal: bool = False
    namespace_properties: Mapping[Identifier, Mapping[str, str]] = field(default_factory=dict, repr=False)
    bases: Mapping[str, CatalogSpec] = field(default_factory=dict, repr=False)

    def errors(self) -> AbstractContextManager[None]:
        """Turn the backend's errors inside the block into a CatalogError without secrets."""
        return catalog_errors(self.name, self.impl, self.secrets)

    def open(self) -> Backend:
        """Return a new connection, which the caller closes.

        Raises:
            CatalogError: the backend does not accept its configuration.
        """
        with self.errors():
            backend = registry.connect(self.impl, self.properties)
            backend.parallelism, backend.hosts = self.parallelism, self.hosts
            backend.allows_outside = self.allows_outside
            backend.outermost_names = self.outermost_names
            backend.base_options = {name: spec.shared_options() for name, spec in self.bases.items()}
            location_keys = backend.known_capabilities.namespace_places
            backend.declared_locations = {
                name: properties[key]
                for name, properties in self.namespace_properties.items()
                for key in location_keys & properties.keys()
            }
            return backend

    def shared_options(self) -> StorageOptions:
        """Return the storage options that open all data of the catalog; no request is sent.

        Raises:
            CatalogError: the backend does not accept its configuration.
        """
        with self.connect() as backend:
            return backend.storage_options()

    def scan(self, backend: Backend, scope: Scope) -> Snapshot:
        """Return what ``backend`` has within ``scope`` (see ``Backend.scan_readable``).

        Raises:
            BackendError: naming what could not be read.
        """
        return backend.scan(scope) if self.is_whole else backend.scan_readable(scope)

    @contextmanager
    def connect(self) -> Iterator[Backend]:
        """Yield a connection that is closed after the block.

        Raises:
            CatalogError: for every error of the backend in the block.
        """
        with self.errors(), closing(self.open()) as backend:
            yield backend


@dataclass(frozen=True, slots=True)
class Connection:
    """One catalog of a manifest and the open backend that reaches it."""

    spec: CatalogSpec
    desired: DesiredCatalog
    backend: Backend

    def capabilities(self) -> Capabilities:
        """Return what the catalog can do.

        Raises:
            CatalogError: it could not be asked.
        """
        with self.spec.errors():
            return self.backend.capabilities()

    @property
    def service(self) -> str:
        """A digest of the configuration without credentials, hosts and paths.

        It is slow unless everything is as written: the manifest's digest covers that already.
        Paths are taken relative to the manifest's folder, so that every checkout has the same digest.
        """
        config = self.backend.config
        plain = {plain_key(self.spec.impl, key): value for key, value in self.spec.properties.items()}
        names = [key for key in sorted(plain) if not (key in config.credentials or is_sensitive(key, plain[key]))]
        portable, identity = self.spec.portable, config.identity()
        bound = {key: portable.get(plain[key], plain[key]) for key in names}
        text = json.dumps([portable.get(identity, identity), bound])
        is_literal = self.spec.is_literal and (identity in portable or config.is_identity_literal())
        digest = fast_digest if is_literal else slow_digest
        return digest(text, f"{self.desired.owner} {self.spec.impl}")[:16]


def catalog_specs(
    manifest: Manifest,
    names: Collection[str] | None = None,
    *,
    parallelism: int = DEFAULT_PARALLELISM,
    as_planned: bool = False,
) -> list[CatalogSpec]:
    """Return the specs of all catalogs, or of those in ``names``, sorted by name.

    ``as_planned``: tables go where the manifest puts their namespaces, whether these are there yet or not.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved, or two catalogs are the same service.
    """
    configs = _resolve_configs(manifest, sorted(manifest.catalogs if names is None else names))
    catalogs = [catalog.desired for catalog in manifest.catalogs.values()]
    followed = frozenset[str]().union(*(catalog.sources for catalog in catalogs))
    specs = {
        name: CatalogSpec(
            name=name,
            impl=manifest.catalogs[name].impl,
            properties=config.properties,
            secrets=(*config.secrets, *manifest.catalogs[name].hidden_locations),
            portable=dict(chain.from_iterable(_portable_forms(manifest.folder, path) for path in config.relative)),
            scope=manifest.catalogs[name].desired.scope,
            outermost_names=_outermost_names(manifest.catalogs[name].desired),
            parallelism=parallelism,
            hosts=config.hosts,
            allows_outside=config.allows_outside,
            is_literal=config.is_literal,
            is_whole=name in followed or bool(manifest.catalogs[name].desired.moves),
            namespace_properties=_namespace_properties(manifest.catalogs[name].desired) if as_planned else {},
        )
        for name, config in configs.items()
    }
    return [replace(spec, bases=_bases_of(manifest, name)) for name, spec in specs.items()]


def _bases_of(manifest: Manifest, name: str) -> Mapping[str, CatalogSpec]:
    """Return how to reach the catalogs whose tables a catalog clones; those that a mirrored catalog clones.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved.
    """
    desired, bases = manifest.catalogs[name].desired, dict[str, CatalogSpec]()
    mirror = desired.mirror
    if mirror is not None and mirror.clones is None and mirror.origin in manifest.catalogs:
        bases.update(_bases_of(manifest, mirror.origin))
    cloned = desired.sources if mirror is not None and mirror.clones is not None else desired.cloned
    for origin, config in _resolve_configs(manifest, sorted(cloned & manifest.catalogs.keys())).items():
        bases[origin] = CatalogSpec(
            origin,
            manifest.catalogs[origin].impl,
            config.properties,
            config.secrets,
            hosts=config.hosts,
            allows_outside=config.allows_outside,
            bases=_bases_of(manifest, origin),
        )
    return bases


def _namespace_properties(desired: DesiredCatalog) -> Mapping[Identifier, Mapping[str, str]]:
    return {
        name: block.properties for name, block in desired.namespaces.items() if block.properties and not block.absent
    }


def _relative_to(folder: str, location: str) -> str:
    """Return ``location`` relative to ``folder``, beginning with ``./`` or ``../``."""
    path = Path(os.path.relpath(location, folder)).as_posix()
    return path if path.startswith("../") else f"./{path}"


def _portable_forms(folder: str, location: str) -> Iterator[tuple[str, str]]:
    """Yield each form of ``location`` with its path relative to ``folder``."""
    yield location, _relative_to(folder, location)
    real = os.path.realpath(location)
    yield locations.normalise(real), _relative_to(os.path.realpath(folder), real)


def _outermost_names(desired: DesiredCatalog) -> frozenset[str]:
    into = () if desired.mirror is None else (desired.mirror.into,)
    names = (identifier[0] for identifier in chain(desired.namespaces, desired.tables, into) if identifier)
    return desired.scope.outermost.union(names)


@contextmanager
def open_connections(
    manifest: Manifest,
    names: Collection[str] | None = None,
    *,
    parallelism: int = DEFAULT_PARALLELISM,
    as_planned: bool = False,
) -> Iterator[Mapping[str, Connection]]:
    """Yield connections to all catalogs, or to those in ``names``.

    ``parallelism`` is how many requests each connection has in flight; ``as_planned`` is that of :func:`catalog_specs`.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved, or two catalogs are the same service.
        SelectionError: a name in ``names`` is not a catalog of the manifest.
        CatalogError: a backend does not accept its configuration.
    """
    unknown = sorted(set(names or ()) - set(manifest.catalogs))
    if unknown:
        known = ", ".join(sorted(manifest.catalogs))
        raise SelectionError(f"no catalog `{unknown[0]}` in the manifest; it has {known}")
    with ExitStack() as stack:
        yield {
            spec.name: Connection(spec, manifest.catalogs[spec.name].desired, stack.enter_context(closing(spec.open())))
            for spec in catalog_specs(manifest, names, parallelism=parallelism, as_planned=as_planned)
        }


def _resolve_configs(manifest: Manifest, names: Collection[str]) -> dict[str, ResolvedConfig]:
    """Resolve the configuration of each catalog in ``names``.

    Raises:
        ManifestError: with the problems of all catalogs.
    """
    from reconciler.manifest import check_services

    problems: list[Problem] = []
    configs: dict[str, ResolvedConfig] = {}
    for name in names:
        try:
            configs[name] = manifest.catalogs[name].resolve_config()
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(problems)
    check_services(manifest, configs)
    return configs


def shown_locations_of(manifest: Manifest) -> dict[str, str]:
    """Return the text that a plan shows for each resolved location.

    The locations of all catalogs are included, as a table of one may be below the root of another. A root whose
    placeholders have no value is left out.
    """
    texts: dict[str, str] = {}
    for _, catalog in sorted(manifest.catalogs.items()):
        with suppress(ManifestError):
            config = catalog.resolve_config()
            texts |= {location: _relative_to(manifest.folder, location) for location in config.relative} | dict(
                config.hidden_locations
            )
        texts |= catalog.hidden_locations
    return texts


def secret_locations_of(manifest: Manifest) -> dict[str, str]:
    """Return the part of :func:`shown_locations_of` that comes from the environment or a file."""
    return {location: text for location, text in shown_locations_of(manifest).items() if "${" in text}


def read_all(
    connections: Collection[Connection], read: Callable[[Connection], ResultT], parallelism: int
) -> list[ResultT]:
    """Return ``read`` of every connection, several at a time.

    The first error in catalog order is raised.

    Raises:
        CatalogError: a catalog could not be read completely.
    """

    def read_one(connection: Connection) -> ResultT:
        with connection.spec.errors():
            return read(connection)

    return in_parallel(read_one, connections, parallelism)


def missing_root(backend: Backend) -> str | None:
    """Return the local root directory of a catalog if it does not exist."""
    from reconciler import storage

    for root in backend.roots() if backend.is_its_root else ():
        path = storage.local_path(root)
        if path is not None and not path.is_dir():
            return locations.redact(root)
    return None


def missing_roots(manifest: Manifest, names: Collection[str] | None = None) -> list[str]:
    """Return a sentence for each local root that does not exist, of all catalogs or of those in ``names``.

    Outside a plan, a typo would pass unnoticed.
    """
    sentences, hide = [], location_hider(secret_locations_of(manifest))
    for spec in catalog_specs(manifest, names):
        with spec.connect() as backend:
            root = missing_root(backend)
        if root is not None:
            hint = " `$` is not expanded; write `${env:NAME}`." if "$" in root else ""
            shown = scrub(hide(root), spec.secrets)
            sentences.append(f"{spec.name} ({spec.impl}): the root {shown} does not exist.{hint}")
    return sentences
