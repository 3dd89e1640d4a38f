"""Provide the backend for Iceberg REST catalogs: Lance tables are marked tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar

from reconciler.backends.http.backend import HttpBackend, connect
from reconciler.backends.http.listing import any_name, load_listed, require_same_name, walk
from reconciler.backends.http.retry import RetryPolicy
from reconciler.backends.iceberg import generic
from reconciler.backends.iceberg.answers import (
    LOCATION_REMEDY,
    TABLE_TYPE,
    TableEntry,
    UncertainCommitError,
    UnreadableTableError,
    translate,
)
from reconciler.backends.iceberg.client import SAFEGUARD, IcebergClient
from reconciler.backends.iceberg.config import IcebergConfig
from reconciler.backends.iceberg.generic import GenericClient
from reconciler.backends.iceberg.sigv4 import Signer, translate_signed
from reconciler.backends.odd_entries import odd_entry, with_odd_entries
from reconciler.backends.service_options import own_options
from reconciler.model import errors, locations
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, OddEntry, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

_POOL_SIZE = 64


class IcebergBackend(HttpBackend):
    """Lance tables in an Iceberg REST catalog.

    The first level of every identifier is a warehouse, which has to exist. No service lists its warehouses, so the
    root holds those that ``warehouses`` or the manifest name.
    """

    impl = "iceberg"
    config_model = IcebergConfig
    config: IcebergConfig
    checks_at_commit = True
    known_capabilities = Capabilities(
        lost_with_namespace="its location and access rules",
        namespace_places=frozenset({"location"}),
        table_depths=(2, None),
        fixed_levels=1,
        ignores_location=True,
        rename_within=1,
        lost_on_move="its history and access rules",
        vends_credentials=True,
        safeguard=SAFEGUARD,
    )
    reads_by_name = True
    drops_missing = True

    commit_retry: ClassVar[RetryPolicy] = RetryPolicy(max_retries=8, base=0.05, cap=2.0)
    """The limits of retries of a commit that conflicts with another client's."""

    _created: tuple[Identifier, TableEntry] | None = None
    """The entry that a copy for one change (:meth:`checking`) has just created; its next commit starts from it."""

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        signs = self.config.sigv4_enabled
        self._http = connect(
            self.impl,
            self.config,
            translate_signed if signs else translate,
            sign=Signer(self.config) if signs else None,
            pool_size=_POOL_SIZE,
        )
        is_generic = self.config.tables == "generic"
        self._client = (GenericClient if is_generic else IcebergClient)(self._http, self.config)
        if is_generic:
            self.known_capabilities = generic.CAPABILITIES

    def ask_capabilities(self) -> Capabilities:
        """Return the capabilities; not every server renames tables or accepts locations."""
        if self.config.tables == "generic":
            return self.known_capabilities
        routes_of_each = [
            self._client.routes(name)
            for name in self._existing_warehouses(sorted({*self.config.warehouse_names, *self.outermost_names}))
        ]
        chooses = self.config.is_s3_tables or any(routes.is_nessie for routes in routes_of_each)
        renames = all(routes.renames_tables is not False for routes in routes_of_each)
        known = self.known_capabilities
        return replace(known, chooses_locations=chooses, rename_within=known.rename_within if renames else None)

    @classmethod
    def usual_capabilities(cls, config: BackendConfig | None) -> Capabilities:
        """Return those of the tables that ``config`` asks for."""
        if isinstance(config, IcebergConfig) and config.tables == "generic":
            return generic.CAPABILITIES
        is_chosen = isinstance(config, IcebergConfig) and config.is_s3_tables
        return replace(cls.known_capabilities, chooses_locations=is_chosen)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return the contents of the known warehouses within ``scope``.

        A warehouse that is configured has to exist; one that only the manifest or ``scope`` names is left out if not.
        """
        return self._scan(scope, self._load_listed)

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return the result of :meth:`scan`, with notes on tables that cannot be loaded."""
        return self._scan(scope, self._load_readable)

    def _scan(self, scope: Scope, load: Callable[[Identifier], TableEntry | None]) -> Snapshot:
        tables: dict[Identifier, LiveTable] = {}
        odd: dict[Identifier, OddEntry] = {}
        with self._http.meter.scan_limits():
            names = [name for name in self._warehouse_names(scope) if scope.contains((name,)) or scope.reaches((name,))]
            starts = [(name,) for name in self._existing_warehouses(names, required=self.config.warehouse_names)]
            listing = walk(self._client, starts, scope, self.parallelism)
            entries = in_parallel(load, listing.tables, self.parallelism)
        for identifier, entry in zip(listing.tables, entries, strict=True):
            if entry is not None and entry.unreadable:
                remedy = "repair or drop it there, grant the right to read it, or leave it out with `scope`"
                reason = f"it is a table that {entry.unreadable}; {remedy}"
                odd[identifier] = odd_entry(f"it {entry.unreadable}" if entry.properties else reason, entry.properties)
            elif entry is not None and entry.is_lance:
                tables[identifier] = _live_table(identifier, entry)
        return with_odd_entries(Snapshot(listing.namespaces, tables, tuple(sorted(listing.notes))), odd)

    def _load_listed(self, identifier: Identifier) -> TableEntry | None:
        """Load a listed table; None if it was removed since, unreadable if it is missing."""
        try:
            return load_listed(self._client, identifier)
        except errors.TableNotFoundError:
            return TableEntry(unreadable="the service lists and does not find")

    def _load_readable(self, identifier: Identifier) -> TableEntry | None:
        """Load a listed table; the entry says why if it cannot be read.

        The text is the same at every call, unlike that of services.
        """
        try:
            return self._load_listed(identifier)
        except errors.PermissionDeniedError:
            return TableEntry(unreadable="this caller may not read")
        except UnreadableTableError:
            return TableEntry(unreadable="the service fails to read")

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace; a warehouse has no properties."""
        return self._client.namespace(identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one Lance table."""
        return _live_table(identifier, self._lance_entry(identifier))

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names directly below ``parent``; the root's are known warehouses."""
        if not parent:
            return self._existing_warehouses(self._warehouse_names())
        names = self._client.namespaces(parent)
        if not names:
            self.load_namespace(parent)
        return names

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the Lance tables in ``parent``."""
        return [name for name, entry in self._table_entries(parent).items() if entry.is_lance]

    def candidate_tables(self, parent: Identifier) -> list[str]:
        """Return the names of all tables: only a table's entry has its format."""
        return self._client.tables(parent) if parent else []

    def confirmed_tables(self, parent: Identifier, names: Sequence[str]) -> list[str]:
        """Return those of ``names`` that are Lance tables; load each table."""
        return [name for name, entry in self._load_entries(parent, names).items() if entry.is_lance]

    def foreign_objects(self, identifier: Identifier) -> list[str]:
        """Return the names of views, of foreign tables and of unreadable ones."""
        if len(identifier) < 2:
            return []
        foreign = [name for name, entry in self._table_entries(identifier).items() if not entry.is_lance]
        return foreign + self._client.views(identifier) + self._client.other_names(identifier)

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> list[ForeignTable]:
        """Return the views, the tables without the mark, and the unreadable ones.

        With ``names``, views are left out if the caller may not list them; a create would report the name as taken.
        """
        entries = self._table_entries(namespace, names)
        foreign = [_foreign_table((*namespace, name), entry) for name, entry in entries.items() if not entry.is_lance]
        if len(namespace) < 2:
            return foreign
        try:
            listed = [(name, "view") for name in self._client.views(namespace)]
        except errors.PermissionDeniedError:
            if names is None:
                raise
            listed = []
        listed += [(name, self._client.other_kind) for name in self._client.other_names(namespace)]
        concerns = any_name if names is None else names.__contains__
        return foreign + [ForeignTable((*namespace, name), None, kind) for name, kind in listed if concerns(name)]

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the location below ``root``; without a ``root``, Polaris's default."""
        base = (
            None
            if self.config.root is not None
            else self._client.base_location(identifier[:-1], self.declared_locations)
        )
        return super().default_location(identifier) if base is None else locations.join(base, identifier[-1])

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why Polaris takes no Iceberg table at ``location``; None if it does."""
        if self.config.tables == "generic" or self.config.unstructured_table_location:
            return None
        base = self._client.base_location(identifier[:-1], self.declared_locations)
        if base is None or locations.is_under(base, location):
            return None
        return f"it is not below {locations.redact(base)}, its namespace's; {LOCATION_REMEDY}"

    def location_below(self, root: str, identifier: Identifier) -> str:
        """Return ``root`` followed by the whole identifier."""
        return locations.join(root, *identifier)

    def location_for_request(self, identifier: Identifier) -> str:
        """Return the location of a table that a namespace operation creates.

        Without a default it is below the current directory. On Polaris the namespace is read again: it may have moved.
        """
        if self._client.base_location(identifier[:1]) is not None:
            self.load_namespace(identifier[:-1])
        return self.default_location(identifier) or self.location_below(str(Path.cwd()), identifier)

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the configured options with the table's own (see :func:`own_options`)."""
        return own_options(self.storage_options(), table, self.hosts)

    def vended_credentials(self, identifier: Identifier, *, writes: bool) -> Mapping[str, str]:
        """Return the storage options that the service vends for a table's data."""
        return self._client.vended_options(identifier)

    # ---- namespaces ----------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace; check that its parent exists, as not every server does."""
        _require_below_warehouse(identifier)
        self.load_namespace(identifier[:-1])
        return self._client.create_namespace(identifier, properties)

    def remove_namespace(self, identifier: Identifier) -> None:
        """Drop a namespace; check that it is empty, as not every server does."""
        _require_below_warehouse(identifier)
        self._checked(self.load_namespace(identifier))
        client = self._client
        listed = (client.namespaces, client.tables, client.views, client.other_names)
        held_names = [name for names in listed for name in names(identifier)]
        if held_names:
            examples = ", ".join(f"`{name}`" for name in sorted(held_names)[:3])
            raise errors.NamespaceNotEmptyError(
                f"iceberg: namespace `{join(identifier)}` is not empty: it holds {examples}"
            )
        client.drop_namespace(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties.

        On Polaris, ``location`` is never removed: without it, nothing can be created in the namespace.
        """
        _require_below_warehouse(identifier)
        self._checked(self.load_namespace(identifier))
        protected = (
            frozenset() if self._client.base_location(identifier[:1]) is None else self.capabilities().namespace_places
        )
        self._client.update_properties(identifier, replace(changes, remove=changes.remove - protected))
        return self.load_namespace(identifier)

    # ---- tables --------------------------------------------------------------------------------------------------

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the companion table and return it with the location in force."""
        entry, name = self._client.create_table(identifier, location, properties), identifier[-1]
        if name != name.lower() and name not in (names := self._client.tables(identifier[:-1], name.__eq__)):
            # The response has no name: look up whether the service folded it to lower case.
            self._client.drop_table(identifier)
            stored = next((listed for listed in names if listed.lower() == name.lower()), name.lower())
            require_same_name(self.impl, identifier, (*identifier[:-1], stored))
        if self._check is not None and entry.uuid:
            self._created = identifier, entry
        return _live_table(identifier, entry)

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return writes to a table and a namespace that do not exist; `lancens doctor` sends them."""
        merge = PropertyChanges({"lancens.doctor": table[-1]})
        change = {"changing a table": lambda: self._client.commit(table, str(uuid.uuid4()), merge, None)}
        return {
            **(change if self.capabilities().alter_table else {}),
            "deregistering a table": lambda: self._client.drop_table(table),
            "dropping a namespace": lambda: self._client.drop_namespace((table[0], table[-1])),
        }

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Drop the entry of a Lance table, never that of another."""
        removed = self._checked(self.load_table(identifier))
        self._client.drop_table(identifier, before_repeat=partial(self._lance_entry, identifier))
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Change a table's properties and location in one commit.

        A conflicting commit is retried on top of the other client's, unless both changed the same field. So is a commit
        that failed: Nessie fails some concurrent ones without changing anything. The mark of a Lance table stays, and
        the property that keeps Iceberg from deleting its data is set.

        Raises:
            ConcurrentModificationError: another client changed the same field, or others committed first every time.
        """
        if not self.capabilities().alter_table:
            return super().alter_table(identifier, changes, location)
        created, self._created = self._created, None
        entry = created[1] if created is not None and created[0] == identifier else self._lance_entry(identifier)
        for attempt in count():
            self._checked(_live_table(identifier, entry))
            merge, target = _remaining_changes(entry, changes, location)
            if not merge and target is None:
                break
            try:
                entry = self._client.commit(identifier, entry.uuid, merge, target)
                break
            except (errors.ConcurrentModificationError, UncertainCommitError):
                pause = self.commit_retry.backoff(attempt)
                if pause is None:
                    raise
                self.commit_retry.clock.sleep(pause)
                current = self._lance_entry(identifier)
                if current.uuid != entry.uuid:
                    raise
                if _is_contested(entry, current, changes, location):
                    raise errors.ConcurrentModificationError(
                        f"iceberg: table `{join(identifier)}` was changed by another client"
                    ) from None
                entry = current
        return _live_table(identifier, entry)

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename the entry of a Lance table within its warehouse."""
        if self.capabilities().rename_within is None:
            return super().rename_table(identifier, to)
        before = self._lance_entry(identifier)
        self._checked(_live_table(identifier, before))
        if identifier[0] != to[0]:
            raise errors.UnsupportedOperationError(
                f"iceberg: `{join(identifier)}` cannot be renamed to `{join(to)}`: they are in different warehouses"
            )
        self.load_namespace(to[:-1])  # for a missing namespace, some servers report a missing table
        try:
            self._client.rename_table(identifier, to)
        except errors.TableNotFoundError:
            # A retry after a lost response finds that the first attempt renamed the table.
            if not self._has_uuid(to, before.uuid):
                raise
        return _live_table(to, self._lance_entry(to))

    def _has_uuid(self, identifier: Identifier, uuid: str) -> bool:
        try:
            return self._lance_entry(identifier).uuid == uuid
        except (errors.TableNotFoundError, errors.NotLanceTableError):
            return False

    # ---- helpers -------------------------------------------------------------------------------------------------

    def _warehouse_names(self, scope: Scope = EVERYTHING) -> list[str]:
        """Return the warehouses that the configuration, the manifest or ``scope`` names."""
        unconfigured = (self.outermost_names | scope.outermost) - {*self.config.warehouse_names}
        names = [*self.config.warehouse_names, *sorted(unconfigured)]
        if not names:
            raise errors.InvalidInputError(
                "iceberg: no warehouse is named, and the service cannot list them; write `warehouses: NAME` into the "
                "catalog's `config`, and several as `NAME,NAME`"
            )
        return names

    def _existing_warehouses(self, names: Iterable[str], *, required: Collection[str] = ()) -> list[str]:
        """Return those of ``names`` that are warehouses of the service.

        A missing one that is ``required`` is an error.
        """
        existing = []
        for name in names:
            try:
                self._client.routes(name)
                existing.append(name)
            except errors.NamespaceNotFoundError:
                if name in required:
                    raise
        return existing

    def _table_entries(self, identifier: Identifier, names: Collection[str] | None = None) -> dict[str, TableEntry]:
        """Return the tables of a namespace, all or those in ``names``, of any format.

        A missing namespace is an error; with ``names``, only if the server reports it.
        """
        if len(identifier) < 2:
            if identifier:
                self.load_namespace(identifier)
            return {}
        concerns = any_name if names is None else names.__contains__
        entries = self._load_entries(identifier, list(filter(concerns, self._client.tables(identifier, concerns))))
        if not entries and names is None:
            self.load_namespace(identifier)
        return entries

    def _load_entries(self, parent: Identifier, names: Sequence[str]) -> dict[str, TableEntry]:
        """Load the listed tables ``names``, unreadable ones included.

        Tables that were removed since are left out.
        """
        entries = in_parallel(lambda name: self._load_readable((*parent, name)), names, self.parallelism)
        return {name: entry for name, entry in zip(names, entries, strict=True) if entry is not None}

    def _lance_entry(self, identifier: Identifier) -> TableEntry:
        entry = self._client.table(identifier)
        if not entry.is_lance:
            kind = f"a table that {entry.unreadable}" if entry.unreadable else self._client.kind
            raise errors.NotLanceTableError(f"iceberg: `{join(identifier)}` is {kind}, not a Lance table")
        return entry


def _require_below_warehouse(identifier: Identifier) -> None:
    if len(identifier) < 2:
        raise errors.UnsupportedOperationError(
            f"iceberg: `{identifier[0]}` is a warehouse, which cannot be created, altered or dropped here"
        )


def _foreign_table(identifier: Identifier, entry: TableEntry) -> ForeignTable:
    if entry.unreadable:
        return ForeignTable(identifier, None, f"one that {entry.unreadable}")
    return ForeignTable(identifier, entry.location or None, entry.properties.get(TABLE_TYPE) or "iceberg")


def _live_table(identifier: Identifier, entry: TableEntry) -> LiveTable:
    return LiveTable(identifier, entry.location, entry.properties)


def _remaining_changes(
    entry: TableEntry, changes: PropertyChanges, location: str | None
) -> tuple[PropertyChanges, str | None]:
    """Return the part of a change that ``entry`` does not show yet."""
    fixed = {TABLE_TYPE, SAFEGUARD.key}
    merge = replace(
        changes,
        set={k: v for k, v in changes.set.items() if k not in fixed and entry.properties.get(k) != v}
        | SAFEGUARD.missing(entry.properties),
        remove=frozenset(key for key in changes.remove if key not in fixed and key in entry.properties),
    )
    return merge, None if location == entry.location else location


def _is_contested(entry: TableEntry, current: TableEntry, changes: PropertyChanges, location: str | None) -> bool:
    """Return whether another client changed a field of a change to a third value.

    ``entry`` is the table before, ``current`` after the conflict.
    """
    if location is not None and not any(
        locations.same(current.location, expected) for expected in (entry.location, location)
    ):
        return True
    intended = {**changes.set, **dict.fromkeys(changes.remove)}
    return any(current.properties.get(key) not in (entry.properties.get(key), value) for key, value in intended.items())
