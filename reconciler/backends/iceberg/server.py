"""The connection to an Iceberg REST catalog: authentication, and the warehouses it knows."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pydantic import SecretStr

from reconciler.backends.http import (
    ClientCredentials,
    HttpClient,
    RetryPolicy,
    StaticToken,
    TokenSource,
    UnknownRouteError,
)
from reconciler.backends.iceberg.config import IcebergConfig
from reconciler.backends.iceberg.refusals import read_catalog_error, read_oauth_error
from reconciler.backends.iceberg.routes import CONFIG, Routes, announced_prefix, encode
from reconciler.backends.iceberg.sigv4 import Signer, read_signed_error
from reconciler.backends.iceberg.warehouse import Warehouse
from reconciler.errors import InvalidInputError, NamespaceNotFoundError

__all__ = ["Server"]

_POOL_SIZE = 64


class Server:
    """One Iceberg REST catalog. Safe to use from several threads."""

    def __init__(self, config: IcebergConfig) -> None:
        self._config = config
        self._clients: list[HttpClient] = []
        self._warehouses: dict[str, Warehouse] = {}
        self._lock = threading.Lock()
        signed = config.sigv4_enabled
        self.http = self._client(
            config.endpoint,
            tokens=self._tokens(),
            endpoint_key="endpoint",
            token_key=None if signed else "credential" if config.credential else "auth_token",
            headers=config.headers,
            sign=Signer(config) if signed else None,
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

    def used(self) -> list[str]:
        """Return the names of the warehouses that were asked for and exist."""
        with self._lock:
            return list(self._warehouses)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()

    def _client(
        self,
        endpoint: str,
        *,
        tokens: TokenSource | None,
        endpoint_key: str,
        token_key: str | None,
        headers: Mapping[str, str] | None = None,
        sign: Signer | None = None,
    ) -> HttpClient:
        config = self._config
        translate = read_catalog_error if tokens else read_oauth_error
        client = HttpClient(
            impl="iceberg",
            endpoint=endpoint,
            connect_timeout=config.connect_timeout / 1000,
            read_timeout=config.read_timeout / 1000,
            retry=RetryPolicy(max_retries=config.max_retries),
            tokens=tokens,
            headers=headers,
            sign=sign,
            secrets=_secrets(config),
            translate=read_signed_error if sign else translate,
            endpoint_key=endpoint_key,
            token_key=token_key,
            pool_size=_POOL_SIZE,
            limits=config.limits,
        )
        self._clients.append(client)
        return client

    def _tokens(self) -> TokenSource:
        config = self._config
        if config.credential is None:
            return StaticToken(_revealed(config.auth_token))
        endpoint_key = "oauth2-server-uri" if config.oauth2_server_uri else "endpoint"
        http = self._client(config.token_address, tokens=None, endpoint_key=endpoint_key, token_key=None)
        return ClientCredentials("iceberg", http, "", config.credential.get_secret_value(), config.scope)

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


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def _secrets(config: IcebergConfig) -> set[str]:
    secrets = (config.auth_token, config.secret_access_key, config.session_token)
    found = {text for secret in secrets if (text := _revealed(secret))}
    found.update(value for value in config.headers.values() if value)
    return found.union(config.hidden)
