"""The server of these tests is held to what Glue's own model says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.catalogs.glue.seeding import catalog_id, databases, lance_table, tables
from tests.servers import glue_model
from tests.servers.glue import GlueServer


def _code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    return str(raised.value.response["Error"]["Code"])


def test_requests_that_the_model_forbids_are_refused(glue: GlueServer) -> None:
    databases(glue, ["web"])
    client = glue.client
    assert _code(client.get_tables, DatabaseName="web", MaxResults=101) == "ValidationException"
    assert _code(client.get_catalogs, MaxResults=1001) == "ValidationException"
    assert _code(client.create_catalog, Name="a/b", CatalogInput={}) == "ValidationException"
    assert _code(client.create_database, DatabaseInput={"Name": "a\nb"}) == "ValidationException"
    assert _code(client.create_database, DatabaseInput={"Name": "x" * 256}) == "ValidationException"
    assert _code(client.get_tables, DatabaseName="web", AttributesToGet=["SIZE"]) == "ValidationException"
    assert _code(client.get_catalogs, ParentCatalogId=catalog_id(), IncludeRoot=True) == "InvalidInputException"


def test_answers_that_the_model_forbids_are_found() -> None:
    assert glue_model.answer_faults("GetTables", {"TableList": [{"Name": "t", "Parameters": {"a": "b"}}]}) == []
    assert glue_model.answer_faults("GetTables", {"TableList": [{"Parameters": {"a": 1}, "Size": 3}]}) == [
        "GetTables.TableList[0].Name is missing",
        "GetTables.TableList[0].Parameters.a is not a string",
        "GetTables.TableList[0].Size is unknown",
    ]
    assert glue_model.answer_faults("DeleteTable", {"Table": {}}) == ["DeleteTable.Table is unknown"]


def test_pages_hold_everything_once(glue: GlueServer) -> None:
    databases(glue, ["web"])
    tables(glue, "web", [lance_table(f"t{number}") for number in range(7)])
    pages = list(glue.client.get_paginator("get_tables").paginate(DatabaseName="web", PaginationConfig={"PageSize": 3}))
    assert [len(page["TableList"]) for page in pages] == [3, 3, 1]
    assert len({table["Name"] for page in pages for table in page["TableList"]}) == 7
    assert _code(glue.client.get_tables, DatabaseName="web", NextToken="nonsense") == "InvalidInputException"


def test_catalogs_are_apart_and_names_fold(glue: GlueServer) -> None:
    glue.client.create_catalog(Name="sales", CatalogInput={"Parameters": {"a": "b"}})
    databases(glue, ["Web"], catalog_id("sales"))
    assert glue.client.get_database(CatalogId=catalog_id("sales"), Name="WEB")["Database"]["Name"] == "web"
    assert _code(glue.client.get_database, Name="web") == "EntityNotFoundException"
    assert _code(glue.client.get_databases, CatalogId=catalog_id("nope")) == "EntityNotFoundException"
    listed = glue.client.get_catalogs(IncludeRoot=True, Recursive=True)["CatalogList"]
    assert [catalog.get("CatalogId") for catalog in listed] == [catalog_id(), catalog_id("sales")]


def test_deleting_takes_what_is_inside_along_as_aws_does(glue: GlueServer) -> None:
    glue.add_catalog("sales")
    glue.add_catalog("sales/eu")
    databases(glue, ["web"], catalog_id("sales", "eu"))
    glue.client.delete_catalog(CatalogId=catalog_id("sales"))
    assert glue.client.get_catalogs(Recursive=True)["CatalogList"] == []


def test_an_update_of_an_old_version_is_refused(glue: GlueServer) -> None:
    databases(glue, ["web"])
    tables(glue, "web", [lance_table("t")])
    entry: Any = lance_table("t")
    glue.client.update_table(DatabaseName="web", TableInput=entry, VersionId="1")
    refused = _code(glue.client.update_table, DatabaseName="web", TableInput=entry, VersionId="1")
    assert refused == "ConcurrentModificationException"
