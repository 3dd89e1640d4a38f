"""The calls of Glue that lancens makes: each with its pages, its words for errors and nothing of lancens' own rules."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from reconciler.backends.glue import client
from reconciler.backends.glue.aws_errors import translated
from reconciler.backends.glue.structures import as_input
from reconciler.backends.http.scans import Scans
from reconciler.backends.paging import every_page
from reconciler.model.errors import (
    BackendError,
    InternalError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from reconciler.model.live import Traffic

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_glue.type_defs import (
        CatalogTypeDef,
        DatabaseInputTypeDef,
        DatabaseTypeDef,
        TableInputTypeDef,
        TableTypeDef,
        UserDefinedFunctionTypeDef,
    )

    from reconciler.backends.glue.catalog_ids import GlueCatalog
    from reconciler.backends.glue.config import GlueConfig
    from reconciler.backends.glue.sending import Sender


_log = logging.getLogger(__name__)

# The largest pages Glue gives.
_CATALOGS_PAGE = 1000
_PAGE = 100
_LONGEST_PATTERN = 2048
_PLAIN_NAME = re.compile("[a-z0-9_]+")
# Matches every name, whether Glue reads it as a regular expression or as a pattern of Hive's.
_ANY_NAME = ".*"

ItemT = TypeVar("ItemT")


# The refusals that a repeated write gets when its first try has done the work.
_EXISTS = "AlreadyExistsException"
_MISSING = "EntityNotFoundException"
_MOVED_ON = "ConcurrentModificationException"

# What a request about catalogs gets where there are none: before 2024 Glue had no such calls, nor had anybody's policy.
_NO_CATALOGS = (PermissionDeniedError, UnsupportedOperationError)


class _In(TypedDict, total=False):
    CatalogId: str


class _Below(TypedDict, total=False):
    ParentCatalogId: str


class _After(TypedDict, total=False):
    NextToken: str


class _Only(TypedDict, total=False):
    AttributesToGet: list[Literal["NAME"]]


class _Picked(_Only, total=False):
    Expression: str


class _AtVersion(TypedDict, total=False):
    VersionId: str


def _in(place: GlueCatalog) -> _In:
    """Return the parameter that names a catalog; Glue takes the caller's account where there is none."""
    return {"CatalogId": place.catalog_id} if place.catalog_id else {}


def _below(place: GlueCatalog) -> _Below:
    return {"ParentCatalogId": place.catalog_id} if place.catalog_id else {}


def _only(*, names: bool) -> _Only:
    return {"AttributesToGet": ["NAME"]} if names else {}


def _patterns(names: Iterable[str]) -> Iterator[str]:
    """Yield alternatives of ``names``, each text as long as a call admits at most."""
    pattern = ""
    for name in names:
        if pattern and len(pattern) + len(name) >= _LONGEST_PATTERN:
            yield pattern
            pattern = ""
        pattern = f"{pattern}|{name}" if pattern else name
    if pattern:
        yield pattern


def _at_version(table: TableTypeDef) -> _AtVersion:
    """Return the parameter that makes an update fail when the table has moved on."""
    return {"VersionId": table["VersionId"]} if "VersionId" in table else {}


def _no_namespace(label: str) -> BackendError:
    return NamespaceNotFoundError(f"glue: namespace {label} does not exist")


def _no_table(label: str) -> BackendError:
    return TableNotFoundError(f"glue: table {label} does not exist")


