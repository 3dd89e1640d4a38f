"""A backend as a Lance namespace: the operations of the specification, built once on the backend's contract.

The operations follow the Lance Namespace specification, "Namespace Operations", in today's names (DescribeTable for
GetTable, DescribeNamespace for GetNamespace).
"""

from __future__ import annotations

from reconciler.namespace.creating import CreatingOperations
from reconciler.namespace.datasets import DatasetOperations
from reconciler.namespace.entries import EntryOperations
from reconciler.namespace.namespaces import NamespaceOperations


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
