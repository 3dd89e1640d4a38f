"""``impl: iceberg``: Iceberg REST catalogs; a companion table per Lance table.

The Lance specification is "Apache Iceberg REST Catalog", the protocol the Iceberg REST catalog's OpenAPI document.
"""

from reconciler.backends.iceberg.backend import IcebergBackend
from reconciler.backends.iceberg.config import IcebergConfig

__all__ = ["IcebergBackend", "IcebergConfig"]
