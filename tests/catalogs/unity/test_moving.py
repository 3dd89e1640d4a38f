"""Moves on Unity: no call changes an entry, so a new one is created at the location before the old is removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.model.names import Identifier
from tests.catalogs.end_to_end import apply
from tests.catalogs.moving import USERS, Moves, Place
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

    loses = "its owner, grants, tags and lineage"
    config = unity.config(root=root)
    return Place("unity", config, lambda: unity.connect(root=root), raw, (CATALOG,), Path(root), loses)


def test_a_move_keeps_the_comments_of_the_entry(
    unity: Unity, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space = place.namespace("one")
    old, new = (*space, "users"), (*space, "people")
    apply(place.manifest(tmp_path, {old: USERS}))
    table = unity.contract.answer("GET", f"{API}/tables/{'.'.join(old)}", {}, None, TOKEN).body
    assert isinstance(table, Mapping)
    assert unity.contract.answer("DELETE", f"{API}/tables/{'.'.join(old)}", {}, None, TOKEN).status == 200
    commented = [{**column, "comment": "the key"} for column in table["columns"]]
    body = {**table, "comment": "all users", "columns": commented}
    assert unity.contract.answer("POST", f"{API}/tables", {}, body, TOKEN).status == 200
    apply(place.manifest(tmp_path, {new: USERS}, (old, new)))
    moved = unity.contract.answer("GET", f"{API}/tables/{'.'.join(new)}", {}, None, TOKEN).body
    assert isinstance(moved, Mapping)
    assert (moved["comment"], moved["columns"]) == ("all users", commented)


class TestMoves(Moves):
    """The suite."""
