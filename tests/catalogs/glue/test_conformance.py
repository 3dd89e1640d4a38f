"""The conformance kit on Glue: in the root catalog, and in a catalog inside a catalog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.conformance import Check, checks, verify
from reconciler.names import Identifier
from tests.catalogs.glue.seeding import catalog_id
from tests.servers.glue import GlueServer


def _foreign(glue: GlueServer) -> Callable[[Backend, Identifier], Callable[[], None]]:
    def add(_: Backend, identifier: Identifier) -> Callable[[], None]:
        *catalog, database, name = identifier
        view: Any = {"Name": name, "TableType": "VIRTUAL_VIEW", "ViewOriginalText": "select 1"}
        glue.client.create_table(CatalogId=catalog_id(*catalog), DatabaseName=database, TableInput=view)

        def take_away() -> None:
            glue.client.delete_table(CatalogId=catalog_id(*catalog), DatabaseName=database, Name=name)

        return take_away

    return add


@pytest.mark.parametrize("check", checks(), ids=str)
def test_in_the_root_catalog(check: Check, glue: GlueServer, tmp_path: Path) -> None:
    verify(check, partial(registry.connect, "glue", glue.config()), scratch=str(tmp_path), add_foreign=_foreign(glue))


@pytest.mark.parametrize("check", checks(), ids=str)
def test_in_a_nested_catalog(check: Check, glue: GlueServer, tmp_path: Path) -> None:
    glue.add_catalog("sales")
    glue.add_catalog("sales/eu")
    connect = partial(registry.connect, "glue", glue.config())
    verify(check, connect, namespace=("sales", "eu"), scratch=str(tmp_path), add_foreign=_foreign(glue))
