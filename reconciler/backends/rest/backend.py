"""Provide the backend for servers of the Lance Namespace REST protocol.

Servers differ in how they treat modes, missing namespaces and locations. So only the plain mode is sent, what a server
might ignore is checked first, and each write is read back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.backends.http.backend import HttpBackend, connect
from reconciler.backends.http.config import has_credential
from reconciler.backends.http.listing import load_listed, walk
from reconciler.backends.odd_entries import NOT_FOUND, OddEntryError, with_odd_entries
from reconciler.backends.rest.client import RestClient, translate
from reconciler.backends.rest.config import RestConfig
from reconciler.model import errors, locations
from reconciler.model.backend_config import BackendConfig
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, check_name, join
from reconciler.model.redaction import is_hidden
from reconciler.model.secret_forms import REDACTED

if TYPE_CHECKING:
    from requests import PreparedRequest


_ALTER_OPERATIONS = frozenset({"AlterNamespace", "AlterTable"})
_RENAME_OPERATIONS = frozenset({"RenameTable"})
_GRAVITINO_API = "http://GRAVITINO:8090/api/metalakes/METALAKE/catalogs/NAME"
_GRAVITINO_DROP = (
    f"""curl -X PATCH -H "Content-Type: application/json" -d '{{"inUse": false}}' {_GRAVITINO_API} && """
    f"curl -X DELETE {_GRAVITINO_API}"
)
_GRAVITINO_PROPERTIES = re.compile(r"external|location|lance\..*")
"""Properties that Gravitino adds to tables itself, and refuses in requests."""
_CONTEXT_HEADER = "header."
"""The prefix of context entries that are sent as headers; the protocol has no place for others."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")

_context_headers: ContextVar[Mapping[str, str]] = ContextVar("headers of a context", default=MappingProxyType({}))
"""The headers from the context of the current operation, sent with each of its requests."""


_response_headers: ContextVar[dict[str, str] | None] = ContextVar("headers of an answer", default=None)
"""The headers of the last response, for the context that the current operation returns."""


