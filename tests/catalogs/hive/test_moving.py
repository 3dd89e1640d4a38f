"""Moves on every metastore: renames within a catalog, a new entry in another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.hive.entries import wire_name
from reconciler.backends.hive.gen.ttypes import EnvironmentContext, FieldSchema
from reconciler.model.names import Identifier
from reconciler.planner.entries import Action
from tests.catalogs.end_to_end import actions, apply
from tests.catalogs.hive.conftest import Connect, newest
from tests.catalogs.hive.raw import fetch, raw
from tests.catalogs.moving import USERS, Moves, Place
from tests.servers.hive import Metastore


@pytest.fixture
def place(server: Metastore, connect: Connect, lake: str, above: Identifier) -> Place:
    def location(identifier: Identifier) -> str | None:
        with raw(server.uri) as client:
            names = client.get_all_tables(wire_name(identifier[:-1]))
        return str(fetch(server.uri, identifier).sd.location) if identifier[-1] in names else None

    return Place(server.impl, {"uri": server.uri, "root": lake}, connect, location, above, Path(lake))


@newest
@pytest.mark.soak
class TestMoves(Moves):
    """The suite."""


@newest
@pytest.mark.soak
def test_from_one_catalog_to_another_the_entry_is_re_created(
    server: Metastore, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.impl == "hive2":
        return  # there is one catalog
    monkeypatch.chdir(tmp_path)
    old = (*place.namespace("one"), "users")
    new = (f"second_{place.suffix}", "one", "users")
    apply(place.manifest(tmp_path, {old: USERS}))
    location, before, stored = place.fill(old), place.seen(old), place.stored()
    entry = fetch(server.uri, old)
    entry.owner, entry.retention, entry.sd.parameters = "ml", 7, {"a": "b"}
    entry.sd.serdeInfo.parameters = {"c": "d"}
    entry.sd.cols = [FieldSchema("id", "bigint", "the key")]
    with raw(server.uri) as client:
        client.alter_table_with_environment_context(wire_name(old[:-1]), old[-1], entry, EnvironmentContext())
    plan = apply(place.manifest(tmp_path, {new: USERS}, (old, new)))
    assert ("/".join(new), Action.MOVE_TABLE) in actions(plan)
    [change] = [change for change in plan.changes if change.action is Action.MOVE_TABLE]
    assert change.reason.endswith("loses its grants and statistics")
    assert (place.raw(old), place.raw(new), place.seen(new)) == (None, location, before)
    assert place.stored() == stored
    moved = fetch(server.uri, new)
    assert (moved.owner, moved.retention, moved.sd) == ("ml", 7, entry.sd)
