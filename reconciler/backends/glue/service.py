"""The calls of Glue that lancens makes: each with its pages, its words for errors and nothing of lancens' own rules."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

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

# The refusals that a repeated write gets when its first try has done the work.
_EXISTS = "AlreadyExistsException"
_MISSING = "EntityNotFoundException"
_MOVED_ON = "ConcurrentModificationException"

# What a request about catalogs gets where there are none: before 2024 Glue had no such calls, nor had anybody's policy.
_NO_CATALOGS = (PermissionDeniedError, UnsupportedOperationError)


def _in(place: GlueCatalog, parameter: str = "CatalogId") -> dict[str, Any]:
    """Return the parameter that names a catalog; Glue takes the caller's account where there is none."""
    return {parameter: place.catalog_id} if place.catalog_id else {}


def _only(*, names: bool) -> dict[str, Any]:
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


def _id_of(catalog: CatalogTypeDef) -> str:
    return catalog.get("CatalogId", catalog["Name"])


def _function_name(function: UserDefinedFunctionTypeDef) -> str:
    return function.get("FunctionName", "")


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
        request = {"Recursive": recursive, "MaxResults": _CATALOGS_PAGE, **_in(parent, "ParentCatalogId")}
        pages = self._pages("GetCatalogs", parent.label, "CatalogList", request, _id_of)
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
        request = {"MaxResults": _PAGE, **_in(place), **_only(names=names_only)}
        return self._pages("GetDatabases", place.label, "DatabaseList", request)

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
        request = {"DatabaseName": database, "Pattern": _ANY_NAME, "MaxResults": _PAGE, **_in(place)}
        subject = place.label_of(database)
        return self._pages("GetUserDefinedFunctions", subject, "UserDefinedFunctions", request, _function_name)

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, place: GlueCatalog, database: str, *, names_only: bool = False) -> Iterator[TableTypeDef]:
        """Yield everything Glue calls a table: views and tables of other formats too."""
        return self._listed(place, database, _only(names=names_only))

    def tables_named(self, place: GlueCatalog, database: str, names: Collection[str]) -> Iterator[TableTypeDef]:
        """Yield those of the named tables that are there, of every sort; several names are one call."""
        plain = sorted(name for name in names if _PLAIN_NAME.fullmatch(name))
        narrowed: list[dict[str, str]] = [{"Expression": pattern} for pattern in _patterns(plain)]
        if len(plain) < len(names):  # what the other names would be as patterns is nowhere documented
            narrowed = [{}]
        for picked in narrowed:
            yield from (table for table in self._listed(place, database, picked) if table["Name"] in names)

    def _listed(self, place: GlueCatalog, database: str, picked: Mapping[str, Any]) -> Iterator[TableTypeDef]:
        request = {"DatabaseName": database, "MaxResults": _PAGE, **_in(place), **picked}
        return self._pages("GetTables", place.label_of(database), "TableList", request)

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
            version: dict[str, Any] = {"VersionId": table["VersionId"]} if "VersionId" in table else {}
            self._client().update_table(DatabaseName=database, TableInput=given, **_in(place), **version)

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
        listed: str,
        request: Mapping[str, Any],
        name: Callable[[Any], Any] = itemgetter("Name"),
    ) -> Iterator[Any]:
        """Yield the items of every page of ``operation``, whose answers hold them as ``listed``; each name once."""
        from botocore import xform_name

        def page(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            called = operation if number == 1 else f"{operation}, page {number},"
            with self._asking(called, subject, missing=_no_namespace(subject)):
                call = getattr(self._client(), xform_name(operation))
                answer = call(**request, **({} if token is None else {"NextToken": token}))
                items: Sequence[Any] = answer[listed]
                if not all(isinstance(name(item), str) for item in items):
                    raise TypeError("a name is no text")
                return items, answer.get("NextToken")

        return every_page(f"glue: {operation} on {subject}", page, name)
