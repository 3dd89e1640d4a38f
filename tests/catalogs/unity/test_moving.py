"""Moves on Unity: no call changes an entry, so a new one is created at the location before the old is removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.model.names import Identifier
from tests.catalogs.moving import Moves, Place
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.servers.unity_contract import API


@pytest.fixture
def place(unity: Unity, tmp_path: Path) -> Place:
    root = str(tmp_path / "lake")

    def raw(identifier: Identifier) -> str | None:
        answer = unity.contract.answer("GET", f"{API}/tables/{'.'.join(identifier)}", {}, None, TOKEN)
        return (
            str(answer.body["storage_location"]) if isinstance(answer.body, Mapping) and answer.status == 200 else None
        )

    loses = "its grants, tags and lineage"
    config = unity.config(root=root)
    return Place("unity", config, lambda: unity.connect(root=root), raw, (CATALOG,), Path(root), loses)


class TestMoves(Moves):
    """The suite."""
