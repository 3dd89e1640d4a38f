"""Call the Glue API: paging, errors and retries."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from botocore import xform_name

from reconciler.backends.glue import client
from reconciler.backends.glue.aws_errors import WebPageError, translated
from reconciler.backends.glue.structures import as_input, id_below
from reconciler.backends.http.limits import TrafficMeter
from reconciler.backends.http.rate_limit import rate_limit
from reconciler.backends.http.retry import Attempts
from reconciler.backends.paging import paged_entries
from reconciler.model import errors
from reconciler.model.names import Identifier, join

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient, type_defs

    from reconciler.backends.glue.config import GlueConfig


_log = logging.getLogger(__name__)

# The largest pages Glue gives.
_CATALOGS_PAGE = 1000
_PAGE = 100
_LONGEST_PATTERN = 2048
_PLAIN_NAME = re.compile("[a-z0-9_]+")
# Matches every name, whether Glue reads it as a regular expression or as a pattern of Hive's.
_ANY_NAME = ".*"

_ALREADY_EXISTS = "AlreadyExistsException"
_MISSING = "EntityNotFoundException"
_CODES_OF_REPEATS = {"Create": _ALREADY_EXISTS, "UpdateTable": "ConcurrentModificationException"}
"""The error codes of a retried write whose first attempt was carried out, by the start of the operation."""

# Errors of calls about catalogs if the service has none: Glue and IAM policies have had such calls since 2024 only.
_NO_CATALOGS_ERRORS = (errors.PermissionDeniedError, errors.UnsupportedOperationError, WebPageError)


def _patterns(names: Iterable[str]) -> Iterator[str]:
    """Yield as few patterns as possible that match all ``names``."""
    pattern = ""
    for name in names:
        if pattern and len(pattern) + len(name) >= _LONGEST_PATTERN:
            yield pattern
            pattern = ""
        pattern = f"{pattern}|{name}" if pattern else name
    if pattern:
        yield pattern


def _filters(names: Collection[str]) -> Sequence[Mapping[str, str]]:
    """Return the parameters of GetTables that list all ``names``, and perhaps others."""
    if not all(map(_PLAIN_NAME.fullmatch, names)):  # Glue does not document how it reads other characters in patterns
        return [{}]
    return [{"Expression": pattern} for pattern in _patterns(sorted(names))]


def _account_id(holder: type_defs.CatalogTypeDef | type_defs.DatabaseTypeDef) -> str:
    return holder.get("CatalogId", "").partition(":")[0]


def _catalog_id(catalog: type_defs.CatalogTypeDef) -> str:
    return catalog.get("CatalogId", catalog["Name"])


def _function_name(function: type_defs.UserDefinedFunctionTypeDef) -> str:
    return function.get("FunctionName", "")


class Service:
    """Calls Glue; connects at the first call. Thread-safe.

    Methods raise errors of :mod:`reconciler.model.errors` only, and ``RepeatedError`` where the docstring says so.
    """

    def __init__(self, config: GlueConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._account_lock = threading.Lock()
        self._connected: tuple[GlueClient, GlueClient, client.Sender] | None = None
        self._account: str | None = None
        self.catalogs_error: errors.BackendError | None = None
        """Why catalogs below the account's own cannot be listed; None if they can, or before the first call."""
        self._lists_catalogs = False
        self.meter = TrafficMeter(config)
        login = config.assume_role_arn or config.access_key_id
        self._limit = rate_limit(f"glue {config.endpoint} {config.region} {login}")

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._connected is not None:
                for client in self._connected:
                    client.close()
                self._connected = None

    def account(self) -> str | None:
        """Return the id of the account's own catalog; None if it is not known.

        It is unknown where catalogs cannot be listed, or no response names it.
        """
        with self._account_lock:
            if self._account is None and self.catalogs_error is None:
                self._account = self._request_account()
            return self._account

    def has_catalogs(self) -> bool:
        """Return whether catalogs can be listed; only the first call sends a request."""
        if not self._lists_catalogs:
            self.account()
        return self.catalogs_error is None

    def _request_account(self) -> str | None:
        self._require_login("GetCatalogs", ())
        try:
            with self._calling("GetCatalogs", ()):
                accounts = [
                    _account_id(catalog) for catalog in self._client().get_catalogs(IncludeRoot=True)["CatalogList"]
                ]
        except _NO_CATALOGS_ERRORS as error:
            self._record_missing_catalogs(error)
            return None
        self._lists_catalogs = True
        if self._config.catalog_id is not None:
            return self._config.catalog_id
        # Lake Formation, and services beside AWS, may leave the root out.
        return next(filter(None, accounts or map(_account_id, self.databases(()))), None)

    def _record_missing_catalogs(self, error: errors.BackendError) -> None:
        """Set ``catalogs_error``, if ``error`` means that catalogs cannot be listed.

        A web page means that a service at an ``endpoint`` does not have this call, as moto 5.2, provided that it lists
        databases.

        Raises:
            BackendError: ``error`` itself, if the service may have catalogs.
        """
        if isinstance(error, WebPageError):
            try:
                if self._config.endpoint is None:
                    raise error
                next(self.databases(()), None)
            except errors.BackendError:
                raise error from None
        self.catalogs_error = error

    def _in_catalog(self, path: Identifier, parameter: str = "CatalogId") -> dict[str, Any]:
        """Return the request parameter for the catalog at ``path``; none for the caller's.

        Raises:
            NamespaceNotFoundError: catalogs cannot be listed.
        """
        catalog_id = self._config.catalog_id
        if path:
            account = self.account()
            if account is None:
                raise errors.NamespaceNotFoundError(
                    f"glue: namespace `{join(path)}` does not exist; catalogs cannot be listed: "
                    f"{self.catalogs_error or 'set `catalog_id`'}"
                )
            catalog_id = id_below(account, path)
        return {parameter: catalog_id} if catalog_id else {}

    # ---- catalogs ------------------------------------------------------------------------------------------------

    def catalogs(self, parent: Identifier, *, recursive: bool = False) -> Iterator[type_defs.CatalogTypeDef]:
        """Yield the catalogs directly below ``parent``, or all below it.

        If the service has no catalogs, or the credentials may not list them, this yields none and sets
        ``catalogs_error``: databases alone need no catalogs.
        """
        request = {
            "Recursive": recursive,
            "MaxResults": _CATALOGS_PAGE,
            **self._in_catalog(parent, "ParentCatalogId"),
        }
        pages = self._items("GetCatalogs", parent, "CatalogList", request, _catalog_id)
        self._require_login("GetCatalogs", parent)
        has_begun = False
        try:
            for catalog in pages:
                has_begun = True
                self._account = self._account or self._config.catalog_id or _account_id(catalog)
                yield catalog
        except _NO_CATALOGS_ERRORS as error:
            if has_begun or parent:
                raise
            self._record_missing_catalogs(error)
        else:
            self._lists_catalogs = True

    def catalog(self, path: Identifier) -> type_defs.CatalogTypeDef:
        """Return one catalog, which is not the root."""
        with self._calling("GetCatalog", path):
            return self._client().get_catalog(**self._in_catalog(path))["Catalog"]

    def create_catalog(self, path: Identifier, parameters: dict[str, str]) -> None:
        """Create a catalog directly in the account.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._calling("CreateCatalog", path):
            self._client().create_catalog(Name=path[-1], CatalogInput={"Parameters": parameters})

    def update_catalog(self, path: Identifier, catalog: type_defs.CatalogTypeDef) -> None:
        """Replace a catalog by ``catalog``."""
        with self._calling("UpdateCatalog", path):
            replacement = self._as_input(catalog, "CatalogInput")
            self._client(once=True).update_catalog(CatalogInput=replacement, **self._in_catalog(path))

    def delete_catalog(self, path: Identifier) -> None:
        """Delete a catalog and its contents."""
        with self._calling("DeleteCatalog", path):
            self._client(once=True).delete_catalog(**self._in_catalog(path))

    # ---- databases -----------------------------------------------------------------------------------------------

    def databases(self, path: Identifier) -> Iterator[type_defs.DatabaseTypeDef]:
        """Yield the databases of a catalog."""
        return self._items("GetDatabases", path, "DatabaseList", {"MaxResults": _PAGE, **self._in_catalog(path)})

    def database(self, identifier: Identifier) -> type_defs.DatabaseTypeDef:
        """Return one database."""
        with self._calling("GetDatabase", identifier):
            return self._client().get_database(Name=identifier[-1], **self._in_catalog(identifier[:-1]))["Database"]

    def create_database(self, identifier: Identifier, database: type_defs.DatabaseInputTypeDef) -> None:
        """Create a database.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._calling("CreateDatabase", identifier):
            self._client().create_database(DatabaseInput=database, **self._in_catalog(identifier[:-1]))

    def update_database(self, identifier: Identifier, database: type_defs.DatabaseTypeDef) -> None:
        """Replace a database by ``database``."""
        with self._calling("UpdateDatabase", identifier):
            replacement = self._as_input(database, "DatabaseInput")
            self._client(once=True).update_database(
                Name=identifier[-1], DatabaseInput=replacement, **self._in_catalog(identifier[:-1])
            )

    def delete_database(self, identifier: Identifier) -> None:
        """Delete a database and its contents."""
        with self._calling("DeleteDatabase", identifier):
            self._client(once=True).delete_database(Name=identifier[-1], **self._in_catalog(identifier[:-1]))

    def functions(self, database: Identifier) -> Iterator[type_defs.UserDefinedFunctionTypeDef]:
        """Yield the user-defined functions of a database."""
        request = {
            "DatabaseName": database[-1],
            "Pattern": _ANY_NAME,
            "MaxResults": _PAGE,
            **self._in_catalog(database[:-1]),
        }
        try:
            yield from self._items("GetUserDefinedFunctions", database, "UserDefinedFunctions", request, _function_name)
        except WebPageError:
            # A service that has no such call either, as moto 5.2, has no functions.
            if self.has_catalogs() or not isinstance(self.catalogs_error, WebPageError):
                raise

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, database: Identifier, names: Collection[str] | None = None) -> Iterator[type_defs.TableTypeDef]:
        """Yield the tables and views of a database, or those of ``names`` that exist.

        If one filter does not hold the names, the whole list is read: it may be shorter than that of several.
        """
        filters = [{}] if names is None else _filters(names)
        return self._tables(database, filters if len(filters) <= 1 else [{}], names)

    def tables_named(self, database: Identifier, names: Collection[str]) -> Iterator[type_defs.TableTypeDef]:
        """Yield the tables with these ``names``, nearly all of which exist; one call reads many."""
        return self._tables(database, _filters(names), names)

    def _tables(
        self, database: Identifier, filters: Sequence[Mapping[str, str]], names: Collection[str] | None
    ) -> Iterator[type_defs.TableTypeDef]:
        request = {"DatabaseName": database[-1], "MaxResults": _PAGE, **self._in_catalog(database[:-1])}
        wanted = None if names is None else frozenset(names)
        for expression in filters:
            for table in self._items("GetTables", database, "TableList", {**request, **expression}):
                if wanted is None or table["Name"] in wanted:
                    yield table

    def table(self, identifier: Identifier) -> type_defs.TableTypeDef:
        """Return one table. A missing database is answered as a missing table."""
        *path, database, name = identifier
        with self._calling("GetTable", identifier):
            return self._client().get_table(DatabaseName=database, Name=name, **self._in_catalog(tuple(path)))["Table"]

    def create_table(self, identifier: Identifier, table: type_defs.TableInputTypeDef | type_defs.TableTypeDef) -> None:
        """Create the entry of a table.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._calling("CreateTable", identifier):
            path = self._in_catalog(identifier[:-2])
            self._client().create_table(
                DatabaseName=identifier[-2], TableInput=self._as_input(table, "TableInput"), **path
            )

    def update_table(self, identifier: Identifier, table: type_defs.TableTypeDef) -> None:
        """Replace a table by ``table``, unless its version has changed.

        Raises ``RepeatedError`` when an earlier attempt may have replaced it.
        """
        request = {"DatabaseName": identifier[-2], **self._in_catalog(identifier[:-2])}
        if "VersionId" in table:
            request["VersionId"] = table["VersionId"]
        with self._calling("UpdateTable", identifier):
            self._client().update_table(TableInput=self._as_input(table, "TableInput"), **request)

    def delete_table(self, identifier: Identifier) -> None:
        """Delete the entry of a table."""
        *path, database, name = identifier
        with self._calling("DeleteTable", identifier):
            self._client(once=True).delete_table(DatabaseName=database, Name=name, **self._in_catalog(tuple(path)))

    # ---- requests ------------------------------------------------------------------------------------------------

    def _client(self, *, once: bool = False) -> GlueClient:
        """Return the client; with ``once``, one that never retries.

        Writes without a version check must not be carried out twice.
        """
        with self._lock:
            if self._connected is None:
                self._connected = client.connect(self._config, self.meter, self._limit)
            repeating, sending_once, _ = self._connected
            return sending_once if once else repeating

    def attempts(self) -> Attempts:
        """Return the retry state for a write that :func:`send_prepared_again` sends."""
        return Attempts(client.retry_policy(self._config), self._limit)

    def _require_login(self, operation: str, identifier: Identifier) -> None:
        """Connect now: otherwise a refused role would look like a refused call."""
        with self._calling(operation, identifier):
            self._client()

    def _as_input(self, answered: object, shape: str) -> Any:
        return as_input(answered, self._client().meta.service_model.shape_for(shape))

    def subject(self, identifier: Identifier) -> str:
        """Return the name of an object for messages."""
        if identifier:
            return f"`{join(identifier)}`"
        return f"catalog {self._config.catalog_id}" if self._config.catalog_id else "the root catalog"

    def _calling(self, operation: str, identifier: Identifier) -> AbstractContextManager[None]:
        subject = self.subject(identifier)
        _log.debug("glue: %s on %s", operation, subject)
        self.meter.check(f"glue: {operation} on {subject}")
        done = next((code for verb, code in _CODES_OF_REPEATS.items() if operation.startswith(verb)), None)
        return translated(operation, subject, self._config.secrets, self._errors_by_code(operation, identifier), done)

    def _errors_by_code(self, operation: str, identifier: Identifier) -> Mapping[str, errors.BackendError]:
        """Return the errors for the codes that concern the object itself."""
        subject = self.subject(identifier)
        if operation.startswith("Create"):
            kind = operation.removeprefix("Create").lower()
            exists = errors.TableAlreadyExistsError if kind == "table" else errors.NamespaceAlreadyExistsError
            parent = self.subject(identifier[:-1])
            return {
                _ALREADY_EXISTS: exists(f"glue: {kind} {subject} already exists"),
                _MISSING: errors.NamespaceNotFoundError(f"glue: namespace {parent} does not exist"),
            }
        if operation.endswith("Table"):
            return {_MISSING: errors.TableNotFoundError(f"glue: table {subject} does not exist")}
        return {_MISSING: errors.NamespaceNotFoundError(f"glue: namespace {subject} does not exist")}

    def _items(
        self,
        operation: str,
        identifier: Identifier,
        key: str,
        request: Mapping[str, Any],
        name: Callable[[Any], Any] = itemgetter("Name"),
    ) -> Iterator[Any]:
        """Yield the items under ``key`` on all pages of ``operation``, each name once."""

        def page(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            called = operation if number == 1 else f"{operation}, page {number},"
            with self._calling(called, identifier):
                call = getattr(self._client(), xform_name(operation))
                answer = call(**request, **({} if token is None else {"NextToken": token}))
                items: Sequence[Any] = answer[key]
                if not all(isinstance(name(item), str) for item in items):
                    raise TypeError("a name is no text")
                return items, answer.get("NextToken")

        return paged_entries(f"glue: {operation} on {self.subject(identifier)}", page, name)
