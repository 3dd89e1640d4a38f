"""What an executor needs to reach a catalog: small, and sent with the work rather than configured there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from reconciler.backends.faults import catalog_errors
from reconciler.names import Scope
from reconciler.state import DEFAULT_PARALLELISM

if TYPE_CHECKING:
    from reconciler.backends.base import Backend
    from reconciler.manifest import Manifest
    from reconciler.state import DesiredCatalog

__all__ = ["CatalogSpec", "catalog_specs"]


@dataclass(frozen=True, slots=True)
class CatalogSpec:
    """One catalog of a manifest without its tables; ``properties`` are resolved and may be secret.

    ``scope`` is the manifest's; ``roots`` are the names it uses on the outermost level, in its scope too (see
    ``Backend.expect_roots``); ``parallelism`` is how many requests one partition has in flight.
    """

    name: str
    impl: str
    properties: Mapping[str, str] = field(repr=False)
    secrets: Collection[str] = field(repr=False)
    scope: Scope
    roots: frozenset[str] = frozenset()
    parallelism: int = DEFAULT_PARALLELISM

    @contextmanager
    def connect(self) -> Iterator[Backend]:
        """Connect, and disconnect at the end of the block.

        Raises:
            CatalogError: for whatever the catalog raises in the block, with its name and without secrets.
        """
        from reconciler.backends import registry

        with catalog_errors(self.name, self.impl, self.secrets):
            backend = registry.connect(self.impl, self.properties)
            try:
                backend.parallelism = self.parallelism
                backend.expect_roots(self.roots)
                yield backend
            finally:
                backend.close()


def catalog_specs(
    manifest: Manifest, parallelism: int = DEFAULT_PARALLELISM, names: Collection[str] | None = None
) -> list[CatalogSpec]:
    """Return how to reach each catalog of ``manifest``, or those in ``names`` only, in the order of their names.

    Raises:
        ManifestError: placeholders of a ``config`` cannot be resolved, or two catalogs are one service.
    """
    from reconciler.operations.connections import resolve_configs

    return [
        CatalogSpec(
            name=name,
            impl=manifest.catalogs[name].impl,
            properties=config.properties,
            secrets=tuple(config.secrets),
            scope=manifest.catalogs[name].desired.scope,
            roots=_roots(manifest.catalogs[name].desired),
            parallelism=parallelism,
        )
        for name, config in resolve_configs(manifest, sorted(manifest.catalogs if names is None else names)).items()
    ]


def _roots(desired: DesiredCatalog) -> frozenset[str]:
    names = (identifier[0] for identifier in chain(desired.namespaces, desired.tables))
    return desired.scope.outermost.union(names)
