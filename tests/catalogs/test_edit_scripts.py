"""Random edits of random manifests, one after the other: each is planned and applied, and then there is nothing to do.

Tables are added, renamed with their namespaces or without, given columns and properties, protected and taken out, share
their columns by name, rows and columns are written to them between, and the manifest is split over files. What is
protected stays, every row stays, and no data file is touched but by a change that names columns. A table whose writer's
columns are a conflict is blocked, and nothing else is, until somebody settles it.
"""

from __future__ import annotations

import json
import random
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.memory import MemoryBackend
from reconciler.model import locations
from reconciler.model.names import Identifier
from reconciler.planner.entries import Action
from tests.catalogs.conftest import StartOnce
from tests.catalogs.end_to_end import planned
from tests.catalogs.hive.files import digests
from tests.soak import count, seeded
from tests.writing import blocks_of, write_manifest

SCRIPTS = 1000
ON_A_SERVER = 50
EDITS = 8

_WITH_COLUMNS = (Action.CREATE_TABLE, Action.ALTER_TABLE, Action.MOVE_TABLE)


@dataclass
class Table:
    """A table as the script knows it: where it is and how many rows it has, beside what its block says.

    ``extra`` are the columns that a writer added, and ``schema`` is the name under which others have the same.
    """

    columns: list[dict[str, Any]]
    properties: dict[str, str] = field(default_factory=dict)
    protected: bool = False
    location: str = ""
    rows: int = 0
    conflict: bool = False
    extra: list[str] = field(default_factory=list)
    schema: str = ""