class RestBackend(HttpBackend):
    """A Lance namespace server, over its REST interface.

    The protocol has no call that changes an entry. If ListOperations names them, this uses AlterNamespace and
    AlterTable, which are extensions of ``lancens serve``, and RenameTable.
    """

    impl = "rest"
    config_model = RestConfig
    config: RestConfig
    checks_at_commit = True
    known_capabilities = Capabilities(
        location_policy=LocationPolicy.UNDER_ROOT, alter_namespace=False, alter_table=False, relocate_table=False
    )
    reads_by_name = True

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self.config.require_readable_certificates()
        self._http = connect(
            self.impl, self.config, translate, sign=_add_context_headers, on_response=_store_response_headers
        )
        self._unprobed_client = RestClient(self._http, self.config.delimiter)

    @property
    def _client(self) -> RestClient:
        """The server; the first use asks for its capabilities."""
        self.capabilities()
        return self._unprobed_client

    def ask_capabilities(self) -> Capabilities:
        """Return the capabilities by the server's response to ListOperations."""
        offered, level = self._unprobed_client.operations(), self._unprobed_client.table_level()
        alters = offered >= _ALTER_OPERATIONS
        return replace(
            self.usual_capabilities(self.config),
            max_depth=level,
            table_depths=(0, None) if level is None else (level, level),
            kept_levels=0 if level is None else level - 1,
            drop_command=_GRAVITINO_DROP,
            alter_namespace=alters,
            alter_table=alters,
            relocate_table=alters,
            lists_root=alters,  # as lancens' server over a directory; RestAdapter shows no entry without data there
            rename_within=0 if offered >= _RENAME_OPERATIONS else None,
        )

    @classmethod
    def usual_capabilities(cls, config: BackendConfig | None) -> Capabilities:
        """Return the capabilities of a server with every operation, such as that of lancens."""
        known = config if isinstance(config, RestConfig) else None
        has_no_root = known is not None and known.root is None
        return Capabilities(
            location_policy=LocationPolicy.ANY if has_no_root else LocationPolicy.UNDER_ROOT,
            places_tables=has_no_root,
            may_manage_versions=True,
            vends_credentials=known is not None and known.vend_credentials,
            table_markers=known is None or known.table_properties,
            lists_root=True,
            rename_within=0,
            lost_on_move="what the server keeps beside its location and properties",
            lost_with_namespace="what the server keeps beside its properties",
        )

    @contextmanager
    def in_context(self, context: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Send the headers in ``context`` with all calls inside; yield the response's.

        They replace configured headers of the same name.

        Raises:
            InvalidInputError: one cannot be sent, or is a credential that would go over plain http.
        """
        headers: dict[str, str] = {}
        for key, value in context.items():
            name = key.removeprefix(_CONTEXT_HEADER)
            if name != key:
                if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                    raise errors.InvalidInputError(
                        f"rest: {key!r:.80} in the request's context cannot be sent as a header"
                    )
                headers[name] = value
        problem = self.config.plain_http_problem(has_secret=has_credential(headers))
        if problem is not None:
            raise errors.InvalidInputError(f"rest: {problem}")
        response_headers: dict[str, str] = {}
        token, response_token = _context_headers.set(headers), _response_headers.set(response_headers)
        try:
            yield response_headers
        finally:
            _context_headers.reset(token)
            _response_headers.reset(response_token)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return everything within ``scope``.

        It takes three calls for each namespace and one for each table: the protocol cannot load several entries at
        once. The calls of one level run concurrently.
        """
        with self._http.meter.scan_limits():
            listing = walk(self._client, [()], scope, self.parallelism, self._name_problem)
            loaded = in_parallel(self._load_listed, listing.tables, self.parallelism)
        tables = {table.id: table for table in loaded if isinstance(table, LiveTable)}
        entries = zip(listing.tables, loaded, strict=True)
        odd = {identifier: entry for identifier, entry in entries if isinstance(entry, OddEntry)}
        return with_odd_entries(Snapshot(listing.namespaces, tables, tuple(listing.notes)), odd)

    def _load_listed(self, identifier: Identifier) -> LiveTable | OddEntry | None:
        """Load a listed table, or the reason to leave it out; None if it was removed."""
        try:
            return load_listed(self._client, identifier)
        except OddEntryError as error:
            return error.entry
        except errors.TableNotFoundError:
            return OddEntry(NOT_FOUND)

    def _name_problem(self, name: str) -> str | None:
        if self.config.delimiter in name:
            return f"it holds the delimiter `{self.config.delimiter}`"
        return check_name(name)

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace."""
        return self._client.namespace(identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one table."""
        return self._client.table(identifier)

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the namespaces in ``parent``, which must exist."""
        return self._require_if_empty(parent, self._client.namespaces(parent))

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the tables in ``parent``, which must exist."""
        return self._require_if_empty(parent, self._client.tables(parent))

    def _require_if_empty(self, parent: Identifier, names: list[str]) -> list[str]:
        """Return ``names``; if they are empty, check that ``parent`` exists."""
        if not names:
            self._client.require_namespace(parent)
        return names

    def vended_credentials(self, identifier: Identifier, *, writes: bool) -> Mapping[str, str]:
        """Return the storage options that the server vends for a table's data."""
        return self._client.storage_options(identifier)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace; drop it again if the server did not store its properties."""
        self._client.require_namespace(identifier[:-1])
        try:
            self._client.create_namespace(identifier, properties)
        except errors.ConcurrentModificationError as error:
            with suppress(errors.NamespaceNotFoundError):
                self._client.require_namespace(identifier)
                raise errors.NamespaceAlreadyExistsError(str(error)) from None
            raise
        namespace = self._client.namespace(identifier)
        lost = _lost_keys(properties, namespace.properties)
        if lost:
            self._client.drop_namespace(identifier)
            raise errors.UnsupportedOperationError(
                f"rest: the server does not keep, or not show, {lost} of namespace `{join(identifier)}`; it was dropped"
            )
        return namespace

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace if it lists as empty and the server agrees."""
        self._checked(self._client.namespace(identifier))
        inside = sorted({*self.child_namespaces(identifier), *self.child_tables(identifier)})
        if inside:
            raise errors.NamespaceNotEmptyError(f"rest: namespace `{join(identifier)}` holds {', '.join(inside[:5])}")
        self._client.drop_namespace(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties, if the server can."""
        if not self.capabilities().alter_namespace:
            return super().alter_namespace(identifier, changes)
        live = self._checked(self._client.namespace(identifier))
        altered = self._client.alter_namespace(identifier, changes, live)
        _require_stored(changes, altered.properties)
        return altered

    def insert_table_placed_by_service(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table at a location that the server chooses."""
        return self._insert(identifier, None, properties)

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table.

        Some servers declare a table only at their own location, and register one anywhere below their root by a
        relative path.
        """
        problem = self.location_problem(identifier, location)
        if problem is not None:
            raise errors.InvalidInputError(f"rest: {problem}")
        return self._insert(identifier, location, properties)

    def _insert(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> LiveTable:
        properties = self._accepted_properties(identifier, properties)
        self._client.require_namespace(identifier[:-1])
        try:
            self._declare_or_register(identifier, location, properties)
        except errors.ConcurrentModificationError as error:
            if not self._client.has_table(identifier):
                raise
            raise errors.TableAlreadyExistsError(str(error)) from None
        return self._require_as_requested(identifier, location, properties)

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why ``location`` is refused: it is not under the configured ``root``."""
        if self.config.root is None or locations.is_under(self.config.root, location):
            return None
        return f"{locations.redact(location)} is not under the root {self.config.root}; tables stay below it"

    def _accepted_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return ``properties`` without those that the server refuses in new entries."""
        _require_unredacted(identifier, properties)
        if not self.capabilities().kept_levels:
            return properties
        return {key: value for key, value in properties.items() if not _GRAVITINO_PROPERTIES.fullmatch(key)}

    def _declare_or_register(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> None:
        refused = (errors.InvalidInputError, errors.UnsupportedOperationError)
        try:
            self._client.declare_table(identifier, location, properties)
        except refused as refusal:
            if location is None:
                raise
            try:
                self._client.register_table(identifier, location, properties)
            except refused:
                if self.config.root is None:
                    raise refusal from None
                root = locations.normalise(self.config.root).rstrip("/")
                relative = locations.normalise(location).removeprefix(f"{root}/")
                self._client.register_table(identifier, relative, properties)

    def _require_as_requested(
        self, identifier: Identifier, location: str | None, properties: Mapping[str, str]
    ) -> LiveTable:
        """Return the new entry; remove it if it is not as requested."""
        try:
            table = self._client.table(identifier)
        except errors.TableNotFoundError as error:
            raise errors.InternalError(
                f"rest: the server accepts the entry of table `{join(identifier)}` and does not show it: {error}"
            ) from None
        problem = ""
        if location is not None and not locations.same(location, table.location):
            problem = f"puts table `{join(identifier)}` at {locations.redact(table.location)}, not where requested"
        lost = _lost_keys(properties, table.properties)
        if lost and self.config.table_properties:
            problem = f"does not keep, or not show, {lost} of table `{join(identifier)}`; see `table_properties`"
        if not problem:
            return table
        self._client.deregister_table(identifier)
        raise errors.UnsupportedOperationError(f"rest: the server {problem}; its entry was removed")

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a table; check that the server no longer has it."""
        removed = self._checked(self._client.table(identifier))
        self._client.deregister_table(identifier)
        if self._client.has_table(identifier):
            raise errors.InternalError(
                f"rest: the server says that table `{join(identifier)}` is deregistered, and still has it: it takes "
                f"what is at {locations.redact(removed.location)} for a table"
            )
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Change a table's properties and location, if the server can."""
        if not self.capabilities().alter_table:
            return super().alter_table(identifier, changes, location)
        problem = None if location is None else self.location_problem(identifier, location)
        if problem is not None:
            raise errors.InvalidInputError(f"rest: {problem}")
        live = self._checked(self._client.table(identifier))
        altered = self._client.alter_table(identifier, changes, live, location)
        _require_stored(changes, altered.properties)
        return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename a table, if the server can; check that its location is the same."""
        client = self._client
        if self.capabilities().rename_within is None:
            raise errors.UnsupportedOperationError("rest: a table cannot be renamed")
        before = self._checked(client.table(identifier))
        client.require_namespace(to[:-1])
        client.rename_table(identifier, to)
        renamed = client.table(to)
        if not locations.same(before.location, renamed.location):
            raise errors.InternalError(
                f"rest: the server renames table `{join(identifier)}` to `{join(to)}` and shows it at "
                f"{locations.redact(renamed.location)}, not at {locations.redact(before.location)}"
            )
        return renamed


def _add_context_headers(request: PreparedRequest) -> Collection[str]:
    """Add the context's headers to ``request``; return the secret values."""
    headers = _context_headers.get()
    request.headers.update(headers)
    return [value for name, value in headers.items() if has_credential({name: value})]


def _store_response_headers(headers: Mapping[str, str]) -> None:
    """Store the headers of a response for the current context, in lower case."""
    response_headers = _response_headers.get()
    if response_headers is not None:
        response_headers.clear()
        response_headers.update({f"{_CONTEXT_HEADER}{name.lower()}": value for name, value in headers.items()})


def _require_stored(changes: PropertyChanges, shown: Mapping[str, str]) -> None:
    lost = _lost_keys(changes.set, shown)
    if lost:
        raise errors.UnsupportedOperationError(f"rest: the server accepts {lost} and does not show the new value")


def _lost_keys(requested: Mapping[str, str], stored: Mapping[str, str]) -> str:
    """Return the keys whose ``stored`` value is not the requested one, as text.

    A secret that the server returns redacted, as ``lancens serve`` does, counts as stored.
    """
    return ", ".join(
        f"`{key}`" for key, value in requested.items() if stored.get(key) != value and not is_hidden(key, value, stored)
    )


def _require_unredacted(identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError if a server hides values of ``properties``."""
    hidden = ", ".join(f"`{key}`" for key, value in properties.items() if value == REDACTED)
    if hidden:
        raise errors.UnsupportedOperationError(
            f"rest: the server does not show {hidden}, so `{join(identifier)}` cannot be entered again with them"
        )
