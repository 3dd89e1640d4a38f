"""One class for each backend, by the name of its ``impl``: what ``lance_namespace.connect`` looks up and constructs."""

from __future__ import annotations

from reconciler.backends import registry
from reconciler.namespace.catalog import CatalogNamespace, connect


def __getattr__(impl: str) -> type[CatalogNamespace]:
    if impl.startswith("__"):
        raise AttributeError(impl)
    registry.backend_class(impl)  # a name that is not installed, or lacks its extra, is an error here already

    def __init__(self: CatalogNamespace, **properties: str) -> None:  # noqa: N807 - it is the class's
        CatalogNamespace.__init__(self, connect(impl, properties).backend)

    return type(impl, (CatalogNamespace,), {"__init__": __init__, "__module__": __name__})
