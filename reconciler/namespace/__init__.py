"""Any backend offered as a ``lance_namespace.LanceNamespace``: to pylance, LanceDB, Ray, Spark, and ``lancens serve``.

Nothing that plans or applies imports this room: ``lance_namespace`` takes as long to import as a thousand tables take
to plan.
"""

from __future__ import annotations

from reconciler.namespace.catalog import CatalogNamespace, connect, register_impls

__all__ = ["CatalogNamespace", "connect", "register_impls"]
