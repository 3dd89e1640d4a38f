"""Columns of entries on every metastore, which refuses some changes of a column's type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.backends.hive.gen.ttypes import FieldSchema
from reconciler.model.names import Identifier
from tests.catalogs.hive.conftest import Connect, newest
from tests.catalogs.hive.raw import fetch, plain_table, put
from tests.catalogs.shown import Field, Showing, Shown
from tests.servers.hive import Metastore


@pytest.fixture
def showing(server: Metastore, connect: Connect, database: Identifier, tmp_path: Path) -> Showing:
    def plant(identifier: Identifier, location: str, shown: Sequence[Field]) -> None:
        table = plain_table(identifier, location, {"table_type": "lance", "EXTERNAL": "TRUE"})
        table.sd.cols = [FieldSchema(*column) for column in shown]
        put(server.uri, table)

    def shown(identifier: Identifier) -> list[Field]:
        return [(column.name, column.type, column.comment) for column in fetch(server.uri, identifier).sd.cols]

    return Showing(server.impl, {"uri": server.uri}, connect, plant, shown, database, tmp_path)


@newest
@pytest.mark.soak
class TestShown(Shown):
    """The suite."""
