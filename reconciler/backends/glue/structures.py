"""Convert Glue's structures to live objects, and back.

A table is a Lance table when its type is EXTERNAL_TABLE and its parameter ``table_type`` is ``lance`` in any case
(specification, "Lance Table Identification").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from reconciler.backends.odd_entries import NO_LOCATION
from reconciler.model.columns import ShownColumn, ShownColumns
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable
from reconciler.model.names import Identifier, check_name

if TYPE_CHECKING:
    from botocore.model import Shape
    from mypy_boto3_glue import type_defs


CATALOG = "catalog"
DATABASE = "database"
KINDS = (CATALOG, DATABASE)

LOCATION = "location"
"""The property that holds a database's ``LocationUri``."""

_TABLE_TYPE = "table_type"
_LANCE = "lance"
_EXTERNAL = "EXTERNAL_TABLE"
_FORMAT_KEYS = (_TABLE_TYPE, "spark.sql.sources.provider", "classification")
"""The parameters that name a table's format: Iceberg's, Spark's, and that of Glue's crawlers."""


def names_in(catalog_id: str | None) -> Identifier:
    """Parse a catalog's id; return its path below the account's own catalog.

    ``ACCOUNT`` is an account's own catalog, ``ACCOUNT:name`` one in it, ``ACCOUNT:parent/child`` one below that.
    """
    return tuple(name for name in (catalog_id or "").partition(":")[2].split("/") if name)


def id_below(catalog_id: str, path: Identifier) -> str:
    """Return the id of the catalog at ``path`` below another one."""
    return f"{catalog_id.partition(':')[0]}:{'/'.join((*names_in(catalog_id), *path))}"


def name_mismatch(name: str) -> str | None:
    """Return why a name from Glue cannot be part of an identifier; None if it can.

    Glue returns lower-case names. A service that keeps capitals would be asked for a different name.
    """
    return check_name(name) or (None if name == name.lower() else "its name has capitals, which Glue folds")


def live_catalog(identifier: Identifier, catalog: type_defs.CatalogTypeDef) -> LiveNamespace:
    """Return a catalog as a namespace."""
    return LiveNamespace(identifier, dict(catalog.get("Parameters") or {}), CATALOG)


def live_database(identifier: Identifier, database: type_defs.DatabaseTypeDef) -> LiveNamespace:
    """Return a database as a namespace; its location is one of the properties."""
    properties = {key: value for key, value in (database.get("Parameters") or {}).items() if key != LOCATION}
    if database.get("LocationUri"):
        properties[LOCATION] = database["LocationUri"]
    return LiveNamespace(identifier, properties, DATABASE)


def new_database(name: str, properties: Mapping[str, str]) -> type_defs.DatabaseInputTypeDef:
    """Return the input of CreateDatabase."""
    return cast("type_defs.DatabaseInputTypeDef", with_properties({"Name": name}, properties))


def with_properties(database: type_defs.DatabaseTypeDef, properties: Mapping[str, str]) -> type_defs.DatabaseTypeDef:
    """Return ``database`` with the location and parameters in ``properties``.

    The inverse of :func:`live_database`.
    """
    # A parameter of the same name is not this property, and stays.
    parameters = {key: value for key, value in (database.get("Parameters") or {}).items() if key == LOCATION}
    parameters |= {key: value for key, value in properties.items() if key != LOCATION}
    altered = cast("type_defs.DatabaseTypeDef", {key: value for key, value in database.items() if key != "LocationUri"})
    altered["Parameters"] = parameters
    if LOCATION in properties:
        altered["LocationUri"] = properties[LOCATION]
    return altered


def live_table(identifier: Identifier, table: type_defs.TableTypeDef) -> LiveTable:
    """Return a Lance table; its properties are its parameters but ``table_type``."""
    properties = {key: value for key, value in (table.get("Parameters") or {}).items() if key != _TABLE_TYPE}
    return LiveTable(identifier, table.get("StorageDescriptor", {}).get("Location", ""), properties)


def is_marked_lance(table: type_defs.TableTypeDef) -> bool:
    """Return whether the parameters say that this is a Lance table."""
    return (table.get("Parameters") or {}).get(_TABLE_TYPE, "").lower() == _LANCE


def table_mismatch(table: type_defs.TableTypeDef) -> str | None:
    """Return why lancens cannot manage an entry as a Lance table; None if it can."""
    if "TargetTable" in table:
        return "a link to a table elsewhere"
    if not is_marked_lance(table):
        return f"a table of another format ({(table.get('Parameters') or {}).get(_TABLE_TYPE) or 'unknown'})"
    if table.get("TableType") != _EXTERNAL:
        return f"marked as a Lance table, but not of type {_EXTERNAL}"
    if not table.get("StorageDescriptor", {}).get("Location"):
        return NO_LOCATION
    return None


