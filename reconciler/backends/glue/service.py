"""Call Glue: paging, errors and retries, but no rules of lancens."""

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

_EXISTS = "AlreadyExistsException"
_MISSING = "EntityNotFoundException"
_DONE = {"Create": _EXISTS, "UpdateTable": "ConcurrentModificationException"}
"""The refusals that a repeated write gets when its first attempt did the work."""

# The errors of calls about catalogs where there are none: before 2024, neither Glue nor policies had such calls.
_NO_CATALOGS = (errors.PermissionDeniedError, errors.UnsupportedOperationError, WebPageError)


def _patterns(names: Iterable[str]) -> Iterator[str]:
    """Yield patterns that match ``names``, each as long as a call allows."""
    pattern = ""
    for name in names:
        if pattern and len(pattern) + len(name) >= _LONGEST_PATTERN:
            yield pattern
            pattern = ""
        pattern = f"{pattern}|{name}" if pattern else name
    if pattern:
        yield pattern


def _account_of(holder: type_defs.CatalogTypeDef | type_defs.DatabaseTypeDef) -> str:
    return holder.get("CatalogId", "").partition(":")[0]


def _id_of(catalog: type_defs.CatalogTypeDef) -> str:
    return catalog.get("CatalogId", catalog["Name"])


def _function_name(function: type_defs.UserDefinedFunctionTypeDef) -> str:
    return function.get("FunctionName", "")


