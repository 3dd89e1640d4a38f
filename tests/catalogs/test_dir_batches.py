"""Batches of changes to a directory, and everybody else: no change is lost, none is made of what has moved.

What others do while a batch is under way is done by pylance's own namespace and by other connections.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import DeregisterTableRequest

import reconciler
from reconciler.applier.report import ApplyReport
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.manifest import DirManifest
from reconciler.model.live import PropertyChanges
from tests.writing import write_manifest

InBetween = Callable[..., None]
NAMES = [f"t{number:02}" for number in range(40)]


class Lake:
    """A folder with a manifest and the directory catalog beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "lake"
        self.root.mkdir()

    def write(self, blocks: Mapping[str, Any], *, tier: str = "gold", namespace: str = "a", **more: Any) -> None:
        claim = {"properties": {"tier": tier}, "tables": dict(blocks)}
        catalog = {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {namespace: claim}, **more}
        write_manifest(self.folder, {"lake": catalog})

    def apply(self) -> ApplyReport:
        loaded = reconciler.load(self.folder / "lancens.yaml")
        plan = reconciler.plan(loaded, allow_mass_removal=True)
        return reconciler.apply(plan, loaded, journal=self.folder / "journal", allow_mass_removal=True)

    def somebody(self) -> DirBackend:
        """Return another connection, which waits for none of this process."""
        backend = DirBackend(root=str(self.root))
        backend._manifest._lock = threading.Lock()
        return backend

    def tiers(self, namespace: str = "a") -> dict[str, str | None]:
        tables = self.somebody().scan().tables
        return {name: table.properties.get("tier") for (above, name), table in tables.items() if above == namespace}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.write({name: {"properties": {"tier": "bronze"}} for name in NAMES})
    assert made.apply().ok
    return made


@pytest.fixture
def in_between(monkeypatch: pytest.MonkeyPatch) -> InBetween:
    """Have something done once so many changes were read and wait, right before the commit that they share."""
    gathered, commit = DirManifest.gather_changes, DirManifest.commit

    def have(done: Callable[[], object], waiting: int = 1) -> None:
        def gather(manifest: DirManifest) -> Any:
            monkeypatch.setattr(DirManifest, "gather_changes", gathered)
            while len(manifest._waiting) < waiting:
                threading.Event().wait(0.001)
            return gathered(manifest)

        def do_and_commit(manifest: DirManifest, *arguments: Any) -> bool:
            monkeypatch.setattr(DirManifest, "commit", commit)
            done()
            return commit(manifest, *arguments)

        monkeypatch.setattr(DirManifest, "gather_changes", gather)
        monkeypatch.setattr(DirManifest, "commit", do_and_commit)

    return have


TIER_MOVED = "stale: properties.tier planned on bronze, now theirs"


def failures(report: ApplyReport) -> dict[str, str]:
    return {result.change.identifier[-1]: result.message for result in report.results if not result.status.satisfies}


def test_what_moved_since_it_was_read_is_left_alone_and_the_rest_goes_through(
    lake: Lake, in_between: InBetween
) -> None:
    lake.write({name: {"properties": {"tier": "silver"}} for name in NAMES})

    def others() -> None:
        somebody = lake.somebody()
        somebody.alter_table(("a", "t03"), PropertyChanges({"tier": "theirs"}))
        somebody.alter_table(("a", "t04"), PropertyChanges(), "elsewhere")
        somebody.alter_table(("a", "t05"), PropertyChanges({"engine": "theirs"}))
        pylance = lance_namespace.connect("dir", {"root": str(lake.root)})
        pylance.deregister_table(DeregisterTableRequest(id=["a", "t06"]))

    in_between(others, len(NAMES))
    failed = failures(lake.apply())
    assert failed.keys() == {"t03", "t04", "t06"}
    assert failed["t03"] == TIER_MOVED
    assert failed["t04"].startswith("stale: location planned on ")
    assert failed["t06"] == "stale: existence planned on there, now nothing"
    rest = dict.fromkeys(NAMES, "silver") | {"t03": "theirs", "t04": "bronze"}
    del rest["t06"]
    assert lake.tiers() == rest
    assert lake.somebody().load_table(("a", "t04")).location == f"{lake.root}/elsewhere"
    assert lake.somebody().load_table(("a", "t05")).properties["engine"] == "theirs"
    assert lake.apply().ok, "planned on what is there now, all of it can be done"
    assert lake.tiers() == dict.fromkeys(NAMES, "silver")


