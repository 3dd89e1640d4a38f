"""A scripted server that answers as an Iceberg REST catalog does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.scripted import Answer, Request, Scripted, scripted

__all__ = ["error", "scripted_catalog", "table"]


def error(status: int, kind: str, message: str = "no") -> Answer:
    """An error as Iceberg REST catalogs word it."""
    return Answer({"error": {"message": message, "type": kind, "code": status}}, status)


def table(location: str = "s3://lake/t", uuid: str = "u1", **properties: str) -> dict[str, object]:
    """A loaded Lance table, marked as every one that lancens has made."""
    marked = {"table_type": "lance", "gc.enabled": "false", **properties}
    return {"metadata": {"table-uuid": uuid, "location": location, "properties": marked}}


def _nothing(request: Request) -> Answer:
    return error(404, "", f"nothing is scripted for {request.method} {request.path}")


@contextmanager
def scripted_catalog() -> Iterator[Scripted]:
    """Run a server whose warehouse ``ware`` is there and empty unless a test says otherwise."""
    with scripted(_nothing) as script:
        script.routes |= {
            "GET /v1/config": Answer({"defaults": {}, "overrides": {"prefix": "ware"}}),
            "GET /v1/ware/namespaces": Answer({"namespaces": []}),
        }
        yield script
