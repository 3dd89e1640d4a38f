"""Call the routes of an Iceberg REST catalog, one method each.

The first name of an identifier is a warehouse; Iceberg calls the others the levels of a namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeGuard

from reconciler.backends.http.client import HttpClient, Paging, TaggedValue
from reconciler.backends.http.listing import any_name, names_without_doubles, require_same_name
from reconciler.backends.http.refusals import UnknownRouteError
from reconciler.backends.iceberg.answers import (
    LANCE,
    TABLE_TYPE,
    TableEntry,
    UncertainCommitError,
    UnreadableTableError,
    parse_entry,
    parse_properties,
    parse_written_entry,
    vended_options,
)
from reconciler.backends.iceberg.config import IcebergConfig
from reconciler.backends.iceberg.routes import Routes, announced_prefix, encode
from reconciler.model import errors, locations
from reconciler.model.capabilities import Safeguard
from reconciler.model.live import LiveNamespace, PropertyChanges
from reconciler.model.names import Identifier, join

SAFEGUARD = Safeguard("gc.enabled", "false", "Iceberg's clean-up (`remove_orphan_files`) would delete the data")
"""No snapshot names the files of a Lance dataset, so Iceberg takes them for orphans."""

# Without an empty first token, servers need not return pages.
_PAGING = Paging("pageToken", "next-page-token", first_token="")
_PAGE_SIZE = "1000"
# Iceberg tables have columns; this one is never filled.
_DUMMY_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
}
_NO_SNAPSHOTS = {"snapshots": "refs"}
_NO_LOCATIONS: Mapping[Identifier, str] = {}
_VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}

MISSING_NAMESPACE: Mapping[int, type[errors.BackendError]] = {404: errors.NamespaceNotFoundError}
MISSING_TABLE: Mapping[int, type[errors.BackendError]] = {404: errors.TableNotFoundError}
TAKEN_TABLE: Mapping[int, type[errors.BackendError]] = {
    404: errors.NamespaceNotFoundError,
    409: errors.TableAlreadyExistsError,
}
"""The errors for statuses of calls about a namespace, a table, and a new table."""


class IcebergClient:
    """Calls one catalog; lists go to their last page.

    Errors are those of :mod:`reconciler.model.errors`.
    """

    kind = "an Iceberg table"
    """What messages call a table of this list that is no Lance table."""
    other_kind = "generic table"
    """The format of the tables that :meth:`other_names` lists."""

    def __init__(self, http: HttpClient, config: IcebergConfig) -> None:
        self._http = http
        self._config = config
        self._routes: dict[str, Routes] = {}
        self._routes_lock = threading.Lock()
        self._cached_entries: dict[Identifier, TaggedValue[TableEntry]] = {}
        """The last entry of each table whose response had an ETag."""
        self._namespace_locations: dict[Identifier, str] = {}
        """The location of each namespace, as last read, on Polaris."""

    # ---- warehouses ----------------------------------------------------------------------------------------------

    def routes(self, warehouse: str) -> Routes:
        """Return the routes of a warehouse; the first call requests its configuration.

        Raises:
            NamespaceNotFoundError: the server does not know it. Not every server tells.
        """
        with self._routes_lock:
            if warehouse not in self._routes:
                doing = f"read the configuration of {_namespace_label((warehouse,))}"
                query = {"warehouse": self._config.warehouse(warehouse)}
                answer = self._http.request_json(
                    "GET", "/v1/config", doing=doing, query=query, errors=MISSING_NAMESPACE
                )
                prefix = announced_prefix(answer)
                prefix = self._unannounced_prefix(warehouse) if prefix is None else prefix
                self._routes[warehouse] = Routes.from_config(prefix, answer)
            return self._routes[warehouse]

    def _unannounced_prefix(self, warehouse: str) -> str:
        """Return the warehouse's name if the server has routes below it, else ``""``.

        Lance's specification expects them there.
        """
        prefix = encode(self._config.warehouse(warehouse))
        path, doing = Routes(prefix).namespaces, f"list the namespaces in {_namespace_label((warehouse,))}"
        query = {"pageToken": "", "pageSize": "1"}
        try:
            self._http.request_json("GET", path, doing=doing, query=query, errors=MISSING_NAMESPACE)
        except (errors.NamespaceNotFoundError, errors.InvalidInputError, UnknownRouteError):
            return ""
        return prefix

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """Return the names of the namespaces in ``parent``.

        Some servers list none in a missing parent.

        Raises:
            NamespaceNotFoundError: the server says that ``parent`` does not exist.
            DoubledNameError: it lists a name twice that ``concerns`` the caller.
        """
        warehouse, *levels = parent
        routes, doing = self.routes(warehouse), f"list the namespaces in {_namespace_label(parent)}"
        query = {"parent": routes.parent(levels)} if levels else {}

        def read() -> Iterator[str]:
            for child in self._pages(routes.namespaces, "namespaces", query, doing):
                if not _is_nonempty_list_of_text(child) or child[:-1] != levels:
                    raise errors.InternalError(f"iceberg: {doing}: the answer names something else: {child!r:.200}")
                yield child[-1]

        return names_without_doubles("iceberg", "namespace", parent, read, concerns)

    def namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return a namespace; a warehouse has no properties.

        Raises:
            NamespaceNotFoundError: it does not exist.
        """
        path, doing = self._path(identifier), f"read {_namespace_label(identifier)}"
        if len(identifier) == 1:
            return LiveNamespace(identifier)
        answer = self._http.request_json("GET", path, doing=doing, errors=MISSING_NAMESPACE)
        if answer and answer.keys().isdisjoint(("namespace", "properties")):
            raise errors.InternalError(f"iceberg: {doing}: the answer describes no namespace")
        levels = answer.get("namespace")
        if _is_nonempty_list_of_text(levels):
            require_same_name("iceberg", identifier, (identifier[0], *levels))
        return self._remember_location(LiveNamespace(identifier, parse_properties(answer, doing)))

    def base_location(self, namespace: Identifier, declared: Mapping[Identifier, str] = _NO_LOCATIONS) -> str | None:
        """Return the location that the tables of a namespace must be below; None for any.

        Only Polaris has this rule. A namespace without a location is below its parent's there. ``declared`` has the
        locations of namespaces in the manifest.
        """
        try:
            base = self.routes(namespace[0]).base_location
        except errors.NamespaceNotFoundError:
            return None
        if base is None or len(namespace) == 1:
            return base
        if namespace in declared:
            return declared[namespace]
        if namespace not in self._namespace_locations:
            with suppress(errors.NamespaceNotFoundError):
                self.namespace(namespace)
            self._namespace_locations.setdefault(
                namespace, locations.join(self.base_location(namespace[:-1], declared) or base, namespace[-1])
            )
        return self._namespace_locations[namespace]

    def _remember_location(self, namespace: LiveNamespace) -> LiveNamespace:
        if "location" in namespace.properties:
            self._namespace_locations[namespace.id] = namespace.properties["location"]
        return namespace

    def create_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveNamespace:
        """Create a namespace and return it; not every server checks its parent.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: the server says that the parent does not exist.
        """
        warehouse, *levels = identifier
        doing = f"create {_namespace_label(identifier)}"
        answer = self._http.request_json(
            "POST",
            self.routes(warehouse).namespaces,
            doing=doing,
            body={"namespace": levels, "properties": dict(properties)},
            errors={**MISSING_NAMESPACE, 409: errors.NamespaceAlreadyExistsError},
        )
        stored = answer.get("namespace")
        if _is_nonempty_list_of_text(stored) and stored != levels:
            self.drop_namespace((warehouse, *stored))
            require_same_name("iceberg", identifier, (warehouse, *stored))
        return self._remember_location(LiveNamespace(identifier, parse_properties(answer, doing)))

    def update_properties(self, identifier: Identifier, changes: PropertyChanges) -> None:
        """Merge ``changes`` into a namespace's properties, removals first.

        There is one request for the removals and one for the updates. To one request with both, Polaris 1.5.0 responds
        with 409 after making the updates only. If the second fails, the marks still name the removed properties, so
        the next apply completes the change.

        Raises:
            NamespaceNotFoundError: it does not exist.
        """
        path, doing = self._path(identifier, "properties"), f"change the properties of {_namespace_label(identifier)}"
        for part in (PropertyChanges(remove=changes.remove), PropertyChanges(changes.set)):
            if part:
                body = {"updates": dict(part.set), "removals": sorted(part.remove)}
                self._http.send("POST", path, doing=doing, body=body, errors=MISSING_NAMESPACE)

    def drop_namespace(self, identifier: Identifier) -> None:
        """Drop a namespace; not every server refuses one that holds namespaces.

        Raises:
            NamespaceNotFoundError: it does not exist.
            NamespaceNotEmptyError: the server says that it holds something.
        """
        path, doing = self._path(identifier), f"drop {_namespace_label(identifier)}"
        self._http.send("DELETE", path, doing=doing, errors={**MISSING_NAMESPACE, 409: errors.NamespaceNotEmptyError})

    # ---- tables and views ----------------------------------------------------------------------------------------

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """Return the names of all tables in ``parent``, of whatever format.

        Some servers list none in a missing namespace.

        Raises:
            NamespaceNotFoundError: the server says that ``parent`` does not exist.
            DoubledNameError: it lists a name twice that ``concerns`` the caller.
        """
        if len(parent) == 1:
            return []
        read = partial(self._names, parent, "tables")
        return names_without_doubles("iceberg", "table", parent, read, concerns)

    def views(self, parent: Identifier) -> list[str]:
        """Return the names of the views in a namespace; none if the server has no views."""
        is_listed = self.routes(parent[0]).lists_views
        if is_listed is False:
            return []
        try:
            return list(dict.fromkeys(self._names(parent, "views")))
        except (
            errors.UnsupportedOperationError,
            errors.InvalidInputError,
            errors.NamespaceNotFoundError,
            UnknownRouteError,
        ):
            if is_listed:
                raise
            return []

    def other_names(self, parent: Identifier) -> list[str]:
        """Return the names of Polaris's generic tables in a namespace."""
        if len(parent) == 1 or not self.routes(parent[0]).has_generic:
            return []
        return list(self._generic_names(parent))

    def table(self, identifier: Identifier) -> TableEntry:
        """Return a table's entry; the request asks the server to omit old snapshots.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            UnreadableTableError: the service fails at this table.
        """
        doing = f"load {table_label(identifier)}"
        tagged = self._http.get_if_changed(
            self._table_path(identifier),
            self._cached_entries.get(identifier),
            partial(parse_entry, doing=doing),
            doing=doing,
            query=_NO_SNAPSHOTS,
            errors={**MISSING_TABLE, 500: UnreadableTableError},
        )
        if tagged.etag is not None:
            self._cached_entries[identifier] = tagged
        return tagged.value

    def vended_options(self, identifier: Identifier) -> dict[str, str]:
        """Return the storage options that the service vends for a table's data.

        There may be none.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
        """
        path, doing = self._table_path(identifier), f"ask for credentials for {table_label(identifier)}"
        answer = self._http.request_json(
            "GET", path, doing=doing, query=_NO_SNAPSHOTS, headers=_VENDED, errors=MISSING_TABLE
        )
        return vended_options(answer, parse_entry(answer, doing).location)

    def create_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> TableEntry:
        """Create the marked Iceberg table of a Lance table; return its entry.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            TableAlreadyExistsError: the name is taken, by a view too.
        """
        doing = f"create {table_label(identifier)}"
        answer = self._http.request_json(
            "POST",
            self._path(identifier[:-1], "tables"),
            doing=doing,
            body={
                "name": identifier[-1],
                "location": location,
                "schema": _DUMMY_SCHEMA,
                "stage-create": False,  # Nessie fails without it
                "properties": {**properties, TABLE_TYPE: LANCE, SAFEGUARD.key: SAFEGUARD.value},
            },
            errors=TAKEN_TABLE,
        )
        return parse_written_entry(answer, doing)

    def commit(self, identifier: Identifier, uuid: str, changes: PropertyChanges, location: str | None) -> TableEntry:
        """Change a table's properties, and its location where given.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it is another table than ``uuid``, or was changed at the same moment.
            UncertainCommitError: the service failed; the commit may have been made.
        """
        updates: list[dict[str, object]] = []
        if changes.set:
            updates.append({"action": "set-properties", "updates": dict(changes.set)})
        if changes.remove:
            updates.append({"action": "remove-properties", "removals": sorted(changes.remove)})
        if location is not None:
            updates.append({"action": "set-location", "location": location})
        doing = f"change {table_label(identifier)}"
        answer = self._http.request_json(
            "POST",
            self._table_path(identifier),
            doing=doing,
            body={
                "identifier": _identifier_body(identifier),
                "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
                "updates": updates,
            },
            errors={**MISSING_TABLE, 409: errors.ConcurrentModificationError, 500: UncertainCommitError},
        )
        return parse_written_entry(answer, doing)

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table within its warehouse in one step; the rest of it stays.

        Raises:
            TableNotFoundError: it does not exist.
            TableAlreadyExistsError: the name is taken, by a view too.
        """
        path, doing = self.routes(identifier[0]).rename, f"rename {table_label(identifier)}"
        body = {"source": _identifier_body(identifier), "destination": _identifier_body(to)}
        self._http.send(
            "POST", path, doing=doing, body=body, errors={**MISSING_TABLE, 409: errors.TableAlreadyExistsError}
        )

    def drop_table(self, identifier: Identifier, before_repeat: Callable[[], object] = lambda: None) -> None:
        """Drop a table's entry, with the request to keep the data.

        ``before_repeat`` is called before each retry, and may raise (see ``RequestOptions``).

        Raises:
            TableNotFoundError: it does not exist.
        """
        path, doing = self._table_path(identifier), f"drop the entry of {table_label(identifier)}"
        query = {"purgeRequested": "false"}
        self._http.send("DELETE", path, doing=doing, query=query, errors=MISSING_TABLE, before_repeat=before_repeat)

    # ---- requests ------------------------------------------------------------------------------------------------

    def _path(self, namespace: Identifier, *below: str) -> str:
        return self.routes(namespace[0]).namespace(namespace[1:], *below)

    def _table_path(self, identifier: Identifier) -> str:
        return self._path(identifier[:-1], "tables", identifier[-1])

    def _generic_names(self, parent: Identifier) -> Iterator[str]:
        path = self.routes(parent[0]).generic_tables(parent[1:])
        return self._names(parent, "generic tables", path)

    def _names(self, parent: Identifier, listed: str, path: str | None = None) -> Iterator[str]:
        """Yield the names in a list: of ``listed``, such as ``tables``, whose route is ``path`` if it differs."""
        doing = f"list the {listed} in {_namespace_label(parent)}"
        for identifier in self._pages(path or self._path(parent, listed), "identifiers", {}, doing):
            name = identifier.get("name") if isinstance(identifier, dict) else None
            if not isinstance(name, str):
                raise errors.InternalError(f"iceberg: {doing}: the answer holds no name: {identifier!r:.200}")
            yield name

    def _pages(self, path: str, key: str, query: Mapping[str, str], doing: str) -> Iterator[Any]:
        return self._http.list_entries(path, key, _PAGING, doing=doing, query={**query, "pageSize": _PAGE_SIZE})


def _namespace_label(namespace: Identifier) -> str:
    return f"{'namespace' if len(namespace) > 1 else 'warehouse'} `{join(namespace)}`"


def table_label(identifier: Identifier) -> str:
    """Return the name of a table for errors."""
    return f"table `{join(identifier)}`"


def _identifier_body(identifier: Identifier) -> dict[str, object]:
    return {"namespace": list(identifier[1:-1]), "name": identifier[-1]}


def _is_nonempty_list_of_text(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)
