"""Convert the structs of a metastore to live objects, and back.

Databases have parameters for properties; the keys ``database.*`` stand for their other fields. Catalogs have no
parameters: properties without a field are one line of JSON at the end of the description.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from reconciler.model import locations
from reconciler.model.capabilities import Safeguard
from reconciler.model.columns import ShownColumn, ShownColumns
from reconciler.model.errors import InvalidInputError
from reconciler.model.live import ForeignTable, LiveNamespace, LiveTable, PropertyChanges
from reconciler.model.names import Identifier

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ttypes import Catalog, Database, FieldSchema, Table


DEFAULT_CATALOG: Final = "hive"
DEFAULT_DATABASE: Final = "default"

DESCRIPTION: Final = "database.description"
DATABASE_LOCATION: Final = "database.location-uri"
_OWNER: Final = "database.owner"
_OWNER_TYPE: Final = "database.owner-type"
_OWNER_TYPES: Final = {"USER": 1, "ROLE": 2, "GROUP": 3}
"""The names and values of the protocol's PrincipalType."""
_DATABASE_FIELDS: Final = frozenset({DESCRIPTION, _OWNER, _OWNER_TYPE})
_CATALOG_DESCRIPTION: Final = "catalog.description"
CATALOG_LOCATION: Final = "catalog.location-uri"
_CATALOG_PROPERTIES: Final = "properties: {"

_TABLE_TYPE: Final = "table_type"
_LANCE: Final = "lance"
_SPARK_PROVIDER: Final = "spark.sql.sources.provider"
LONGEST_COLUMN: Final = 767
_COLUMNS_PENDING: Final = "lancens.columns"
"""Marks an entry whose columns were removed before writing new ones: it still is one with columns."""
_VIEWS: Final = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW"})
EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
_INPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
"""Abstract formats, which no engine can read or write."""
SAFEGUARD: Final = Safeguard(
    "EXTERNAL", "TRUE", "`DROP TABLE` in Hive or Spark would delete the data", hazard="external.table.purge"
)
"""Servers turn an entry without an upper-case `EXTERNAL` into a managed table."""


def wire_name(database: Identifier) -> str:
    """Return the argument that names a database and its catalog in Thrift calls."""
    return "@{}#{}".format(*database) if len(database) > 1 else database[0]


def catalog_name(database: Sequence[str]) -> str | None:
    """Return the catalog of a database; None for the server's default."""
    return database[0] if len(database) > 1 else None


# ---- databases -------------------------------------------------------------------------------------------------------


def new_database(identifier: Identifier, properties: Mapping[str, str]) -> Database:
    """Return the struct of a new database with ``properties``.

    Raises:
        InvalidInputError: a field is empty, or ``database.owner-type`` is not one of Hive's.
    """
    from reconciler.backends.hive.gen.ttypes import Database

    _refuse_empty(properties, (*_DATABASE_FIELDS, DATABASE_LOCATION))
    owner_type = properties.get(_OWNER_TYPE)
    if owner_type is not None and owner_type not in _OWNER_TYPES:
        raise InvalidInputError(f"`{_OWNER_TYPE}` is `{owner_type}`; it is one of {', '.join(_OWNER_TYPES)}")
    return Database(
        name=identifier[-1],
        catalogName=catalog_name(identifier),
        description=properties.get(DESCRIPTION),
        locationUri=properties.get(DATABASE_LOCATION),
        ownerName=properties.get(_OWNER),
        ownerType=None if owner_type is None else _OWNER_TYPES[owner_type],
        # The location is also a parameter, because the server rewrites its own field.
        parameters={key: value for key, value in properties.items() if key not in _DATABASE_FIELDS},
    )


def alter_database(database: Database, changes: PropertyChanges) -> None:
    """Merge ``changes`` into the struct of a database.

    A field that needs a value keeps its own.

    Raises:
        InvalidInputError: see :func:`new_database`.
    """
    merged = changes.applied_to(live_database((), database).properties)
    altered = new_database((database.name,), merged)
    database.description = altered.description or ""
    database.locationUri = altered.locationUri or database.locationUri
    database.ownerName, database.ownerType = altered.ownerName, altered.ownerType
    parameters = changes.applied_to(database.parameters or {})
    database.parameters = {key: value for key, value in parameters.items() if key not in _DATABASE_FIELDS}


