"""Abilities that some catalogs have beside the contract, each declared once.

A backend inherits the class of each ability that its catalog has, and overrides its methods. The methods themselves
answer for a catalog without the ability. The function named like a method asks any backend, with the ability or
without.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from reconciler.backends.base import Backend
from reconciler.model.admission import StorageOptions
from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Schema, ShownColumns
from reconciler.model.errors import InvalidInputError, PermissionDeniedError, UnsupportedOperationError
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges, Snapshot, Traffic
from reconciler.model.names import EVERYTHING, Identifier, Scope, join

AbilityT = TypeVar("AbilityT", bound=Backend)
ParametersT = ParamSpec("ParametersT")
AnswerT = TypeVar("AnswerT")
LiveT = TypeVar("LiveT", LiveNamespace, LiveTable)

Check: TypeAlias = Callable[[LiveNamespace | LiveTable], None]
"""Raises if the object changed since it was read."""

_SUFFIX = ".lance"


def _asking(
    method: Callable[Concatenate[AbilityT, ParametersT], AnswerT],
) -> Callable[Concatenate[Backend, ParametersT], AnswerT]:
    """Return the function that calls ``method`` of any backend.

    For a backend without the ability, it calls ``method`` itself.
    """

    @wraps(method)
    def ask(backend: Backend, /, *args: ParametersT.args, **kwargs: ParametersT.kwargs) -> AnswerT:
        answer: Callable[..., AnswerT] = getattr(backend, method.__name__, partial(cast(Any, method), backend))
        return answer(*args, **kwargs)

    return ask


# ---- reading ---------------------------------------------------------------------------------------------------------


class ReadsOneByOne(Backend):
    """A catalog that has to load each table to tell whether it is a Lance table."""

    def scan_readable(self, scope: Scope = EVERYTHING) -> Snapshot:
        """Return what ``scan`` does, without tables that cannot be loaded.

        A broken table of another owner would otherwise stop every plan. Each skipped table becomes a note, without the
        service's own words, which may differ at every call; it also counts as a foreign table. Saved plans and mirrors
        are decided on what ``scan`` reads.

        Raises:
            BackendError: naming anything else that could not be read.
        """
        return self.scan(scope)

    def possible_tables(self, parent: Identifier) -> Iterable[str]:
        """Return the names in ``parent`` that may be Lance tables, without loading them.

        Raises:
            NamespaceNotFoundError: ``parent`` does not exist, where the service reports it.
        """
        return self.child_tables(parent)

    def tables_among(self, parent: Identifier, names: Sequence[str]) -> Sequence[str]:
        """Return those of some possible tables that are Lance tables, in order."""
        return names


scan_readable = _asking(ReadsOneByOne.scan_readable)
possible_tables = _asking(ReadsOneByOne.possible_tables)
tables_among = _asking(ReadsOneByOne.tables_among)


class ReadsParts(Backend):
    """A catalog that reads some tables of a namespace, or all but some, for less than all of them."""

    def large_namespaces(self, more_than: int) -> Mapping[Identifier, Sequence[str]]:
        """Return the names of the tables in each namespace that has more than ``more_than``."""
        return {}


large_namespaces = _asking(ReadsParts.large_namespaces)


class LearnsCapabilities(Backend):
    """A catalog whose capabilities only the service knows."""

    def asked_capabilities(self) -> Capabilities:
        """Return the capabilities that the service reports.

        Raises:
            BackendError: it could not be asked.
        """
        return self.capabilities


asked_capabilities = _asking(LearnsCapabilities.asked_capabilities)


class HoldsOthers(Backend):
    """A catalog whose namespaces hold more than Lance tables and namespaces."""

    def foreign_objects(self, identifier: Identifier) -> Sequence[str]:
        """Return the names of other objects in a namespace, which keep it from a drop."""
        return ()


foreign_objects = _asking(HoldsOthers.foreign_objects)


class HoldsForeign(HoldsOthers):
    """A catalog that holds tables of other formats."""

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the tables in ``namespace`` that are not registered as Lance tables.

        These are tables of other formats, views, and tables marked as Lance tables that have the wrong type. The list
        is complete, or limited to ``names``, with the location and the format that the catalog reports. A plan asks for
        the names of the tables that it would create, so that it plans none under a name that is taken.

        Raises:
            NamespaceNotFoundError: ``namespace`` does not exist; with ``names``, only if the service reports it.
        """
        return ()


