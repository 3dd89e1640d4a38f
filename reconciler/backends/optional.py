"""What a catalog may be able to do beside the contract, each ability declared once.

An ability is a class that a backend inherits where its catalog has it. Its methods hold what is right for a catalog
without it, so a backend overrides those that its catalog answers otherwise. The function of a method's name asks any
backend, with the ability or without.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from reconciler.backends.base import Backend
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.errors import InvalidInputError, PermissionDeniedError, UnsupportedOperationError
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

AbilityT = TypeVar("AbilityT", bound=Backend)
ParametersT = ParamSpec("ParametersT")
AnswerT = TypeVar("AnswerT")

Check: TypeAlias = Callable[[LiveNamespace | LiveTable], None]
"""Raises when an object changed since it was read."""

_SUFFIX = ".lance"


def _asking(
    method: Callable[Concatenate[AbilityT, ParametersT], AnswerT],
) -> Callable[Concatenate[Backend, ParametersT], AnswerT]:
    """Return the function that asks a backend by ``method``; one without the ability answers as the method itself."""

    @wraps(method)
    def ask(backend: Backend, /, *args: ParametersT.args, **kwargs: ParametersT.kwargs) -> AnswerT:
        answer: Callable[..., AnswerT] = getattr(backend, method.__name__, partial(cast(Any, method), backend))
        return answer(*args, **kwargs)

    return ask


# ---- reading ---------------------------------------------------------------------------------------------------------


class ReadsOneByOne(Backend):
    """A catalog that has to load each table to tell whether it is a Lance table."""

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what ``scan`` does, without the tables that the service lists but does not let be read.

        Another's broken table would stop every plan. Each of them is a note without the service's own words, which may
        differ at every call, and the foreign objects and tables have it. What decides about a table that was planned
        before, and what another catalog follows, is read by ``scan``.

        Raises:
            BackendError: naming what could not be read beside them.
        """
        return self.scan(scope)

    def possible_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names of the Lance tables in ``parent``, and of others where telling takes a call each.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist, where the service tells.
        """
        return self.child_tables(parent)

    def tables_among(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return those of ``names``, some of :meth:`possible_tables`, that are Lance tables, in order."""
        return names


scan_readable = _asking(ReadsOneByOne.scan_readable)
possible_tables = _asking(ReadsOneByOne.possible_tables)
tables_among = _asking(ReadsOneByOne.tables_among)


class LearnsCapabilities(Backend):
    """A catalog of which only the service knows what it can do."""

    def asked_capabilities(self) -> Capabilities:
        """Return ``capabilities``, after asking the service.

        Raises:
            BackendError: it could not be asked.
        """
        return self.capabilities


asked_capabilities = _asking(LearnsCapabilities.asked_capabilities)


class HoldsOthers(Backend):
    """A catalog whose namespaces hold more than Lance tables and namespaces."""

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of what else a namespace holds: whatever keeps it from being dropped."""
        return ()


foreign_objects = _asking(HoldsOthers.foreign_objects)


class HoldsForeign(HoldsOthers):
    """A catalog that holds tables of other formats."""

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the tables directly in ``namespace`` that are not entered as Lance tables are.

        Those of other formats and views, and those that are marked as Lance tables and are of the wrong type, shown by
        a scan or not: complete, with the location and the format that the catalog says; where ``names`` are given,
        those of them that have one. A namespace that cannot hold tables has none. A plan asks for the names of the
        tables that it would make, so that none is planned where another table is in its way.

        Raises:
            NamespaceNotFoundError: ``namespace`` does not exist; where ``names`` are given, if the service tells.
        """
        return ()


foreign_tables = _asking(HoldsForeign.foreign_tables)