def foreign_table(identifier: Identifier, table: type_defs.TableTypeDef) -> ForeignTable:
    """Return an entry that is not a Lance table, with its format."""
    parameters, kind = table.get("Parameters") or {}, table.get("TableType") or "no type"
    if "TargetTable" in table:
        format_name = "link"
    elif is_marked_lance(table):
        format_name = f"{_LANCE}, {kind}"
    else:
        format_name = next(filter(None, map(parameters.get, _FORMAT_KEYS)), kind)
    return ForeignTable(identifier, table.get("StorageDescriptor", {}).get("Location") or None, format_name)


def database_mismatch(database: type_defs.DatabaseTypeDef) -> str | None:
    """Return why lancens cannot manage a database; None if it can."""
    if "TargetDatabase" in database:
        return "a link to a database elsewhere"
    if "FederatedDatabase" in database:
        return "federated, so read-only"
    return name_mismatch(database["Name"])


def catalog_mismatch(catalog: type_defs.CatalogTypeDef) -> str | None:
    """Return why lancens cannot manage a catalog; None if it can."""
    if "TargetRedshiftCatalog" in catalog:
        return "a link to a catalog of Redshift"
    if "FederatedCatalog" in catalog:
        return "federated, so read-only"
    if catalog.get("CatalogProperties", {}).get("DataLakeAccessProperties", {}).get("CatalogType"):
        return "managed by Redshift, so without Lance tables"
    return name_mismatch(catalog["Name"])


def new_table(name: str, location: str, properties: Mapping[str, str]) -> type_defs.TableInputTypeDef:
    """Return the input of CreateTable for a Lance table.

    It has no columns, because the dataset has the schema.
    """
    return {
        "Name": name,
        "TableType": _EXTERNAL,
        "Parameters": {**properties, _TABLE_TYPE: _LANCE},
        "StorageDescriptor": {"Location": location, "Columns": []},
    }


def with_state(table: type_defs.TableTypeDef, state: LiveTable) -> type_defs.TableTypeDef:
    """Return ``table`` with the location and properties of ``state``."""
    marks = {key: value for key, value in (table.get("Parameters") or {}).items() if key == _TABLE_TYPE}
    descriptor: type_defs.StorageDescriptorOutputTypeDef = {
        **table.get("StorageDescriptor", {}),
        "Location": state.location,
    }
    return {**table, "Parameters": {**state.properties, **marks}, "StorageDescriptor": descriptor}


def shown_columns(table: type_defs.TableTypeDef) -> ShownColumns:
    """Return the columns of an entry; none if it has partition keys."""
    if table.get("PartitionKeys"):
        return ()
    columns = table.get("StorageDescriptor", {}).get("Columns") or []
    return tuple(ShownColumn(column["Name"], column.get("Type", ""), column.get("Comment")) for column in columns)


def with_columns(table: type_defs.TableTypeDef, columns: ShownColumns) -> type_defs.TableTypeDef:
    """Return ``table`` with ``columns``, which keep their comments and parameters."""
    descriptor: type_defs.StorageDescriptorOutputTypeDef = {**table.get("StorageDescriptor", {})}
    known = {column["Name"].lower(): column for column in descriptor.get("Columns") or []}
    shown: list[type_defs.ColumnOutputTypeDef] = []
    for column in columns:
        current = known.get(column.name.lower(), {"Name": column.name})
        altered: type_defs.ColumnOutputTypeDef = {**current, "Type": column.type}
        if column.comment is not None:
            altered["Comment"] = column.comment
        shown.append(altered)
    descriptor["Columns"] = shown
    return {**table, "StorageDescriptor": descriptor}


def as_input(value: object, shape: Shape) -> Any:
    """Return the fields of ``value``, from a response, that an update accepts.

    Updates replace the whole entry: a field left out is lost. So this keeps every field of the input's ``shape``, and
    drops read-only ones (times, versions, status).
    """
    if shape.type_name == "structure" and isinstance(value, Mapping):
        members: Mapping[str, Shape] = getattr(shape, "members", {})
        return {key: as_input(inner, members[key]) for key, inner in value.items() if key in members}
    if shape.type_name == "list" and isinstance(value, list):
        return [as_input(inner, getattr(shape, "member", shape)) for inner in value]
    return value
