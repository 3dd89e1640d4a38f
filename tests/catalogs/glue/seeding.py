"""Filling the server as other programs would: plain boto3, past the backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from reconciler.backends.glue.service import Service
from reconciler.model.names import Identifier
from tests.servers.glue import ACCOUNT, GlueServer

__all__ = ["before_the_first", "catalog_id", "databases", "hold", "lance_table", "tables"]


def catalog_id(*path: str) -> str:
    """Return the id of the catalog at ``path`` below the account's own."""
    return f"{ACCOUNT}:{'/'.join(path)}" if path else ACCOUNT


def lance_table(name: str, location: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the entry of a Lance table."""
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"table_type": "LANCE"},
        "StorageDescriptor": {"Location": location or f"s3://lake/{name}.lance"},
        **more,
    }


def databases(glue: GlueServer, names: Iterable[str], catalog: str = ACCOUNT, **more: Any) -> None:
    """Make databases."""
    for name in names:
        given: Any = {"Name": name, **more}
        glue.client.create_database(CatalogId=catalog, DatabaseInput=given)


def tables(glue: GlueServer, database: str, entries: Iterable[Mapping[str, Any]], catalog: str = ACCOUNT) -> None:
    """Make the entries of a few tables; ``GlueServer.add_tables`` makes many."""
    for entry in entries:
        given: Any = entry
        glue.client.create_table(CatalogId=catalog, DatabaseName=database, TableInput=given)


def hold(glue: GlueServer, identifier: Identifier) -> Callable[[], None]:
    """Put a view at a name, and return what takes it away."""
    *catalog, database, name = identifier
    view: Any = {"Name": name, "TableType": "VIRTUAL_VIEW", "ViewOriginalText": "select 1"}
    glue.client.create_table(CatalogId=catalog_id(*catalog), DatabaseName=database, TableInput=view)

    def take_away() -> None:
        glue.client.delete_table(CatalogId=catalog_id(*catalog), DatabaseName=database, Name=name)

    return take_away


def before_the_first(monkeypatch: pytest.MonkeyPatch, call: str, act: Callable[[], object]) -> None:
    """Call ``act`` once, between what a backend reads for a write and the first request of that write."""
    genuine = getattr(Service, call)

    def acted_first(service: Service, *given: Any) -> None:
        monkeypatch.setattr(Service, call, genuine)
        act()
        genuine(service, *given)

    monkeypatch.setattr(Service, call, acted_first)
