"""What moto's Glue lacks, on top of moto: catalogs, pages, folded names, versions and functions.

moto 5.2 keeps databases and tables of one catalog and ignores ``CatalogId``, ``MaxResults`` and ``NextToken``. Here
each catalog gets a backend of moto's own, under the catalog's id, and every operation lancens calls goes to the one
that ``CatalogId`` names.

How this differs from AWS:

* Catalogs are plain ones. AWS makes some of them through other services (S3 Tables, Redshift) and adds fields to
  them; here they come from CreateCatalog, and nested ones, which CreateCatalog cannot make there nor here, from
  :func:`add_catalog`.
* AWS deletes what a deleted catalog or database held some time later; here it is gone at once.
* Page tokens are positions. AWS's are opaque, end, and may come with an empty page.
* Function patterns match every name; other patterns than ``.*`` are refused.
* No Lake Formation: permissions are those of ``glue_server``, by action only, and nothing is filtered by caller.
* A table's update must be made at its latest version where a version is given; AWS answers the same code, but its
  words are not known.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from moto.core import responses as moto_responses
from moto.core.responses import ActionResult, EmptyResult
from moto.glue import responses, urls
from moto.glue.exceptions import (
    AlreadyExistsException,
    EntityNotFoundException,
    GlueClientError,
    InvalidInputException,
)
from moto.glue.models import GlueBackend, glue_backends

__all__ = ["GlueResponse", "add_catalog", "add_function", "add_tables", "clear", "install"]

_PAGE = 100
_CATALOG_FIELDS = (
    "Description",
    "Parameters",
    "CatalogProperties",
    "FederatedCatalog",
    "TargetRedshiftCatalog",
    "CreateTableDefaultPermissions",
    "CreateDatabaseDefaultPermissions",
    "AllowFullTableExternalDataAccess",
)


class _Catalog:
    """One catalog below an account's own."""

    def __init__(self, catalog_id: str, region: str, given: dict[str, Any]) -> None:
        self.id = catalog_id
        self.region = region
        self.created = datetime.now(UTC)
        self.backend = GlueBackend(region, catalog_id)
        self.replace(given)

    def replace(self, given: dict[str, Any]) -> None:
        self.updated = datetime.now(UTC)
        self.fields = {name: given[name] for name in _CATALOG_FIELDS if name in given}

    def as_dict(self) -> dict[str, Any]:
        account, _, name = self.id.partition(":")
        return {
            "CatalogId": self.id,
            "Name": name.rpartition("/")[2],
            "ResourceArn": f"arn:aws:glue:{self.region}:{account}:catalog/{name}",
            "CreateTime": self.created,
            "UpdateTime": self.updated,
            **self.fields,
        }


_catalogs: dict[tuple[str, str], dict[str, _Catalog]] = {}
_functions: dict[tuple[int, str], list[str]] = {}


def add_catalog(account: str, region: str, name: str, given: dict[str, Any]) -> None:
    """Make the catalog ``name``, which may be ``parent/child``."""
    catalogs = _catalogs.setdefault((account, region), {})
    catalog_id = f"{account}:{name}"
    if catalog_id in catalogs:
        raise AlreadyExistsException("Catalog")
    parent = catalog_id.rpartition("/")[0]
    if parent and parent not in catalogs:
        raise EntityNotFoundException(f"Catalog {parent} not found.")
    catalogs[catalog_id] = _Catalog(catalog_id, region, given)


def add_function(account: str, region: str, database: str, name: str) -> None:
    """Make a user-defined function in a database of the account's own catalog."""
    backend = glue_backends[account][region]
    _functions.setdefault((id(backend), database), []).append(name)


def add_tables(account: str, region: str, catalog_id: str, database: str, entries: Sequence[dict[str, Any]]) -> None:
    """Make a database full of tables at once."""
    catalogs = _catalogs.get((account, region), {})
    backend = catalogs[catalog_id].backend if catalog_id != account else glue_backends[account][region]
    if database not in backend.databases:
        backend.create_database(database, {"Name": database})
    for entry in entries:
        backend.create_table(database, entry["Name"], entry)


def clear() -> None:
    """Forget the catalogs and functions; moto forgets the rest itself."""
    _catalogs.clear()
    _functions.clear()


