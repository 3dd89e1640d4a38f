"""Moves on Glue, without a rename: a new entry at the same location, then the removal of the old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.names import Identifier
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.moving import Moves, Place
from tests.servers.glue import GlueServer


@pytest.fixture
def place(glue: GlueServer, connect: Connect, tmp_path: Path) -> Place:
    root = str(tmp_path / "lake")

    def raw(identifier: Identifier) -> str | None:
        try:
            found = glue.client.get_table(DatabaseName=identifier[0], Name=identifier[1])
        except glue.client.exceptions.EntityNotFoundException:
            return None
        return str(found["Table"]["StorageDescriptor"]["Location"])

    loses = "its Lake Formation permissions, tags, column statistics and version history"

    def place_of(identifier: Identifier) -> str:
        return f"{root}/{'_'.join(identifier)}.lance"

    return Place("glue", glue.config(), connect, raw, data=Path(root), loses=loses, place_of=place_of)


class TestMoves(Moves):
    """The suite."""
