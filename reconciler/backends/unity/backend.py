"""The backend: Lance namespace operations on one catalog of a Unity Catalog service.

An identifier begins with the catalog, which the configuration fixes: ``catalog$schema$table``. The catalog itself is
made by an administrator and never created, changed or dropped here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from reconciler import storage
from reconciler.backends import optional
from reconciler.backends.doubles import DoubledNameError
from reconciler.backends.http import service_client
from reconciler.backends.http.backend import HttpBackend
from reconciler.backends.identifiers import require_kept
from reconciler.backends.table_options import with_vended
from reconciler.backends.unity import columns
from reconciler.backends.unity.config import UnityConfig
from reconciler.backends.unity.doubles import each_once, explained
from reconciler.backends.unity.error_codes import translate
from reconciler.backends.unity.names import NAME_RULE, name_problem
from reconciler.backends.unity.properties import LONGEST
from reconciler.backends.unity.scan import foreign_table, live_namespace, live_table, scan_catalog
from reconciler.backends.unity.service import TableInfo, UnityService
from reconciler.backends.unity.uris import as_uri, problem_of
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotLanceTableError,
    PermissionDeniedError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

_DELTA_ONLY = "Databricks makes external tables in the format DELTA only, and Lance tables are entered as TEXT"
_LOCKS = 64
"""More than there are threads, so that different names hardly ever wait for each other."""


class UnityBackend(
    HttpBackend,
    optional.HoldsForeign,
    optional.OpensData,
    optional.Places,
    optional.ShowsColumns,
    optional.TestsPermissions,
):
    """A catalog of a Unity Catalog service, over its REST interface.

    The service has no call that changes a table's entry, and removing an entry loses its grants, so neither
    properties nor location of a table are changed here.
    """

    impl = "unity"
    config_model = UnityConfig
    config: UnityConfig
    capabilities = Capabilities(
        lost_with_namespace="its comment, grants and tags",
        max_depth=2,
        table_depths=(2, 2),
        fixed_levels=1,
        name_rule=NAME_RULE,
        longest_property=LONGEST,
        alter_table=False,
        keeps_first_columns=True,
        relocate_table=False,
        lost_on_move="its grants, tags and lineage",
        vends_credentials=True,
    )

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        if self.config.is_databricks:
            self.capabilities = replace(self.capabilities, makes_no_tables=_DELTA_ONLY)
        self._creating = tuple(Lock() for _ in range(_LOCKS))
        address = self.config.service_address
        self._http = service_client(self.impl, self.config, address, translate=translate, in_form=False)
        self._service = UnityService(self._http)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return the catalog, its schemas and their Lance tables: the pages of one list, and of one list a schema."""
        with self._http.one_scan():
            return scan_catalog(self._service, self.config.catalog, scope, self.parallelism)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return the catalog or a schema."""
        self._require_catalog(identifier)
        info = self._service.catalog(identifier[0]) if len(identifier) == 1 else self._service.schema(identifier)
        return live_namespace(identifier, info)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table."""
        return live_table(identifier, self._lance_table(identifier))

    def child_namespaces(self, parent: Identifier) -> Sequence[str]:
        """Return the catalog below the root, the schemas below the catalog, nothing below a schema."""
        if not parent:
            return [self.config.catalog]
        self._require_catalog(parent)
        if len(parent) == 2:
            self._service.schema(parent)
            return []
        schemas = each_once(lambda: self._service.schemas(parent[0]), parent)
        return [info.name for info in schemas if name_problem(info.name) is None]

    def child_tables(self, parent: Identifier) -> Sequence[str]:
        """Return the names of a schema's Lance tables; the root and the catalog hold none."""
        if len(parent) < 2:
            if parent:
                self.load_namespace(parent)
            return []
        self._require_catalog(parent)
        tables = each_once(lambda: self._service.tables(parent), parent, lambda info: info.is_marked)
        return [info.name for info in tables if info.is_lance and name_problem(info.name) is None]

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of a schema's other tables, views, volumes, functions and models."""
        if len(identifier) < 2:
            return ()
        self._require_catalog(identifier)
        tables = [info.name for info in self._service.tables(identifier) if not info.is_lance]
        return [*tables, *self._service.others(identifier)]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return a schema's tables of other formats, its views, and Lance tables that are not external."""
        if len(namespace) < 2:
            if namespace:
                self.load_namespace(namespace)
            return []
        self._require_catalog(namespace)
        return [
            foreign_table((*namespace, info.name), info)
            for info in self._service.tables(namespace)
            if not info.is_lance and (names is None or info.name in names)
        ]

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns of the table's entry as the nearest Arrow types; None where it has none."""
        return columns.schema_of(self._lance_table(identifier).columns) or None

    def shown_columns(self, identifiers: Collection[Identifier]) -> dict[Identifier, ShownColumns]:
        """Return the columns of the tables' entries, with a call each."""

        def read(identifier: Identifier) -> ShownColumns:
            try:
                return columns.shown(self._lance_table(identifier).columns)
            except (TableNotFoundError, NamespaceNotFoundError, NotLanceTableError):
                return ()

        found = in_parallel(read, identifiers, self.parallelism)
        return {identifier: shown for identifier, shown in zip(identifiers, found, strict=True) if shown}

    def columns_to_show(self, schema: Schema) -> ShownColumns:
        """Return the columns that an entry gets when it is made."""
        return columns.shown(columns.to_columns(schema))

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return which Arrow types Unity shows as others."""
        return columns.nearest_types(schemas)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a schema."""
        del kind
        self._require_schema(identifier)
        with self._one_at_a_time(identifier):
            try:
                made = self._service.create_schema(identifier, properties)
            except NamespaceAlreadyExistsError:
                self._require_listed(identifier)
                raise
            self._take_back_renamed(identifier, made.name, self._service.delete_schema)
            found = self._service.schema(identifier)
        _require_alone(identifier, made.row, found.row)
        return live_namespace(identifier, found)

    def _require_listed(self, identifier: Identifier) -> None:
        """Return when a schema that is there is listed for the caller: a plan knows nothing of one that is not.

        Even its owner sees one only with a right to use it.
        """
        if identifier[-1] not in (info.name for info in self._service.schemas(identifier[0])):
            raise PermissionDeniedError(
                f"unity: namespace `{join(identifier)}` is there, and the service does not list it for this caller; "
                f"grant `USE SCHEMA` on it or on the catalog `{identifier[0]}`, and plan again"
            )

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop an empty schema. The server asks once more what is in it, and is never told to drop that too."""
        self._require_schema(identifier)
        inside = [info.name for info in self._service.tables(identifier)] or list(self._service.others(identifier))
        if inside:
            some = ", ".join(sorted(inside)[:5])
            raise NamespaceNotEmptyError(f"unity: namespace `{join(identifier)}` is not empty: it holds {some}")
        self._service.delete_schema(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a schema's properties: read, changed and written back as a whole.

        Raises:
            UnsupportedOperationError: the service kept what it should have dropped. The reference server takes an
                empty set of properties for no change, so that the last one stays.
        """
        self._require_schema(identifier)
        wanted = changes.applied_to(self._service.schema(identifier).properties)
        self._service.set_schema_properties(identifier, wanted)
        found = self._service.schema(identifier)
        kept = found.properties
        refused = sorted(key for key in {*changes.set, *changes.remove} if kept.get(key) != wanted.get(key))
        if refused:
            raise UnsupportedOperationError(
                f"unity: the service did not change the properties {', '.join(refused)} of `{join(identifier)}`"
            )
        return live_namespace(identifier, found)

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create a table's entry, with the columns of the dataset where one is there."""
        self._require_own(identifier)
        if self.capabilities.makes_no_tables:
            raise UnsupportedOperationError(
                f"unity: `{join(identifier)}` cannot be made: {self.capabilities.makes_no_tables}"
            )
        problem = problem_of(location)
        if problem is not None:
            raise InvalidInputError(f"unity: {locations.redact(location)}: {problem}")
        schema = storage.probe(location, self.storage_options()).schema
        shown = columns.to_columns(schema) if schema is not None else []
        with self._one_at_a_time(identifier):
            made = self._service.create_table(identifier, as_uri(location), properties, shown)
            self._take_back_renamed(identifier, made.name, self._service.delete_table)
            try:
                found = self._service.table(identifier)
            except DoubledNameError:
                raise _doubled(identifier) from None
        _require_alone(identifier, made.row, found.row)
        return live_table(identifier, found)

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return the calls of apply that are about what is not there."""
        nowhere = (table[0], table[-1])
        return {
            "deregistering a table": lambda: self._service.delete_table(table),
            "dropping a schema": lambda: self._service.delete_schema(nowhere),
        }

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove a Lance table's entry. It is an external table, whose data the service leaves alone."""
        removed = self.load_table(identifier)
        self._service.delete_table(identifier)
        return removed

    # ---- locations -----------------------------------------------------------------------------------------------

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the place below ``root``, None without one."""
        return None if self.config.root is None else _place(self.config.root, identifier)

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the service takes no table at ``location``, or would write it in another way."""
        del identifier
        return problem_of(location)

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the configured options, above those that the service hands out for the table (see `with_vended`)."""
        ask = partial(self._service.vended_options, table.id, writes=writes)
        return with_vended(self.config, self.storage_options(), table, ask, self.hosts)

    def direct_location(self, identifier: Identifier) -> str:
        """Return the place of a table made directly: below the current directory where there is no ``root``."""
        return _place(self.config.root or Path.cwd().as_posix(), identifier)

    # ---- a name at a time ----------------------------------------------------------------------------------------

    @contextmanager
    def _one_at_a_time(self, identifier: Identifier) -> Iterator[None]:
        """Keep the threads of this backend from making one name at the same moment: the service would take both.

        What another process makes shows when the new entry is looked at again, of the two at least to the later one.
        """
        with self._creating[hash(identifier) % len(self._creating)]:
            yield

    def _take_back_renamed(self, identifier: Identifier, kept: str, remove: Callable[[Identifier], None]) -> None:
        """Remove what was just made where the service made it under another name than the one asked for.

        Raises:
            InvalidInputError: naming the one that it keeps.
        """
        made = (*identifier[:-1], kept)
        if made != identifier:
            remove(made)
            require_kept(self.impl, identifier, made)

    # ---- the one catalog -----------------------------------------------------------------------------------------

    def _lance_table(self, identifier: Identifier) -> TableInfo:
        self._require_catalog(identifier)
        info = self._service.table(identifier)
        if not info.is_lance:
            raise NotLanceTableError(
                f"unity: `{join(identifier)}` is not a Lance table but {info.kind or 'something else'}"
            )
        return info

    def _require_catalog(self, identifier: Identifier) -> None:
        """Refuse to read from another catalog than the configured one."""
        if identifier[0] != self.config.catalog:
            raise NamespaceNotFoundError(f"unity: {self._not_ours(identifier)}")

    def _require_own(self, identifier: Identifier) -> None:
        """Refuse to write to another catalog than the configured one ("CreateNamespace", "DeclareTable")."""
        if identifier[0] != self.config.catalog:
            raise InvalidInputError(f"unity: {self._not_ours(identifier)}")

    def _require_schema(self, identifier: Identifier) -> None:
        self._require_own(identifier)
        if len(identifier) == 1:
            raise InvalidInputError(f"unity: the catalog `{identifier[0]}` is not created, changed or dropped here")

    def _not_ours(self, identifier: Identifier) -> str:
        return f"`{join(identifier)}` is not in the catalog `{self.config.catalog}`, the one that is configured"


def _require_alone(identifier: Identifier, made: str, found: str) -> None:
    """Refuse to call a create done when another entry of the name answers to it than the one that was made."""
    if made != found:
        raise _doubled(identifier)


def _doubled(identifier: Identifier) -> DoubledNameError:
    return DoubledNameError(f"unity: it was made, but by somebody else too: {explained(identifier)}")


def _place(root: str, identifier: Identifier) -> str:
    return locations.join(root, *identifier[:-1], f"{identifier[-1]}.lance")
