"""Moves over lancens' server, which renames, and over one that does not say that it can."""

from __future__ import annotations

import pytest

from reconciler.backends.dir import DirBackend
from reconciler.model.names import Identifier
from tests.catalogs.moving import Moves, Place
from tests.catalogs.rest.conftest import Server


@pytest.fixture
def place(serve: Server) -> Place:
    def raw(identifier: Identifier) -> str | None:
        found = DirBackend(root=str(serve.root)).scan().tables.get(identifier)
        return None if found is None else found.location

    return Place("rest", serve.config, serve.connect, raw, data=serve.root)


class TestMoves(Moves):
    """The suite."""
