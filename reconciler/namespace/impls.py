"""A class for each backend, for ``lance_namespace.connect`` to construct."""

from __future__ import annotations

from reconciler.backends import registry
from reconciler.namespace.catalog import CatalogNamespace, connect


def __getattr__(impl: str) -> type[CatalogNamespace]:
    if impl.startswith("__"):
        raise AttributeError(impl)
    registry.backend_class(impl)  # raises now if the name is unknown or its extra is missing

    def __init__(self: CatalogNamespace, **properties: str) -> None:  # noqa: N807 - a method of the class
        CatalogNamespace.__init__(self, connect(impl, properties).backend)

    return type(impl, (CatalogNamespace,), {"__init__": __init__, "__module__": __name__})
