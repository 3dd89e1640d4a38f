"""The routes of a Lance namespace server that lancens uses, one method each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.backends.doubles import every_name, names_without_doubles
from reconciler.backends.http import ForeignAnswerError, HttpClient, path
from reconciler.backends.paging import every_page
from reconciler.model.errors import (
    BackendError,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
)
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier, join


class RestServer:
    """Calls one server. Errors are those of :mod:`reconciler.model.errors`; lists go to their last page."""

    def __init__(self, http: HttpClient, delimiter: str) -> None:
        self.http = http
        self._delimiter = delimiter

    def operations(self) -> frozenset[str]:
        """ListOperations: what the server offers, nothing where it does not tell.

        There is no body: a server that does not know the route may close the connection over one it did not read.
        Whatever the answer is, a server that has no such route may give it: the error of its framework or of a gateway
        before it, a page, a refusal of who asks. Who truly may not ask is told so by the next call.

        Raises:
            ServiceUnavailableError, ThrottlingError: there is no answer now.
        """
        try:
            answer = self.http.json("POST", "/ListOperations", doing="ask for the operations")
        except ForeignAnswerError:
            return frozenset()
        except (ServiceUnavailableError, ThrottlingError):
            raise
        except BackendError:
            return frozenset()
        operations = answer.get("operations")
        return frozenset(map(str, operations)) if isinstance(operations, list) else frozenset()

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """ListNamespaces, all pages. Some servers answer an empty list for a missing parent."""
        return self._listed("namespace", parent, ("list",), {}, concerns)

    def namespace(self, identifier: Identifier) -> LiveNamespace:
        """DescribeNamespace."""
        answer = self._post("namespace", identifier, "describe", "read", {}, _MISSING_NAMESPACE)
        return LiveNamespace(identifier, _properties(answer, f"read {_named('namespace', identifier)}"))

    def require_namespace(self, identifier: Identifier) -> None:
        """NamespaceExists; the root always does."""
        if identifier:
            self._look("namespace", identifier, _MISSING_NAMESPACE)

    def create_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """CreateNamespace, in no other mode than create: overwrite drops what is inside on some servers."""
        body = {"mode": "Create", "properties": dict(properties)}
        errors = {**_MISSING_NAMESPACE, 409: NamespaceAlreadyExistsError}
        self._post("namespace", identifier, "create", "create", body, errors)

    def drop_namespace(self, identifier: Identifier) -> None:
        """DropNamespace, by restrict only."""
        body = {"mode": "Fail", "behavior": "Restrict"}
        self._post("namespace", identifier, "drop", "drop", body, {**_MISSING_NAMESPACE, 409: NamespaceNotEmptyError})

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """AlterNamespace, as ``lancens serve`` has it."""
        doing = f"change {_named('namespace', identifier)}"
        body = {"id": list(identifier), **_merge(changes)}
        errors = {404: NamespaceNotFoundError}
        answer = self.http.json("POST", "/AlterNamespace", doing=doing, body=body, errors=errors)
        return LiveNamespace(identifier, _properties(answer, doing))

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """ListTables, all pages. Some servers answer an empty list for a missing namespace."""
        return self._listed("table", parent, ("table", "list"), {"include_declared": "true"}, concerns)

    def table(self, identifier: Identifier) -> LiveTable:
        """DescribeTable."""
        answer = self._post("table", identifier, "describe", "read", {}, _MISSING_TABLE)
        return _table(identifier, answer, f"read {_named('table', identifier)}")

    def storage_options(self, identifier: Identifier) -> dict[str, str]:
        """DescribeTable, for what the server hands out for opening the table."""
        asking = "ask for credentials for"
        answer = self._post("table", identifier, "describe", asking, {"vend_credentials": True}, _MISSING_TABLE)
        return _texts(answer, "storage_options", f"{asking} {_named('table', identifier)}")

    def has_table(self, identifier: Identifier) -> bool:
        """TableExists."""
        try:
            self._look("table", identifier, _MISSING_TABLE)
        except (TableNotFoundError, NamespaceNotFoundError):
            return False
        return True

    def declare_table(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> None:
        """DeclareTable, where the server likes when ``location`` is None."""
        place = {} if location is None else {"location": location}
        self._post("table", identifier, "declare", "declare", {**place, "properties": dict(properties)}, _TAKEN_TABLE)

    def register_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        """RegisterTable, in no other mode than create."""
        body = {"location": location, "mode": "Create", "properties": dict(properties)}
        self._post("table", identifier, "register", "register", body, _TAKEN_TABLE)

    def deregister_table(self, identifier: Identifier) -> None:
        """DeregisterTable: the entry goes, the data stays."""
        self._post("table", identifier, "deregister", "deregister", {}, _MISSING_TABLE)

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """RenameTable, with the namespace of the new name said in any case."""
        body = {"new_table_name": to[-1], "new_namespace_id": list(to[:-1])}
        self._post("table", identifier, "rename", "rename", body, {**_MISSING_TABLE, 409: TableAlreadyExistsError})

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None) -> LiveTable:
        """AlterTable, as ``lancens serve`` has it."""
        doing = f"change {_named('table', identifier)}"
        place = {} if location is None else {"location": location}
        body = {"id": list(identifier), **_merge(changes), **place}
        answer = self.http.json("POST", "/AlterTable", doing=doing, body=body, errors=_MISSING_TABLE)
        return _table(identifier, answer, doing)

    # ---- requests ------------------------------------------------------------------------------------------------

    @property
    def _query(self) -> Mapping[str, str]:
        return {"delimiter": self._delimiter}

    def _route(self, kind: str, identifier: Identifier, *operation: str) -> str:
        for name in identifier:
            if self._delimiter in name:
                raise InvalidInputError(f"rest: `{name}` holds the delimiter `{self._delimiter}`; set another one")
        return path("v1", kind, self._delimiter.join(identifier) or self._delimiter, *operation)

    def _post(
        self,
        kind: str,
        identifier: Identifier,
        operation: str,
        verb: str,
        body: Mapping[str, object],
        errors: Mapping[int, Any],
    ) -> dict[str, Any]:
        doing, route = f"{verb} {_named(kind, identifier)}", self._route(kind, identifier, operation)
        whole = {"id": list(identifier), **body}
        return self.http.json("POST", route, doing=doing, query=self._query, body=whole, errors=errors)

    def _look(self, kind: str, identifier: Identifier, errors: Mapping[int, Any]) -> None:
        doing, route = f"look for {_named(kind, identifier)}", self._route(kind, identifier, "exists")
        body = {"id": list(identifier)}
        self.http.done("POST", route, doing=doing, query=self._query, body=body, errors=errors)

    def _listed(
        self,
        kind: str,
        parent: Identifier,
        operation: tuple[str, ...],
        query: Mapping[str, str],
        concerns: Callable[[str], bool],
    ) -> list[str]:
        """Return the names of every page."""
        key, route = f"{kind}s", self._route("namespace", parent, *operation)
        doing = f"list the {key} in {_named('namespace', parent)}"
        return names_without_doubles("rest", kind, parent, lambda: self._pages(route, key, doing, query), concerns)

    def _pages(self, route: str, key: str, doing: str, query: Mapping[str, str]) -> Iterator[str]:
        """Yield the names of every page."""

        def fetch(token: str | None, number: int) -> tuple[Sequence[str], str | None]:
            asked = {**self._query, **query} if token is None else {**self._query, **query, "page_token": token}
            page = doing if number == 1 else f"{doing}, page {number}"
            answer = self.http.json("GET", route, doing=page, query=asked, errors={404: NamespaceNotFoundError})
            return _names(answer, key, page), _token(answer, page)

        return every_page(f"rest: {doing}", fetch, str, once=False)


_MISSING_NAMESPACE: Mapping[int, Any] = {404: NamespaceNotFoundError}
_MISSING_TABLE: Mapping[int, Any] = {404: TableNotFoundError}
_TAKEN_TABLE: Mapping[int, Any] = {404: NamespaceNotFoundError, 409: TableAlreadyExistsError}


def _named(what: str, identifier: Identifier) -> str:
    return f"{what} `{join(identifier)}`" if identifier else "the root"


def _merge(changes: PropertyChanges) -> dict[str, object]:
    return {"set_properties": dict(changes.set), "unset_properties": sorted(changes.remove)}


def _names(answer: Mapping[str, Any], key: str, doing: str) -> Sequence[str]:
    names = answer.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InternalError(f"rest: {doing}: the answer holds no list `{key}`; is this a Lance namespace server?")
    return names


def _token(answer: Mapping[str, Any], doing: str) -> str | None:
    token = answer.get("page_token")
    if token is not None and not isinstance(token, str):
        raise InternalError(f"rest: {doing}: the page token is not text")
    return token or None


def _properties(answer: Mapping[str, Any], doing: str) -> dict[str, str]:
    return _texts(answer, "properties", doing)


def _texts(answer: Mapping[str, Any], key: str, doing: str) -> dict[str, str]:
    texts = answer.get(key) or {}
    if not isinstance(texts, Mapping) or not all(isinstance(value, str) for value in texts.values()):
        raise InternalError(f"rest: {doing}: the {key.replace('_', ' ')} in the answer are not texts")
    return dict(texts)


def _table(identifier: Identifier, answer: Mapping[str, Any], doing: str) -> LiveTable:
    location = answer.get("location") or answer.get("table_uri")
    if not isinstance(location, str):
        raise InternalError(f"rest: {doing}: the answer names no location")
    is_managed = answer.get("managed_versioning") is True
    return LiveTable(identifier, location, _properties(answer, doing), managed_versioning=is_managed)
