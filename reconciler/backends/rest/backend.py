"""The backend: a client of any Lance namespace server.

Servers differ in how they treat modes, missing namespaces and locations. So only the plain mode is sent, what a server
might ignore is checked first, and each write is read back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.backends.http.backend import HttpBackend, connect
from reconciler.backends.http.config import has_credential
from reconciler.backends.http.listing import load_listed, walk
from reconciler.backends.odd_entries import NOT_FOUND, OddEntryError, with_odd_entries
from reconciler.backends.rest.config import RestConfig
from reconciler.backends.rest.server import RestServer, translate
from reconciler.model import errors, locations
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import LiveNamespace, LiveTable, OddEntry, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, check_name, join
from reconciler.model.redaction import REDACTED, is_hidden

if TYPE_CHECKING:
    from requests import PreparedRequest


_ALTERING = frozenset({"AlterNamespace", "AlterTable"})
_RENAMING = frozenset({"RenameTable"})
_GRAVITINO_API = "http://GRAVITINO:8090/api/metalakes/METALAKE/catalogs/NAME"
_GRAVITINO_DROP = (
    f"""curl -X PATCH -H "Content-Type: application/json" -d '{{"inUse": false}}' {_GRAVITINO_API} && """
    f"curl -X DELETE {_GRAVITINO_API}"
)
_GRAVITINOS_OWN = re.compile(r"external|location|lance\..*")
"""Properties that Gravitino adds to a table, and takes from nobody."""
_CONTEXT_HEADER = "header."
"""An entry of a request's context whose key begins so is a header; other entries have no place in the protocol."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")

_context_headers: ContextVar[Mapping[str, str]] = ContextVar("headers of a context", default=MappingProxyType({}))
"""The headers to send with every request that is made for the current one."""


_answered_headers: ContextVar[dict[str, str] | None] = ContextVar("headers of an answer", default=None)
"""The entries of a response's context: the headers of the last answer to the current request."""


