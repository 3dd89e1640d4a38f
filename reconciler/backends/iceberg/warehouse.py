"""One warehouse of an Iceberg REST catalog, in Iceberg's own terms: a namespace is a list of levels.

Implements the client's side of the Iceberg REST catalog's OpenAPI document: namespaces, tables and the lists of views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeGuard

from reconciler.backends.doubles import every_name, names_without_doubles
from reconciler.backends.http import HttpClient, Tagged, UnknownRouteError
from reconciler.backends.iceberg.routes import Routes
from reconciler.backends.iceberg.vending import ASKING, vended_options
from reconciler.backends.identifiers import require_kept
from reconciler.backends.paging import every_page
from reconciler.model.capabilities import Safeguard
from reconciler.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import PropertyChanges
from reconciler.model.names import join

Levels: TypeAlias = Sequence[str]

TABLE_TYPE = "table_type"
SAFEGUARD = Safeguard("gc.enabled", "false", "Iceberg's clean-up (`remove_orphan_files`) would delete the data")
"""To Iceberg the files of a Lance dataset are orphans: no snapshot of the table it knows names them."""
_LANCE = "lance"
_PAGE_SIZE = "1000"

# Iceberg tables have columns; this one is never filled.
_DUMMY_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
}
# Nessie adds at which of its commits it read a table, which changes with every commit to any table.
_READ_AT = frozenset({"nessie.commit.id", "nessie.commit.ref"})


class UnreadableTableError(InternalError):
    """The service lists a table and cannot load it: its metadata is lost, or is not what the protocol asks for."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """What the server keeps of one table, of whatever format. ``uuid`` is another one once it is made again."""

    uuid: str
    location: str
    properties: Mapping[str, str]

    @property
    def is_lance(self) -> bool:
        """Whether the entry is marked as that of a Lance table (Lance specification, "Lance Table Identification")."""
        return self.properties.get(TABLE_TYPE, "").lower() == _LANCE


@dataclass(slots=True)
class Warehouse:
    """The calls on one warehouse. Safe to use from several threads.

    ``name`` is the first level of Lance identifiers; levels given to the methods are those below it.
    """

    name: str
    http: HttpClient
    routes: Routes
    _seen: dict[str, Tagged[TableEntry]] = field(default_factory=dict, repr=False)
    """The last answer of each table that came with an ETag, by path."""

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def child_namespaces(self, parent: Levels, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names of the namespaces directly below ``parent``.

        Some servers answer a missing parent with an empty list.

        Raises:
            NamespaceNotFoundError: the server says that ``parent`` does not exist.
            DoubledNameError: it lists a name twice that ``concerns`` the caller.
        """
        doing = f"list the namespaces in {self._called(parent)}"
        query = {"parent": self.routes.parent(parent)} if parent else {}

        def read() -> Iterator[str]:
            for levels in self._pages(self.routes.namespaces, "namespaces", query, doing):
                if not _is_list_of_text(levels) or levels[:-1] != list(parent):
                    raise InternalError(f"iceberg: {doing}: the answer names something else: {levels!r:.200}")
                yield levels[-1]

        return names_without_doubles("iceberg", "namespace", (self.name, *parent), read, concerns)

    def namespace_properties(self, levels: Levels) -> dict[str, str]:
        """Return the properties of a namespace.

        Raises:
            NamespaceNotFoundError: it does not exist.
        """
        doing = f"read {self._called(levels)}"
        answer = self.http.json("GET", self.routes.namespace(levels), doing=doing, errors={404: NamespaceNotFoundError})
        kept = answer.get("namespace")
        if _is_list_of_text(kept):
            require_kept("iceberg", (self.name, *levels), (self.name, *kept))
        return _properties(answer, doing)

    def create_namespace(self, levels: Levels, properties: Mapping[str, str]) -> dict[str, str]:
        """Create a namespace and return its properties. Not every server asks for the parent to exist.

        Raises:
            NamespaceAlreadyExistsError: the name is taken.
            NamespaceNotFoundError: the server says that the parent does not exist.
        """
        doing = f"create {self._called(levels)}"
        answer = self.http.json(
            "POST",
            self.routes.namespaces,
            doing=doing,
            body={"namespace": list(levels), "properties": dict(properties)},
            errors={404: NamespaceNotFoundError, 409: NamespaceAlreadyExistsError},
        )
        kept = answer.get("namespace")
        if _is_list_of_text(kept) and kept != list(levels):
            self.drop_namespace(kept)
            require_kept("iceberg", (self.name, *levels), (self.name, *kept))
        return _properties(answer, doing)

    def update_properties(self, levels: Levels, changes: PropertyChanges) -> None:
        """Merge ``changes`` into a namespace's properties: removals first, so that the marks of them stay until then.

        Polaris 1.5.0 answers a request with both by 409, with the updates done and the removals not.

        Raises:
            NamespaceNotFoundError: it does not exist.
        """
        for part in (PropertyChanges(remove=changes.remove), PropertyChanges(changes.set)):
            if part:
                self.http.done(
                    "POST",
                    self.routes.properties(levels),
                    doing=f"change the properties of {self._called(levels)}",
                    body={"updates": dict(part.set), "removals": sorted(part.remove)},
                    errors={404: NamespaceNotFoundError},
                )

    def drop_namespace(self, levels: Levels) -> None:
        """Drop a namespace. Servers refuse one with tables; not every one refuses one with namespaces.

        Raises:
            NamespaceNotFoundError: it does not exist.
            NamespaceNotEmptyError: the server says that it holds something.
        """
        self.http.done(
            "DELETE",
            self.routes.namespace(levels),
            doing=f"drop {self._called(levels)}",
            errors={404: NamespaceNotFoundError, 409: NamespaceNotEmptyError},
        )

    # ---- tables and views ----------------------------------------------------------------------------------------

    def tables(self, levels: Levels, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names of all tables in a namespace, of whatever format.

        Some servers answer a missing namespace with an empty list.

        Raises:
            NamespaceNotFoundError: the server says that it does not exist.
            DoubledNameError: it lists a name twice that ``concerns`` the caller.
        """
        doing = f"list the tables in {self._called(levels)}"
        read = partial(self._names, self.routes.tables(levels), doing)
        return names_without_doubles("iceberg", "table", (self.name, *levels), read, concerns)

    def views(self, levels: Levels) -> list[str]:
        """Return the names of the views in a namespace; none where the server has none."""
        if self.routes.lists_views is False:
            return []
        try:
            doing = f"list the views in {self._called(levels)}"
            return list(dict.fromkeys(self._names(self.routes.views(levels), doing)))
        except (UnsupportedOperationError, InvalidInputError, NamespaceNotFoundError, UnknownRouteError):
            if self.routes.lists_views:
                raise
            return []

    def load_table(self, levels: Levels, name: str) -> TableEntry:
        """Return what the server keeps of a table, asking for no more of it than it must send.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            UnreadableTableError: the service fails at this table.
        """
        path = self.routes.table(levels, name)
        doing = f"load {self._called((*levels, name), 'table')}"
        found = self.http.reread(
            path,
            self._seen.get(path),
            partial(_entry, doing=doing),
            doing=doing,
            query={"snapshots": "refs"},
            errors={404: TableNotFoundError, 500: UnreadableTableError},
        )
        if found.etag is not None:
            self._seen[path] = found
        return found.value

    def vended_options(self, levels: Levels, name: str) -> dict[str, str]:
        """Return the storage options that the service hands out for a table's data; none where it hands out none.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
        """
        doing = f"ask for credentials for {self._called((*levels, name), 'table')}"
        answer = self.http.json(
            "GET",
            self.routes.table(levels, name),
            doing=doing,
            query={"snapshots": "refs"},
            headers=ASKING,
            errors={404: TableNotFoundError},
        )
        return vended_options(answer, _entry(answer, doing).location)

    def create_table(self, levels: Levels, name: str, location: str, properties: Mapping[str, str]) -> TableEntry:
        """Create a Lance table's companion and return what the server made of it, location included.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            TableAlreadyExistsError: the name is taken, by a view too.
        """
        doing = f"create {self._called((*levels, name), 'table')}"
        answer = self.http.json(
            "POST",
            self.routes.tables(levels),
            doing=doing,
            body={
                "name": name,
                "location": location,
                "schema": _DUMMY_SCHEMA,
                "stage-create": False,  # Nessie fails without it
                "properties": {**properties, TABLE_TYPE: _LANCE, SAFEGUARD.key: SAFEGUARD.value},
            },
            errors={404: NamespaceNotFoundError, 409: TableAlreadyExistsError},
        )
        return _entry(answer, doing)

    def commit(
        self, levels: Levels, name: str, uuid: str, changes: PropertyChanges, location: str | None
    ) -> TableEntry:
        """Merge ``changes`` into a table's properties, and move its entry to ``location`` where given.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it is another table than ``uuid``, or was changed at the same moment.
        """
        updates: list[dict[str, object]] = []
        if changes.set:
            updates.append({"action": "set-properties", "updates": dict(changes.set)})
        if changes.remove:
            updates.append({"action": "remove-properties", "removals": sorted(changes.remove)})
        if location is not None:
            updates.append({"action": "set-location", "location": location})
        doing = f"change {self._called((*levels, name), 'table')}"
        answer = self.http.json(
            "POST",
            self.routes.table(levels, name),
            doing=doing,
            body={
                "identifier": {"namespace": list(levels), "name": name},
                "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
                "updates": updates,
            },
            errors={404: TableNotFoundError, 409: ConcurrentModificationError},
        )
        return _entry(answer, doing)

    def rename_table(self, origin: tuple[Levels, str], to: tuple[Levels, str]) -> None:
        """Rename a table, which the server does in one step; everything else of it stays.

        Raises:
            TableNotFoundError: it does not exist.
            TableAlreadyExistsError: the name is taken, by a view too.
        """
        (levels, name), (new_levels, new_name) = origin, to
        self.http.done(
            "POST",
            self.routes.rename,
            doing=f"rename {self._called((*levels, name), 'table')}",
            body={
                "source": {"namespace": list(levels), "name": name},
                "destination": {"namespace": list(new_levels), "name": new_name},
            },
            errors={404: TableNotFoundError, 409: TableAlreadyExistsError},
        )

    def drop_table(self, levels: Levels, name: str) -> None:
        """Drop a table's entry; the server is told to leave the data alone.

        Raises:
            TableNotFoundError: it does not exist.
        """
        self.http.done(
            "DELETE",
            self.routes.table(levels, name),
            doing=f"drop the entry of {self._called((*levels, name), 'table')}",
            query={"purgeRequested": "false"},
            errors={404: TableNotFoundError},
        )

    # ---- the shape of answers ------------------------------------------------------------------------------------

    def _names(self, path: str, doing: str) -> Iterator[str]:
        for identifier in self._pages(path, "identifiers", {}, doing):
            name = identifier.get("name") if isinstance(identifier, dict) else None
            if not isinstance(name, str):
                raise InternalError(f"iceberg: {doing}: the answer holds no name: {identifier!r:.200}")
            yield name

    def _pages(self, path: str, key: str, query: Mapping[str, str], doing: str) -> Iterator[Any]:
        """Yield the entries of every page; an empty first token asks a server for pages at all."""

        def fetch(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            page = doing if number == 1 else f"{doing}, page {number}"
            answer = self.http.json(
                "GET",
                path,
                doing=page,
                query={**query, "pageToken": token or "", "pageSize": _PAGE_SIZE},
                errors={404: NamespaceNotFoundError},
            )
            entries, following = answer.get(key), answer.get("next-page-token")
            if not isinstance(entries, list):
                raise InternalError(f"iceberg: {page}: the answer holds no `{key}`")
            if following is not None and not isinstance(following, str):
                raise InternalError(f"iceberg: {page}: the page token is not text")
            return entries, following

        return every_page(f"iceberg: {doing}", fetch, repr, once=False)

    def _called(self, levels: Levels, what: str = "namespace") -> str:
        return f"{what if levels else 'warehouse'} `{join((self.name, *levels))}`"


def _is_list_of_text(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)


def _properties(answer: Mapping[str, object], doing: str) -> dict[str, str]:
    properties = answer.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise InternalError(f"iceberg: {doing}: the properties in the answer are not an object")
    return {str(key): str(value) for key, value in properties.items() if value is not None and key not in _READ_AT}


def _entry(answer: Mapping[str, object], doing: str) -> TableEntry:
    metadata = answer.get("metadata")
    location = metadata.get("location") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(location, str):
        raise UnreadableTableError(f"iceberg: {doing}: the answer holds no metadata with a location")
    return TableEntry(str(metadata.get("table-uuid") or ""), location, _properties(metadata, doing))