foreign_tables = _asking(HoldsForeign.foreign_tables)


class LeavesEntries(Backend):
    """A catalog in which an interrupted run of lancens can leave entries behind."""

    def leftovers(self, scope: Scope) -> Sequence[LiveNamespace | LiveTable]:
        """Return the entries that interrupted runs left behind, for a plan to remove.

        They have no owner: scans, lists and counts leave them out, and they keep no namespace from being dropped. They
        can be loaded and removed, unless another entry can be created in their place. ``scope`` is what is planned;
        entries outside of it that affect it are included.

        Raises:
            BackendError: naming what could not be read.
        """
        return ()


leftovers = _asking(LeavesEntries.leftovers)


# ---- changes ---------------------------------------------------------------------------------------------------------


class Renames(Backend):
    """A catalog that renames tables, as ``capabilities.rename_within`` allows."""

    def rename_table(self, identifier: Identifier, to: Identifier) -> LiveTable:
        """Rename the entry of a Lance table; all else of it stays as it is.

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


class CopiesEntries(Backend):
    """A catalog whose entries hold more than a location and properties."""

    def copy_table(self, table: LiveTable, to: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry ``to`` with ``properties``, and everything else that the entry of ``table`` holds.

        Its location is that of ``table``. What cannot be copied is in ``capabilities.lost_on_move``.

        Raises:
            TableNotFoundError: the entry of ``table`` is gone.
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
        """
        return self.insert_table(to, table.location, properties)


copy_table = _asking(CopiesEntries.copy_table)


class ChecksAtCommit(Backend):
    """A catalog that reads an object again to change it, best as part of the commit."""

    _check: Check | None = None

    def checking(self, check: Check) -> Self:
        """Return this backend with a check in each commit of a change.

        Each commit passes the object that it alters, renames or removes, as just read, to ``check``. If that raises,
        nothing is written and the error is raised.
        """
        checks = object.__new__(type(self))  # `copy` would go the way of pickle
        vars(checks).update(vars(self), _check=check)
        return checks

    def _checked(self, live: LiveT) -> LiveT:
        """Return ``live``, after the check for an object that a commit changes."""
        if self._check is not None:
            self._check(live)
        return live


def checking(backend: Backend, check: Check) -> Backend:
    """Return the backend with a check in each commit; without, where it has none."""
    return backend.checking(check) if isinstance(backend, ChecksAtCommit) else backend


