"""Arrow schemas, and Spark's made from them."""

from __future__ import annotations

import pyarrow as pa

from reconciler.auditor.evaluate import EVALUATED
from reconciler.pipeline.rows import INVENTORY, ROWS, VIEWS
from reconciler.pipeline.schemas import LONG, STRING, record_batch, record_batches, spark_schema

SCHEMA = pa.schema([("name", STRING), ("tables", LONG)])


SPARK_ROWS = (
    "struct<catalog:string,kind:string,namespace:array<string>,name:string,location:string,"
    "properties:map<string,string>,managed_versioning:boolean,namespace_kind:string,format:string,namespaces:bigint,"
    "tables:bigint,message:string,code:int>"
)
SPARK_FOUND = (
    "findings:array<struct<rule:string,severity:string,severity_rank:int,reason:string,remedy:string,"
    "details:map<string,string>>>>"
)
SPARK_COVERAGE = "struct<catalog:string,namespace:string,namespaces:bigint,tables:bigint,error:string>"


def test_spark_gets_the_same_columns() -> None:
    assert spark_schema(ROWS).simpleString() == SPARK_ROWS
    assert spark_schema(EVALUATED).simpleString().endswith(SPARK_FOUND)
    assert spark_schema(VIEWS["coverage"].schema).simpleString() == SPARK_COVERAGE
    assert all(set(view.schema.names) <= set(INVENTORY.schema.names) for view in VIEWS.values())


def test_what_a_row_does_not_say_is_null() -> None:
    batch = record_batch([{"name": "a"}, {"tables": 2}], SCHEMA)
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == [{"name": "a", "tables": None}, {"name": None, "tables": 2}]


def test_many_rows_are_several_batches_and_no_rows_no_batch() -> None:
    assert [batch.num_rows for batch in record_batches(({"tables": n} for n in range(10_000)), SCHEMA)] == [
        4096,
        4096,
        1808,
    ]
    assert list(record_batches([], SCHEMA)) == []
