"""Moves on Glue, without a rename: a new entry at the same location, then the removal of the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.model.names import Identifier
from tests.catalogs.end_to_end import apply
from tests.catalogs.glue.conftest import Connect
from tests.catalogs.moving import USERS, CutMoves, Moves, Place
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


class TestMoves(Moves, CutMoves):
    """The suite."""


def test_a_move_keeps_every_field_of_the_entry(
    glue: GlueServer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = ("one", "users"), ("other", "people")
    apply(place.manifest(tmp_path, {old: USERS}))

    def entry(identifier: Identifier) -> dict[str, Any]:
        found = glue.client.get_table(DatabaseName=identifier[0], Name=identifier[1])["Table"]
        changing = {"DatabaseName", "Name", "CreateTime", "UpdateTime", "VersionId", "CreatedBy", "CatalogId"}
        return {key: value for key, value in found.items() if key not in changing}

    marked = entry(old)
    descriptor = marked["StorageDescriptor"] | {
        "Columns": [{"Name": "id", "Type": "bigint", "Comment": "the key", "Parameters": {"unit": "1"}}],
        "Parameters": {"classification": "lance"},
        "SerdeInfo": {"Name": "lance", "SerializationLibrary": "org.lance", "Parameters": {"a": "b"}},
        "Compressed": True,
        "SortColumns": [{"Column": "id", "SortOrder": 1}],
    }
    kept = {"Description": "all users", "Owner": "ml", "Retention": 7, "StorageDescriptor": descriptor}
    fields: Any = {"Name": "users", **{key: marked[key] for key in ("TableType", "Parameters")}, **kept}
    glue.client.update_table(DatabaseName="one", TableInput=fields)
    before = entry(old)
    assert before.items() >= {"Description": "all users", "Owner": "ml", "Retention": 7}.items()
    apply(place.manifest(tmp_path, {new: USERS}, (old, new)))
    assert entry(new) == before
