"""Call the routes of a Lance namespace server, one method each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from reconciler.backends.http.client import HttpClient, Paging, path
from reconciler.backends.http.listing import any_name, names_without_doubles
from reconciler.backends.http.refusals import (
    DisabledNamespaceError,
    ForeignAnswerError,
    Refusal,
    UnknownRouteError,
    VendorError,
)
from reconciler.backends.odd_entries import NO_LOCATION, OddEntryError, odd_entry
from reconciler.model import errors
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier, join
from reconciler.model.ownership import is_reserved_key

_ATTEMPTS = 3
_WITH_DECLARED = {"include_declared": "true"}
_PAGING = Paging("page_token", "page_token", entry_type=str)
_OTHER_LEVEL = re.compile(r"expected (?:at )?(\d)-level namespace", re.IGNORECASE)
_STACK_TRACE = re.compile(r"\n(?:[\w$.]+(?:Exception|Error)\b|\tat )")
_DISABLED = "CatalogNotInUseException"

_Fields: TypeAlias = Mapping[str, object]
_Errors: TypeAlias = Mapping[int, Any]

_MISSING_NAMESPACE_ERRORS: _Errors = {404: errors.NamespaceNotFoundError}
_MISSING_TABLE_ERRORS: _Errors = {404: errors.TableNotFoundError}
_NEW_TABLE_ERRORS: _Errors = {404: errors.NamespaceNotFoundError, 409: errors.TableAlreadyExistsError}


class ServletRouteError(UnknownRouteError):
    """A servlet container sent its own 404: the service does not know the path."""


class RestClient:
    """Calls one server; lists go to their last page.

    Errors are those of :mod:`reconciler.model.errors`.
    """

    def __init__(self, http: HttpClient, delimiter: str) -> None:
        self._http = http
        self._delimiter = delimiter
        self._query = {"delimiter": delimiter}
        self._is_servlet = False

    def operations(self) -> frozenset[str]:
        """ListOperations: return the operations; none if the server does not list them.

        There is no body: a server without the route may close the connection on an unread one. Such a server may
        respond with anything, so refusals are ignored; missing permissions show at the next call. A malformed response
        may be a damaged list, so it is requested again.

        Raises:
            ServiceUnavailableError, ThrottlingError: there is no answer now.
        """
        for _ in range(_ATTEMPTS):
            try:
                answer = self._http.request_json(
                    "POST", "/ListOperations", doing="ask for the operations", repeatable=True
                )
            except ServletRouteError:
                self._is_servlet = True
                break
            except (ForeignAnswerError, errors.InternalError):
                continue
            except (errors.ServiceUnavailableError, errors.ThrottlingError):
                raise
            except errors.BackendError:
                break
            if isinstance(operations := answer.get("operations"), list):
                return frozenset(map(str, operations))
        return frozenset()

    def table_level(self) -> int | None:
        """Return the only namespace level with tables, as in Gravitino; None for any.

        The refusal to list the tables of the root names the level. Call it after :meth:`operations`: only a servlet
        container without that route gets this request.

        Raises:
            ServiceUnavailableError, ThrottlingError: there is no answer now.
        """
        if self._is_servlet:
            route, query = self._route("namespace", (), "table", "list"), {**self._query, **_WITH_DECLARED}
            try:
                self._http.request_json("GET", route, doing="list", query=query)
            except (errors.ServiceUnavailableError, errors.ThrottlingError):
                raise
            except errors.BackendError as error:
                match = _OTHER_LEVEL.search(str(error))
                return int(match[1]) if match else None
        return None

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """ListNamespaces, all pages. A missing parent may list as empty."""
        return self._list_names("namespace", parent, {}, concerns, "list")

    def namespace(self, identifier: Identifier) -> LiveNamespace:
        """DescribeNamespace."""
        doing = f"read {_label('namespace', identifier)}"
        answer = self._post("namespace", identifier, "describe", {}, _MISSING_NAMESPACE_ERRORS, doing)
        if answer and "properties" not in answer:
            raise errors.InternalError(f"rest: {doing}: the answer describes no namespace")
        return LiveNamespace(identifier, _properties(answer, doing))

    def require_namespace(self, identifier: Identifier) -> None:
        """NamespaceExists; the root always does."""
        if identifier:
            self._require_existing("namespace", identifier, _MISSING_NAMESPACE_ERRORS)

    def create_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> None:
        """CreateNamespace, never by ``Overwrite``, which drops contents on some servers."""
        body = {"mode": "Create", "properties": dict(properties)}
        self._post(
            "namespace",
            identifier,
            "create",
            body,
            {**_MISSING_NAMESPACE_ERRORS, 409: errors.NamespaceAlreadyExistsError},
        )

    def drop_namespace(self, identifier: Identifier) -> None:
        """DropNamespace, by restrict only."""
        body = {"mode": "Fail", "behavior": "Restrict"}
        self._post(
            "namespace", identifier, "drop", body, {**_MISSING_NAMESPACE_ERRORS, 409: errors.NamespaceNotEmptyError}
        )

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges, live: LiveNamespace) -> LiveNamespace:
        """AlterNamespace, as ``lancens serve`` has it, on top of the state ``live``."""
        doing = f"change {_label('namespace', identifier)}"
        body = {"id": list(identifier), **_merge_fields(changes, live.properties)}
        answer = self._http.request_json(
            "POST", "/AlterNamespace", doing=doing, body=body, errors=_MISSING_NAMESPACE_ERRORS
        )
        return LiveNamespace(identifier, _properties(answer, doing))

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """ListTables, all pages. A missing namespace may list as empty.

        Gravitino, which has tables on one level only, refuses to list those of other levels: they have none.
        """
        try:
            return self._list_names("table", parent, _WITH_DECLARED, concerns, "table", "list")
        except errors.InvalidInputError as error:
            if not _OTHER_LEVEL.search(str(error)):
                raise
            return []

    def table(self, identifier: Identifier) -> LiveTable:
        """DescribeTable."""
        doing = f"read {_label('table', identifier)}"
        return _table(identifier, self._post("table", identifier, "describe", {}, _MISSING_TABLE_ERRORS, doing), doing)

    def storage_options(self, identifier: Identifier) -> dict[str, str]:
        """DescribeTable, for the storage options that the server vends for the table."""
        doing = f"ask for credentials for {_label('table', identifier)}"
        answer = self._post("table", identifier, "describe", {"vend_credentials": True}, _MISSING_TABLE_ERRORS, doing)
        return _texts(answer, "storage_options", doing)

    def has_table(self, identifier: Identifier) -> bool:
        """TableExists."""
        try:
            self._require_existing("table", identifier, _MISSING_TABLE_ERRORS)
        except (errors.TableNotFoundError, errors.NamespaceNotFoundError):
            return False
        return True

    def declare_table(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> None:
        """DeclareTable; the server chooses the location when ``location`` is None."""
        location_field = {} if location is None else {"location": location}
        self._post(
            "table", identifier, "declare", {**location_field, "properties": dict(properties)}, _NEW_TABLE_ERRORS
        )

    def register_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        """RegisterTable, in no other mode than create."""
        body = {"location": location, "mode": "Create", "properties": dict(properties)}
        self._post("table", identifier, "register", body, _NEW_TABLE_ERRORS)

    def deregister_table(self, identifier: Identifier) -> None:
        """DeregisterTable: removes the entry, keeps the data."""
        self._post("table", identifier, "deregister", {}, _MISSING_TABLE_ERRORS)

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """RenameTable. The body always names the namespace of the new name."""
        body = {"new_table_name": to[-1], "new_namespace_id": list(to[:-1])}
        self._post("table", identifier, "rename", body, {**_MISSING_TABLE_ERRORS, 409: errors.TableAlreadyExistsError})

    def alter_table(
        self, identifier: Identifier, changes: PropertyChanges, live: LiveTable, location: str | None
    ) -> LiveTable:
        """AlterTable, as ``lancens serve`` has it, on top of the state ``live``."""
        doing = f"change {_label('table', identifier)}"
        location_field = {} if location is None else {"location": location}
        body = {"id": list(identifier), **_merge_fields(changes, live.properties), **location_field}
        answer = self._http.request_json("POST", "/AlterTable", doing=doing, body=body, errors=_MISSING_TABLE_ERRORS)
        return _table(identifier, answer, doing)

    # ---- requests ------------------------------------------------------------------------------------------------

    def _route(self, kind: str, identifier: Identifier, *operation: str) -> str:
        for name in identifier:
            if self._delimiter in name:
                raise errors.InvalidInputError(
                    f"rest: `{name}` holds the delimiter `{self._delimiter}`; set another one"
                )
        return path("v1", kind, self._delimiter.join(identifier) or self._delimiter, *operation)

    def _post(
        self, kind: str, identifier: Identifier, operation: str, body: _Fields, expected: _Errors, doing: str = ""
    ) -> dict[str, Any]:
        """Send an operation on an object; return the response.

        ``doing`` describes it in errors; the default is the operation and the object.
        """
        doing, route = doing or f"{operation} {_label(kind, identifier)}", self._route(kind, identifier, operation)
        fields, reads = {"id": list(identifier), **body}, operation == "describe"
        return self._http.request_json(
            "POST", route, doing=doing, query=self._query, body=fields, errors=expected, repeatable=reads
        )

    def _require_existing(self, kind: str, identifier: Identifier, expected: _Errors) -> None:
        doing, route = f"look for {_label(kind, identifier)}", self._route(kind, identifier, "exists")
        body = {"id": list(identifier)}
        self._http.send("POST", route, doing=doing, query=self._query, body=body, errors=expected, repeatable=True)

    def _list_names(
        self, kind: str, parent: Identifier, query: Mapping[str, str], concerns: Callable[[str], bool], *operation: str
    ) -> list[str]:
        key, route = f"{kind}s", self._route("namespace", parent, *operation)
        doing = f"list the {key} in {_label('namespace', parent)}"
        read = partial(self._http.list_entries, route, key, _PAGING, doing=doing, query={**self._query, **query})
        return names_without_doubles("rest", kind, parent, read, concerns)


def _label(kind: str, identifier: Identifier) -> str:
    return f"{kind} `{join(identifier)}`" if identifier else "the root"


def _merge_fields(changes: PropertyChanges, live: Mapping[str, str]) -> _Fields:
    """Return the fields of a request that merges ``changes`` into ``live`` properties.

    The server refuses it if a changed key, or a mark, no longer has its ``live`` value.
    """
    concerned = {*changes.set, *changes.remove, *filter(is_reserved_key, live)}
    return {
        "set_properties": dict(changes.set),
        "unset_properties": sorted(changes.remove),
        "expected_properties": {key: live.get(key) for key in sorted(concerned)},
    }


def _properties(answer: Mapping[str, Any], doing: str) -> dict[str, str]:
    return _texts(answer, "properties", doing)


def _texts(answer: Mapping[str, Any], key: str, doing: str) -> dict[str, str]:
    texts = answer.get(key) or {}
    if not isinstance(texts, Mapping) or not all(isinstance(value, str) for value in texts.values()):
        raise errors.InternalError(f"rest: {doing}: the {key.replace('_', ' ')} in the answer are not texts")
    return dict(texts)


def _table(identifier: Identifier, answer: Mapping[str, Any], doing: str) -> LiveTable:
    location = answer.get("location") or answer.get("table_uri")
    properties = _properties(answer, doing)
    if not isinstance(location, str):
        raise OddEntryError(f"rest: {doing}: the answer names no location", odd_entry(NO_LOCATION, properties))
    is_managed = answer.get("managed_versioning") is True
    return LiveTable(identifier, location, properties, managed_versioning=is_managed)


def translate(refusal: Refusal) -> VendorError | None:
    """Translate an error body, ``{"error": "what happened", "code": 4}``.

    pylance's adapter reports unsupported operations as Internal. For an unknown code, the call and the status decide on
    the error class. The stack traces in Gravitino's errors are removed.
    """
    if not isinstance(refusal.body, dict):
        return None
    code = refusal.body.get("code")
    text = next(
        (value for key in ("error", "detail", "message") if isinstance(value := refusal.body.get(key), str)), ""
    )
    is_disabled = _DISABLED in text
    text = _STACK_TRACE.split(text, maxsplit=1)[0]
    if is_disabled:
        return VendorError(text, DisabledNamespaceError)
    if "servlet" in refusal.body and code is None:
        return VendorError(text, ServletRouteError)
    if isinstance(code, bool) or not isinstance(code, int):
        return VendorError(text) if text else None
    try:
        known = errors.ErrorCode(code)
    except ValueError:
        return VendorError(f"{text} (code {code})")
    kind = errors.error_type(known)
    if kind is errors.InternalError and text.startswith("Not supported"):
        kind = errors.UnsupportedOperationError
    return VendorError(f"{known.name}: {text}" if text else known.name, kind)
