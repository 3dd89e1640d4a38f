"""Metastore structs into the shared vocabulary and back.

Databases keep properties in their parameters, with the four keys ``database.*`` for the fields beside them. Catalogs
have no parameters: what has no field of its own is kept as one line of JSON at the end of the description.
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
"""The values of the protocol's PrincipalType."""
_DATABASE_FIELDS: Final = frozenset({DESCRIPTION, _OWNER, _OWNER_TYPE})
_CATALOG_DESCRIPTION: Final = "catalog.description"
CATALOG_LOCATION: Final = "catalog.location-uri"
_CATALOG_PROPERTIES: Final = "properties: {"

_TABLE_TYPE: Final = "table_type"
_LANCE: Final = "lance"
_SPARK_PROVIDER: Final = "spark.sql.sources.provider"
LONGEST_COLUMN: Final = 767
_PENDING: Final = "lancens.columns"
"""Marks an entry whose columns were taken away to write others: without it, one that shows none is to show none."""
_VIEWS: Final = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW"})
EXTERNAL_TABLE: Final = "EXTERNAL_TABLE"
_INPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
"""Formats that no engine can read or write."""
SAFEGUARD: Final = Safeguard(
    "EXTERNAL", "TRUE", "`DROP TABLE` in Hive or Spark would delete the data", hazard="external.table.purge"
)
"""Servers make a managed table of one without `EXTERNAL`, in upper case, whatever type it is said to be of."""


def wire(database: Identifier) -> str:
    """Return a database as calls take it that have one argument for its catalog and its name."""
    return "@{}#{}".format(*database) if len(database) > 1 else database[0]


def catalog_in(database: Sequence[str]) -> str | None:
    """Return the catalog of a database; None where the metastore has none, or chooses."""
    return database[0] if len(database) > 1 else None


# ---- databases -------------------------------------------------------------------------------------------------------


def database_of(identifier: Identifier, properties: Mapping[str, str]) -> Database:
    """Return the struct of a database with ``properties`` and nothing else.

    Raises:
        InvalidInputError: a field is empty, or ``database.owner-type`` is none of Hive's.
    """
    from reconciler.backends.hive.gen.ttypes import Database

    _refuse_empty(properties, (*_DATABASE_FIELDS, DATABASE_LOCATION))
    owner_type = properties.get(_OWNER_TYPE)
    if owner_type is not None and owner_type not in _OWNER_TYPES:
        raise InvalidInputError(f"`{_OWNER_TYPE}` is `{owner_type}`; it is one of {', '.join(_OWNER_TYPES)}")
    return Database(
        name=identifier[-1],
        catalogName=catalog_in(identifier),
        description=properties.get(DESCRIPTION),
        locationUri=properties.get(DATABASE_LOCATION),
        ownerName=properties.get(_OWNER),
        ownerType=None if owner_type is None else _OWNER_TYPES[owner_type],
        # The location is kept twice: the server rewrites the form of its own.
        parameters={key: value for key, value in properties.items() if key not in _DATABASE_FIELDS},
    )


def alter_database(database: Database, changes: PropertyChanges) -> None:
    """Merge ``changes`` into the struct of a database; what cannot be without a value keeps the one it has.

    Raises:
        InvalidInputError: see :func:`database_of`.
    """
    merged = changes.applied_to(namespace_of_database((), database).properties)
    altered = database_of((database.name,), merged)
    database.description = altered.description or ""
    database.locationUri = altered.locationUri or database.locationUri
    database.ownerName, database.ownerType = altered.ownerName, altered.ownerType
    kept = changes.applied_to(database.parameters or {})
    database.parameters = {key: value for key, value in kept.items() if key not in _DATABASE_FIELDS}


def _refuse_empty(properties: Mapping[str, str], keys: Iterable[str]) -> None:
    """Raise for a field that would not be read back: to Hive, empty is the same as not there."""
    for key in sorted(keys):
        if properties.get(key) == "":
            raise InvalidInputError(f"`{key}` is empty; give it a value, or leave it out")


