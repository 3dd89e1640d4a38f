"""Any backend as a ``lance_namespace.LanceNamespace``, for every Lance tool.

``plan`` and ``apply`` do not import this room, because importing ``lance_namespace`` takes 0.8 s.
"""

from __future__ import annotations

from reconciler.namespace.catalog import CatalogNamespace, connect, register_impls

__all__ = ["CatalogNamespace", "connect", "register_impls"]
