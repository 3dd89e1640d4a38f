"""A backend as a Lance namespace, implemented once for all backends.

The operations follow the Lance Namespace specification, "Namespace Operations", with its present names (DescribeTable
for GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_namespace import NATIVE_IMPLS, register_namespace_impl

from reconciler.backends import registry
from reconciler.namespace.creating import CreatingOperations
from reconciler.namespace.datasets import DatasetOperations
from reconciler.namespace.entries import EntryOperations
from reconciler.namespace.metadata import MetadataOperations
from reconciler.namespace.namespaces import NamespaceOperations
from reconciler.namespace.shared import specification_errors


class CatalogNamespace(NamespaceOperations, EntryOperations, CreatingOperations, DatasetOperations, MetadataOperations):
    """A catalog as a Lance namespace; its operations raise ``lance_namespace.errors`` only.

    It can be pickled; the copy opens a new connection.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return CatalogNamespace, (self.backend,)

    def namespace_id(self) -> str:
        """Return the implementation and the service as text, without secrets."""
        return self.backend.namespace_id()

    def close(self) -> None:
        """Close the connections; the namespace cannot be used again."""
        self.backend.close()


def connect(impl: str, properties: Mapping[str, str]) -> CatalogNamespace:
    """Return a live catalog; the first call shows whether the service answers.

    Raises:
        ConfigError, MissingExtraError: see :func:`reconciler.backends.registry.backend_class`.
        lance_namespace.errors.InvalidInputError: ``properties`` are incomplete or invalid, with every problem.
    """
    with specification_errors():
        return CatalogNamespace(registry.connect(impl, properties))


_ALIASES = {"hive": "hive2"}
"""Names of the Lance specification: its Hive has two levels."""


def register_impls() -> None:
    """Make every backend usable in ``lance_namespace.connect``.

    Each is registered as ``lancens.<impl>``, and under its plain name unless lance_namespace has an implementation
    of that name (``dir``, ``rest``). A plain name replaces what another package registered. ``hive`` is ``hive2``.
    """
    for impl in registry.names():
        path = f"reconciler.namespace.impls.{impl}"
        register_namespace_impl(f"lancens.{impl}", path)
        if impl not in NATIVE_IMPLS:
            register_namespace_impl(impl, path)
    for alias, impl in _ALIASES.items():
        register_namespace_impl(alias, f"reconciler.namespace.impls.{impl}")
