"""The connection to an Iceberg REST catalog: authentication, and the warehouses it knows."""

from __future__ import annotations

import threading

from reconciler.backends.http import UnknownRouteError, service_client
from reconciler.backends.iceberg.catalog_errors import read_catalog_error
from reconciler.backends.iceberg.config import IcebergConfig
from reconciler.backends.iceberg.routes import CONFIG, Routes, announced_prefix, encode
from reconciler.backends.iceberg.sigv4 import Signer, read_signed_error
from reconciler.backends.iceberg.warehouse import Warehouse
from reconciler.model.errors import InvalidInputError, NamespaceNotFoundError

_POOL_SIZE = 64


class IcebergServer:
    """One Iceberg REST catalog. Safe to use from several threads."""

    def __init__(self, config: IcebergConfig) -> None:
        self._config = config
        self._warehouses: dict[str, Warehouse] = {}
        self._lock = threading.Lock()
        self.http = service_client(
            "iceberg",
            config,
            config.endpoint,
            translate=read_signed_error if config.sigv4_enabled else read_catalog_error,
            sign=Signer(config) if config.sigv4_enabled else None,
            pool_size=_POOL_SIZE,
        )

    def warehouse(self, name: str) -> Warehouse:
        """Return a warehouse; what the server says of it is asked for once.

        Raises:
            NamespaceNotFoundError: the server does not know it. Not every server tells.
        """
        with self._lock:
            found = self._warehouses.get(name)
            if found is None:
                found = self._warehouses[name] = Warehouse(name, self.http, self._routes(name))
            return found

    def _routes(self, warehouse: str) -> Routes:
        answer = self.http.json(
            "GET",
            CONFIG,
            doing=f"read the configuration of warehouse `{warehouse}`",
            query={"warehouse": self._config.warehouse(warehouse)},
            errors={404: NamespaceNotFoundError},
        )
        prefix = announced_prefix(answer)
        return Routes.of(self._unannounced_prefix(warehouse) if prefix is None else prefix, answer)

    def _unannounced_prefix(self, warehouse: str) -> str:
        """Return the warehouse's name where the server has routes below it (as Lance's specification says), or none."""
        prefix = encode(self._config.warehouse(warehouse))
        try:
            self.http.json(
                "GET",
                Routes(prefix).namespaces,
                doing=f"list the namespaces in warehouse `{warehouse}`",
                query={"pageToken": "", "pageSize": "1"},
                errors={404: NamespaceNotFoundError},
            )
        except (NamespaceNotFoundError, InvalidInputError, UnknownRouteError):
            return ""
        return prefix
