"""Entries that show columns: they follow the data where lancens manages the table, the same on Hive and on Glue.

A folder joins with a module that holds ``class TestShown(Shown)`` and a fixture ``showing``. Entries are planted and
read past lancens, and so is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.applier.report import ApplyReport, Status
from reconciler.backends.base import Backend
from reconciler.model.names import Identifier
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.catalogs.dying import Death, dying, writes_of
from tests.catalogs.end_to_end import actions, carried_out, planned
from tests.catalogs.hive.files import digests
from tests.cli.running import lancens
from tests.soak import count
from tests.writing import blocks_of, write_manifest

__all__ = ["Field", "Showing", "Shown"]

Field = tuple[str, str, str | None]
"""What an entry shows of a column: name, type and comment."""

ROWS = 1000
_SCHEMA = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
_SHOWN: Sequence[Field] = [("id", "bigint", "the key"), ("name", "string", None)]


@dataclass(frozen=True)
class Showing:
    """A catalog whose entries show columns.

    ``plant`` makes the entry of a Lance table at a location, showing columns; ``shown`` is what the server says that
    an entry shows. ``namespace`` is there.
    """

    impl: str
    config: Mapping[str, str]
    connect: Callable[[], Backend]
    plant: Callable[[Identifier, str, Sequence[Field]], None]
    shown: Callable[[Identifier], list[Field]]
    namespace: Identifier
    folder: Path
    block: dict[str, Any] = field(default_factory=lambda: {"schema": [*_SCHEMA]})

    @property
    def data(self) -> str:
        return str(self.folder / "users.lance")

    @property
    def table(self) -> Identifier:
        return (*self.namespace, "users")

    def manifest(self, name: str = "users", **more: Any) -> Path:
        """Write a manifest that wants the table under ``name``, with ``more`` in its catalog's block."""
        blocks = blocks_of({(*self.namespace, name): {"location": self.data, **self.block}})
        catalog = {"impl": self.impl, "config": {**self.config}, **blocks, **more}
        return write_manifest(self.folder, {"prod": catalog})

    def managed(self, shown: Sequence[Field] = _SHOWN) -> Path:
        """Plant the table with its data, and have it managed."""
        numbers = range(ROWS)
        lance.write_dataset(pa.table({"id": numbers, "name": [f"n{number}" for number in numbers]}), self.data)
        self.plant(self.table, self.data, shown)
        manifest = self.manifest()
        carried_out(reconciler.plan(reconciler.load(manifest), adopt=True), manifest)
        return manifest


def _followed(manifest: Path) -> Plan:
    """Apply what is planned for the table, and the same plan again: then there is nothing left to do."""
    made = planned(manifest)
    carried_out(made, manifest)
    saved = Plan.from_json(made.to_json())
    assert {result.status for result in reconciler.apply(saved, reconciler.load(manifest)).results} == {Status.ALREADY}
    return made