class RestBackend(HttpBackend):
    """A Lance namespace server, over its REST interface.

    The protocol has no call that changes an entry. AlterNamespace and AlterTable, which ``lancens serve`` has, and
    RenameTable are used where the server names them in its answer to ListOperations.
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
            self.impl, self.config, translate, sign=_add_context_headers, on_response=_keep_answered_headers
        )
        self._known = RestServer(self._http, self.config.delimiter)

    @property
    def _server(self) -> RestServer:
        """The server, asked before its first use whether it can change entries."""
        self.capabilities()
        return self._known

    def ask_capabilities(self) -> Capabilities:
        """Return the server's capabilities by its answer to ListOperations."""
        offered, level = self._known.operations(), self._known.table_level()
        alters = offered >= _ALTERING
        return Capabilities(
            max_depth=level,
            table_depths=(0, None) if level is None else (level, level),
            kept_levels=0 if level is None else level - 1,
            drop_command=_GRAVITINO_DROP,
            location_policy=LocationPolicy.ANY if self.config.root is None else LocationPolicy.UNDER_ROOT,
            places_tables=self.config.root is None,
            may_manage_versions=True,
            vends_credentials=self.config.vend_credentials,
            table_markers=self.config.table_properties,
            alter_namespace=alters,
            alter_table=alters,
            relocate_table=alters,
            lists_root=alters,  # as lancens' server over a directory; RestAdapter shows no entry without data there
            rename_within=0 if offered >= _RENAMING else None,
            lost_on_move="what the server keeps beside its location and properties",
            lost_with_namespace="what the server keeps beside its properties",
        )

    @contextmanager
    def in_context(self, context: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Send the headers of a request's ``context`` with the calls inside; yield those of the last answer.

        They replace configured ones of the same name.

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
        answered: dict[str, str] = {}
        token, token_answered = _context_headers.set(headers), _answered_headers.set(answered)
        try:
            yield answered
        finally:
            _context_headers.reset(token)
            _answered_headers.reset(token_answered)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what is within ``scope``.

        That takes two lists and a call for each namespace, and a call for each table. The protocol has no call that
        answers several entries. Calls of one level run side by side.
        """
        with self._http.meter.scan_limits():
            listing = walk(self._server, [()], scope, self.parallelism, self._name_problem)
            loaded = in_parallel(self._listed, listing.tables, self.parallelism)
        tables = {table.id: table for table in loaded if isinstance(table, LiveTable)}
        entries = zip(listing.tables, loaded, strict=True)
        odd = {identifier: entry for identifier, entry in entries if isinstance(entry, OddEntry)}
        return with_odd_entries(Snapshot(listing.namespaces, tables, tuple(listing.notes)), odd)

    def _listed(self, identifier: Identifier) -> LiveTable | OddEntry | None:
        """Return a listed table, or why it is not a Lance table; None when it vanished."""
        try:
            return load_listed(self._server, identifier)
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
        return self._server.namespace(identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one table."""
        return self._server.table(identifier)

    def child_namespaces(self, parent: Identifier) -> list[str]:
        """Return the names of the namespaces in ``parent``, which must exist."""
        return self._existing(parent, self._server.namespaces(parent))

    def child_tables(self, parent: Identifier) -> list[str]:
        """Return the names of the tables in ``parent``, which must exist."""
        return self._existing(parent, self._server.tables(parent))

    def _existing(self, parent: Identifier, names: list[str]) -> list[str]:
        """Return ``names``; if there are none, raise unless ``parent`` exists."""
        if not names:
            self._server.require_namespace(parent)
        return names

    def vended_credentials(self, identifier: Identifier, *, writes: bool) -> Mapping[str, str]:
        """Return the storage options that the server vends for a table's data."""
        return self._server.storage_options(identifier)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace; drop it again if the server loses its properties."""
        self._server.require_namespace(identifier[:-1])
        try:
            self._server.create_namespace(identifier, properties)
        except errors.ConcurrentModificationError as error:
            with suppress(errors.NamespaceNotFoundError):
                self._server.require_namespace(identifier)
                raise errors.NamespaceAlreadyExistsError(str(error)) from None
            raise
        namespace = self._server.namespace(identifier)
        lost = _lost(properties, namespace.properties)
        if lost:
            self._server.drop_namespace(identifier)
            raise errors.UnsupportedOperationError(
                f"rest: the server does not keep, or not show, {lost} of namespace `{join(identifier)}`; it was dropped"
            )
        return namespace

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace that lists as empty, and that the server finds empty."""
        self._checked(self._server.namespace(identifier))
        inside = sorted({*self.child_namespaces(identifier), *self.child_tables(identifier)})
        if inside:
            raise errors.NamespaceNotEmptyError(f"rest: namespace `{join(identifier)}` holds {', '.join(inside[:5])}")
        self._server.drop_namespace(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties, where the server can."""
        if not self.capabilities().alter_namespace:
            return super().alter_namespace(identifier, changes)
        live = self._checked(self._server.namespace(identifier))
        altered = self._server.alter_namespace(identifier, changes, live)
        _require_shown(changes, altered.properties)
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
        properties = self._for_server(identifier, properties)
        self._server.require_namespace(identifier[:-1])
        try:
            self._enter(identifier, location, properties)
        except errors.ConcurrentModificationError as error:
            if not self._server.has_table(identifier):
                raise
            raise errors.TableAlreadyExistsError(str(error)) from None
        return self._as_asked(identifier, location, properties)

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return that ``location`` is not under a configured ``root``, None when it is."""
        if self.config.root is None or locations.is_under(self.config.root, location):
            return None
        return f"{locations.redact(location)} is not under the root {self.config.root}; tables stay below it"

    def _for_server(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new entry, without those that the service adds itself."""
        _require_values(identifier, properties)
        if not self.capabilities().kept_levels:
            return properties
        return {key: value for key, value in properties.items() if not _GRAVITINOS_OWN.fullmatch(key)}

    def _enter(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> None:
        refused = (errors.InvalidInputError, errors.UnsupportedOperationError)
        try:
            self._server.declare_table(identifier, location, properties)
        except refused as refusal:
            if location is None:
                raise
            try:
                self._server.register_table(identifier, location, properties)
            except refused:
                if self.config.root is None:
                    raise refusal from None
                root = locations.normalise(self.config.root).rstrip("/")
                relative = locations.normalise(location).removeprefix(f"{root}/")
                self._server.register_table(identifier, relative, properties)

    def _as_asked(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> LiveTable:
        """Return the new entry; remove one that is not what was asked for."""
        try:
            table = self._server.table(identifier)
        except errors.TableNotFoundError as error:
            raise errors.InternalError(
                f"rest: the server accepts the entry of table `{join(identifier)}` and does not show it: {error}"
            ) from None
        problem = ""
        if location is not None and not locations.same(location, table.location):
            problem = f"puts table `{join(identifier)}` at {locations.redact(table.location)}, not where requested"
        lost = _lost(properties, table.properties)
        if lost and self.config.table_properties:
            problem = f"does not keep, or not show, {lost} of table `{join(identifier)}`; see `table_properties`"
        if not problem:
            return table
        self._server.deregister_table(identifier)
        raise errors.UnsupportedOperationError(f"rest: the server {problem}; its entry was removed")

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a table and check that it is gone."""
        removed = self._checked(self._server.table(identifier))
        self._server.deregister_table(identifier)
        if self._server.has_table(identifier):
            raise errors.InternalError(
                f"rest: the server says that table `{join(identifier)}` is deregistered, and still has it: it takes "
                f"what is at {locations.redact(removed.location)} for a table"
            )
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Change a table's properties and location, where the server can."""
        if not self.capabilities().alter_table:
            return super().alter_table(identifier, changes, location)
        problem = None if location is None else self.location_problem(identifier, location)
        if problem is not None:
            raise errors.InvalidInputError(f"rest: {problem}")
        live = self._checked(self._server.table(identifier))
        altered = self._server.alter_table(identifier, changes, live, location)
        _require_shown(changes, altered.properties)
        return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename a table, where the server can, and check that the entry is the same."""
        server = self._server
        if self.capabilities().rename_within is None:
            raise errors.UnsupportedOperationError("rest: a table cannot be renamed")
        before = self._checked(server.table(identifier))
        server.require_namespace(to[:-1])
        server.rename_table(identifier, to)
        renamed = server.table(to)
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


def _keep_answered_headers(headers: Mapping[str, str]) -> None:
    """Remember the headers of an answer, by their names in lower case."""
    answered = _answered_headers.get()
    if answered is not None:
        answered.clear()
        answered.update({f"{_CONTEXT_HEADER}{name.lower()}": value for name, value in headers.items()})


def _require_shown(changes: PropertyChanges, shown: Mapping[str, str]) -> None:
    lost = _lost(changes.set, shown)
    if lost:
        raise errors.UnsupportedOperationError(f"rest: the server accepts {lost} and does not show the new value")


def _lost(requested: Mapping[str, str], stored: Mapping[str, str]) -> str:
    """Return the keys whose values did not come back, as text; empty when all did.

    A secret that comes back redacted, as from ``lancens serve``, is kept as far as anybody can tell.
    """
    return ", ".join(
        f"`{key}`" for key, value in requested.items() if stored.get(key) != value and not is_hidden(key, value, stored)
    )


def _require_values(identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError if a server hides values of ``properties``."""
    hidden = ", ".join(f"`{key}`" for key, value in properties.items() if value == REDACTED)
    if hidden:
        raise errors.UnsupportedOperationError(
            f"rest: the server does not show {hidden}, so `{join(identifier)}` cannot be entered again with them"
        )