def _refuse_empty(properties: Mapping[str, str], keys: Iterable[str]) -> None:
    """Raise for an empty field: to Hive, empty is the same as missing."""
    for key in sorted(keys):
        if properties.get(key) == "":
            raise InvalidInputError(f"`{key}` is empty; give it a value, or leave it out")


def live_database(identifier: Identifier, database: Database) -> LiveNamespace:
    """Return a database as a namespace."""
    properties: dict[str, str] = dict(database.parameters or {})
    properties.update(_location_property(DATABASE_LOCATION, database.locationUri, properties))
    if database.description:
        properties[DESCRIPTION] = database.description
    if database.ownerName:
        properties[_OWNER] = database.ownerName
    properties.update((_OWNER_TYPE, name) for name, value in _OWNER_TYPES.items() if value == database.ownerType)
    return LiveNamespace(identifier, properties)


def _location_property(key: str, location: str | None, written: Mapping[str, str]) -> dict[str, str]:
    """Return the property ``key`` for a location, in the spelling of ``written``."""
    if not location:
        return {}
    requested = written.get(key)
    return {key: requested if requested is not None and locations.same(requested, location) else location}


# ---- catalogs --------------------------------------------------------------------------------------------------------


def new_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Return the struct of a new catalog with ``properties``.

    Raises:
        InvalidInputError: a field is empty.
    """
    from reconciler.backends.hive.gen.ttypes import Catalog

    _refuse_empty(properties, (_CATALOG_DESCRIPTION, CATALOG_LOCATION))
    description = properties.get(_CATALOG_DESCRIPTION)
    parameters = {key: value for key, value in properties.items() if key != _CATALOG_DESCRIPTION}
    lines = [] if description is None else [description]
    if parameters or (description is not None and description.rpartition("\n")[2].startswith(_CATALOG_PROPERTIES)):
        lines.append(_CATALOG_PROPERTIES + json.dumps(parameters, ensure_ascii=False, sort_keys=True)[1:])
    return Catalog(name=name, description="\n".join(lines), locationUri=properties.get(CATALOG_LOCATION))


def live_catalog(identifier: Identifier, catalog: Catalog) -> LiveNamespace:
    """Return a catalog as a namespace."""
    description, properties = _split_description(catalog.description or "")
    if description:
        properties[_CATALOG_DESCRIPTION] = description
    properties.update(_location_property(CATALOG_LOCATION, locations.home_of(catalog.locationUri), properties))
    return LiveNamespace(identifier, properties)


def alter_catalog(catalog: Catalog, changes: PropertyChanges) -> Catalog:
    """Return the struct of a catalog with ``changes`` merged into its properties.

    It always has a location and a description: a server ignores an empty description in an alter.
    """
    properties = changes.applied_to(live_catalog((), catalog).properties)
    is_recorded = (
        CATALOG_LOCATION in changes.set or CATALOG_LOCATION in _split_description(catalog.description or "")[1]
    )
    if not is_recorded:
        properties.pop(CATALOG_LOCATION, None)
    altered = new_catalog(catalog.name, properties)
    altered.description = altered.description or f"{_CATALOG_PROPERTIES}}}"
    altered.locationUri = altered.locationUri or catalog.locationUri
    altered.createTime = catalog.createTime
    return altered


def _split_description(text: str) -> tuple[str, dict[str, str]]:
    """Split a catalog's description into the user's text and stored properties."""
    description, _, line = text.rpartition("\n")
    if line.startswith(_CATALOG_PROPERTIES):
        try:
            properties = json.loads(line[len(_CATALOG_PROPERTIES) - 1 :])
        except ValueError:
            return text, {}
        if all(isinstance(value, str) for value in properties.values()):
            return description, properties
    return text, {}


# ---- tables ----------------------------------------------------------------------------------------------------------


def is_lance(table: Table) -> bool:
    """Return whether an entry is marked as a Lance table and has a location.

    Its table type may be another than EXTERNAL_TABLE: a server sets MANAGED_TABLE on entries without ``EXTERNAL=TRUE``.
    """
    return is_marked(table) and bool(table.sd and table.sd.location)


def is_marked(table: Table) -> bool:
    """Return whether an entry is marked as a Lance table."""
    mark: str = (table.parameters or {}).get(_TABLE_TYPE, "")
    return mark.lower() == _LANCE


def live_table(identifier: Identifier, table: Table) -> LiveTable:
    """Return an entry as a live table."""
    return LiveTable(identifier, table.sd.location, dict(table.parameters))


def foreign_table(identifier: Identifier, table: Table) -> ForeignTable | None:
    """Describe an entry that is not an external Lance table; None for one that is."""
    if is_lance(table) and table.tableType == EXTERNAL_TABLE:
        return None
    return ForeignTable(identifier, (table.sd and table.sd.location) or None, _format(table))


def _format(table: Table) -> str:
    """Return the format of a table by its parameters, or else by Hive's own fields."""
    parameters = table.parameters or {}
    declared: str = parameters.get(_TABLE_TYPE) or parameters.get(_SPARK_PROVIDER) or ""
    if declared.lower() == _LANCE:
        return f"{_LANCE}, {table.tableType}"
    if declared or table.tableType in _VIEWS:
        return declared or str(table.tableType)
    input_format: str = (table.sd and table.sd.inputFormat) or ""
    return input_format.rpartition(".")[2] or str(table.tableType)


