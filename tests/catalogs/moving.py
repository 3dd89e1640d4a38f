"""Tables that get another name, the same on every catalog: rows, versions and files stay, and so does the name.

A folder joins with a module that holds ``class TestMoves(Moves)`` and a fixture ``place``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.base import Backend
from reconciler.model import locations
from reconciler.model.live import PropertyChanges
from reconciler.model.names import Identifier
from reconciler.model.ownership import MANAGED_BY
from reconciler.planner.entries import Action
from tests.catalogs.end_to_end import actions, apply, carried_out, files, opened, planned
from tests.soak import count
from tests.writing import blocks_of, write_manifest

__all__ = ["Moves", "Place"]


@dataclass(frozen=True)
class Place:
    """A catalog in which tables can be moved.

    ``raw`` is where the server itself says that a table is, past lancens; None where it has none. ``above`` is there
    already. ``data`` is the folder of everything, where that is on this machine. ``loses`` is what a plan says that a
    move loses, empty where it is in place. ``place_of`` is where a new table goes on a catalog with no default for it.
    A change is cut off after each call that writes, and with a ``step`` of 1 before it as well.
    """

    impl: str
    config: Mapping[str, str]
    connect: Callable[[], Backend]
    raw: Callable[[Identifier], str | None]
    above: Identifier = ()
    data: Path | None = None
    loses: str = ""
    place_of: Callable[[Identifier], str] = lambda _: ""
    step: int = count(2, 1)
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def namespace(self, name: str) -> Identifier:
        """Return a namespace of this test's own."""
        return (*self.above, f"{name}_{self.suffix}")

    def manifest(self, folder: Path, tables: Mapping[Identifier, str], *moved: tuple[Identifier, Identifier]) -> Path:
        """Write a manifest that wants ``tables``, with the text of each block."""
        there = self.connect().scan().tables if self.place_of(self.above) else {}
        taken = [to for _, to in moved]
        new = {
            one
            for one in (tables if self.place_of(self.above) else ())
            if one not in there and not any(one[: len(to)] == to for to in taken)
        }
        placed = {one: {"location": self.place_of(one)} if one in new else {} for one in tables}
        lake = {
            "impl": self.impl,
            "config": dict(self.config),
            "moved": [{"from": "/".join(origin), "to": "/".join(to)} for origin, to in moved],
            **blocks_of({one: {**json.loads(block), **placed[one]} for one, block in tables.items()}),
        }
        return write_manifest(folder, {"lake": lake})

    def fill(self, table: Identifier, rows: int = 1000, *, nullable: bool = True) -> str:
        """Give a table of one column rows in two versions more, and a tag; return where it is."""
        schema = pa.schema([pa.field("id", pa.int64(), nullable=nullable)])
        backend = self.connect()
        location, options = backend.load_table(table).location, backend.storage_options()
        uri = location.removeprefix("file://")
        for start in (0, rows // 2):
            ids = pa.table({"id": range(start, start + rows // 2)}, schema=schema)
            lance.write_dataset(ids, uri, mode="append", storage_options=options or None)
        lance.dataset(uri, storage_options=options or None).tags.create("kept", 2)
        return location

    def stored(self) -> Mapping[str, str]:
        """Return a digest of every file of every dataset; those of the catalog itself are not among them."""
        return {name: digest for name, digest in files(self.data).items() if not name.startswith("__manifest/")}

    def seen(self, table: Identifier) -> tuple[int, int, list[int], object]:
        """Return what pylance shows of a table under its name: rows, their sum, versions and tags."""
        dataset = opened(self.connect(), "/".join(table))
        ids = dataset.to_table()["id"].to_pylist()
        return len(ids), sum(ids), [version["version"] for version in dataset.versions()], sorted(dataset.tags.list())


USERS = '{"schema": [{"name": "id", "type": "int64"}], "properties": {"tier": "gold", "team": "ml"}}'
CHANGED = '{"schema": [{"name": "id", "type": "int64"}], "properties": {"tier": "silver"}}'


class _InOwnFolder:
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)


class Moves(_InOwnFolder):
    """Through the public interface; every apply is followed by a plan that is empty."""

    def test_a_table_keeps_its_rows_and_versions_under_another_name(self, place: Place, tmp_path: Path) -> None:
        one, other = place.namespace("one"), place.namespace("other")
        old, new, last = (*one, "users"), (*one, "customers"), (*other, "people")
        apply(place.manifest(tmp_path, {old: USERS}))
        location, before, stored = place.fill(old), place.seen(old), place.stored()
        assert before[:2] == (1000, 499_500)
        backend = place.connect()
        keeps = backend.capabilities().alter_table
        if keeps:
            backend.alter_table(old, PropertyChanges({"engine-key": "precious"}))

        manifest = place.manifest(tmp_path, {new: CHANGED}, (old, new))
        plan = planned(manifest)
        assert actions(plan) == [("/".join(new), Action.MOVE_TABLE)]
        assert plan.changes[0].reason.partition(", which loses ")[2] == place.loses
        carried_out(plan, manifest)
        assert place.raw(old) is None
        assert locations.same(place.raw(new), location)
        assert place.seen(new) == before
        shown = place.connect().load_table(new).properties
        assert (shown["tier"], shown.get("team"), shown[MANAGED_BY]) == ("silver", None, "store/lake")
        assert shown.get("engine-key") == ("precious" if keeps else None)

        plan = apply(place.manifest(tmp_path, {last: CHANGED}, (new, last)))
        assert actions(plan) == [
            ("/".join(other), Action.CREATE_NAMESPACE),
            ("/".join(last), Action.MOVE_TABLE),
            ("/".join(one), Action.DROP_NAMESPACE),
        ]
        assert (place.raw(new), place.seen(last)) == (None, before)
        assert place.stored() == stored
        apply(place.manifest(tmp_path, {last: CHANGED}))

    def test_a_namespace_keeps_its_tables_under_another_name(self, place: Place, tmp_path: Path) -> None:
        one, other = place.namespace("staging"), place.namespace("landing")
        tables = {(*one, "users"): USERS, (*one, "events"): USERS}
        apply(place.manifest(tmp_path, tables))
        before = {name: (place.fill((*one, name)), place.seen((*one, name))) for name in ("users", "events")}
        wanted = {(*other, name): USERS for name in before}
        backend = place.connect()
        keeps = backend.capabilities().alter_namespace
        if keeps:
            backend.alter_namespace(one, PropertyChanges({"team-notes": "ask the others"}))
        plan = apply(place.manifest(tmp_path, wanted, (one, other)))
        properties = backend.load_namespace(other).properties
        assert properties.get("team-notes") == ("ask the others" if keeps else None)
        assert properties[MANAGED_BY] == "store/lake"
        assert [action for _, action in actions(plan)] == [
            Action.CREATE_NAMESPACE,
            Action.MOVE_TABLE,
            Action.MOVE_TABLE,
            Action.DROP_NAMESPACE,
        ]
        for name, (location, seen) in before.items():
            assert place.raw((*one, name)) is None
            assert locations.same(place.raw((*other, name)), location)
            assert place.seen((*other, name)) == seen
        assert one not in place.connect().scan().namespaces

    def test_a_table_whose_entry_is_lost_after_its_move_is_not_made_new(self, place: Place, tmp_path: Path) -> None:
        if place.connect().capabilities().chooses_locations:
            return  # nothing says where the data of a name was
        rooted = replace(place, config={"root": str(place.data), **place.config}, place_of=lambda _: "")
        one = place.namespace("one")
        old, new = (*one, "users"), (*one, "customers")
        apply(rooted.manifest(tmp_path, {old: USERS}))
        location, before = place.fill(old), place.seen(old)
        manifest = rooted.manifest(tmp_path, {new: USERS}, (old, new))
        apply(manifest)
        place.connect().remove_table(new)

        plan = planned(manifest)
        assert (actions(plan), [one.identifier for one in plan.blocked]) == ([], [new])
        assert "`location: " in plan.blocked[0].remedy
        found = plan.blocked[0].unreferenced or ""
        assert locations.same(found, location) or found.startswith("./lake/")
        block = json.dumps({**json.loads(USERS), "location": location})
        plan = apply(rooted.manifest(tmp_path, {new: block}, (old, new)))
        assert actions(plan) == [("/".join(new), Action.REGISTER_TABLE)]
        assert place.seen(new) == before