class LeavesEntries(Backend):
    """A catalog in which lancens makes entries for a moment."""

    def leftovers(self, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
        """Return the entries that stayed when lancens was interrupted.

        A plan takes them away. They are nobody's, so no scan, list or count has them in it, and none keeps its
        namespace from being dropped; loading and removing know them, unless another one can be made in its place.
        ``scope`` is what is planned; one that can harm what is in it need not be in it itself.

        Raises:
            BackendError: naming what could not be read.
        """
        return ()


leftovers = _asking(LeavesEntries.leftovers)


# ---- changes ---------------------------------------------------------------------------------------------------------


class Renames(Backend):
    """A catalog that gives tables other names; ``capabilities.rename_within`` says between which identifiers."""

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Give the entry of a Lance table another name; its location and its properties stay, no file is touched.

        At every moment the table has one of the two names.

        Raises:
            TableNotFoundError: there is no such table.
            NotLanceTableError: it is not a Lance table.
            TableAlreadyExistsError: the name ``to`` is taken, by a foreign table too.
            NamespaceNotFoundError: the namespace of ``to`` does not exist.
            UnsupportedOperationError: the catalog cannot rename it.
        """
        raise UnsupportedOperationError(f"{self.impl}: a table cannot be renamed")


rename_table = _asking(Renames.rename_table)


class ChecksAtCommit(Backend):
    """A catalog where a change is committed only on top of what was read for it."""

    def checking(self, check: Check) -> Backend:
        """Return this catalog for changes of one object that was read before.

        ``check`` gets the object that is altered, renamed or removed as that commit finds it; what it raises is raised,
        and nothing is written. Elsewhere the read right before the write has to do.
        """
        return self


checking = _asking(ChecksAtCommit.checking)


class TakesContext(Backend):
    """A service that is told the context of a Lance client's request."""

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return what surrounds the calls for a request; what a context means is for each implementation to say."""
        return nullcontext()


in_context = _asking(TakesContext.in_context)


# ---- locations -------------------------------------------------------------------------------------------------------


class Places(Backend):
    """A catalog with rules of its own for where tables are."""

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the catalog cannot take the table at ``location``, in words; None when it can.

        Asked when planning and again before anything is written, so that no data is written at a place the entry is
        then refused for. It answers from what is configured, without a call, and ``insert_table`` and ``alter_table``
        refuse the same locations. No secret is in the answer.
        """
        return None

    def insert_table_anywhere(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table at a location that the service chooses, for one that has no default location.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
            InvalidInputError: the service does not choose.
        """
        raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` needs a location: no `root` is configured")

    def direct_location(self, identifier: Identifier) -> str | None:
        """Return where a table goes that is made through an operation and names no location.

        Some specifications name a place, such as the current directory, that does not suit a manifest, which is applied
        from anywhere.

        Raises:
            InvalidInputError, NamespaceNotFoundError: there is no such place.
        """
        return self.default_location(identifier)

    def direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a namespace made through an operation, with what its catalog asks for."""
        return properties

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return which table goes to ``path`` below a root, the inverse of ``default_location``."""
        return (*path[:-1], path[-1].removesuffix(_SUFFIX))

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return a place for a new table whose default location ``taken`` holds something.

        Raises:
            TableAlreadyExistsError: the catalog has no other place for a table of this name.
        """
        return f"{taken.removesuffix(_SUFFIX)}_{uuid.uuid4().hex[:12]}{_SUFFIX}"

    def root_keys(self) -> frozenset[str]:
        """Return the properties of namespaces that say under which place tables go by themselves."""
        return self.capabilities.namespace_places

    def stay_inside(self) -> None:
        """Take symbolic links that lead out of the root for no tables from now on."""


location_problem = _asking(Places.location_problem)
insert_table_anywhere = _asking(Places.insert_table_anywhere)


def insert_table(
    backend: Backend, identifier: Identifier, location: str | None, properties: Mapping[str, str]
) -> LiveTable:
    """Create the entry of a table at ``location``, or without one where the service chooses.

    Raises:
        InvalidInputError: there is no location, and the service does not choose one.
    """
    if location is None:
        return insert_table_anywhere(backend, identifier, properties)
    return backend.insert_table(identifier, location, properties)


direct_location = _asking(Places.direct_location)
direct_properties = _asking(Places.direct_properties)
identifier_at = _asking(Places.identifier_at)
fresh_location = _asking(Places.fresh_location)
root_keys = _asking(Places.root_keys)
stay_inside = _asking(Places.stay_inside)


# ---- the columns that entries show -----------------------------------------------------------------------------------


class ShowsColumns(Backend):
    """A catalog whose entries show columns."""

    def shown_columns(self, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
        """Return the columns that the entries of Lance tables show, of those that show any.

        Asked for tables whose storage is opened anyway; a table that has gone is left out.

        Raises:
            BackendError: an entry could not be read.
        """
        return {}

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns that an entry shows of data with ``schema``, without a call; None where it cannot."""
        return None

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Let the entry of a Lance table show ``columns``.

        Everything else of the entry stays, and so does what it says of a column that is given no comment.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it was changed in between, where the service tells.
            UnsupportedOperationError: the columns cannot be changed.
        """
        raise UnsupportedOperationError(f"{self.impl}: the columns that a table shows cannot be changed")

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns that an entry shows in Lance's own types; None where entries do not.

        Raises:
            TableNotFoundError, NotLanceTableError: as for ``load_table``.
        """
        return None

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return, in sentences, what the catalog cannot show as it is of the tables about to be made."""
        return ()


shown_columns = _asking(ShowsColumns.shown_columns)
columns_to_show = _asking(ShowsColumns.columns_to_show)
show_columns = _asking(ShowsColumns.show_columns)
shown_schema = _asking(ShowsColumns.shown_schema)
schema_notes = _asking(ShowsColumns.schema_notes)


# ---- opening data ----------------------------------------------------------------------------------------------------


class OpensData(Backend):
    """A catalog whose entries say how their data is opened, or whose service vends credentials for it."""

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the options for opening one table's dataset, without a call, and so without vended credentials."""
        return self.storage_options()

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening one table's dataset, with the credentials that the service vends for it.

        They expire after a while, and are never shown, saved or logged.
        """
        return own_storage_options(self, table)


own_storage_options = _asking(OpensData.own_storage_options)
_vended_storage_options = _asking(OpensData.vended_storage_options)


def table_storage_options(backend: Backend, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
    """Return the options for opening one table's dataset, right before it is opened.

    ``writes`` says that something will be written to the dataset.

    Raises:
        PermissionDeniedError: the table's location names a host that is not one of ``backend.hosts``.
    """
    if not all(is_admitted(host, backend.hosts) for host in hosts_in("location", table.location)):
        raise PermissionDeniedError(
            f"{backend.impl}: the location of table `{join(table.id)}` names a host that is not allowed; --allow-host "
            "names those that are"
        )
    return _vended_storage_options(backend, table, writes=writes)


# ---- for a look at the service ---------------------------------------------------------------------------------------


class TestsPermissions(Backend):
    """A catalog that has calls of its own by which to see whether the credentials may write."""

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return writes that cannot succeed, by what they would do in words; they test permissions.

        ``table`` is a name that nothing has, in a namespace that exists. Each call goes to the service as the write
        itself does, without a look at what is there, so that the answer tells whether the credentials may make it: that
        the object is missing, or that access is denied. A service may answer before it looks at who asks.
        """
        calls: dict[str, Callable[[], object]] = {}
        if self.capabilities.alter_table:
            changes = PropertyChanges({"lancens.doctor": table[-1]})
            calls["changing a table"] = partial(self.alter_table, table, changes)
        calls["deregistering a table"] = partial(self.remove_table, table)
        calls["dropping a namespace"] = partial(self.remove_namespace, (*table[:-2], table[-1]))
        return calls


permission_probes = _asking(TestsPermissions.permission_probes)


class Measures(Backend):
    """A catalog that knows the service's clock and counts what goes over its connections."""

    def server_time(self) -> datetime | None:
        """Return what time the service says it is; None where it does not."""
        return None

    def traffic(self) -> Traffic | None:
        """Return what went over the connections so far, for ``plan --profile``; None where nobody counts."""
        return None


server_time = _asking(Measures.server_time)
traffic = _asking(Measures.traffic)