def namespace_of_database(identifier: Identifier, database: Database) -> LiveNamespace:
    """Return what a database says of itself."""
    properties: dict[str, str] = dict(database.parameters or {})
    properties.update(_place(DATABASE_LOCATION, database.locationUri, properties))
    if database.description:
        properties[DESCRIPTION] = database.description
    if database.ownerName:
        properties[_OWNER] = database.ownerName
    properties.update((_OWNER_TYPE, name) for name, value in _OWNER_TYPES.items() if value == database.ownerType)
    return LiveNamespace(identifier, properties)


def _place(key: str, location: str | None, written: Mapping[str, str]) -> dict[str, str]:
    """Return the location in force, in the form in which it was written where that is the same place."""
    if not location:
        return {}
    asked = written.get(key)
    return {key: asked if asked is not None and locations.same(asked, location) else location}


# ---- catalogs --------------------------------------------------------------------------------------------------------


def catalog_of(name: str, properties: Mapping[str, str]) -> Catalog:
    """Return the struct of a catalog with ``properties`` and nothing else.

    Raises:
        InvalidInputError: a field is empty.
    """
    from reconciler.backends.hive.gen.ttypes import Catalog

    _refuse_empty(properties, (_CATALOG_DESCRIPTION, CATALOG_LOCATION))
    described = properties.get(_CATALOG_DESCRIPTION)
    kept = {key: value for key, value in properties.items() if key != _CATALOG_DESCRIPTION}
    lines = [] if described is None else [described]
    if kept or (described is not None and described.rpartition("\n")[2].startswith(_CATALOG_PROPERTIES)):
        lines.append(_CATALOG_PROPERTIES + json.dumps(kept, ensure_ascii=False, sort_keys=True)[1:])
    return Catalog(name=name, description="\n".join(lines), locationUri=properties.get(CATALOG_LOCATION))


def namespace_of_catalog(identifier: Identifier, catalog: Catalog) -> LiveNamespace:
    """Return what a catalog says of itself."""
    described, properties = _split_description(catalog.description or "")
    if described:
        properties[_CATALOG_DESCRIPTION] = described
    properties.update(_place(CATALOG_LOCATION, locations.home_of(catalog.locationUri), properties))
    return LiveNamespace(identifier, properties)


def alter_catalog(catalog: Catalog, changes: PropertyChanges) -> Catalog:
    """Return a catalog with ``changes`` merged into its properties; it always has a location and a description.

    A server leaves an empty description out of an alter, so nothing is written as no properties.
    """
    properties = changes.applied_to(namespace_of_catalog((), catalog).properties)
    kept_apart = CATALOG_LOCATION in changes.set or CATALOG_LOCATION in _split_description(catalog.description or "")[1]
    if not kept_apart:
        properties.pop(CATALOG_LOCATION, None)
    altered = catalog_of(catalog.name, properties)
    altered.description = altered.description or f"{_CATALOG_PROPERTIES}}}"
    altered.locationUri = altered.locationUri or catalog.locationUri
    altered.createTime = catalog.createTime
    return altered


def _split_description(text: str) -> tuple[str, dict[str, str]]:
    """Return the description a person wrote and the properties kept behind it; any other last line is a person's."""
    described, _, line = text.rpartition("\n")
    if line.startswith(_CATALOG_PROPERTIES):
        try:
            properties = json.loads(line[len(_CATALOG_PROPERTIES) - 1 :])
        except ValueError:
            return text, {}
        if all(isinstance(value, str) for value in properties.values()):
            return described, properties
    return text, {}


# ---- tables ----------------------------------------------------------------------------------------------------------


def is_lance(table: Table) -> bool:
    """Return whether an entry is a Lance table: it says so, and it has a location (a view has none).

    A table type other than EXTERNAL_TABLE does not rule it out: peers that leave out ``EXTERNAL=TRUE`` get
    MANAGED_TABLE from the server, whatever they asked for.
    """
    said: str = (table.parameters or {}).get(_TABLE_TYPE, "")
    return said.lower() == _LANCE and bool(table.sd and table.sd.location)


