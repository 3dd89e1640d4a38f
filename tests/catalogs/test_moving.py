"""Moves on `dir`, as pylance's own client sees them, and on `memory`."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance_namespace
import pytest
from lance_namespace import DescribeTableRequest
from lance_namespace.errors import NamespaceNotFoundError, TableNotFoundError

from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model.names import Identifier
from tests.catalogs.moving import Moves, Place


@pytest.fixture(params=["dir", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = tmp_path / "lake"
    if request.param == "dir":
        return Place(
            "dir",
            {"root": str(root)},
            lambda: DirBackend(root=str(root)),
            lambda one: by_pylance(root, one),
            data=root,
            step=1,
        )
    config = {"name": uuid.uuid4().hex, "root": str(root)}
    backend = MemoryBackend(**config)

    def raw(identifier: Identifier) -> str | None:
        found = backend.scan().tables.get(identifier)
        return None if found is None else found.location

    return Place("memory", config, lambda: MemoryBackend(**config), raw, data=root, step=1)


def by_pylance(root: Path, identifier: Identifier) -> str | None:
    client = lance_namespace.connect("dir", {"root": str(root)})
    try:
        return client.describe_table(DescribeTableRequest(id=list(identifier))).location
    except (TableNotFoundError, NamespaceNotFoundError):
        return None


class TestMoves(Moves):
    """The suite."""
