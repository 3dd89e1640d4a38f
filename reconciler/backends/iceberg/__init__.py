"""``impl: iceberg``: Iceberg REST catalogs, with a companion Iceberg table for every Lance table.

The Lance specification is "Apache Iceberg REST Catalog", the protocol the Iceberg REST catalog's OpenAPI document.
"""

from reconciler.backends.iceberg.backend import IcebergBackend
from reconciler.backends.iceberg.config import IcebergConfig

__all__ = ["IcebergBackend", "IcebergConfig"]
