"""A backend as a Lance namespace: the operations of the specification, built once on the backend's contract.

The operations follow the Lance Namespace specification, "Namespace Operations", in today's names (DescribeTable for
GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_namespace import NATIVE_IMPLS, register_namespace_impl

from reconciler.backends import registry
from reconciler.namespace.creating import CreatingOperations
from reconciler.namespace.datasets import DatasetOperations
from reconciler.namespace.entries import EntryOperations
from reconciler.namespace.namespaces import NamespaceOperations
from reconciler.namespace.shared import specification_errors


class CatalogNamespace(NamespaceOperations, EntryOperations, CreatingOperations, DatasetOperations):
    """A catalog as every Lance tool takes it. Every operation raises ``lance_namespace.errors`` types only.

    It can be pickled: the copy connects anew.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return CatalogNamespace, (self.backend,)

    def namespace_id(self) -> str:
        """Return a text that names this connection: the implementation and the service, without secrets."""
        return self.backend.namespace_id()

    def close(self) -> None:
        """Give back connections. A closed namespace is not used again."""
        self.backend.close()


def connect(impl: str, properties: Mapping[str, str]) -> CatalogNamespace:
    """Return a live catalog; whether the service answers shows at the first call.

    Raises:
        ConfigError, MissingExtraError: see :func:`reconciler.backends.registry.backend_class`.
        lance_namespace.errors.InvalidInputError: ``properties`` are incomplete or wrong, each fault named.
    """
    with specification_errors():
        return CatalogNamespace(registry.connect(impl, properties))


def register_impls() -> None:
    """Make every backend usable in ``lance_namespace.connect``.

    Each is known as ``lancens.<impl>``. Where lance_namespace has no implementation of its own under the plain name
    (it has ``dir`` and ``rest``), that works too, and takes the place of what another package registered there.
    """
    for impl in registry.names():
        path = f"reconciler.namespace.impls.{impl}"
        register_namespace_impl(f"lancens.{impl}", path)
        if impl not in NATIVE_IMPLS:
            register_namespace_impl(impl, path)
