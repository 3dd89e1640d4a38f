"""Provide the backend for Unity Catalog: all catalogs of a service, or one.

An identifier begins with the catalog, which the configuration may fix: ``catalog$schema$table``. An administrator
creates the catalog itself; it is never created, changed or dropped here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from reconciler import storage
from reconciler.backends.http.backend import HttpBackend, connect
from reconciler.backends.http.listing import DoubledNameError, require_same_name
from reconciler.backends.unity import columns, rules
from reconciler.backends.unity.config import UnityConfig
from reconciler.backends.unity.error_codes import translate
from reconciler.backends.unity.scan import foreign_table, live_namespace, live_table, scan_catalogs
from reconciler.backends.unity.service import UnityEntry, UnityService, double_problem
from reconciler.model import errors, locations
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

_DELTA_ONLY = "Databricks makes external tables in the format DELTA only, and Lance tables are entered as TEXT"
_LOCKS = 64
"""More than there are threads, so that different names rarely share a lock."""


class UnityBackend(HttpBackend):
    """A Unity Catalog service over its REST API, with one of its catalogs or all.

    The service has no call that changes a table's entry, and removing an entry loses its grants, so neither
    properties nor location of a table are changed here.
    """

    impl = "unity"
    config_model = UnityConfig
    config: UnityConfig
    checks_at_commit = True
    known_capabilities = Capabilities(
        lost_with_namespace="its comment, grants and tags",
        max_depth=2,
        table_depths=(2, 2),
        fixed_levels=1,
        name_rule=rules.NAME_RULE,
        longest_property=rules.LONGEST,
        alter_table=False,
        keeps_first_columns=True,
        relocate_table=False,
        lost_on_move="its owner, grants, tags and lineage",
        vends_credentials=True,
    )

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self._creation_locks = tuple(Lock() for _ in range(_LOCKS))
        self._http = connect(self.impl, self.config, translate, in_form=False)
        self._service = UnityService(self._http)

    def ask_capabilities(self) -> Capabilities:
        """Return the capabilities; Databricks cannot create Lance tables."""
        return self.usual_capabilities(self.config)

    @classmethod
    def usual_capabilities(cls, config: BackendConfig | None) -> Capabilities:
        """Return those of Databricks if ``config`` names it."""
        is_databricks = isinstance(config, UnityConfig) and config.is_databricks
        return replace(cls.known_capabilities, makes_no_tables=_DELTA_ONLY if is_databricks else "")

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return the catalogs, their schemas and their Lance tables.

        That takes one list of schemas a catalog, and one of tables a schema.
        """
        with self._http.meter.scan_limits():
            return scan_catalogs(self._service, self.config.catalog, scope, self.parallelism)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return the catalog or a schema."""
        return live_namespace(identifier, self._read(identifier))

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table."""
        return live_table(identifier, self._lance_table(identifier))

    def child_namespaces(self, parent: Identifier) -> Sequence[str]:
        """Return the names of catalogs, or of the schemas of one; schemas have none."""
        if not parent and self.config.catalog:
            return [self.config.catalog]
        if len(parent) == 2:
            self._read(parent)
            return []
        self._require_in_catalog(parent, errors.NamespaceNotFoundError)
        listed = self._service.schemas(parent[0], lambda _: True) if parent else self._service.catalogs(lambda _: True)
        return [info.name for info in listed if rules.name_problem(info.name) is None]

    def child_tables(self, parent: Identifier) -> Sequence[str]:
        """Return the names of a schema's Lance tables; other levels hold none."""
        tables = self._tables(parent, lambda info: info.is_marked)
        return [info.name for info in tables if info.is_lance and rules.name_problem(info.name) is None]

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return a schema's other tables, views, volumes, functions and models."""
        if len(identifier) < 2:
            return ()
        tables = [info.name for info in self._tables(identifier) if not info.is_lance]
        return [*tables, *self._service.other_names(identifier)]

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return a schema's other tables, its views and managed Lance tables."""
        return [
            foreign_table((*namespace, info.name), info)
            for info in self._tables(namespace)
            if not info.is_lance and (names is None or info.name in names)
        ]

    def _tables(
        self, namespace: Identifier, concerns: Callable[[UnityEntry], bool] = lambda _: False
    ) -> list[UnityEntry]:
        """Return the tables of a schema; other levels must exist and hold none.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            DoubledNameError: the service lists a table twice that ``concerns`` accepts.
        """
        if len(namespace) < 2:
            if namespace:
                self._read(namespace)
            return []
        self._require_in_catalog(namespace, errors.NamespaceNotFoundError)
        return self._service.tables(namespace, concerns)

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the table's columns as the nearest Arrow types; None without any."""
        return columns.schema_of(self._lance_table(identifier).columns) or None

    def shown_columns(self, identifiers: Collection[Identifier]) -> dict[Identifier, ShownColumns]:
        """Return the columns of the tables' entries; each takes a call."""

        def read(identifier: Identifier) -> ShownColumns:
            try:
                return columns.shown_columns(self._lance_table(identifier).columns)
            except (errors.TableNotFoundError, errors.NamespaceNotFoundError, errors.NotLanceTableError):
                return ()

        column_lists = in_parallel(read, identifiers, self.parallelism)
        return {identifier: shown for identifier, shown in zip(identifiers, column_lists, strict=True) if shown}

    def columns_to_show(self, schema: Schema) -> ShownColumns:
        """Return the columns that an entry gets when it is created."""
        return columns.shown_columns(columns.to_columns(schema))

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return a sentence for each Arrow type that Unity shows as another one."""
        return columns.nearest_types(schemas)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a schema; ``kind`` is ignored, as there is only one."""
        self._require_schema(identifier)

        def create() -> UnityEntry:
            try:
                return self._service.create_schema(identifier, properties)
            except errors.NamespaceAlreadyExistsError:
                self._require_listed(identifier)
                raise

        return live_namespace(identifier, self._create_once(identifier, create))

    def _require_listed(self, identifier: Identifier) -> None:
        """Raise if an existing schema is hidden from the caller.

        Unity lists a schema only with USE SCHEMA, even to its owner; a plan cannot know a hidden one.
        """
        if identifier[-1] not in (info.name for info in self._service.schemas(identifier[0])):
            raise errors.PermissionDeniedError(
                f"unity: namespace `{join(identifier)}` exists, and the service does not list it for this caller; "
                f"grant `USE SCHEMA` on it or on the catalog `{identifier[0]}`, and plan again"
            )

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop an empty schema.

        The server checks once more that it is empty; ``force`` is never sent.
        """
        self._require_schema(identifier)
        self._checked(live_namespace(identifier, self._service.read(identifier)))
        inside = [info.name for info in self._service.tables(identifier)] or list(self._service.other_names(identifier))
        if inside:
            examples = ", ".join(sorted(inside)[:5])
            raise errors.NamespaceNotEmptyError(
                f"unity: namespace `{join(identifier)}` is not empty: it holds {examples}"
            )
        self._service.delete(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a schema's properties, which one request replaces.

        Raises:
            UnsupportedOperationError: the service kept a removed property. The reference server ignores an empty set
                of properties, so that the last one stays.
        """
        self._require_schema(identifier)
        live = self._checked(live_namespace(identifier, self._service.read(identifier)))
        intended = changes.applied_to(live.properties)
        self._service.set_schema_properties(identifier, intended)
        schema = self._service.read(identifier)
        stored = schema.properties
        refused = sorted(key for key in {*changes.set, *changes.remove} if stored.get(key) != intended.get(key))
        if refused:
            raise errors.UnsupportedOperationError(
                f"unity: the service did not change the properties {', '.join(refused)} of `{join(identifier)}`"
            )
        return live_namespace(identifier, schema)

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create a table's entry, with the columns of the dataset if it exists."""
        return self._insert(identifier, location, properties, None)

    def copy_table(self, table: LiveTable, to: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create an entry with the columns and the comment of the entry of ``table``."""
        return self._insert(to, table.location, properties, self._lance_table(table.id))

    def _insert(
        self, identifier: Identifier, location: str, properties: Mapping[str, str], origin: UnityEntry | None
    ) -> LiveTable:
        self._require_in_catalog(identifier, errors.InvalidInputError)
        if self.capabilities().makes_no_tables:
            raise errors.UnsupportedOperationError(
                f"unity: `{join(identifier)}` cannot be created: {self.capabilities().makes_no_tables}"
            )
        problem = rules.location_problem(location)
        if problem is not None:
            raise errors.InvalidInputError(f"unity: {locations.redact(location)}: {problem}")
        shown, comment = (origin.columns, origin.comment) if origin is not None else ((), None)
        if not shown:
            schema = storage.probe(location, self.storage_options()).schema
            shown = columns.to_columns(schema) if schema is not None else []
        uri = rules.as_uri(location)
        create = partial(self._service.create_table, identifier, uri, properties, shown, comment)
        return live_table(identifier, self._create_once(identifier, create))

    def _create_once(self, identifier: Identifier, create: Callable[[], UnityEntry]) -> UnityEntry:
        """Create an object, detect concurrent creations, and return it.

        The service lets two clients create one name at the same moment. Threads of this process wait for each other. An
        entry of another process shows when the new one is read again, at least to the later of the two.

        Raises:
            InvalidInputError: the service created it under another name; it was removed.
            DoubledNameError: two entries have the name.
        """
        with self._creation_locks[hash(identifier) % len(self._creation_locks)]:
            created = create()
            stored = (*identifier[:-1], created.name)
            if stored != identifier:
                self._service.delete(stored)
                require_same_name(self.impl, identifier, stored)
            with suppress(DoubledNameError):
                current = self._service.read(identifier)
                if current.row == created.row:
                    return current
        raise DoubledNameError(f"unity: it was created, but by somebody else too: {double_problem(identifier)}")

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return a deletion of ``table`` and one of a schema, neither of which exists; `lancens doctor` sends them."""
        missing_schema = (table[0], table[-1])
        return {
            "deregistering a table": lambda: self._service.delete(table),
            "dropping a schema": lambda: self._service.delete(missing_schema),
        }

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a Lance table; it is external, so its data stays.

        Before a retry the entry is read again, as the first attempt may have removed it.
        """
        removed = self._checked(self.load_table(identifier))
        self._service.delete(identifier, before_repeat=partial(self._lance_table, identifier))
        return removed

    # ---- locations -----------------------------------------------------------------------------------------------

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the service refuses or rewrites ``location``; None if it does not."""
        return rules.location_problem(location)

    def location_for_request(self, identifier: Identifier) -> str:
        """Return the location of a table that a namespace operation creates without one.

        It is below the configured ``root``, by default below the current directory.
        """
        return self.location_below(self.config.root or str(Path.cwd()), identifier)

    def vended_credentials(self, identifier: Identifier, *, writes: bool) -> Mapping[str, str]:
        """Return the storage options that the service vends for a table's data."""
        return self._service.vended_options(identifier, writes=writes)

    # ---- the catalogs --------------------------------------------------------------------------------------------

    def _read(self, identifier: Identifier) -> UnityEntry:
        self._require_in_catalog(identifier, errors.NamespaceNotFoundError)
        return self._service.read(identifier)

    def _lance_table(self, identifier: Identifier) -> UnityEntry:
        info = self._read(identifier)
        if not info.is_lance:
            raise errors.NotLanceTableError(
                f"unity: `{join(identifier)}` is not a Lance table: it is {info.mismatch}"
                if info.is_marked
                else f"unity: `{join(identifier)}` is not a Lance table but {info.kind or 'something else'}"
            )
        return info

    def _require_in_catalog(self, identifier: Identifier, error: type[errors.BackendError]) -> None:
        """Raise ``error`` if an object is not in the configured catalog, if any."""
        catalog = self.config.catalog
        if catalog and identifier and identifier[0] != catalog:
            raise error(f"unity: `{join(identifier)}` is not in the catalog `{catalog}`, the one that is configured")

    def _require_schema(self, identifier: Identifier) -> None:
        self._require_in_catalog(identifier, errors.InvalidInputError)
        if len(identifier) == 1:
            raise errors.InvalidInputError(
                f"unity: the catalog `{identifier[0]}` is not created, changed or dropped here"
            )