class GlueResponse(responses.GlueResponse):
    """Glue's operations on catalogs, databases, tables and functions."""

    # ---- which catalog -------------------------------------------------------------------------------------------

    @property
    def glue_backend(self) -> GlueBackend:
        """The backend of the catalog that the request names, the account's own where it names none."""
        catalog_id = self._catalog_id()
        if catalog_id == self.current_account:
            return glue_backends[self.current_account][self.region]
        return self._catalog(catalog_id).backend

    @property
    def parameters(self) -> dict[str, Any]:
        """The request, with names in lower case as Glue keeps them."""
        given: dict[str, Any] = json.loads(self.body) if self.body else {}
        for holder in (given, given.get("DatabaseInput"), given.get("TableInput")):
            for key in ("Name", "DatabaseName"):
                if holder and isinstance(holder.get(key), str):
                    holder[key] = holder[key].lower()
        return given

    def _catalog_id(self, key: str = "CatalogId") -> str:
        return self.parameters.get(key) or self.current_account

    def _known(self) -> dict[str, _Catalog]:
        return _catalogs.setdefault((self.current_account, self.region), {})

    def _catalog(self, catalog_id: str) -> _Catalog:
        try:
            return self._known()[catalog_id]
        except KeyError:
            raise EntityNotFoundException(f"Catalog {catalog_id} not found.") from None

    # ---- catalogs ------------------------------------------------------------------------------------------------

    def create_catalog(self) -> EmptyResult:
        """CreateCatalog."""
        given = self.parameters
        add_catalog(self.current_account, self.region, given["Name"], given["CatalogInput"])
        return EmptyResult()

    def get_catalog(self) -> ActionResult:
        """GetCatalog."""
        return ActionResult({"Catalog": self._catalog(self._catalog_id()).as_dict()})

    def get_catalogs(self) -> ActionResult:
        """GetCatalogs: below the parent, at once or at any depth."""
        given = self.parameters
        if "ParentCatalogId" in given and "IncludeRoot" in given:
            raise InvalidInputException("GetCatalogs", "IncludeRoot is not allowed with ParentCatalogId")
        parent = self._catalog_id("ParentCatalogId")
        if parent != self.current_account:
            self._catalog(parent)
        prefix = f"{parent}{':' if parent == self.current_account else '/'}"
        found = [
            catalog.as_dict()
            for catalog_id, catalog in sorted(self._known().items())
            if catalog_id.startswith(prefix) and (given.get("Recursive") or "/" not in catalog_id[len(prefix) :])
        ]
        if given.get("IncludeRoot"):
            found.insert(0, {"CatalogId": self.current_account, "Name": self.current_account})
        return self._page("CatalogList", found)

    def update_catalog(self) -> EmptyResult:
        """UpdateCatalog: replaces every field, so that what is left out is lost."""
        self._catalog(self._catalog_id()).replace(self.parameters["CatalogInput"])
        return EmptyResult()

    def delete_catalog(self) -> EmptyResult:
        """DeleteCatalog: with everything below it, as AWS does."""
        catalog = self._catalog(self._catalog_id())
        for catalog_id in list(self._known()):
            if catalog_id == catalog.id or catalog_id.startswith(f"{catalog.id}/"):
                del self._known()[catalog_id]
        return EmptyResult()

    # ---- databases and functions ---------------------------------------------------------------------------------

    def get_databases(self) -> ActionResult:
        """GetDatabases, page by page."""
        found = [_without_nothing(database.as_dict()) for database in self.glue_backend.get_databases()]
        return self._page("DatabaseList", self._selected(found, {"NAME": "Name", "TARGET_DATABASE": "TargetDatabase"}))

    def get_user_defined_functions(self) -> ActionResult:
        """GetUserDefinedFunctions of a database, page by page."""
        given = self.parameters
        self.glue_backend.get_database(given["DatabaseName"])
        if given["Pattern"] != ".*":
            raise InvalidInputException("GetUserDefinedFunctions", "only the pattern .* is known here")
        names = _functions.get((id(self.glue_backend), given["DatabaseName"]), [])
        return self._page("UserDefinedFunctions", [{"FunctionName": name} for name in names])

    # ---- tables --------------------------------------------------------------------------------------------------

    def get_tables(self) -> ActionResult:
        """GetTables, page by page."""
        given = self.parameters
        tables = self.glue_backend.get_tables(given["DatabaseName"], given.get("Expression"))
        found = [_without_nothing(table.as_dict()) for table in tables]
        return self._page("TableList", self._selected(found, {"NAME": "Name", "TABLE_TYPE": "TableType"}))

    def update_table(self) -> ActionResult:
        """UpdateTable, refused when the version given is not the latest."""
        given = self.parameters
        table = self.glue_backend.get_table(given["DatabaseName"], given["TableInput"]["Name"])
        latest = table.as_dict()["VersionId"]
        if given.get("VersionId", latest) != latest:
            raise _ConcurrentModificationError(f"Version {given['VersionId']} is not the latest.")
        return super().update_table()

    # ---- pages ---------------------------------------------------------------------------------------------------

    def _selected(self, found: list[dict[str, Any]], attributes: dict[str, str]) -> list[dict[str, Any]]:
        wanted = self.parameters.get("AttributesToGet")
        if not wanted:
            return found
        keys = [attributes[attribute] for attribute in wanted]
        return [{key: item[key] for key in keys if key in item} for item in found]

    def _page(self, key: str, found: Sequence[Any]) -> ActionResult:
        size = self.parameters.get("MaxResults") or _PAGE
        start = _position(self.parameters.get("NextToken"))
        answer: dict[str, Any] = {key: list(found[start : start + size])}
        if start + size < len(found):
            answer["NextToken"] = base64.b64encode(str(start + size).encode()).decode()
        return ActionResult(answer)


class _ConcurrentModificationError(GlueClientError):
    def __init__(self, message: str) -> None:
        super().__init__("ConcurrentModificationException", message)


def _position(token: str | None) -> int:
    if token is None:
        return 0
    try:
        return int(base64.b64decode(token, validate=True))
    except (binascii.Error, ValueError):
        raise InvalidInputException("", "Invalid NextToken") from None


def _without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def install() -> None:
    """Make moto answer with these operations, and look through the methods of a service only once."""
    methods = moto_responses.method_names_from_class  # type: ignore[attr-defined]
    moto_responses.method_names_from_class = cache(methods)  # type: ignore[attr-defined]
    urls.url_paths = {"{0}/$": GlueResponse.dispatch}