def plain_table(identifier: Identifier, location: str) -> Table:
    """Return the struct of an external table without columns or format.

    It has no columns, and formats that no engine can read, so that no engine reads the files as text.
    """
    from reconciler.backends.hive.gen.ttypes import SerDeInfo, StorageDescriptor, Table

    return Table(
        tableName=identifier[-1],
        dbName=identifier[-2],
        catName=catalog_name(identifier[:-1]),
        partitionKeys=[],
        tableType=EXTERNAL_TABLE,
        parameters={SAFEGUARD.key: SAFEGUARD.value},
        sd=StorageDescriptor(
            cols=[],
            location=location,
            inputFormat=_INPUT_FORMAT,
            outputFormat=_OUTPUT_FORMAT,
            numBuckets=-1,
            serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", parameters={}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )


def set_table_parameters(table: Table, properties: Mapping[str, str]) -> None:
    """Replace a table's parameters by ``properties`` and those of a Lance table."""
    requested = properties.get(_TABLE_TYPE, _LANCE)
    table.tableType = EXTERNAL_TABLE
    mark = requested if requested.lower() == _LANCE else _LANCE
    table.parameters = {**properties, _TABLE_TYPE: mark, **SAFEGUARD.applied_to(properties)}


# ---- the columns of tables -------------------------------------------------------------------------------------------


def columns_of(table: Table) -> ShownColumns | None:
    """Return the columns of an entry; None if it has none, or has partition keys."""
    if table.partitionKeys or not (table.sd.cols or _COLUMNS_PENDING in (table.parameters or {})):
        return None
    return tuple(ShownColumn(field.name, field.type or "", field.comment) for field in table.sd.cols or ())


def comments_of(table: Table) -> dict[str, str | None]:
    """Return the comments of an entry's columns, by name."""
    return {field.name: field.comment for field in table.sd.cols or ()}


def with_columns(table: Table, columns: ShownColumns, comments: Mapping[str, str | None]) -> Table:
    """Return a copy of ``table`` with ``columns``; ``comments`` has those of old ones."""
    from reconciler.backends.hive.gen.ttypes import FieldSchema

    altered = deepcopy(table)
    altered.sd.cols = [
        FieldSchema(column.name, column.type, column.comment or comments.get(column.name.lower())) for column in columns
    ]
    altered.parameters.pop(_COLUMNS_PENDING, None)
    return altered


def with_leading_columns(table: Table, columns: ShownColumns) -> Table | None:
    """Return a copy of ``table`` cut before the first column that ``columns`` changes.

    None if nothing is cut. A server that refuses to change the type of a column compares old and new ones by position,
    so the columns from the first difference on are removed before new ones are written.
    """

    def is_equal(pair: tuple[FieldSchema, ShownColumn]) -> bool:
        field, column = pair
        return column.shows(ShownColumn(field.name, field.type or ""))

    fields = table.sd.cols or []
    kept = [field for field, _ in takewhile(is_equal, zip(fields, columns, strict=False))]
    if len(kept) == len(fields):
        return None
    altered = deepcopy(table)
    altered.sd.cols = kept
    altered.parameters[_COLUMNS_PENDING] = "pending"
    return altered