def test_what_somebody_else_has_done_already_counts_as_done(lake: Lake, in_between: InBetween) -> None:
    lake.write({name: {"properties": {"tier": "silver"}} for name in NAMES})
    in_between(lambda: lake.somebody().alter_table(("a", "t03"), PropertyChanges({"tier": "silver"})), len(NAMES))
    assert lake.apply().ok
    assert lake.tiers() == dict.fromkeys(NAMES, "silver")


def test_a_table_that_moved_since_it_was_read_is_not_deregistered(lake: Lake, in_between: InBetween) -> None:
    lake.write({})
    in_between(lambda: lake.somebody().alter_table(("a", "t03"), PropertyChanges({"tier": "theirs"})), len(NAMES))
    assert failures(lake.apply()) == {"t03": TIER_MOVED}
    assert lake.tiers() == {"t03": "theirs"}


@pytest.mark.parametrize("above", [(), ("a",)])
def test_a_table_that_is_not_deregistered_after_all_is_there_for_pylance_too(
    lake: Lake, in_between: InBetween, above: tuple[str, ...]
) -> None:
    """Its directory is marked before the entry goes: that it would become a table of its own."""
    place = lake.root / "users.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(place))
    block = {"users": {"location": str(place), "properties": {"tier": "bronze"}}}
    lake.write({} if not above else block, tables={} if above else block)
    assert lake.apply().ok
    lake.write({}, tables={})
    names = (*above, "users")

    def others() -> None:
        rows = lance.dataset(str(lake.root / "__manifest"))
        live = rows.to_table(filter=f"object_id = '{'$'.join(names)}'").to_pylist()[0]["metadata"]
        theirs = live.replace("bronze", "theirs")
        rows.update({"metadata": f"'{theirs}'"}, where=f"object_id = '{'$'.join(names)}'")

    in_between(others)
    assert failures(lake.apply()) == {"users": TIER_MOVED}
    live = lake.somebody().scan().tables[names]
    assert (live.location, live.properties["tier"]) == (str(place), "theirs")
    assert not (place / ".lance-deregistered").exists()
    pylance = lance_namespace.connect("dir", {"root": str(lake.root)})
    found = pylance.describe_table(lance_namespace.DescribeTableRequest(id=list(names)))
    assert lance.dataset(found.location).count_rows() == 1


def test_a_table_that_moved_since_it_was_read_keeps_its_name(lake: Lake, in_between: InBetween) -> None:
    lake.write(
        {name: {"properties": {"tier": "bronze"}} for name in NAMES}, namespace="b", moved=[{"from": "a", "to": "b"}]
    )
    somebody = lake.somebody()
    somebody.insert_namespace(("b",), {"lancens.managed-by": "store/lake", "lancens.keys": '["tier"]', "tier": "gold"})
    in_between(lambda: somebody.alter_table(("a", "t03"), PropertyChanges({"tier": "theirs"})), len(NAMES))
    failed = failures(lake.apply())
    assert failed.pop("t03") == TIER_MOVED.replace(" ", " lake/a/t03: ", 1)
    assert lake.tiers("a") == {"t03": "theirs"}
    assert lake.tiers("b").keys() == {*NAMES} - {"t03"}


def test_a_namespace_that_moved_since_it_was_read_is_left_alone(lake: Lake, in_between: InBetween) -> None:
    lake.write({name: {"properties": {"tier": "bronze"}} for name in NAMES}, tier="silver")
    in_between(lambda: lake.somebody().alter_namespace(("a",), PropertyChanges({"tier": "theirs"})))
    assert failures(lake.apply()) == {"a": TIER_MOVED.replace("bronze", "gold")}
    assert lake.somebody().load_namespace(("a",)).properties["tier"] == "theirs"
