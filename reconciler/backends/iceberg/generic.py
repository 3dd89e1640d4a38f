"""Call the routes of Polaris's generic tables, which have any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reconciler.backends.http.listing import any_name, names_without_doubles
from reconciler.backends.iceberg.answers import LANCE, TABLE_TYPE, TableEntry, parse_properties
from reconciler.backends.iceberg.client import MISSING_TABLE, TAKEN_TABLE, IcebergClient, table_label
from reconciler.backends.iceberg.routes import Routes
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import InternalError, InvalidInputError
from reconciler.model.names import Identifier

CAPABILITIES = Capabilities(
    lost_with_namespace="its location and access rules",
    namespace_places=frozenset({"location"}),
    table_depths=(2, None),
    fixed_levels=1,
    alter_table=False,
    relocate_table=False,
    lost_on_move="its `doc` and access rules",
)
"""These routes create, list, load and drop tables; they cannot change or rename one."""


class GenericClient(IcebergClient):
    """Calls one catalog; Lance tables are generic tables of the format ``lance``."""

    kind = "a generic table of another format"
    other_kind = "iceberg"

    def routes(self, warehouse: str) -> Routes:
        """Return the routes of a warehouse.

        Raises:
            InvalidInputError: the server has no generic tables.
        """
        routes = super().routes(warehouse)
        if not routes.has_generic:
            raise InvalidInputError(
                f"iceberg: the service offers no generic tables in `{warehouse}`; leave out `tables: generic`, which "
                "is for Apache Polaris"
            )
        return routes

    def tables(self, parent: Identifier, concerns: Callable[[str], bool] = any_name) -> list[str]:
        """Return the names of all generic tables in ``parent``, of whatever format."""
        if len(parent) == 1:
            return []
        return names_without_doubles("iceberg", "table", parent, lambda: self._generic_names(parent), concerns)

    def other_names(self, parent: Identifier) -> list[str]:
        """Return the names of Iceberg tables: no generic table can have the same one."""
        return super().tables(parent)

    def table(self, identifier: Identifier) -> TableEntry:
        """Return a generic table; one without a location is unreadable."""
        doing = f"load {table_label(identifier)}"
        return _entry(
            self._http.request_json("GET", self._generic_path(identifier), doing=doing, errors=MISSING_TABLE), doing
        )

    def vended_options(self, identifier: Identifier) -> dict[str, str]:
        """Return no options: generic tables have none."""
        return {}

    def create_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> TableEntry:
        """Create a generic table and return it."""
        doing = f"create {table_label(identifier)}"
        answer = self._http.request_json(
            "POST",
            self.routes(identifier[0]).generic_tables(identifier[1:-1]),
            doing=doing,
            body={
                "name": identifier[-1],
                "format": LANCE,
                "base-location": location,
                "properties": {**properties, TABLE_TYPE: LANCE},
            },
            errors=TAKEN_TABLE,
        )
        return _entry(answer, doing)

    def drop_table(self, identifier: Identifier, before_repeat: Callable[[], object] = lambda: None) -> None:
        """Drop a generic table's entry."""
        path, doing = self._generic_path(identifier), f"drop the entry of {table_label(identifier)}"
        self._http.send("DELETE", path, doing=doing, errors=MISSING_TABLE, before_repeat=before_repeat)

    def _generic_path(self, identifier: Identifier) -> str:
        return self.routes(identifier[0]).generic_tables(identifier[1:-1], identifier[-1])


def _entry(answer: Mapping[str, Any], doing: str) -> TableEntry:
    table = answer.get("table")
    if not isinstance(table, Mapping) or not isinstance(table.get("format"), str):
        raise InternalError(f"iceberg: {doing}: the answer is not a generic table; check what answers at this URL")
    location = table.get("base-location")
    properties = {**parse_properties(table, doing), TABLE_TYPE: table["format"]}
    entry = TableEntry(location=location if isinstance(location, str) else "", properties=properties)
    return replace(entry, unreadable="names no `base-location`") if entry.is_lance and not entry.location else entry
