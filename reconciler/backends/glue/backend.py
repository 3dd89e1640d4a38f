"""Provide the backend for AWS Glue."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, cast

from reconciler.backends.base import Backend
from reconciler.backends.glue import structures
from reconciler.backends.glue.aws_errors import accept_repeat_unless, send_prepared_again
from reconciler.backends.glue.config import GlueConfig
from reconciler.backends.glue.scan import scan
from reconciler.backends.service_options import own_options
from reconciler.backends.spark_types import hive_columns
from reconciler.model import errors, locations
from reconciler.model.capabilities import Capabilities, NameRule
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

if TYPE_CHECKING:
    from mypy_boto3_glue.type_defs import CatalogTypeDef, DatabaseTypeDef, TableTypeDef


KIND = "lancens.kind"
"""The property with which a Lance client asks CreateNamespace for a catalog; it is not stored."""

_LONGEST_COLUMN = 255
# CreateCatalog makes catalogs directly in an account; it has no parameter for a parent.
_CATALOG_DEPTH = 1
_CATALOG_NAME = re.compile(r"(?!aws:)[^./\\]{1,64}")
_NAME = re.compile("[ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]{1,255}")


class GlueBackend(Backend):
    """The catalogs, databases and Lance tables of a Glue Data Catalog.

    A namespace is a catalog, which holds catalogs and databases, or a database, which holds tables. The account's own
    catalog is the root.
    """

    impl = "glue"
    config_model = GlueConfig
    config: GlueConfig
    checks_at_commit = True
    known_capabilities = Capabilities(
        lost_with_namespace="its description, location and Lake Formation permissions",
        namespace_places=frozenset({structures.LOCATION}),
        table_depths=(1, None),
        name_rule=NameRule(_NAME, "a name in Glue has at most 255 printable characters"),
        folds_case=True,
        lost_on_move="its Lake Formation permissions, tags, column statistics and version history",
        namespace_kinds=structures.KINDS,
        outer_kind_depth=_CATALOG_DEPTH,
    )

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        import boto3  # noqa: F401 -- so that a missing extra shows when the backend is made, not at its first call

        from reconciler.backends.glue.service import Service

        self._depth = len(structures.names_in(self.config.catalog_id))
        self._service = Service(self.config)
        self._locations_lock = Lock()
        self._database_locations: dict[Identifier, str | None] = {}

    def traffic(self) -> Traffic:
        """Return the requests so far, retries included, and the bytes of the responses."""
        return self._service.meter.traffic

    def close(self) -> None:
        """Close the connections."""
        self._service.close()

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``."""
        with self._service.meter.scan_limits():
            snapshot = scan(self._service, self._depth, scope, self.parallelism)
        self._database_locations = {
            name: namespace.properties.get(structures.LOCATION) for name, namespace in snapshot.namespaces.items()
        }
        return snapshot

    def ask_capabilities(self) -> Capabilities:
        """Return the capabilities; without catalogs if the service does not list them."""
        depth = max(0, _CATALOG_DEPTH - self._depth) if self._service.has_catalogs() else 0
        return replace(self.known_capabilities, outer_kind_depth=depth)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace.

        Raises:
            InvalidInputError: it is a link or federated.
        """
        database = self._database(identifier)
        if database is not None:
            return structures.live_database(identifier, database)
        return structures.live_catalog(identifier, self._catalog(identifier))

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table.

        Raises:
            NotLanceTableError: it is another sort of table.
        """
        return structures.live_table(identifier, self._table(identifier))

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the catalogs and databases directly in ``parent``."""
        kind = self.load_namespace(parent).kind if parent else structures.CATALOG
        if kind == structures.DATABASE:
            return []
        return [*{name for name, is_foreign in self._objects_in(parent, kind) if not is_foreign}]

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the Lance tables in ``parent``; a catalog has none."""
        return [table["Name"] for table in self._tables(parent) if not _is_foreign(table)]

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of foreign tables, functions, links and federated databases."""
        kind = self.load_namespace(identifier).kind
        return [name for name, is_foreign in self._objects_in(identifier, kind) if is_foreign]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return the foreign tables, views and links in a database; catalogs have none."""
        return [
            structures.foreign_table((*namespace, table["Name"]), table)
            for table in self._tables(namespace, names)
            if structures.table_mismatch(table) is not None
        ]

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the configured options and those in the parameters of the table.

        Hosts are restricted as :func:`own_options` says.
        """
        return own_options(self.storage_options(), table, self.hosts)

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a database, or a catalog if ``kind`` or ``lancens.kind`` asks for one.

        Raises:
            UnsupportedOperationError: a catalog inside a catalog, for which Glue has no call.
        """
        chosen = kind or properties.get(KIND) or structures.DATABASE
        if chosen not in structures.KINDS:
            raise errors.InvalidInputError(
                f"glue: a namespace is a {' or a '.join(structures.KINDS)}, not a `{chosen}`"
            )
        if chosen == structures.DATABASE:
            _check_location(identifier, properties)
        parameters = _without_kind(properties)
        namespace = LiveNamespace(identifier, parameters, chosen)
        create = self._create_catalog if chosen == structures.CATALOG else self._create_database
        with accept_repeat_unless(lambda: self.load_namespace(identifier) != namespace):
            create(identifier, parameters)
        self._database_locations.pop(identifier, None)
        return namespace

    def _create_catalog(self, identifier: Identifier, parameters: dict[str, str]) -> None:
        label = f"`{join(identifier)}`"
        if self._depth + len(identifier) > _CATALOG_DEPTH:
            raise errors.UnsupportedOperationError(
                f"glue: catalog {label} cannot be created: Glue makes catalogs directly in an account only; "
                "one inside another comes from the service it belongs to"
            )
        if not _CATALOG_NAME.fullmatch(identifier[-1]):
            raise errors.InvalidInputError(
                f"glue: {label}: a catalog's name has at most 64 characters, none of `.`, `/`, `\\`, and no `aws:`"
            )
        with suppress(errors.NamespaceNotFoundError):
            self._service.database(identifier)
            raise errors.NamespaceAlreadyExistsError(f"glue: {label} already exists, as a database")
        self._service.create_catalog(identifier, parameters)

    def _create_database(self, identifier: Identifier, parameters: dict[str, str]) -> None:
        # A policy for the account's own catalog alone denies a look at any other, even a missing one.
        with suppress(errors.NamespaceNotFoundError, errors.PermissionDeniedError):
            self._service.catalog(identifier)
            raise errors.NamespaceAlreadyExistsError(f"glue: `{join(identifier)}` already exists, as a catalog")
        self._service.create_database(identifier, structures.new_database(identifier[-1], parameters))

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove an empty namespace.

        Glue would delete its contents too, so this lists them right before.
        """

        def prepare() -> tuple[Callable[[], None], None]:
            kind = self._checked(self.load_namespace(identifier)).kind
            for name, _ in self._objects_in(identifier, kind):
                raise errors.NamespaceNotEmptyError(f"glue: `{join(identifier)}` is not empty: it holds `{name}`")
            is_database = kind == structures.DATABASE
            delete = self._service.delete_database if is_database else self._service.delete_catalog
            return partial(delete, identifier), None

        send_prepared_again(self._service.attempts(), prepare, removes=True)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's parameters and location.

        All other fields stay.
        """
        changes = replace(changes, set=_without_kind(changes.set))

        def prepare() -> tuple[Callable[[], None], LiveNamespace]:
            database = self._database(identifier)
            if database is not None:
                _check_location(identifier, changes.set)
                live = self._checked(structures.live_database(identifier, database))
                properties = changes.applied_to(live.properties)
                altered = structures.with_properties(database, properties)
                update = partial(self._service.update_database, identifier, altered)
                return update, structures.live_database(identifier, altered)
            catalog = self._catalog(identifier)
            self._checked(structures.live_catalog(identifier, catalog))
            catalog["Parameters"] = changes.applied_to(catalog.get("Parameters") or {})
            update = partial(self._service.update_catalog, identifier, catalog)
            return update, structures.live_catalog(identifier, catalog)

        altered = send_prepared_again(self._service.attempts(), prepare)
        self._database_locations.pop(identifier, None)
        return altered

    # ---- tables --------------------------------------------------------------------------------------------------

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table."""
        table = LiveTable(identifier, location, dict(properties))
        with accept_repeat_unless(lambda: self.load_table(identifier) != table):
            self._service.create_table(identifier, structures.new_table(identifier[-1], location, properties))
        return table

    def copy_table(self, table: LiveTable, to: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Copy every field of the entry of ``table`` that Glue lets a client write."""
        copied = LiveTable(to, table.location, dict(properties))
        copy: TableTypeDef = {**structures.with_state(self._table(table.id), copied), "Name": to[-1]}
        with accept_repeat_unless(lambda: self.load_table(to) != copied):
            self._service.create_table(to, copy)
        return copied

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return writes to a table and a database that do not exist; `lancens doctor` sends them.

        IAM decides before Glue looks for the object.
        """
        missing = structures.new_table(table[-1], f"s3://{table[-1]}/none.lance", {})
        return {
            "creating a table, in a database that is not there,": partial(
                self._service.create_table, (*table[:-2], table[-1], table[-1]), missing
            ),
            "changing a table": partial(self._service.update_table, table, cast("TableTypeDef", missing)),
            "deregistering a table": partial(self._service.delete_table, table),
            "dropping a database": partial(self._service.delete_database, (*table[:-2], table[-1])),
        }

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a Lance table."""

        def prepare() -> tuple[Callable[[], None], LiveTable]:
            return partial(self._service.delete_table, identifier), self._checked(self.load_table(identifier))

        return send_prepared_again(self._service.attempts(), prepare, removes=True)

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's parameters; set its ``location``.

        All other fields stay.

        Raises:
            ConcurrentModificationError: it changed after it was read here.
        """
        table = self._table(identifier)
        live = self._checked(structures.live_table(identifier, table))
        altered = LiveTable(identifier, location or live.location, changes.applied_to(live.properties))
        with accept_repeat_unless(lambda: self.load_table(identifier) != altered):
            self._service.update_table(identifier, structures.with_state(table, altered))
        return altered

    def shown_columns(self, identifiers: Collection[Identifier]) -> dict[Identifier, ShownColumns]:
        """Return the columns of entries; one call reads about a hundred tables."""
        names: defaultdict[Identifier, set[str]] = defaultdict(set)
        for identifier in identifiers:
            names[identifier[:-1]].add(identifier[-1])

        def read(database: Identifier) -> list[TableTypeDef]:
            try:
                return list(self._service.tables_named(database, names[database]))
            except errors.NamespaceNotFoundError:
                return []

        return {
            (*database, table["Name"]): shown
            for database, tables in zip(names, in_parallel(read, names, self.parallelism), strict=True)
            for table in tables
            if structures.table_mismatch(table) is None and (shown := structures.shown_columns(table))
        }

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns of ``schema`` in Hive's types, which Glue uses."""
        return hive_columns(schema, _LONGEST_COLUMN)

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Replace the columns of a table's entry; comments and parameters stay.

        Raises:
            ConcurrentModificationError: it changed after it was read here.
        """
        table = self._table(identifier)
        self._checked(structures.live_table(identifier, table))
        altered = structures.with_columns(table, columns)
        with accept_repeat_unless(
            lambda: structures.shown_columns(self._table(identifier)) != structures.shown_columns(altered)
        ):
            self._service.update_table(identifier, altered)

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the location of a table below its database's, or below ``root``.

        The manifest's location for the database comes first.
        """
        database = identifier[:-1]
        return self._table_location(
            self.declared_locations.get(database) or self._database_location(database), identifier
        )

    def _database_location(self, name: Identifier) -> str | None:
        """Return the location of a database; None if it has none or does not exist.

        It is cached: a plan may create a thousand tables in one database, from many threads.
        """
        with self._locations_lock:
            if name not in self._database_locations:
                database = self._database(name)
                self._database_locations[name] = database.get("LocationUri") if database else None
            return self._database_locations[name]

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return the table at ``path``; a database's folder may be ``<name>.db``."""
        *above, table = super().identifier_at(path)
        return (*above[:-1], *(name.removesuffix(".db") for name in above[-1:]), table)

    def location_for_request(self, identifier: Identifier) -> str:
        """Return the location of a table that a namespace operation creates."""
        database = self._database(identifier[:-1])
        if database is None:
            raise errors.NamespaceNotFoundError(f"glue: namespace `{join(identifier[:-1])}` does not exist")
        location = self._table_location(database.get("LocationUri"), identifier)
        if location is None:
            raise errors.InvalidInputError(
                f"glue: table `{join(identifier)}` needs a location: neither it nor its database has one, and no "
                "`root` is configured"
            )
        return location

    def _table_location(self, location: str | None, identifier: Identifier) -> str | None:
        """Return the table's location below its database's ``location``, or ``root``."""
        if not location and self.config.root is not None:
            location = locations.join(self.config.root, *identifier[:-1])
        return locations.join(location, f"{identifier[-1]}.lance") if location else None

    # ---- catalogs, databases, tables ------------------------------------------------------------------------------

    def _database(self, identifier: Identifier) -> DatabaseTypeDef | None:
        """Return the database ``identifier``; None if it does not exist."""
        try:
            database = self._service.database(identifier)
        except errors.NamespaceNotFoundError:
            return None
        _require_manageable(identifier, structures.database_mismatch(database))
        return database

    def _catalog(self, identifier: Identifier) -> CatalogTypeDef:
        catalog = self._service.catalog(identifier)
        _require_manageable(identifier, structures.catalog_mismatch(catalog))
        return catalog

    def _objects_in(self, identifier: Identifier, kind: str | None) -> Iterator[tuple[str, bool]]:
        """Yield the name of every object in a namespace, and whether it is foreign."""
        if kind == structures.DATABASE:
            for table in self._service.tables(identifier):
                yield table["Name"], _is_foreign(table)
            for function in self._service.functions(identifier):
                yield function.get("FunctionName", ""), True
        else:
            for database in self._service.databases(identifier):
                yield database["Name"], structures.database_mismatch(database) is not None
            for catalog in self._service.catalogs(identifier):
                yield catalog["Name"], structures.catalog_mismatch(catalog) is not None

    def _tables(self, identifier: Identifier, names: Collection[str] | None = None) -> list[TableTypeDef]:
        """Return every table and view in a database, or those of ``names``; a catalog has none."""
        if not identifier:
            return []
        try:
            return list(self._service.tables(identifier, names))
        except errors.NamespaceNotFoundError:
            self.load_namespace(identifier)
            return []

    def _table(self, identifier: Identifier) -> TableTypeDef:
        table = self._service.table(identifier)
        mismatch = structures.table_mismatch(table)
        if mismatch is not None:
            raise errors.NotLanceTableError(f"glue: `{join(identifier)}` is not a Lance table here: it is {mismatch}")
        return table


def _without_kind(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key != KIND}


def _check_location(identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise InvalidInputError if ``properties`` have an invalid location."""
    problem = locations.problem(properties[structures.LOCATION]) if structures.LOCATION in properties else None
    if problem is not None:
        raise errors.InvalidInputError(f"glue: `{join(identifier)}`: `{structures.LOCATION}`: {problem}")


def _require_manageable(identifier: Identifier, mismatch: str | None) -> None:
    if mismatch is not None:
        raise errors.InvalidInputError(f"glue: `{join(identifier)}` is not managed here: {mismatch}")


def _is_foreign(table: TableTypeDef) -> bool:
    return structures.table_mismatch(table) is not None or structures.name_mismatch(table["Name"]) is not None
