"""Moves on both Iceberg REST catalogs, which rename within a warehouse."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
import urllib3

from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog, on_one_server
from tests.catalogs.moving import Moves, Place


@pytest.fixture
def place(catalog: Catalog) -> Place:
    def raw(identifier: Identifier) -> str | None:
        _, namespace, name = (quote(part, safe="") for part in identifier)
        route = f"{catalog.routes}/namespaces/{namespace}/tables/{name}"
        answer = urllib3.request("GET", route, headers=catalog.headers, timeout=30)
        assert answer.status in (200, 404), (answer.status, answer.data[:300])
        return str(answer.json()["metadata"]["location"]) if answer.status == 200 else None

    data = Path(catalog.root) if catalog.root.startswith("/") else None
    config = {**catalog.config, "root": catalog.root}
    return Place("iceberg", config, catalog.connect, raw, (catalog.warehouse,), data)


@on_one_server
@pytest.mark.soak
class TestMoves(Moves):
    """The suite; the writes of a move are the same calls on both servers."""
