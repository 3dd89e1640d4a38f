"""The catalogs of a server: one as the root, or several below their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

import lance_namespace as spec
from lance_namespace.errors import InvalidInputError, NamespaceNotFoundError, UnsupportedOperationError
from pydantic import BaseModel

from reconciler.backends.base import Backend
from reconciler.model.names import DELIMITER
from reconciler.model.redaction import scrub
from reconciler.namespace.shared import page_of
from reconciler.server.operations import ListAllTablesRequest, Operation
from reconciler.server.served import ServedNamespace


class ServedCatalogs(ABC):
    """Carries out operations on catalogs; safe to use from several threads.

    ``served`` has each catalog with its operations.
    """

    def __init__(self, served: Collection[ServedNamespace], secrets: Collection[str]) -> None:
        self.served = served
        self._secrets = tuple(secrets)

    def answer(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        """Return the response to a request, with the client's delimiter in identifiers.

        ``data`` are the rows in the body, if the operation takes any.

        Raises:
            LanceNamespaceError: as the operation does.
        """
        response = self._run(operation, request, data)
        if isinstance(request, ListAllTablesRequest) and isinstance(response, spec.ListTablesResponse):
            return response.model_copy(update={"tables": request.with_client_delimiter(response.tables)})
        return response

    @abstractmethod
    def _run(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        """Return the response to a request, with `$` as the delimiter in identifiers."""

    def without_secrets(self, text: str) -> str:
        """Return ``text`` with every secret of the catalogs' configurations replaced."""
        return scrub(text, self._secrets)


class OneCatalog(ServedCatalogs):
    """One catalog as the root.

    The tables that clients create or open may also be below ``extra_locations``, besides the catalog's roots.
    """

    def __init__(self, backend: Backend, secrets: Collection[str] = (), extra_locations: Sequence[str] = ()) -> None:
        self._namespace = ServedNamespace(backend, extra_locations)
        super().__init__((self._namespace,), secrets)

    def _run(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        return operation.run(self._namespace, request, data)


class ManyCatalogs(ServedCatalogs):
    """Several catalogs; the first name of every identifier is that of the catalog.

    ``extra_locations`` hold for each of them, as in :class:`OneCatalog`.
    """

    def __init__(
        self, backends: Mapping[str, Backend], secrets: Collection[str] = (), extra_locations: Sequence[str] = ()
    ) -> None:
        self._by_name = {name: ServedNamespace(backend, extra_locations) for name, backend in backends.items()}
        super().__init__(tuple(self._by_name.values()), secrets)

    def _run(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        names: list[str] = getattr(request, "id", None) or []
        if not names:
            return self._run_on_root(operation, request)
        catalog, *below = names
        if operation.names_a_table and not below:
            raise InvalidInputError(f"`{catalog}` is not a table: the first name must be a catalog's")
        if catalog not in self._by_name:
            if operation.name == "CreateNamespace" and not below:
                raise UnsupportedOperationError(
                    f"catalog `{catalog}` cannot be created: catalogs are in the server's manifest"
                )
            known = ", ".join(sorted(self._by_name))
            raise NamespaceNotFoundError(f"there is no catalog `{catalog}` here; there are {known}")
        update: dict[str, object] = {"id": below}
        new_parent = getattr(request, "new_namespace_id", None)
        if new_parent is not None:
            if new_parent[:1] != [catalog]:
                raise UnsupportedOperationError("a table cannot be renamed into another catalog")
            update["new_namespace_id"] = new_parent[1:]
        response = operation.run(self._by_name[catalog], request.model_copy(update=update), data)
        if isinstance(response, spec.DescribeTableResponse) and response.namespace is not None:
            return response.model_copy(update={"namespace": [catalog, *response.namespace]})
        if isinstance(response, spec.DeregisterTableResponse) and response.id is not None:
            return response.model_copy(update={"id": [catalog, *response.id]})
        return response

    def _run_on_root(self, operation: Operation, request: BaseModel) -> BaseModel:
        """Return the response to a request about the root, whose content is the catalogs."""
        token, limit = getattr(request, "page_token", None), getattr(request, "limit", None)
        if operation.name == "ListNamespaces":
            page = page_of(self._by_name, token, limit)
            return spec.ListNamespacesResponse(namespaces=page.names, page_token=page.token)
        if operation.name == "ListTables":
            return spec.ListTablesResponse(tables=[])
        if operation.name == "ListAllTables":
            page = page_of(self._all_tables(getattr(request, "include_declared", None)), token, limit)
            return spec.ListTablesResponse(tables=page.names, page_token=page.token)
        if operation.name == "DescribeNamespace":
            return spec.DescribeNamespaceResponse(properties={})
        if operation.name == "NamespaceExists":
            return spec.NamespaceExistsResponse()
        raise InvalidInputError(f"{operation.name} cannot be used on the root, which holds the catalogs")

    def _all_tables(self, include_declared: bool | None) -> list[str]:
        request = spec.ListTablesRequest(include_declared=include_declared)
        return [
            f"{name}{DELIMITER}{table}"
            for name, namespace in self._by_name.items()
            for table in namespace.list_all_tables(request).tables
        ]