class Shown:
    """The suite."""

    def test_a_column_that_a_writer_added_is_shown(self, showing: Showing, capsys: pytest.CaptureFixture[str]) -> None:
        manifest = showing.managed()
        assert showing.shown(showing.table) == _SHOWN
        lance.dataset(showing.data).add_columns(pa.schema([pa.field("vec", pa.list_(pa.float32(), 4))]))
        made = planned(manifest)
        assert actions(made) == [("/".join(showing.table), Action.UPDATE_TABLE)]
        assert made.changes[0].code is ReasonCode.SHOWN_COLUMNS
        text = lancens(capsys, "plan", str(manifest)).out
        assert "shown-columns.vec: array<float>" in text
        version = lance.dataset(showing.data).version
        _followed(manifest)
        assert showing.shown(showing.table) == [*_SHOWN, ("vec", "array<float>", None)]
        assert (lance.dataset(showing.data).version, lance.dataset(showing.data).count_rows()) == (version, ROWS)

    def test_columns_that_the_manifest_adds_are_shown_by_the_change_that_adds_them(self, showing: Showing) -> None:
        showing.managed()
        showing.block.update({"evolve": "additive", "schema": [*_SCHEMA, {"name": "age", "type": "uint16"}]})
        made = _followed(showing.manifest())
        assert actions(made) == [("/".join(showing.table), Action.ALTER_TABLE)]
        assert showing.shown(showing.table) == [*_SHOWN, ("age", "int", None)]
        assert lance.dataset(showing.data).count_rows("age IS NULL") == ROWS

    def test_renamed_columns_and_comments_are_shown_and_no_data_is_written(self, showing: Showing) -> None:
        showing.managed()
        lance.dataset(showing.data).create_scalar_index("id", "BTREE")
        before = digests(Path(showing.data) / "data")
        key = {"name": "user_id", "type": "int64", "renamed_from": "id"}
        for comment in ("how to call", "two\nlines " + "and more" * 50):
            name = {"name": "name", "type": "string", "comment": comment}
            showing.block.update({"evolve": "additive", "schema": [key, name]})
            made = _followed(showing.manifest())
            assert actions(made) == [("/".join(showing.table), Action.ALTER_TABLE)]
            line = " ".join(comment.split())[:255]
            assert showing.shown(showing.table) == [("user_id", "bigint", "the key"), ("name", "string", line)]
        dataset = lance.dataset(showing.data)
        assert dataset.schema.field("name").metadata == {b"comment": comment.encode()}
        assert digests(Path(showing.data) / "data") == before
        assert "ScalarIndexQuery" in dataset.scanner(filter="user_id = 7").explain_plan()

    def test_a_comment_that_a_writer_set_is_shown(self, showing: Showing) -> None:
        manifest = showing.managed()
        lance.dataset(showing.data).update_field_metadata({"name": {"comment": "how to call"}})
        assert actions(_followed(manifest)) == [("/".join(showing.table), Action.UPDATE_TABLE)]
        assert showing.shown(showing.table) == [("id", "bigint", "the key"), ("name", "string", "how to call")]

    @pytest.mark.parametrize(
        "stale",
        [
            [("id", "bigint", "the key"), ("tags", "array<string>", "old"), ("name", "int", "how to call")],
            [("name", "map<string,int>", "how to call"), ("id", "bigint", "the key")],
            [("id", "string", "the key"), ("name", "string", "how to call"), ("old", "array<int>", None)],
        ],
    )
    def test_columns_that_were_dropped_or_changed_are_shown_as_they_are(
        self, showing: Showing, stale: Sequence[Field]
    ) -> None:
        showing.managed(stale)
        assert showing.shown(showing.table) == [("id", "bigint", "the key"), ("name", "string", "how to call")]

    def test_an_entry_that_nobody_manages_is_left_alone(self, showing: Showing) -> None:
        lance.write_dataset(pa.table({"id": [1], "name": ["a"]}), showing.data)
        stale: Sequence[Field] = [("id", "bigint", "the key"), ("old", "string", None)]
        showing.plant(showing.table, showing.data, stale)
        showing.plant((*showing.namespace, "others"), showing.data, stale)
        made = planned(showing.manifest())
        assert made.is_empty
        assert any("equals its block but is not marked" in note.message for note in made.notes)
        carried_out(made, showing.manifest())
        assert showing.shown(showing.table) == showing.shown((*showing.namespace, "others")) == stale

    def test_an_entry_that_shows_no_columns_keeps_showing_none(self, showing: Showing) -> None:
        manifest = showing.managed([])
        lance.dataset(showing.data).add_columns({"score": "1.5"})
        assert planned(manifest).is_empty
        assert showing.shown(showing.table) == []

    def test_a_move_takes_the_columns_along(self, showing: Showing) -> None:
        showing.managed()
        lance.dataset(showing.data).add_columns({"score": "1.5"})
        path = "/".join(showing.namespace)
        manifest = showing.manifest("people", moved=[{"from": f"{path}/users", "to": f"{path}/people"}])
        assert actions(_followed(manifest)) == [(f"{path}/people", Action.MOVE_TABLE)]
        found = showing.shown((*showing.namespace, "people"))
        assert [column[:2] for column in found] == [("id", "bigint"), ("name", "string"), ("score", "double")]

    def test_cut_off_anywhere_data_and_entry_converge(self, showing: Showing) -> None:
        showing.managed()
        step = count(2, 1)  # after each call that writes; in full, before it as well
        for turn, cut in enumerate(range(step - 1, 20, step)):
            columns = [{"name": f"age{number}", "type": "int32"} for number in range(turn + 1)]
            comment, was = f"cut {cut}", f"name{turn - 1}" if turn else "name"
            name = {"name": f"name{turn}", "type": "string", "comment": comment, "renamed_from": was}
            schema = [_SCHEMA[0], name, *columns]
            showing.block.update({"evolve": "additive", "schema": schema, "tags": {"prod": turn + 1}})
            manifest = showing.manifest()
            plan = planned(manifest)
            with dying(writes_of(type(showing.connect())), cut) as death, suppress(Death):
                reconciler.apply(plan, reconciler.load(manifest))
            assert lance.dataset(showing.data).count_rows() == ROWS
            assert showing.shown(showing.table)[:1] == _SHOWN[:1]
            again = Plan.from_json(plan.to_json()) if cut % 4 < 2 else planned(manifest)
            assert _applied(again, manifest).ok
            assert planned(manifest).is_empty
            added = [(column["name"], "int", None) for column in columns]
            assert showing.shown(showing.table) == [_SHOWN[0], (f"name{turn}", "string", comment), *added]
            tags = lance.dataset(showing.data).tags.list()
            assert {name: tag["version"] for name, tag in tags.items()} == {"prod": turn + 1}
            if not death.happened:
                break
        assert cut > 3

    def test_what_changed_since_the_plan_is_not_written(self, showing: Showing) -> None:
        manifest = showing.managed()
        lance.dataset(showing.data).add_columns({"score": "1.5"})
        saved = planned(manifest)
        lance.dataset(showing.data).add_columns({"late": "true"})
        [result] = _applied(saved, manifest).results
        assert result.status is Status.FAILED
        assert "to be shown in the entry: `late`" in result.message
        assert showing.shown(showing.table) == _SHOWN
        _followed(manifest)
        saved = planned(manifest)
        assert [name for name, _, _ in showing.shown(showing.table)] == ["id", "name", "score", "late"]


def _applied(plan: Plan, manifest: Path) -> ApplyReport:
    return reconciler.apply(plan, reconciler.load(manifest))
