"""The backend: a client of any Lance namespace server.

Servers differ in what they make of modes, missing namespaces and locations. Here no mode but the plain one is ever
sent, what a server might pass over in silence is asked for first, and what it answers after a write is read back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from reconciler.backends import optional
from reconciler.backends.doubles import every_name
from reconciler.backends.http import hold_secret, plain_http_problem, service_client
from reconciler.backends.http.backend import HttpBackend
from reconciler.backends.rest.config import RestConfig
from reconciler.backends.rest.context import add_headers, headers_in, sent_with
from reconciler.backends.rest.namespace_errors import translate
from reconciler.backends.rest.server import RestServer
from reconciler.backends.table_options import with_vended
from reconciler.model import locations
from reconciler.model.capabilities import Capabilities, LocationPolicy
from reconciler.model.concurrency import in_parallel
from reconciler.model.errors import (
    BackendError,
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
from reconciler.model.live import LiveNamespace, LiveTable, PropertyChanges, Snapshot
from reconciler.model.names import EVERYTHING, Identifier, Scope, check_name, join
from reconciler.model.redaction import REDACTED, is_hidden

_OTHER_LEVEL = re.compile(r"expected (at )?\d-level namespace", re.IGNORECASE)
_ALTERING = frozenset({"AlterNamespace", "AlterTable"})
_RENAMING = frozenset({"RenameTable"})


class RestBackend(
    HttpBackend,
    optional.LearnsCapabilities,
    optional.OpensData,
    optional.Places,
    optional.Renames,
    optional.TakesContext,
):
    """A Lance namespace server, over its REST interface.

    The protocol of today has no call that changes an entry; a server that says in ListOperations that it has
    AlterNamespace and AlterTable, as ``lancens serve`` does, is asked to. So is one that says it has RenameTable.
    """

    impl = "rest"
    config_model = RestConfig
    config: RestConfig
    capabilities = Capabilities(
        location_policy=LocationPolicy.UNDER_ROOT, alter_namespace=False, alter_table=False, relocate_table=False
    )
    reads_by_name = True

    def __init__(self, **properties: str) -> None:
        super().__init__(**properties)
        self.config.certificates.require_readable(self.impl, "`tls.ssl_ca_cert`", "`tls.cert_file`, `tls.key_file`")
        self._http = service_client(
            self.impl,
            self.config,
            self.config.uri,
            translate=translate,
            endpoint_key="uri",
            sign=add_headers,
            certificates=self.config.certificates,
        )
        self._known = RestServer(self._http, self.config.delimiter)
        self._asking = threading.Lock()
        self._asked = False
        self.capabilities = self._able(frozenset())

    @property
    def _server(self) -> RestServer:
        """The server, asked before its first use whether it can change entries."""
        self._ask()
        return self._known

    def _ask(self) -> None:
        with self._asking:
            if not self._asked:
                self.capabilities = self._able(self._known.operations())
                self._asked = True

    def _able(self, offered: frozenset[str]) -> Capabilities:
        alters = offered >= _ALTERING
        return Capabilities(
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

    def asked_capabilities(self) -> Capabilities:
        """Return what the server can do, which it says in ListOperations."""
        self._ask()
        return self.capabilities

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Let the headers of a request's context go with what is asked for it.

        Raises:
            InvalidInputError: one cannot be sent, or is a credential that would go over plain http.
        """
        headers = headers_in(context)
        config = self.config
        secret = hold_secret(headers)
        problem = plain_http_problem("uri", config.uri, has_secret=secret, allowed=config.allow_http)
        if problem is not None:
            raise InvalidInputError(f"rest: {problem}")
        return sent_with(headers)

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what is within ``scope``: two lists and a call for each namespace, and a call for each table.

        The protocol has no call that answers several entries. Calls of one level run side by side.
        """
        with self._http.one_scan():
            return self._scan(scope)

    def _scan(self, scope: Scope) -> Snapshot:
        notes: list[str] = []
        namespaces: dict[Identifier, LiveNamespace] = {}
        found: list[Identifier] = []
        level: list[Identifier] = [()]
        while level:
            below = in_parallel(lambda parent: self._listed(parent, scope), level, self.parallelism)
            level = []
            for spaces, tables, unshown in below:
                notes += unshown
                found += tables
                namespaces.update((space.id, space) for space in spaces)
                level += [space.id for space in spaces if scope.reaches(space.id)]
        loaded = in_parallel(self._table_if_there, found, self.parallelism)
        return Snapshot(namespaces, {table.id: table for table in loaded if table}, tuple(notes))

    def _listed(self, parent: Identifier, scope: Scope) -> tuple[list[LiveNamespace], list[Identifier], list[str]]:
        """Return the namespaces and the names of the tables in ``parent``, and what cannot be shown.

        What has gone since it was listed holds nothing.
        """

        def inside(name: str) -> bool:
            return scope.contains((*parent, name))

        def wanted(name: str) -> bool:
            return inside(name) or scope.reaches((*parent, name))

        try:
            spaces = [(*parent, name) for name in self.child_namespaces(parent, wanted)]
            tables = [(*parent, name) for name in self.child_tables(parent, inside)]
        except NamespaceNotFoundError:
            if not parent:
                raise
            return [], [], []
        notes = [
            f"`{name[-1]}` in `{join(parent) or 'the root'}` cannot be shown: {reason}"
            for name in (*spaces, *tables)
            if (reason := self._unshown(name[-1]))
        ]
        kept = [name for name in spaces if not self._unshown(name[-1])]
        within = [name for name in kept if wanted(name[-1])]
        there = in_parallel(self._namespace_if_there, within, self.parallelism)
        shown = [name for name in tables if not self._unshown(name[-1]) and inside(name[-1])]
        return [space for space in there if space], shown, notes

    def _unshown(self, name: str) -> str | None:
        if self.config.delimiter in name:
            return f"it holds the delimiter `{self.config.delimiter}`"
        return check_name(name)

    def _namespace_if_there(self, identifier: Identifier) -> LiveNamespace | None:
        try:
            return self._server.namespace(identifier)
        except NamespaceNotFoundError:
            return None

    def _table_if_there(self, identifier: Identifier) -> LiveTable | None:
        """Return a listed table; one the server lists and then denies is an error, one it no longer lists is gone."""
        try:
            return self._server.table(identifier)
        except (TableNotFoundError, NamespaceNotFoundError):
            if identifier[-1] in self._server.tables(identifier[:-1], identifier[-1].__eq__):
                raise
            return None

    def load_namespace(self, identifier: Identifier) -> LiveNamespace:
        """Return one namespace."""
        return self._server.namespace(identifier)

    def load_table(self, identifier: Identifier) -> LiveTable:
        """Return one table."""
        return self._server.table(identifier)

    def child_namespaces(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names directly below ``parent``; an empty list is believed of one that exists only."""
        names = self._server.namespaces(parent, concerns)
        if not names:
            self._server.require_namespace(parent)
        return names

    def child_tables(self, parent: Identifier, concerns: Callable[[str], bool] = every_name) -> list[str]:
        """Return the names of the tables in ``parent``; an empty list is believed of one that exists only.

        A server that has tables on one level alone, as Gravitino does, may refuse to list them on any other: there are
        none. Another refusal is an error.
        """
        try:
            names = self._server.tables(parent, concerns)
        except InvalidInputError as error:
            if not _OTHER_LEVEL.search(str(error)):
                raise
            names = []
        if not names:
            self._server.require_namespace(parent)
        return names

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the configured options, above those that the server hands out for the table (see `with_vended`)."""
        ask = partial(self._server.storage_options, table.id)
        return with_vended(self.config, self.storage_options(), table, ask, self.hosts)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert_namespace(
        self, identifier: Identifier, properties: Mapping[str, str], *, kind: str | None = None
    ) -> LiveNamespace:
        """Create a namespace; one whose properties the server loses is dropped again."""
        self._server.require_namespace(identifier[:-1])
        try:
            self._server.create_namespace(identifier, properties)
        except ConcurrentModificationError as error:
            if self._namespace_if_there(identifier) is None:
                raise
            raise NamespaceAlreadyExistsError(str(error)) from None
        made = self._server.namespace(identifier)
        lost = _lost(properties, made.properties)
        if lost:
            self._server.drop_namespace(identifier)
            raise UnsupportedOperationError(
                f"rest: the server does not keep, or not show, {lost} of namespace `{join(identifier)}`; it is not made"
            )
        return made

    def remove_namespace(self, identifier: Identifier) -> None:
        """Remove a namespace that lists as empty; the server is told to refuse one that is not."""
        inside = sorted({*self.child_namespaces(identifier), *self.child_tables(identifier)})
        if inside:
            raise NamespaceNotEmptyError(f"rest: namespace `{join(identifier)}` holds {', '.join(inside[:5])}")
        self._server.drop_namespace(identifier)

    def alter_namespace(self, identifier: Identifier, changes: PropertyChanges) -> LiveNamespace:
        """Merge ``changes`` into a namespace's properties, where the server can."""
        server = self._server
        if not self.capabilities.alter_namespace:
            return super().alter_namespace(identifier, changes)
        altered = server.alter_namespace(identifier, changes)
        _require_shown(changes, altered.properties)
        return altered

    def insert_table_anywhere(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table where the server chooses to."""
        _require_values(identifier, properties)
        self._server.require_namespace(identifier[:-1])
        self._server.declare_table(identifier, None, properties)
        return self._checked(identifier, None, properties)

    def insert_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table.

        Some servers declare a table only where they like and register one anywhere below their root, by a path
        relative to it.
        """
        problem = self.location_problem(identifier, location)
        if problem is not None:
            raise InvalidInputError(f"rest: {problem}")
        _require_values(identifier, properties)
        self._server.require_namespace(identifier[:-1])
        try:
            self._enter(identifier, location, properties)
        except ConcurrentModificationError as error:
            if not self._server.has_table(identifier):
                raise
            raise TableAlreadyExistsError(str(error)) from None
        return self._checked(identifier, location, properties)

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return that ``location`` is not under ``root``, where there is one."""
        if self.config.root is None or locations.is_under(self.config.root, location):
            return None
        return f"{locations.redact(location)} is not under the root {self.config.root}; tables stay below it"

    def _enter(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        try:
            self._server.declare_table(identifier, location, properties)
        except (InvalidInputError, UnsupportedOperationError) as refusal:
            self._register(identifier, location, properties, refusal)

    def _register(
        self, identifier: Identifier, location: str, properties: Mapping[str, str], refusal: BackendError
    ) -> None:
        try:
            self._server.register_table(identifier, location, properties)
        except (InvalidInputError, UnsupportedOperationError):
            relative = self._relative(location)
            if relative is None:
                raise refusal from None
            self._server.register_table(identifier, relative, properties)

    def _relative(self, location: str) -> str | None:
        if self.config.root is None:
            return None
        root = locations.normalise(self.config.root).rstrip("/")
        return locations.normalise(location).removeprefix(f"{root}/")

    def _checked(self, identifier: Identifier, location: str | None, properties: Mapping[str, str]) -> LiveTable:
        """Return the new entry; one that is not what was asked for is taken back."""
        try:
            made = self._server.table(identifier)
        except TableNotFoundError as error:
            raise InternalError(
                f"rest: the server takes the entry of table `{join(identifier)}` and does not show it: {error}"
            ) from None
        fault = ""
        if location is not None and not locations.same(location, made.location):
            fault = f"puts table `{join(identifier)}` at {locations.redact(made.location)}, not where it was asked to"
        lost = _lost(properties, made.properties)
        if lost and self.config.table_properties:
            fault = f"does not keep, or not show, {lost} of table `{join(identifier)}`; see `table_properties`"
        if not fault:
            return made
        self._server.deregister_table(identifier)
        raise UnsupportedOperationError(f"rest: the server {fault}; its entry is taken back")

    def remove_table(self, identifier: Identifier) -> LiveTable:
        """Remove the entry of a table and see that it is gone."""
        removed = self._server.table(identifier)
        self._server.deregister_table(identifier)
        if self._server.has_table(identifier):
            raise InternalError(
                f"rest: the server says that table `{join(identifier)}` is deregistered, and still has it: it takes "
                f"what is at {locations.redact(removed.location)} for a table"
            )
        return removed

    def alter_table(self, identifier: Identifier, changes: PropertyChanges, location: str | None = None) -> LiveTable:
        """Merge ``changes`` into a table's properties and set its location, where the server can."""
        server = self._server
        if not self.capabilities.alter_table:
            return super().alter_table(identifier, changes, location)
        problem = None if location is None else self.location_problem(identifier, location)
        if problem is not None:
            raise InvalidInputError(f"rest: {problem}")
        altered = server.alter_table(identifier, changes, location)
        _require_shown(changes, altered.properties)
        return altered

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a table another name, where the server can, and see that it is the same entry."""
        server = self._server
        if self.capabilities.rename_within is None:
            raise UnsupportedOperationError("rest: a table cannot be renamed")
        before = server.table(identifier)
        server.require_namespace(to[:-1])
        server.rename_table(identifier, to)
        renamed = server.table(to)
        if not locations.same(before.location, renamed.location):
            raise InternalError(
                f"rest: the server renames table `{join(identifier)}` to `{join(to)}` and shows it at "
                f"{locations.redact(renamed.location)}, not at {locations.redact(before.location)}"
            )
        return renamed

    def default_location(self, identifier: Identifier) -> str | None:
        """Return the place below ``root``, None without one."""
        if self.config.root is None:
            return None
        return locations.join(self.config.root, *identifier[:-1], f"{identifier[-1]}.lance")


def _require_shown(changes: PropertyChanges, shown: Mapping[str, str]) -> None:
    lost = _lost(changes.set, shown)
    if lost:
        raise UnsupportedOperationError(f"rest: the server takes {lost} and does not show what it took")


def _lost(asked: Mapping[str, str], kept: Mapping[str, str]) -> str:
    """Return the keys whose values did not come back, as text; empty when all did.

    A secret that comes back redacted, as from ``lancens serve``, is kept as far as anybody can tell.
    """
    return ", ".join(
        f"`{key}`" for key, value in asked.items() if kept.get(key) != value and not is_hidden(key, value, kept)
    )


def _require_values(identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError where ``properties`` were read, and the server did not show what they are."""
    hidden = ", ".join(f"`{key}`" for key, value in properties.items() if value == REDACTED)
    if hidden:
        raise UnsupportedOperationError(
            f"rest: the server does not show {hidden}, so `{join(identifier)}` cannot be entered anew with what it is"
        )
