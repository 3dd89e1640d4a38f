"""A year of edits on Hive 3.1, Glue and a directory, in two environments.

After each month the plan is empty, no data file is gone, and the rows of every table are reachable by its name.
``make soak`` replays twelve months of 306 tables an environment, ``make test`` three months of a few.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import reconciler
from reconciler.model.ownership import POLICY
from reconciler.model.reasons import NoteCode
from tests.servers.glue import glue_server
from tests.servers.hive import metastore
from tests.soak import count, sampled
from tests.year.fleet import ENVIRONMENTS, SPACES, Fleet, Name

CATALOGS = ("lake", "hms", "prod")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with ExitStack() as servers:
        for name in (*CATALOGS, "hive", "glue"):
            (tmp_path / name).mkdir()
        hive = servers.enter_context(metastore("3.1", tmp_path / "hive"))
        glue = servers.enter_context(glue_server(tmp_path / "glue"))
        roots = {name: str(tmp_path / name) for name in CATALOGS}
        catalogs = {
            "lake": ("dir", {"root": roots["lake"]}),
            "hms": ("hive3", {"uri": hive.uri, "root": roots["hms"]}),
            "prod": ("glue", glue.config(root=roots["prod"])),
        }
        yield Fleet(tmp_path, catalogs, {"lake": (), "hms": ("hive",), "prod": ()})


# ---- the months ------------------------------------------------------------------------------------------------------


def start(fleet: Fleet) -> None:
    """Create every table from one schema."""
    for catalog in CATALOGS:
        for space in SPACES:
            for number in range(count(2, 34)):
                table = f"{'raw' if number % 3 else 'daily'}_{space}_{number:02}"
                block = fleet.blocks[catalog, space, table] = {"schema": "events"}
                # A directory has a hash in its default locations, which differs between environments.
                if catalog == "lake" and not table.startswith("daily_ads"):
                    block["location"] = str(fleet.folder / "lake" / "${var:env}" / f"{table}.lance")
    fleet.rows = {(environment, name): 0 for environment in ENVIRONMENTS for name in fleet.blocks}
    fleet.apply()
    fleet.write(2)


def give_an_owner(fleet: Fleet) -> None:
    """Set properties of every table in one line."""
    fleet.defaults["properties"] = {"owner": "platform", "tier": "bronze"}
    fleet.apply()
    fleet.write(1)


def add_a_column(fleet: Fleet) -> None:
    """Edit the one schema of all tables."""
    fleet.columns.append({"name": "country", "type": "string"})
    fleet.apply()
    fleet.write(1)


def rename_tables(fleet: Fleet) -> None:
    """Rename many tables in one line, whose columns change at the same time."""
    fleet.columns.append({"name": "device", "type": "string"})
    fleet.moved = [("${var:env}_ads/raw_*", "${var:env}_ads/clean_*")]
    ads = [name for name in fleet.blocks if name[1] == "ads" and name[2].startswith("raw_")]
    _rename(fleet, {name: (*name[:2], name[2].replace("raw_", "clean_")) for name in ads})
    fleet.write(1)


def rename_a_namespace(fleet: Fleet) -> None:
    """Rename a namespace with all of its tables."""
    fleet.moved = [("${var:env}_web", "${var:env}_site")]
    _rename(fleet, {name: (name[0], "site", name[2]) for name in fleet.blocks if name[1] == "web"})


def remove_and_revert(fleet: Fleet) -> None:
    """Remove a fifth of the tables, and revert the commit."""
    fleet.moved = []
    before, rows = dict(fleet.blocks), dict(fleet.rows)
    gone = [*before][::5]
    fleet.blocks = {name: block for name, block in before.items() if name not in gone}
    fleet.rows = {key: number for key, number in rows.items() if key[1] not in gone}
    fleet.apply()
    fleet.check()
    fleet.blocks, fleet.rows = before, rows
    fleet.apply()


def protect(fleet: Fleet) -> None:
    """Protect some tables, and change a property of all."""
    for name in [*fleet.blocks][::7]:
        fleet.blocks[name]["protect"] = True
    fleet.defaults["properties"] = {"owner": "data"}
    fleet.apply()


def merge_namespaces(fleet: Fleet) -> None:
    """Move all tables of one namespace into another one, after their protection is lifted."""
    for block in fleet.blocks.values():
        if "protect" in block:
            block["protect"] = False
    fleet.apply()
    fleet.moved = [("${var:env}_eu/*", "${var:env}_ads/*")]
    _rename(fleet, {name: (name[0], "ads", name[2]) for name in fleet.blocks if name[1] == "eu"})


def take_on_what_jobs_make(fleet: Fleet) -> None:
    """Set properties of tables that no block names."""
    fleet.moved = []
    for name in _JOBS:
        fleet.make_without_block(name)
    fleet.policies = [
        {"match": "${var:env}_*/job_*", "properties": {"owner": "jobs", "tier": "bronze"}},
        {"match": "${var:env}_ads/**", "properties": {"owner": "ads"}},
    ]
    fleet.apply()
    for name in _JOBS:
        found = fleet.properties("prod", name)
        assert (found["owner"], found["tier"]) == ("ads", "bronze")


def relocate(fleet: Fleet) -> None:
    """Copy some tables to another place, and name it."""
    for name in [*fleet.blocks][::20]:
        places = fleet.locations(name)
        for environment, place in places.items():
            new = fleet.folder / name[0] / "moved" / f"{environment}_{name[2]}.lance"
            shutil.copytree(place, new)
        fleet.blocks[name]["location"] = str(fleet.folder / name[0] / "moved" / f"${{var:env}}_{name[2]}.lance")
    fleet.apply()


def restore_what_was_dropped(fleet: Fleet) -> None:
    """Have another tool drop some entries, and apply."""
    for name in [*fleet.blocks][::9]:
        fleet.drop(name)
    fleet.apply()


def write_blocks_for_jobs(fleet: Fleet) -> None:
    """Write a block for each table of a job, and take the policies out."""
    fleet.blocks |= {name: {} for name in _JOBS}
    fleet.policies = []
    fleet.apply()
    for name in _JOBS:
        assert not {"tier", POLICY} & fleet.properties("dev", name).keys()


_JOBS: list[Name] = [(catalog, "ads", f"job_{number}") for catalog in CATALOGS for number in range(count(1, 10))]


def _rename(fleet: Fleet, names: dict[Name, Name]) -> None:
    """Rename tables, and write where their data stays into their blocks, as the plan's note says."""
    fleet.rename(names)
    fleet.apply()
    for name in names.values():
        fleet.blocks[name].setdefault("location", fleet.locations(name)["dev"].replace("dev_", "${var:env}_"))
    notes = {note.code for environment in ENVIRONMENTS for note in reconciler.plan(fleet.manifest(environment)).notes}
    assert NoteCode.KEEP_LOCATION not in notes


MONTHS: list[Callable[[Fleet], None]] = [
    *(start, give_an_owner, add_a_column, rename_tables, rename_a_namespace, remove_and_revert),
    *(protect, merge_namespaces, take_on_what_jobs_make, relocate, restore_what_was_dropped, write_blocks_for_jobs),
]


@pytest.mark.soak
def test_a_year_of_edits_forgets_no_data(fleet: Fleet) -> None:
    for month in sampled(MONTHS, 4):
        month(fleet)
        fleet.check()
