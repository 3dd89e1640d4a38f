"""Requests to a Unity Catalog server, for comparing what two servers answer to the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Request", "comparable", "requests"]

_VOLATILE = frozenset({"id", "schema_id", "table_id", "volume_id", "created_at", "updated_at"})
_NAMES: tuple[object, ...] = (
    *("plain", "UPPER", "a_b-c@d", "-", "0", "x" * 255),
    *("x" * 256, "", None, 5, "a.b", "a b", "a/b", "a$b", "a:b", "a*b", "a%b", "größe", "a\n"),
)
_PROPERTIES: tuple[object, ...] = (
    None,
    {},
    {"a": "1", "b": "x\n y"},
    {"empty": "", "": "empty"},
    {"a": "x" * 255, "k" * 255: "1"},
    {"a": "x" * 256},
    {"k" * 256: "1"},
    {"a": "\U0001f600" * 127},
    {"a": "\U0001f600" * 128},
    {"a": None},
    {"a": 1, "b": True, "c": 1.5},
)
_LOCATIONS: tuple[object, ...] = (
    *("s3://lake/t", "s3://lake/a/b/", "s3://lake//a//b", "s3://lake/a/../b", "s3://lake/./a", "s3://Lake/T"),
    *("gs://lake/t", "abfs://box@account.dfs.core.windows.net/t", "abfss://box@account/t", "file:/data/t"),
    *("file:///data/t", "file:///data//t//", "/data/t", "/data/t/", "/data/größe", "/data/a+b", "file:///data/größe"),
    *("s3://lake/a+b", "s3://lake/a%20b", "s3://lake/größe", "file:///data/a%20b", f"s3://lake/{'x' * 2038}"),
    *("s3://lake/a b", "s3://lake/[a]", "s3://lake/a%b", 's3://lake/a"b', "s3://lake/{a}", "s3://lake/a|b"),
    *("s3://lake/a\\b", "s3://lake/a^b", "s3://lake/a`b", "s3://lake/<a>", "/data/a b", "/data/[a]", "/data/a%b"),
    *("s3://lake", "s3://lake/", "gs://lake", "http://lake/t", "s3a://lake/t", "hdfs://lake/t", "az://lake/t"),
    *("memory://t", "FILE:///data/t", "", None, f"s3://lake/{'x' * 2039}"),
)
_ABSENT = object()


@dataclass(frozen=True)
class Request:
    """One call, shown on a line of its own."""

    method: str
    path: str
    body: object = None
    query: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        query = "".join(f" {key}={value}" for key, value in self.query.items())
        return (
            f"{self.method} {self.path}{query} {json.dumps(self.body)[:160] if self.body is not None else ''}".strip()
        )


def comparable(body: object, key: str = "") -> object:
    """Return an answer without what differs from one run to the next, and an error without its wording."""
    if isinstance(body, Mapping):
        said = {**body, "message": "…"} if "error_code" in body else body
        return {name: comparable(value, name) for name, value in said.items()}
    if isinstance(body, list):
        return [comparable(entry) for entry in body]
    return type(body).__name__ if key in _VOLATILE else body


def _table(name: object = "t", schema: str = "s", **changes: object) -> dict[str, object]:
    body: dict[str, object] = {
        "name": name,
        "catalog_name": "c",
        "schema_name": schema,
        "table_type": "EXTERNAL",
        "data_source_format": "TEXT",
        "storage_location": "s3://lake/t",
        "columns": [],
        **changes,
    }
    return {key: value for key, value in body.items() if value is not _ABSENT}


def _column(**changes: object) -> dict[str, object]:
    whole = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    told = {"name": "id", "type_text": "bigint", "type_json": json.dumps(whole), "type_name": "LONG", "position": 0}
    return {key: value for key, value in {**told, **changes}.items() if value is not _ABSENT}


def _field(**changes: Any) -> str:
    return json.dumps({"name": "id", "type": "long", "nullable": True, "metadata": {}, **changes})


def requests() -> Iterator[Request]:
    """Yield the requests. The server has no catalog when they begin."""
    yield from _catalogs()
    yield from _schemas()
    yield from _tables()
    yield from _columns()
    yield from _lists()
    yield from _routes()
    yield from _ends()


def _catalogs() -> Iterator[Request]:
    yield Request("GET", "/catalogs")
    yield Request("POST", "/catalogs", {"name": "c"})
    yield Request("POST", "/catalogs", {"name": "c"})
    yield Request("POST", "/catalogs", {"name": "d", "comment": "the second", "properties": {"a": "1"}})
    for asked in ("c", "d", "absent", "C"):
        yield Request("GET", f"/catalogs/{asked}")
    for name in _NAMES:
        yield Request("POST", "/catalogs", {"name": name})
    yield Request("GET", "/catalogs")


def _schemas() -> Iterator[Request]:
    yield Request("POST", "/schemas", {"name": "s", "catalog_name": "c", "comment": "said"})
    yield Request("POST", "/schemas", {"name": "s", "catalog_name": "c"})
    yield Request("POST", "/schemas", {"name": "s", "catalog_name": "absent"})
    yield Request("POST", "/schemas", {"name": "a.b", "catalog_name": "absent"})
    yield Request("POST", "/schemas", {"name": "s"})
    for name in _NAMES:
        yield Request("POST", "/schemas", {"name": name, "catalog_name": "c"})
    for number, properties in enumerate(_PROPERTIES):
        yield Request("POST", "/schemas", {"name": f"p{number}", "catalog_name": "c", "properties": properties})
        yield Request("PATCH", "/schemas/c.s", {"properties": properties})
    yield Request("PATCH", "/schemas/c.s", {"comment": "anew"})
    yield Request("PATCH", "/schemas/c.absent", {"properties": {"a": "1"}})
    for asked in ("c.s", "c.absent", "absent.s", "c.S", "s", "c.s.t", ""):
        yield Request("GET", f"/schemas/{asked}")


def _tables() -> Iterator[Request]:
    yield Request("POST", "/tables", _table())
    yield Request("POST", "/tables", _table())
    yield Request("POST", "/tables", _table(schema="absent"))
    yield Request("POST", "/tables", _table(schema="absent", catalog_name="absent"))
    yield Request("POST", "/tables", _table(comment="said", properties={"table_type": "lance"}, name="said"))
    for name in _NAMES:
        yield Request("POST", "/tables", _table(name))
    for number, properties in enumerate(_PROPERTIES):
        yield Request("POST", "/tables", _table(f"p{number}", properties=properties))
    for number, location in enumerate(_LOCATIONS):
        yield Request("POST", "/tables", _table(f"l{number}", storage_location=location))
        yield Request("GET", f"/tables/c.s.l{number}")
    for kind in ("MANAGED", "VIEW", "external", "OTHER", None, _ABSENT):
        yield Request("POST", "/tables", _table("kind", table_type=kind))
    yield Request("POST", "/tables", _table("managed", table_type="MANAGED", data_source_format="DELTA"))
    for shape in ("DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "LANCE", "text", None, _ABSENT):
        yield Request("POST", "/tables", _table(f"f{shape}".replace(" ", "")[:7], data_source_format=shape))
    yield Request("POST", "/tables", _table("nowhere", storage_location=_ABSENT))
    for asked in ("c.s.t", "c.s.absent", "c.absent.t", "absent.s.t", "c.s.T", "c.s", "t", "c.s.t.more"):
        yield Request("GET", f"/tables/{asked}")
    for method in ("PATCH", "PUT"):
        yield Request(method, "/tables/c.s.t", {"properties": {"a": "1"}})


def _columns() -> Iterator[Request]:
    columns: list[object] = [
        _ABSENT,
        None,
        [_column()],
        *([_column(**{key: _ABSENT})] for key in ("name", "type_json", "type_text", "type_name", "position")),
        *([_column(type_json=text)] for text in ("long", '"long"', '{"name":"id"}', "", _field(name="other"))),
        *([_column(type_json=text)] for text in (_field(nullable=False), _field(metadata={"k": "v"}))),
        [_column(nullable=False, type_json=_field(nullable=False))],
        [_column(nullable=False)],
        [_column(type_text="BIGINT")],
        [_column(type_name="OTHER")],
        [_column(comment="said")],
        [_column(comment="x" * 65_535)],
        [_column(comment="x" * 65_536)],
        [_column(name="x" * 255, type_json=_field(name="x" * 255))],
        [_column(name="x" * 256, type_json=_field(name="x" * 256))],
        [_column(name="a b.c", type_json=_field(name="a b.c"))],
        [_column(name="", type_json=_field(name=""))],
        [_column(), _column()],
        [_column(), _column(name="b", position=1, type_json=_field(name="b"))],
        [_column(position=7)],
        [
            _column(
                type_name="DECIMAL", type_text="decimal(8,2)", type_json=_field(type="decimal(8,2)"), type_precision=8
            )
        ],
        {},
    ]
    for number, told in enumerate(columns):
        yield Request("POST", "/tables", _table(f"c{number}", columns=told))
        yield Request("GET", f"/tables/c.s.c{number}")


def _lists() -> Iterator[Request]:
    yield Request("POST", "/schemas", {"name": "many", "catalog_name": "d"})
    for number in range(5):
        yield Request("POST", "/tables", _table(f"t{number}", "many", catalog_name="d"))
    tables = {"catalog_name": "d", "schema_name": "many"}
    for size in ("0", "1", "2", "5", "6", "100", "1000", "-1", "text", ""):
        yield Request("GET", "/tables", query={**tables, "max_results": size})
    for token in ("t1", "t4", "", "zzz", "a"):
        yield Request("GET", "/tables", query={**tables, "max_results": "2", "page_token": token})
    yield Request("GET", "/tables", query=tables)
    yield Request("GET", "/schemas", query={"catalog_name": "d"})
    yield Request("GET", "/schemas", query={"catalog_name": "c", "max_results": "3"})
    yield Request("GET", "/catalogs", query={"max_results": "1"})
    for missing in ({"catalog_name": "absent"}, {}):
        yield Request("GET", "/schemas", query=missing)
    for route in ("/tables", "/volumes", "/functions", "/models"):
        yield Request("GET", route, query=tables)
        yield Request("GET", route, query={"catalog_name": "d", "schema_name": "absent"})
        yield Request("GET", route, query={"catalog_name": "absent", "schema_name": "many"})
        yield Request("GET", route, query={"catalog_name": "d"})


def _routes() -> Iterator[Request]:
    for path in ("/nothing", "/tables/c.s.t/more", "/catalogs/", "/schemas/c.s/", "/tables/c.s.t/"):
        yield Request("GET", path)
    yield Request("PUT", "/catalogs/c", {})
    yield Request("POST", "/catalogs/c", {})


def _ends() -> Iterator[Request]:
    for name in ("c.s.t", "c.s.t", "c.absent.t", "absent.s.t", "c.s"):
        yield Request("DELETE", f"/tables/{name}")
    for name in ("d.many", "d.absent", "absent.s", "d"):
        yield Request("DELETE", f"/schemas/{name}")
    yield Request("DELETE", "/schemas/d.many", query={"force": "false"})
    yield Request("DELETE", "/schemas/d.many", query={"force": "true"})
    yield Request("GET", "/schemas/d.many")
    yield Request("DELETE", "/catalogs/c")
    yield Request("DELETE", "/catalogs/d")
    yield Request("DELETE", "/catalogs/c", query={"force": "true"})
    yield Request("DELETE", "/catalogs/c")
    yield Request("GET", "/tables/c.s.said")