class TakesContext(Backend):
    """A service that takes the context of a Lance client's request."""

    def in_context(self, context: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
        """Return a context manager for the calls of a request; it yields the context of the response.

        Each implementation defines what a context means.
        """
        return nullcontext({})


in_context = _asking(TakesContext.in_context)


# ---- locations -------------------------------------------------------------------------------------------------------


class Places(Backend):
    """A catalog with rules of its own for where tables are."""

    def location_problem(self, identifier: Identifier, location: str) -> str | None:
        """Return why the catalog cannot take a table at ``location``; None if it can.

        It is called when planning, and again before data is written to the location. It decides by the configuration,
        without a call. ``insert_table`` and ``alter_table`` refuse the same locations. The answer holds no secret.
        """
        return None

    def insert_table_anywhere(self, identifier: Identifier, properties: Mapping[str, str]) -> LiveTable:
        """Create the entry of a table at a location that the service chooses.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: as for ``insert_table``.
            InvalidInputError: the service does not choose.
        """
        raise InvalidInputError(f"{self.impl}: table `{join(identifier)}` needs a location: no `root` is configured")

    def direct_location(self, identifier: Identifier) -> str | None:
        """Return the location of a table that a namespace operation creates without one.

        Some specifications default to a place such as the current directory. That does not suit a manifest, which can
        be applied from anywhere.

        Raises:
            InvalidInputError, NamespaceNotFoundError: there is no default.
        """
        return self.default_location(identifier)

    def direct_properties(self, identifier: Identifier, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties of a new namespace, with those that are required."""
        return properties

    def identifier_at(self, path: Sequence[str]) -> Identifier:
        """Return the table whose default location is ``path`` below a root."""
        return (*path[:-1], path[-1].removesuffix(_SUFFIX))

    def fresh_location(self, identifier: Identifier, taken: str) -> str:
        """Return another location for a table whose default one, ``taken``, is in use.

        Raises:
            TableAlreadyExistsError: a table of this name cannot be elsewhere.
        """
        return f"{taken.removesuffix(_SUFFIX)}_{uuid.uuid4().hex[:12]}{_SUFFIX}"

    def stay_inside(self) -> None:
        """Ignore symbolic links that lead out of the root, from now on."""


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
stay_inside = _asking(Places.stay_inside)


# ---- the columns that entries show -----------------------------------------------------------------------------------


class ShowsColumns(Backend):
    """A catalog whose entries show columns."""

    def shown_columns(self, identifiers: Collection[Identifier]) -> Mapping[Identifier, ShownColumns]:
        """Return the columns that the entries of Lance tables show, if any.

        It is called for tables whose storage is opened anyway. A table that no longer exists is left out.

        Raises:
            BackendError: an entry could not be read.
        """
        return {}

    def columns_to_show(self, schema: Schema) -> ShownColumns | None:
        """Return the columns to show of data with ``schema``; None if there are none.

        It answers without a call.
        """
        return None

    def show_columns(self, identifier: Identifier, columns: ShownColumns) -> None:
        """Replace the columns that the entry of a Lance table shows.

        The rest of the entry stays as it is, and so does the comment of a column that comes without one.

        Raises:
            TableNotFoundError: it does not exist.
            ConcurrentModificationError: it changed in between, where the service reports it.
            UnsupportedOperationError: the columns cannot be changed.
        """
        raise UnsupportedOperationError(f"{self.impl}: the columns that a table shows cannot be changed")

    def shown_schema(self, identifier: Identifier) -> Schema | None:
        """Return the columns that an entry shows in Lance's own types, if it does.

        Raises:
            TableNotFoundError, NotLanceTableError: as for ``load_table``.
        """
        return None

    def schema_notes(self, schemas: Iterable[Schema]) -> Sequence[str]:
        """Return sentences about columns that new entries cannot show exactly."""
        return ()


shown_columns = _asking(ShowsColumns.shown_columns)
columns_to_show = _asking(ShowsColumns.columns_to_show)
show_columns = _asking(ShowsColumns.show_columns)
shown_schema = _asking(ShowsColumns.shown_schema)
schema_notes = _asking(ShowsColumns.schema_notes)


# ---- opening data ----------------------------------------------------------------------------------------------------


class OpensData(Backend):
    """A catalog whose entries or service say how to open the data of a table."""

    def own_storage_options(self, table: LiveTable) -> dict[str, str]:
        """Return the options for opening a dataset, without vended credentials.

        It answers without a call.
        """
        return self.storage_options()

    def vended_storage_options(self, table: LiveTable, *, writes: bool = False) -> dict[str, str]:
        """Return the options for opening a dataset, with vended credentials.

        The credentials expire. They are never shown, saved or logged.
        """
        return own_storage_options(self, table)


own_storage_options = _asking(OpensData.own_storage_options)
_vended_storage_options = _asking(OpensData.vended_storage_options)


def table_storage_options(backend: Backend, table: LiveTable, *, writes: bool = False) -> StorageOptions:
    """Return the options for opening a table's dataset; call it right before opening.

    ``writes`` says that the caller will write to the dataset.

    Raises:
        PermissionDeniedError: the table's location names a host that is not one of ``backend.hosts``.
    """
    if not all(is_admitted(host, backend.hosts) for host in hosts_in("location", table.location)):
        raise PermissionDeniedError(
            f"{backend.impl}: the location of table `{join(table.id)}` names a host that is not allowed; name it "
            "with --allow-host"
        )
    return StorageOptions(_vended_storage_options(backend, table, writes=writes), backend.admission())


# ---- for a look at the service ---------------------------------------------------------------------------------------


class TestsPermissions(Backend):
    """A catalog with its own calls for testing whether the credentials may write."""

    def permission_probes(self, table: Identifier) -> Mapping[str, Callable[[], object]]:
        """Return writes that cannot succeed, to test permissions, by what they do.

        ``table`` is an unused name in a namespace that exists. Each call sends the write without checking first, so the
        answer says whether the object is missing or access is denied. Some services report a missing object first.
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
    """A catalog that knows the service's clock, and counts requests."""

    def server_time(self) -> datetime | None:
        """Return the time of the service's clock; None if it does not report one."""
        return None

    def traffic(self) -> Traffic | None:
        """Return the requests and bytes so far, for ``plan --profile``, if counted."""
        return None


server_time = _asking(Measures.server_time)
traffic = _asking(Measures.traffic)
