"""The served catalogs: one as it is, or several below their names."""

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
    """Answers operations; safe to use from several threads."""

    def __init__(self, namespaces: Collection[ServedNamespace], secrets: Collection[str]) -> None:
        self.namespaces = namespaces
        self._secrets = tuple(secrets)

    def answer(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        """Return the response to a request, with identifiers as the client sees them.

        Raises:
            LanceNamespaceError: as the operation does.
        """
        answer = self._answer(operation, request, data)
        if isinstance(request, ListAllTablesRequest) and isinstance(answer, spec.ListTablesResponse):
            return answer.model_copy(update={"tables": request.written(answer.tables)})
        return answer

    @abstractmethod
    def _answer(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        """Return the response to a request, with `$` in identifiers that are text."""

    def without_secrets(self, text: str) -> str:
        """Return ``text`` with every secret of the catalogs' configurations replaced."""
        return scrub(text, self._secrets)


class OneCatalog(ServedCatalogs):
    """One catalog as the root; its tables may also be below ``places``."""

    def __init__(self, backend: Backend, secrets: Collection[str] = (), places: Sequence[str] = ()) -> None:
        self._namespace = ServedNamespace(backend, places)
        super().__init__((self._namespace,), secrets)

    def _answer(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        return operation.run(self._namespace, request, data)


class ManyCatalogs(ServedCatalogs):
    """Several catalogs, whose names begin identifiers; see :class:`OneCatalog`."""

    def __init__(
        self, backends: Mapping[str, Backend], secrets: Collection[str] = (), places: Sequence[str] = ()
    ) -> None:
        self._named = {name: ServedNamespace(backend, places) for name, backend in backends.items()}
        super().__init__(tuple(self._named.values()), secrets)

    def _answer(self, operation: Operation, request: BaseModel, data: bytes) -> BaseModel:
        names: list[str] = getattr(request, "id", None) or []
        if not names:
            return self._at_root(operation, request)
        catalog, *below = names
        if operation.names_a_table and not below:
            raise InvalidInputError(f"`{catalog}` is not a table: the first name must be a catalog's")
        if catalog not in self._named:
            if operation.name == "CreateNamespace" and not below:
                raise UnsupportedOperationError(
                    f"catalog `{catalog}` cannot be created: catalogs are in the server's manifest"
                )
            known = ", ".join(sorted(self._named))
            raise NamespaceNotFoundError(f"there is no catalog `{catalog}` here; there are {known}")
        update: dict[str, object] = {"id": below}
        above = getattr(request, "new_namespace_id", None)
        if above is not None:
            if above[:1] != [catalog]:
                raise UnsupportedOperationError("a table cannot be renamed into another catalog")
            update["new_namespace_id"] = above[1:]
        answer = operation.run(self._named[catalog], request.model_copy(update=update), data)
        if isinstance(answer, spec.DescribeTableResponse) and answer.namespace is not None:
            return answer.model_copy(update={"namespace": [catalog, *answer.namespace]})
        if isinstance(answer, spec.DeregisterTableResponse) and answer.id is not None:
            return answer.model_copy(update={"id": [catalog, *answer.id]})
        return answer

    def _at_root(self, operation: Operation, request: BaseModel) -> BaseModel:
        token, limit = getattr(request, "page_token", None), getattr(request, "limit", None)
        if operation.name == "ListNamespaces":
            page = page_of(self._named, token, limit)
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
            for name, namespace in self._named.items()
            for table in namespace.list_all_tables(request).tables
        ]