class Service:
    """Glue, as one configuration reaches it. Connects at the first call; safe to use from several threads.

    Every method raises errors of :mod:`reconciler.model.errors` only, and ``refusals.RepeatedError`` where it says so.
    """

    def __init__(self, config: GlueConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._lock_of_account = threading.Lock()
        self._connected: tuple[GlueClient, Sender] | None = None
        self._account: str | None = None
        self.without_catalogs: BackendError | None = None
        """Why catalogs inside the account's own cannot be asked for, once that is known."""
        self._has_answered = False
        self._scans = Scans(config.limits)
        self.one_scan = self._scans.one
        """Lets what is asked for inside take no more than one scan may."""

    @property
    def traffic(self) -> Traffic:
        """What went over the connections so far."""
        return self._scans.traffic

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            if self._connected is not None:
                for one in self._connected:
                    one.close()
                self._connected = None

    def account(self) -> str | None:
        """Return the catalog that all others are in, that of the account; None where catalogs cannot be asked for."""
        with self._lock_of_account:
            if self._account is None and self.without_catalogs is None:
                self._account = self._asked_account()
            return self._account

    def has_catalogs(self) -> bool:
        """Return whether catalogs can be asked for, as far as it has been tried; a call where it has not."""
        return self.without_catalogs is None and (self._has_answered or self.account() is not None)

    def _asked_account(self) -> str | None:
        subject = "the root catalog"
        self._require_login("GetCatalogs", subject)
        try:
            with self._asking("GetCatalogs", subject, missing=_no_namespace(subject)):
                for catalog in self._client().get_catalogs(IncludeRoot=True)["CatalogList"]:
                    found = catalog.get("CatalogId", "").partition(":")[0]
                    return self._config.catalog_id or found
        except _NO_CATALOGS as error:
            self.without_catalogs = error
            return None
        if self._config.catalog_id is not None:
            return self._config.catalog_id
        raise InternalError("glue: GetCatalogs does not tell the account; set `catalog_id`")

    # ---- catalogs ------------------------------------------------------------------------------------------------

    def catalogs(self, parent: GlueCatalog, *, recursive: bool = False) -> Iterator[CatalogTypeDef]:
        """Yield the catalogs directly below ``parent``, or all below it.

        A service that has none, and credentials that may not ask for them, are told apart from an empty account by
        ``without_catalogs``. Nobody needs catalogs who has databases only.
        """

        def fetch(after: _After) -> tuple[Sequence[CatalogTypeDef], str | None]:
            answer = self._client().get_catalogs(
                Recursive=recursive, MaxResults=_CATALOGS_PAGE, **_below(parent), **after
            )
            return answer["CatalogList"], answer.get("NextToken")

        pages = self._pages("GetCatalogs", parent.label, fetch, lambda found: found.get("CatalogId", found["Name"]))
        self._require_login("GetCatalogs", parent.label)
        has_begun = False
        try:
            for catalog in pages:
                has_begun = True
                yield catalog
        except _NO_CATALOGS as error:
            if has_begun or parent.path:
                raise
            self.without_catalogs = error
        else:
            self._has_answered = True

    def catalog(self, place: GlueCatalog) -> CatalogTypeDef:
        """Return one catalog, which is not the root."""
        with self._asking("GetCatalog", place.label, missing=_no_namespace(place.label)):
            return self._client().get_catalog(CatalogId=place.catalog_id or "")["Catalog"]

    def create_catalog(self, place: GlueCatalog, parameters: dict[str, str]) -> None:
        """Make a catalog directly in the account. Raises ``RepeatedError`` when an earlier try may have made it."""
        exists = NamespaceAlreadyExistsError(f"glue: catalog {place.label} already exists")
        with self._asking("CreateCatalog", place.label, exists=exists, done=_EXISTS):
            self._client().create_catalog(Name=place.path[-1], CatalogInput={"Parameters": parameters})

    def update_catalog(self, place: GlueCatalog, catalog: CatalogTypeDef) -> None:
        """Replace a catalog by ``catalog``."""
        with self._asking("UpdateCatalog", place.label, missing=_no_namespace(place.label)):
            given = self._as_input(catalog, "CatalogInput")
            self._client().update_catalog(CatalogId=place.catalog_id or "", CatalogInput=given)

    def delete_catalog(self, place: GlueCatalog) -> None:
        """Delete a catalog, with whatever it holds. Raises ``RepeatedError`` when an earlier try may have done it."""
        with self._asking("DeleteCatalog", place.label, missing=_no_namespace(place.label), done=_MISSING):
            self._client().delete_catalog(CatalogId=place.catalog_id or "")

    # ---- databases -----------------------------------------------------------------------------------------------

    def databases(self, place: GlueCatalog, *, names_only: bool = False) -> Iterator[DatabaseTypeDef]:
        """Yield the databases of a catalog."""

        def fetch(after: _After) -> tuple[Sequence[DatabaseTypeDef], str | None]:
            answer = self._client().get_databases(MaxResults=_PAGE, **_in(place), **_only(names=names_only), **after)
            return answer["DatabaseList"], answer.get("NextToken")

        return self._pages("GetDatabases", place.label, fetch, lambda found: found["Name"])

    def database(self, place: GlueCatalog, name: str) -> DatabaseTypeDef:
        """Return one database."""
        label = place.label_of(name)
        with self._asking("GetDatabase", label, missing=_no_namespace(label)):
            return self._client().get_database(Name=name, **_in(place))["Database"]

    def create_database(self, place: GlueCatalog, database: DatabaseInputTypeDef) -> None:
        """Make a database. Raises ``RepeatedError`` when an earlier try may have made it."""
        label = place.label_of(database["Name"])
        exists = NamespaceAlreadyExistsError(f"glue: database {label} already exists")
        with self._asking("CreateDatabase", label, missing=_no_namespace(place.label), exists=exists, done=_EXISTS):
            self._client().create_database(DatabaseInput=database, **_in(place))

    def update_database(self, place: GlueCatalog, database: DatabaseTypeDef) -> None:
        """Replace a database by ``database``."""
        name = database["Name"]
        label = place.label_of(name)
        with self._asking("UpdateDatabase", label, missing=_no_namespace(label)):
            given = self._as_input(database, "DatabaseInput")
            self._client().update_database(Name=name, DatabaseInput=given, **_in(place))

    def delete_database(self, place: GlueCatalog, name: str) -> None:
        """Delete a database, with whatever it holds. Raises ``RepeatedError`` when an earlier try may have done it."""
        label = place.label_of(name)
        with self._asking("DeleteDatabase", label, missing=_no_namespace(label), done=_MISSING):
            self._client().delete_database(Name=name, **_in(place))

    def functions(self, place: GlueCatalog, database: str) -> Iterator[UserDefinedFunctionTypeDef]:
        """Yield the user-defined functions of a database."""

        def fetch(after: _After) -> tuple[Sequence[UserDefinedFunctionTypeDef], str | None]:
            answer = self._client().get_user_defined_functions(
                DatabaseName=database, Pattern=_ANY_NAME, MaxResults=_PAGE, **_in(place), **after
            )
            return answer["UserDefinedFunctions"], answer.get("NextToken")

        return self._pages(
            "GetUserDefinedFunctions", place.label_of(database), fetch, lambda found: found.get("FunctionName", "")
        )

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, place: GlueCatalog, database: str, *, names_only: bool = False) -> Iterator[TableTypeDef]:
        """Yield everything Glue calls a table: views and tables of other formats too."""

        return self._listed(place, database, _only(names=names_only))

    def tables_named(self, place: GlueCatalog, database: str, names: Collection[str]) -> Iterator[TableTypeDef]:
        """Yield those of the named tables that are there, of every sort; several names are one call."""
        plain = sorted(name for name in names if _PLAIN_NAME.fullmatch(name))
        narrowed: list[_Picked] = [{"Expression": pattern} for pattern in _patterns(plain)]
        if len(plain) < len(names):  # what the other names would be as patterns is nowhere documented
            narrowed = [{}]
        for picked in narrowed:
            yield from (table for table in self._listed(place, database, picked) if table["Name"] in names)

    def _listed(self, place: GlueCatalog, database: str, picked: _Only | _Picked) -> Iterator[TableTypeDef]:
        def fetch(after: _After) -> tuple[Sequence[TableTypeDef], str | None]:
            answer = self._client().get_tables(DatabaseName=database, MaxResults=_PAGE, **_in(place), **picked, **after)
            return answer["TableList"], answer.get("NextToken")

        return self._pages("GetTables", place.label_of(database), fetch, lambda found: found["Name"])

    def table(self, place: GlueCatalog, database: str, name: str) -> TableTypeDef:
        """Return one table. A missing database is answered as a missing table."""
        label = place.label_of(database, name)
        with self._asking("GetTable", label, missing=_no_table(label)):
            return self._client().get_table(DatabaseName=database, Name=name, **_in(place))["Table"]

    def create_table(self, place: GlueCatalog, database: str, table: TableInputTypeDef) -> None:
        """Make the entry of a table. Raises ``RepeatedError`` when an earlier try may have made it."""
        label = place.label_of(database, table["Name"])
        missing = _no_namespace(place.label_of(database))
        exists = TableAlreadyExistsError(f"glue: table {label} already exists")
        with self._asking("CreateTable", label, missing=missing, exists=exists, done=_EXISTS):
            self._client().create_table(DatabaseName=database, TableInput=table, **_in(place))

    def update_table(self, place: GlueCatalog, database: str, table: TableTypeDef) -> None:
        """Replace a table by ``table``, unless its version is no longer the one ``table`` has.

        Raises ``RepeatedError`` when an earlier try may have done it.
        """
        label = place.label_of(database, table["Name"])
        with self._asking("UpdateTable", label, missing=_no_table(label), done=_MOVED_ON):
            given = self._as_input(table, "TableInput")
            self._client().update_table(DatabaseName=database, TableInput=given, **_in(place), **_at_version(table))

    def delete_table(self, place: GlueCatalog, database: str, name: str) -> None:
        """Delete the entry of a table. Raises ``RepeatedError`` when an earlier try may have done it."""
        label = place.label_of(database, name)
        with self._asking("DeleteTable", label, missing=_no_table(label), done=_MISSING):
            self._client().delete_table(DatabaseName=database, Name=name, **_in(place))

    # ---- asking --------------------------------------------------------------------------------------------------

    def _client(self) -> GlueClient:
        with self._lock:
            if self._connected is None:
                self._connected = client.connect(self._config, self._scans)
            return self._connected[0]

    def _require_login(self, operation: str, subject: str) -> None:
        """Connect, so that no refusal of a role is taken for one of what it is needed for."""
        with self._asking(operation, subject):
            self._client()

    def _as_input(self, answered: object, shape: str) -> Any:
        return as_input(answered, self._client().meta.service_model.shape_for(shape))

    def _asking(
        self,
        operation: str,
        subject: str,
        *,
        missing: BackendError | None = None,
        exists: BackendError | None = None,
        done: str | None = None,
    ) -> AbstractContextManager[None]:
        _log.debug("glue: %s on %s", operation, subject)
        self._scans.check(f"glue: {operation} on {subject}")
        return translated(operation, subject, self._config.secrets, missing=missing, exists=exists, done=done)

    def _pages(
        self,
        operation: str,
        subject: str,
        fetch: Callable[[_After], tuple[Sequence[ItemT], str | None]],
        name: Callable[[ItemT], str],
    ) -> Iterator[ItemT]:
        """Yield the items of every page; ``fetch`` asks for the page after the one before."""

        def page(token: str | None, number: int) -> tuple[Sequence[ItemT], str | None]:
            called = operation if number == 1 else f"{operation}, page {number},"
            with self._asking(called, subject, missing=_no_namespace(subject)):
                items, following = fetch({} if token is None else {"NextToken": token})
                if not all(isinstance(name(item), str) for item in items):
                    raise TypeError("a name is no text")
                return items, following

        return every_page(f"glue: {operation} on {subject}", page, name)