def table_of(identifier: Identifier, table: Table) -> LiveTable:
    """Return what the entry of a table says."""
    return LiveTable(identifier, table.sd.location, dict(table.parameters))


def foreign_table(identifier: Identifier, table: Table) -> ForeignTable | None:
    """Return what an entry says that is not a Lance table of type EXTERNAL_TABLE; None for one that is."""
    if is_lance(table) and table.tableType == EXTERNAL_TABLE:
        return None
    return ForeignTable(identifier, (table.sd and table.sd.location) or None, _format(table))


def _format(table: Table) -> str:
    """Return the format of a table as writers tell it: a parameter of theirs, or the type or input format Hive has."""
    parameters = table.parameters or {}
    said: str = parameters.get(_TABLE_TYPE) or parameters.get(_SPARK_PROVIDER) or ""
    if said.lower() == _LANCE:
        return f"{_LANCE}, {table.tableType}"
    if said or table.tableType in _VIEWS:
        return said or str(table.tableType)
    input_format: str = (table.sd and table.sd.inputFormat) or ""
    return input_format.rpartition(".")[2] or str(table.tableType)


def plain_table(identifier: Identifier, location: str) -> Table:
    """Return the struct of an external table of no kind that anybody knows.

    It has no columns, and formats that no engine can read, so that none takes the files for text.
    """
    from reconciler.backends.hive.gen.ttypes import SerDeInfo, StorageDescriptor, Table

    return Table(
        tableName=identifier[-1],
        dbName=identifier[-2],
        catName=catalog_in(identifier[:-1]),
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
    """Give ``table`` the parameters ``properties``, and those that make it an external Lance table."""
    said = properties.get(_TABLE_TYPE, _LANCE)
    table.tableType = EXTERNAL_TABLE
    mark = said if said.lower() == _LANCE else _LANCE
    table.parameters = {**properties, _TABLE_TYPE: mark, **SAFEGUARD.applied_to(properties)}


# ---- the columns of tables -------------------------------------------------------------------------------------------


def columns_of(table: Table) -> ShownColumns | None:
    """Return the columns that an entry shows; None for one that shows none, and for one with keys of partitions."""
    if table.partitionKeys or not (table.sd.cols or _PENDING in (table.parameters or {})):
        return None
    return tuple(ShownColumn(field.name, field.type or "", field.comment) for field in table.sd.cols or ())


def comments_of(table: Table) -> dict[str, str | None]:
    """Return the comment of each column that an entry shows, by its name."""
    return {field.name: field.comment for field in table.sd.cols or ()}


def with_columns(table: Table, columns: ShownColumns, comments: Mapping[str, str | None]) -> Table:
    """Return a copy of ``table`` that shows ``columns``; ``comments`` has names as the server keeps them."""
    from reconciler.backends.hive.gen.ttypes import FieldSchema

    altered = deepcopy(table)
    altered.sd.cols = [
        FieldSchema(column.name, column.type, column.comment or comments.get(column.name.lower())) for column in columns
    ]
    altered.parameters.pop(_PENDING, None)
    return altered


def with_leading_columns(table: Table, columns: ShownColumns) -> Table | None:
    """Return a copy of ``table`` with the columns alone that ``columns`` begins with; None if it has no others.

    A server that refuses to give a column another type compares them by their positions, as far as both lists go. So
    the columns from the first difference on are taken away before others are written.
    """

    def stays(pair: tuple[FieldSchema, ShownColumn]) -> bool:
        field, column = pair
        return column.shows(ShownColumn(field.name, field.type or ""))

    fields = table.sd.cols or []
    kept = [field for field, _ in takewhile(stays, zip(fields, columns, strict=False))]
    if len(kept) == len(fields):
        return None
    altered = deepcopy(table)
    altered.sd.cols = kept
    altered.parameters[_PENDING] = "pending"
    return altered