@dataclass
class Script:
    """A manifest that is edited, and what has to be in the catalog, where its names are its own."""

    folder: Path
    impl: str
    config: Mapping[str, str]
    connect: Callable[[], Backend]
    chance: random.Random
    name: str = field(default_factory=lambda: f"s{uuid.uuid4().hex[:8]}")
    tables: dict[Identifier, Table] = field(default_factory=dict)
    kept: dict[Identifier, Table] = field(default_factory=dict)
    lines: list[tuple[Identifier, Identifier]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    # ---- edits ---------------------------------------------------------------------------------------------------

    def add(self) -> None:
        """A table, now and then under a name that another one had."""
        name = self._free(self._namespace())
        optional = [{"name": f"c{number}", "type": "int32"} for number in range(self.chance.randrange(3))]
        self.tables[name] = Table([{"name": "id", "type": "int64", "nullable": False}, *optional])
        self._forget(lambda origin, _: name[: len(origin)] == origin)

    def rename(self) -> None:
        old = self._one()
        self._move(old, self._free(self._namespace()), {old})

    def rename_namespace(self) -> None:
        old = self._one()[:-1]
        new = (f"{self.name}_{next(self.numbers)}",)
        self._move(old, new, {one for one in self.tables if one[: len(old)] == old})

    def _move(self, old: Identifier, new: Identifier, moving: set[Identifier]) -> None:
        if any(self.tables[one].protected for one in moving) or any(one[: len(old)] == old for one in self.kept):
            return
        self._forget(lambda origin, to: to[: len(old)] == old or old[: len(to)] == to or origin == new)
        for one in moving:
            self.tables[(*new, *one[len(old) :])] = self.tables.pop(one)
        self.lines.append((old, new))

    def give_columns(self) -> None:
        table = self.tables[self._one()]
        self._set_columns(table, [*table.columns, {"name": f"a{next(self.numbers)}", "type": "string"}])

    def relax(self) -> None:
        table = self.tables[self._one()]
        self._set_columns(table, [{**column, "nullable": True} for column in table.columns])

    def _set_columns(self, table: Table, columns: list[dict[str, Any]]) -> None:
        for one in self.tables.values():
            if one is table or (table.schema and one.schema == table.schema):
                one.columns = columns

    def share(self) -> None:
        """A table whose columns have a name, and another one made with the same; or one that has its own again."""
        table = self.tables[self._one()]
        if table.schema and self.chance.random() < 0.4:
            table.schema = ""
            return
        table.schema = table.schema or f"columns{next(self.numbers)}"
        self.add()
        made = self.tables[next(reversed(self.tables))]
        made.columns, made.schema = table.columns, table.schema

    def add_by_a_writer(self) -> None:
        """A writer adds a column, past lancens."""
        table = self.tables[self._one()]
        if table.location:
            name = f"w{next(self.numbers)}"
            lance.dataset(table.location).add_columns(pa.schema([pa.field(name, pa.float64())]))
            table.extra.append(name)

    def mind(self) -> None:
        """The columns of a writer are a conflict, or are not any more."""
        table = self.tables[self._one()]
        table.conflict = not table.conflict

    def clash(self) -> None:
        """A writer adds a column to a table whose columns have to be the manifest's: no script ends without that."""
        self.add()
        self.settle("add")
        table = self.tables[next(reversed(self.tables))]
        extra = f"w{next(self.numbers)}"
        lance.dataset(table.location).add_columns(pa.schema([pa.field(extra, pa.float64())]))
        table.extra.append(extra)
        table.conflict = True

    def settle_conflict(self, table: Table) -> None:
        """A person does one of the three things that a plan names."""
        chosen = self.chance.choice(["block", "data", "keep"])
        if chosen == "block":
            taken = [{"name": name, "type": "float64"} for name in table.extra]
            self._set_columns(table, [*table.columns, *taken])
            table.extra = []
        elif chosen == "data":
            lance.dataset(table.location).drop_columns(table.extra)
            table.extra = []
        else:
            table.conflict = False
        self.done.append(chosen)

    def change_properties(self) -> None:
        self.tables[self._one()].properties = {
            key: str(next(self.numbers)) for key in "abc" if self.chance.random() < 0.5
        }

    def protect(self) -> None:
        table = self.tables[self._one()]
        table.protected = not table.protected

    def take_out(self) -> None:
        name = self._one()
        table = self.tables.pop(name)
        self._forget(lambda _, to: to == name or not any(one[: len(to)] == to for one in self.tables))
        if table.protected:
            self.kept[name] = table
            table.schema = ""

    def write_rows(self) -> None:
        """Somebody writes, past lancens."""
        table = self.tables[self._one()]
        schema = lance.dataset(table.location).schema if table.location else None
        if schema is not None:
            number = self.chance.randrange(1, 20)
            arrays = [
                pa.array([str(n) if pa.types.is_string(f.type) else n for n in range(number)], f.type) for f in schema
            ]
            lance.write_dataset(pa.Table.from_arrays(arrays, schema=schema), table.location, mode="append")
            table.rows += number

    def _namespace(self) -> Identifier:
        known = sorted({one[:-1] for one in self.tables})
        return (
            self.chance.choice(known)
            if known and self.chance.random() < 0.7
            else (f"{self.name}_{next(self.numbers)}",)
        )

    def _free(self, namespace: Identifier) -> Identifier:
        return (*namespace, f"t{next(self.numbers)}")

    def _one(self) -> Identifier:
        return self.chance.choice(sorted(self.tables))

    def _forget(self, which: Callable[[Identifier, Identifier], bool]) -> None:
        self.lines = [line for line in self.lines if not which(*line)]

    # ---- the manifest --------------------------------------------------------------------------------------------

    def write(self) -> Path:
        """Write the manifest, over one file or several, each with some of the tables and lines."""
        parts: list[tuple[dict[Identifier, Any], list[tuple[Identifier, Identifier]]]] = [
            ({}, []) for _ in range(self.chance.choice([1, 1, 2, 3]))
        ]
        for name, table in self.tables.items():
            block: dict[str, Any] = {"evolve": "additive", "properties": table.properties, "protect": table.protected}
            extra = {"extra_columns": "conflict"} if table.conflict else {}
            self.chance.choice(parts)[0][name] = {**block, **extra, "schema": table.schema or table.columns}
        for line in self.lines:
            self.chance.choice(parts)[1].append(line)
        paths = [self.folder / f"part{number}.yaml" for number in range(len(parts))]
        for path, (tables, lines) in zip(paths, parts, strict=True):
            tree = blocks_of(tables)
            if lines:
                tree["moved"] = [{"from": "/".join(origin), "to": "/".join(to)} for origin, to in lines]
            path.write_text(json.dumps({"catalogs": {"lake": tree}}))
        lake = {"impl": self.impl, "config": dict(self.config)}
        schemas = {table.schema: table.columns for table in self.tables.values() if table.schema}
        include = [path.name for path in paths]
        return write_manifest(self.folder, {"lake": lake}, name=self.name, include=include, schemas=schemas)

    # ---- what has to be so ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Make one edit after the other."""
        every = (
            self.add,
            self.rename,
            self.rename,
            self.rename_namespace,
            self.give_columns,
            self.relax,
            self.change_properties,
            self.protect,
            self.take_out,
            self.write_rows,
            self.share,
            self.add_by_a_writer,
            self.mind,
        )
        for _ in range(3):
            self.add()
        self.settle("begin")
        for _ in range(EDITS):
            edit = self.chance.choice(every) if self.tables else self.add
            edit()
            self.settle(edit.__name__)
        self.clash()
        self.settle("clash")

    def settle(self, what: str) -> None:
        """Plan, apply, and see that everything is where and what it has to be, and that nothing is left to do."""
        self.done.append(what)
        manifest = self.write()
        plan = planned(manifest, allow_mass_removal=True)
        held = {name: table for name, table in self.tables.items() if table.conflict and table.extra}
        assert {one.identifier for one in plan.blocked} == held.keys(), (self.done, plan.blocked)
        if held:
            for table in held.values():
                self.settle_conflict(table)
            manifest = self.write()
            plan = planned(manifest, allow_mass_removal=True)
        data = self._data()
        assert not plan.blocked, (self.done, plan.blocked)
        report = reconciler.apply(
            plan, reconciler.load(manifest), allow_mass_removal=True, journal=self.folder / "runs"
        )
        assert report.ok, (self.done, report)
        again = planned(manifest, allow_mass_removal=True)
        assert again.is_empty, (self.done, again.changes)
        assert {guard.identifier for guard in again.guards if guard.kind == "table"} == self.kept.keys(), self.done
        backend = self.connect()
        live = {one: table for one, table in backend.scan().tables.items() if one[0].startswith(self.name)}
        assert live.keys() == self.tables.keys() | self.kept.keys(), self.done
        for name, table in {**self.tables, **self.kept}.items():
            location = live[name].location.removeprefix("file:")
            assert locations.same(location, table.location or location), (self.done, name)
            table.location = location
            dataset = lance.dataset(location)
            wanted = {column["name"]: column.get("nullable", True) for column in table.columns}
            wanted |= dict.fromkeys(table.extra, True)
            assert {found.name: found.nullable for found in dataset.schema} == wanted, (self.done, name)
            assert dataset.count_rows() == table.rows, (self.done, name)
        places = {
            change.after.location
            for change in plan.changes
            if change.action in _WITH_COLUMNS and change.after and change.after.columns and change.after.location
        }
        self._expect_untouched(data, [place.removeprefix("file://").removeprefix("file:") for place in places])

    def _data(self) -> Mapping[str, str]:
        root = Path(self.config["root"])
        return {str(root / name): digest for name, digest in digests(root).items() if "/data/" in name}

    def _expect_untouched(self, before: Mapping[str, str], places: list[str]) -> None:
        after = self._data()
        assert before.items() <= after.items(), (self.done, "a data file was changed or deleted")
        new = [name for name in after.keys() - before.keys() if not any(name.startswith(place) for place in places)]
        assert new == [], (self.done, new)


@pytest.mark.soak
def test_every_edit_in_memory_converges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = seeded("edit scripts in memory")
    for number in range(count(6, SCRIPTS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        config = {"name": uuid.uuid4().hex, "root": str(folder / "lake")}
        Script(folder, "memory", config, partial(MemoryBackend, **config), random.Random(chance.random())).run()
        shutil.rmtree(folder)


@pytest.mark.soak
def test_every_edit_on_a_metastore_converges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_once: StartOnce
) -> None:
    chance = seeded("edit scripts on a metastore")
    for number in range(count(1, ON_A_SERVER)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        config = {"uri": start_once("hive2"), "root": str(folder / "lake")}
        Script(
            folder, "hive2", config, partial(registry.connect, "hive2", config), random.Random(chance.random())
        ).run()
