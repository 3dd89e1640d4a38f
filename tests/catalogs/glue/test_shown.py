"""Columns of entries on Glue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.names import Identifier
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.glue.seeding import databases, lance_table, tables
from tests.catalogs.shown import Field, Showing, Shown
from tests.servers.glue import GlueServer


@pytest.fixture
def showing(glue: GlueServer, connect: Connect, tmp_path: Path) -> Showing:
    databases(glue, ["people"])

    def plant(identifier: Identifier, location: str, shown: Sequence[Field]) -> None:
        columns = [
            {"Name": name, "Type": kind, **({} if comment is None else {"Comment": comment})}
            for name, kind, comment in shown
        ]
        descriptor: dict[str, Any] = {"Location": location, "Columns": columns, "NumberOfBuckets": 3}
        tables(glue, identifier[0], [lance_table(identifier[1], StorageDescriptor=descriptor)])

    def shown(identifier: Identifier) -> list[Field]:
        found = glue.client.get_table(DatabaseName=identifier[0], Name=identifier[1])["Table"]["StorageDescriptor"]
        return [(column["Name"], column["Type"], column.get("Comment")) for column in found["Columns"]]

    return Showing("glue", glue.config(), connect, plant, shown, ("people",), tmp_path)


class TestShown(Shown):
    """The suite."""