class Service:
    """Glue's calls. It connects at the first one, and is safe to use from threads.

    Methods raise errors of :mod:`reconciler.model.errors` only, and ``RepeatedError`` where the docstring says so.
    """

    def __init__(self, config: GlueConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._lock_of_account = threading.Lock()
        self._connected: tuple[GlueClient, GlueClient, client.Sender] | None = None
        self._account: str | None = None
        self.without_catalogs: errors.BackendError | None = None
        """Why catalogs inside the account's own cannot be listed, once that is known."""
        self._has_answered = False
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
        """Return the id of the account's catalog; None where catalogs cannot be listed, or nothing tells it."""
        with self._lock_of_account:
            if self._account is None and self.without_catalogs is None:
                self._account = self._asked_account()
            return self._account

    def has_catalogs(self) -> bool:
        """Return whether catalogs can be listed; it tries once."""
        if not self._has_answered:
            self.account()
        return self.without_catalogs is None

    def _asked_account(self) -> str | None:
        self._require_login("GetCatalogs", ())
        try:
            with self._asking("GetCatalogs", ()):
                accounts = [
                    _account_of(catalog) for catalog in self._client().get_catalogs(IncludeRoot=True)["CatalogList"]
                ]
        except _NO_CATALOGS as error:
            self._go_without_catalogs(error)
            return None
        self._has_answered = True
        if self._config.catalog_id is not None:
            return self._config.catalog_id
        # Lake Formation, and services beside AWS, may leave the root out.
        return next(filter(None, accounts or map(_account_of, self.databases(()))), None)

    def _go_without_catalogs(self, error: errors.BackendError) -> None:
        """Note why catalogs cannot be listed.

        A service at an ``endpoint`` that lists its databases, and answers this one call with a web page, has no such
        call: so does moto 5.2.

        Raises:
            BackendError: the ``error``, if it may be one of a service with catalogs.
        """
        if isinstance(error, WebPageError):
            try:
                if self._config.endpoint is None:
                    raise error
                next(self.databases(()), None)
            except errors.BackendError:
                raise error from None
        self.without_catalogs = error

    def _in(self, path: Identifier, parameter: str = "CatalogId") -> dict[str, Any]:
        """Return the parameter for the catalog at ``path``; the default is the caller's.

        Raises:
            NamespaceNotFoundError: catalogs cannot be listed.
        """
        catalog_id = self._config.catalog_id
        if path:
            account = self.account()
            if account is None:
                raise errors.NamespaceNotFoundError(
                    f"glue: namespace `{join(path)}` does not exist; catalogs cannot be listed: "
                    f"{self.without_catalogs or 'set `catalog_id`'}"
                )
            catalog_id = id_below(account, path)
        return {parameter: catalog_id} if catalog_id else {}

    # ---- catalogs ------------------------------------------------------------------------------------------------

    def catalogs(self, parent: Identifier, *, recursive: bool = False) -> Iterator[type_defs.CatalogTypeDef]:
        """Yield the catalogs directly below ``parent``, or all below it.

        ``without_catalogs`` says whether the service has none, or the credentials may not list them. Neither is an
        error: databases alone need no catalogs.
        """
        request = {"Recursive": recursive, "MaxResults": _CATALOGS_PAGE, **self._in(parent, "ParentCatalogId")}
        pages = self._pages("GetCatalogs", parent, "CatalogList", request, _id_of)
        self._require_login("GetCatalogs", parent)
        has_begun = False
        try:
            for catalog in pages:
                has_begun = True
                self._account = self._account or self._config.catalog_id or _account_of(catalog)
                yield catalog
        except _NO_CATALOGS as error:
            if has_begun or parent:
                raise
            self._go_without_catalogs(error)
        else:
            self._has_answered = True

    def catalog(self, path: Identifier) -> type_defs.CatalogTypeDef:
        """Return one catalog, which is not the root."""
        with self._asking("GetCatalog", path):
            return self._client().get_catalog(**self._in(path))["Catalog"]

    def create_catalog(self, path: Identifier, parameters: dict[str, str]) -> None:
        """Create a catalog directly in the account.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._asking("CreateCatalog", path):
            self._client().create_catalog(Name=path[-1], CatalogInput={"Parameters": parameters})

    def update_catalog(self, path: Identifier, catalog: type_defs.CatalogTypeDef) -> None:
        """Replace a catalog by ``catalog``."""
        with self._asking("UpdateCatalog", path):
            replacement = self._as_input(catalog, "CatalogInput")
            self._client(once=True).update_catalog(CatalogInput=replacement, **self._in(path))

    def delete_catalog(self, path: Identifier) -> None:
        """Delete a catalog and its contents."""
        with self._asking("DeleteCatalog", path):
            self._client(once=True).delete_catalog(**self._in(path))

    # ---- databases -----------------------------------------------------------------------------------------------

    def databases(self, path: Identifier) -> Iterator[type_defs.DatabaseTypeDef]:
        """Yield the databases of a catalog."""
        return self._pages("GetDatabases", path, "DatabaseList", {"MaxResults": _PAGE, **self._in(path)})

    def database(self, identifier: Identifier) -> type_defs.DatabaseTypeDef:
        """Return one database."""
        with self._asking("GetDatabase", identifier):
            return self._client().get_database(Name=identifier[-1], **self._in(identifier[:-1]))["Database"]

    def create_database(self, identifier: Identifier, database: type_defs.DatabaseInputTypeDef) -> None:
        """Create a database.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._asking("CreateDatabase", identifier):
            self._client().create_database(DatabaseInput=database, **self._in(identifier[:-1]))

    def update_database(self, identifier: Identifier, database: type_defs.DatabaseTypeDef) -> None:
        """Replace a database by ``database``."""
        with self._asking("UpdateDatabase", identifier):
            replacement = self._as_input(database, "DatabaseInput")
            self._client(once=True).update_database(
                Name=identifier[-1], DatabaseInput=replacement, **self._in(identifier[:-1])
            )

    def delete_database(self, identifier: Identifier) -> None:
        """Delete a database and its contents."""
        with self._asking("DeleteDatabase", identifier):
            self._client(once=True).delete_database(Name=identifier[-1], **self._in(identifier[:-1]))

    def functions(self, database: Identifier) -> Iterator[type_defs.UserDefinedFunctionTypeDef]:
        """Yield the user-defined functions of a database."""
        request = {"DatabaseName": database[-1], "Pattern": _ANY_NAME, "MaxResults": _PAGE, **self._in(database[:-1])}
        try:
            yield from self._pages("GetUserDefinedFunctions", database, "UserDefinedFunctions", request, _function_name)
        except WebPageError:
            # A service that has no such call either, as moto 5.2, has no functions.
            if self.has_catalogs() or not isinstance(self.without_catalogs, WebPageError):
                raise

    # ---- tables --------------------------------------------------------------------------------------------------

    def tables(self, database: Identifier, **picked: str) -> Iterator[type_defs.TableTypeDef]:
        """Yield all tables and views of a database, as far as they are ``picked``."""
        request = {"DatabaseName": database[-1], "MaxResults": _PAGE, **self._in(database[:-1]), **picked}
        return self._pages("GetTables", database, "TableList", request)

    def tables_named(self, database: Identifier, names: Collection[str]) -> Iterator[type_defs.TableTypeDef]:
        """Yield the named tables that exist, of any format; several names are one call."""
        plain = sorted(name for name in names if _PLAIN_NAME.fullmatch(name))
        narrowed: list[dict[str, str]] = [{"Expression": pattern} for pattern in _patterns(plain)]
        if len(plain) < len(names):  # what the other names would be as patterns is nowhere documented
            narrowed = [{}]
        for picked in narrowed:
            yield from (table for table in self.tables(database, **picked) if table["Name"] in names)

    def table(self, identifier: Identifier) -> type_defs.TableTypeDef:
        """Return one table. A missing database is answered as a missing table."""
        *path, database, name = identifier
        with self._asking("GetTable", identifier):
            return self._client().get_table(DatabaseName=database, Name=name, **self._in(tuple(path)))["Table"]

    def create_table(self, identifier: Identifier, table: type_defs.TableInputTypeDef | type_defs.TableTypeDef) -> None:
        """Create the entry of a table.

        Raises ``RepeatedError`` when an earlier attempt may have created it.
        """
        with self._asking("CreateTable", identifier):
            path = self._in(identifier[:-2])
            self._client().create_table(
                DatabaseName=identifier[-2], TableInput=self._as_input(table, "TableInput"), **path
            )

    def update_table(self, identifier: Identifier, table: type_defs.TableTypeDef) -> None:
        """Replace a table by ``table``, unless its version has changed.

        Raises ``RepeatedError`` when an earlier attempt may have replaced it.
        """
        request = {"DatabaseName": identifier[-2], **self._in(identifier[:-2])}
        if "VersionId" in table:
            request["VersionId"] = table["VersionId"]
        with self._asking("UpdateTable", identifier):
            self._client().update_table(TableInput=self._as_input(table, "TableInput"), **request)

    def delete_table(self, identifier: Identifier) -> None:
        """Delete the entry of a table."""
        *path, database, name = identifier
        with self._asking("DeleteTable", identifier):
            self._client(once=True).delete_table(DatabaseName=database, Name=name, **self._in(tuple(path)))

    # ---- asking --------------------------------------------------------------------------------------------------

    def _client(self, *, once: bool = False) -> GlueClient:
        """Return the client; with ``once``, one that does not repeat what Glue carries out without a check."""
        with self._lock:
            if self._connected is None:
                self._connected = client.connect(self._config, self.meter, self._limit)
            repeating, sending_once, _ = self._connected
            return sending_once if once else repeating

    def attempts(self) -> Attempts:
        """Return the attempts of a write that is prepared again for each."""
        return Attempts(client.retry_policy(self._config), self._limit)

    def _require_login(self, operation: str, identifier: Identifier) -> None:
        """Connect first, so that a refused role is not taken for a refused call."""
        with self._asking(operation, identifier):
            self._client()

    def _as_input(self, answered: object, shape: str) -> Any:
        return as_input(answered, self._client().meta.service_model.shape_for(shape))

    def subject(self, identifier: Identifier) -> str:
        """Return an object as a user knows it."""
        if identifier:
            return f"`{join(identifier)}`"
        return f"catalog {self._config.catalog_id}" if self._config.catalog_id else "the root catalog"

    def _asking(self, operation: str, identifier: Identifier) -> AbstractContextManager[None]:
        subject = self.subject(identifier)
        _log.debug("glue: %s on %s", operation, subject)
        self.meter.check(f"glue: {operation} on {subject}")
        done = next((code for verb, code in _DONE.items() if operation.startswith(verb)), None)
        return translated(operation, subject, self._config.secrets, self._meanings(operation, identifier), done)

    def _meanings(self, operation: str, identifier: Identifier) -> Mapping[str, errors.BackendError]:
        """Return the errors for the codes about the object itself."""
        subject = self.subject(identifier)
        if operation.startswith("Create"):
            kind = operation.removeprefix("Create").lower()
            exists = errors.TableAlreadyExistsError if kind == "table" else errors.NamespaceAlreadyExistsError
            parent = self.subject(identifier[:-1])
            return {
                _EXISTS: exists(f"glue: {kind} {subject} already exists"),
                _MISSING: errors.NamespaceNotFoundError(f"glue: namespace {parent} does not exist"),
            }
        if operation.endswith("Table"):
            return {_MISSING: errors.TableNotFoundError(f"glue: table {subject} does not exist")}
        return {_MISSING: errors.NamespaceNotFoundError(f"glue: namespace {subject} does not exist")}

    def _pages(
        self,
        operation: str,
        identifier: Identifier,
        listed: str,
        request: Mapping[str, Any],
        name: Callable[[Any], Any] = itemgetter("Name"),
    ) -> Iterator[Any]:
        """Yield the items ``listed`` on every page of ``operation``, each name once."""

        def page(token: str | None, number: int) -> tuple[Sequence[Any], str | None]:
            called = operation if number == 1 else f"{operation}, page {number},"
            with self._asking(called, identifier):
                call = getattr(self._client(), xform_name(operation))
                answer = call(**request, **({} if token is None else {"NextToken": token}))
                items: Sequence[Any] = answer[listed]
                if not all(isinstance(name(item), str) for item in items):
                    raise TypeError("a name is no text")
                return items, answer.get("NextToken")

        return paged_entries(f"glue: {operation} on {self.subject(identifier)}", page, name)
