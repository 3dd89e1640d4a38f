"""A metastore spoken to past the backends: what other writers do, and what is truly there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.hive.connection import connect
from reconciler.backends.hive.entries import catalog_name, wire_name
from reconciler.model.names import Identifier

if TYPE_CHECKING:
    from reconciler.backends.hive.gen.ThriftHiveMetastore import Client
    from reconciler.backends.hive.gen.ttypes import Database, Table

__all__ = ["drop", "entries", "fetch", "fetch_by", "fetch_database", "plain_table", "put", "raw"]


class _Connected(AbstractContextManager["Client"]):
    """A connection, closed at the end; a generator could not pass on the errors of Thrift, which are immutable."""

    def __init__(self, uri: str) -> None:
        config = HiveConfig.model_validate({"uri": uri, "client.timeout": 600})
        self._connection = connect(config, config.uri[0])
        self._connection.wait_at_most(config.timeout)  # a busy server drops many tables in more than 10 seconds

    def __enter__(self) -> Client:
        return self._connection.client

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def raw(uri: str) -> AbstractContextManager[Client]:
    """Give a Thrift client on a connection of its own."""
    return _Connected(uri)


def plain_table(
    identifier: Identifier,
    location: str | None = None,
    parameters: Mapping[str, str] | None = None,
    table_type: str = "EXTERNAL_TABLE",
) -> Table:
    """Return the struct of a table of text files, as Hive makes one."""
    from reconciler.backends.hive.gen.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    return Table(
        tableName=identifier[-1],
        dbName=identifier[-2],
        catName=catalog_name(identifier[:-1]),
        owner="somebody",
        tableType=table_type,
        parameters=dict(parameters or {}),
        partitionKeys=[],
        viewOriginalText="select 1" if table_type == "VIRTUAL_VIEW" else None,
        viewExpandedText="select 1" if table_type == "VIRTUAL_VIEW" else None,
        sd=StorageDescriptor(
            cols=[FieldSchema("id", "bigint", "the key")],
            location=location,
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            numBuckets=-1,
            serdeInfo=SerDeInfo(
                name="lazy",
                serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                parameters={"field.delim": ","},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={"kept": "by the descriptor"},
        ),
    )


def put(uri: str, table: Table) -> None:
    """Create a table."""
    with raw(uri) as client:
        client.create_table(table)


def drop(uri: str, identifier: Identifier) -> None:
    """Drop the entry of a table."""
    with raw(uri) as client:
        client.drop_table(wire_name(identifier[:-1]), identifier[-1], False)


def fetch(uri: str, identifier: Identifier) -> Table:
    """Return the struct of a table."""
    with raw(uri) as client:
        return fetch_by(client, identifier)


def fetch_by(client: Client, identifier: Identifier) -> Table:
    """Return the struct of a table, on a connection that is there."""
    from reconciler.backends.hive.gen.ttypes import GetTableRequest

    *database, name = identifier
    request = GetTableRequest(dbName=database[-1], tblName=name, catName=catalog_name(database))
    table: Table = client.get_table_req(request).table
    return table


def fetch_database(uri: str, identifier: Identifier) -> Database:
    """Return the struct of a database."""
    with raw(uri) as client:
        database: Database = client.get_database(wire_name(identifier))
    return database


def entries(uri: str) -> dict[Identifier, str]:
    """Return where every catalog, database and table of a metastore points; below catalogs where it has them."""
    from thrift.Thrift import TApplicationException

    from reconciler.backends.hive.gen.ttypes import GetCatalogRequest, GetTableRequest

    found: dict[Identifier, str] = {}
    with raw(uri) as client:
        try:
            catalogs: list[str | None] = list(client.get_catalogs().names)
        except TApplicationException:  # 2.3 has none
            catalogs = [None]
        for catalog in catalogs:
            if catalog is not None:
                found[catalog,] = client.get_catalog(GetCatalogRequest(catalog)).catalog.locationUri
            for name in client.get_databases("*" if catalog is None else f"@{catalog}#*"):
                database = (name,) if catalog is None else (catalog, name)
                found[database] = client.get_database(wire_name(database)).locationUri
                for table in client.get_all_tables(wire_name(database)):
                    request = GetTableRequest(dbName=name, tblName=table, catName=catalog)
                    descriptor = client.get_table_req(request).table.sd
                    found[*database, table] = (descriptor and descriptor.location) or ""
    return found
