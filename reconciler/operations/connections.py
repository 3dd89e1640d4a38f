"""Open connections to the catalogs of a manifest, and their errors in the user's words."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends.faults import catalog_errors
from reconciler.errors import ManifestError, Problem, SelectionError
from reconciler.state import DEFAULT_PARALLELISM

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest, ManifestCatalog, ResolvedConfig
    from reconciler.state import DesiredCatalog

__all__ = ["Connection", "open_connections", "read_all", "resolve_configs"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Connection:
    """One catalog of a manifest and the backend that reaches it."""

    name: str
    impl: str
    desired: DesiredCatalog
    backend: Backend
    secrets: Collection[str] = field(default=(), repr=False)

    @property
    def service(self) -> str:
        """A digest that tells this service and root from others, without naming a machine or a path."""
        text = f"{self.impl} {self.backend.config.identity()}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def open_connections(
    manifest: Manifest, names: Collection[str] | None = None, *, parallelism: int = DEFAULT_PARALLELISM
) -> Iterator[Mapping[str, Connection]]:
    """Connect to the catalogs of ``manifest`` (only those in ``names``, where given) and close them at the end.

    ``parallelism`` is how many requests each connection has in flight.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved, or two catalogs turn out to be one service.
        SelectionError: ``names`` holds a name that is not a catalog of the manifest.
        CatalogError: a backend does not accept its configuration.
    """
    unknown = sorted(set(names or ()) - set(manifest.catalogs))
    if unknown:
        known = ", ".join(sorted(manifest.catalogs))
        raise SelectionError(f"no catalog `{unknown[0]}` in the manifest; it has {known}")
    configs = resolve_configs(manifest, [name for name in sorted(manifest.catalogs) if names is None or name in names])
    with ExitStack() as stack:
        yield {name: _connect(manifest.catalogs[name], config, stack, parallelism) for name, config in configs.items()}


def resolve_configs(manifest: Manifest, names: Collection[str]) -> dict[str, ResolvedConfig]:
    """Return the configuration of each catalog in ``names``, with the environment, variables and files of now.

    Raises:
        ManifestError: with the faults of all of them.
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


def _connect(catalog: ManifestCatalog, config: ResolvedConfig, stack: ExitStack, parallelism: int) -> Connection:
    from reconciler.backends import registry

    with catalog_errors(catalog.name, catalog.impl, config.secrets):
        backend = registry.connect(catalog.impl, config.properties)
    stack.callback(backend.close)
    backend.parallelism = parallelism
    backend.expect_roots({identifier[0] for identifier in chain(catalog.desired.namespaces, catalog.desired.tables)})
    return Connection(catalog.name, catalog.impl, catalog.desired, backend, config.secrets)


def read_all(
    connections: Collection[Connection], read: Callable[[Connection], ResultT], parallelism: int
) -> list[ResultT]:
    """Return ``read`` of every connection, several at a time; the first error in catalog order is raised.

    Raises:
        CatalogError: a catalog could not be read completely.
    """

    def guarded(connection: Connection) -> ResultT:
        with catalog_errors(connection.name, connection.impl, connection.secrets):
            return read(connection)

    if not connections:
        return []
    with ThreadPoolExecutor(max_workers=min(parallelism, len(connections))) as pool:
        return list(pool.map(guarded, connections))
