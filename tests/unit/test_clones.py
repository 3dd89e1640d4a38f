"""One catalog has clones of another's tables: planned, applied, interrupted, and taken away, with real datasets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler import storage
from reconciler.applier.report import unreferenced_lines
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model import ownership
from reconciler.model.clones import CloneBase, CloneProblem, CloneRefusal
from reconciler.model.errors import (
    ManifestError,
    PermissionDeniedError,
    PlanFileError,
    SafetyError,
    ServiceUnavailableError,
    StalePlanError,
    TableAlreadyExistsError,
)
from reconciler.model.live import LiveTable, PropertyChanges, Storage, StorageKind
from reconciler.model.ownership import CLONE, DATA, MANAGED_BY, MANIFEST_ID, MIRROR, POLICY
from reconciler.model.reasons import ReasonCode
from reconciler.operations.connections import open_connections
from reconciler.operations.listing import describe, list_tables
from reconciler.operations.plan import describe_removed
from reconciler.operations.release import plan_release, release
from reconciler.output import render
from reconciler.planner.plan import Plan
from reconciler.storage import cloning
from reconciler.storage.tags import write_tags
from tests.cli.running import lancens
from tests.plans import assert_blocked, blocked, resealed
from tests.unit.applier.world import Crash
from tests.unit.test_mirrors import LAKE, World, steps
from tests.writing import load_text

TAGGED = "clone: {from: lake, at: {tag: prod}}"
USERS, EVENTS = ("features", "users"), ("features", "events")
USERS_SCHEMA = "{schema: [{name: id, type: int64}]}"
OTHER_STORES = {
    CloneProblem.LOCAL_BASE,
    CloneProblem.OTHER_STORE,
    CloneProblem.STABLE_ROW_IDS,
    CloneProblem.OLD_INDEX,
    CloneProblem.UNCOUNTED,
    CloneProblem.UNKNOWN_FEATURES,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Catalog `lake` with two tables of five rows, tagged `prod`, and one row more since."""
    world = World(tmp_path_factory.mktemp("written"))
    world.settle(lake=LAKE)
    for name in (USERS, EVENTS):
        location = place(world, "lake", name)
        append(location, 5)
        lance.dataset(location).tags.create("prod", 2)
        append(location, 1)
    return world


@pytest.fixture
def world(tmp_path: Path, written: World) -> World:
    """A copy of what was written once."""
    world, lake = World(tmp_path), written.catalog("lake").scan()
    shutil.copytree(written.folder / "lake", tmp_path / "lake")
    for name, namespace in lake.namespaces.items():
        world.catalog("lake").insert_namespace(name, namespace.properties)
    for name, table in lake.tables.items():
        location = table.location.replace(str(written.folder), str(tmp_path))
        world.catalog("lake").insert_table(name, location, table.properties)
    return world


def append(location: str, rows: int) -> None:
    lance.write_dataset(pa.table({"id": pa.array(range(rows), pa.int64())}), location, mode="append")


def place(world: World, catalog: str, name: tuple[str, ...]) -> str:
    return world.catalog(catalog).load_table(name).location


def rows(world: World, name: tuple[str, ...] = USERS, catalog: str = "preview") -> int:
    return int(lance.dataset(place(world, catalog, name)).count_rows())


def files(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_clones_are_made_at_their_tag_and_are_tables_of_their_own(world: World) -> None:
    before = files(world.folder / "lake")
    manifest = world.manifest(lake=LAKE, preview=TAGGED)
    plan = reconciler.plan(manifest)
    assert steps(plan) == [
        "create-namespace preview/features",
        "create-table preview/features/events",
        "create-table preview/features/users",
    ]
    users = plan.changes[-1]
    assert users.reason == "clone of lake/features/users at 2 (tag prod), 5 rows"
    assert users.clone is not None
    assert users.clone.location == place(world, "lake", USERS)
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    assert (rows(world), rows(world, EVENTS)) == (5, 5)
    assert world.catalog("preview").load_table(USERS).properties == {
        "tier": "gold",
        "lancens.keys": '["tier"]',
        MANAGED_BY: "store/preview",
        CLONE: "lake/features/users@2",
        DATA: "true",
    }
    append(place(world, "preview", USERS), 3)
    assert (rows(world), rows(world, catalog="lake")) == (8, 6)
    assert files(world.folder / "lake") == before


def test_a_clone_stays_when_the_tag_moves_and_the_source_changes(world: World) -> None:
    manifest = world.settle(lake=LAKE, preview=TAGGED)
    append(place(world, "preview", USERS), 1)
    lance.dataset(place(world, "lake", USERS)).tags.update("prod", 3)
    assert reconciler.plan(manifest).is_empty
    wider = LAKE.replace(
        "{name: id, type: int64}]", "{name: id, type: int64}, {name: n, type: string}], evolve: additive"
    )
    world.settle(lake=wider, preview=TAGGED)
    assert rows(world) == 6
    assert lance.dataset(place(world, "preview", USERS)).schema.names == ["id"]


@pytest.mark.parametrize(
    ("at", "count", "told"),
    [
        ("{version: 2}", 5, "at 2, 5 rows"),
        ("{latest: true}", 6, "at 3, 6 rows"),
        ("{}", 6, "at 3, 6 rows"),
    ],
)
def test_a_version_or_the_latest_is_cloned(world: World, at: str, count: int, told: str) -> None:
    preview = f"clone: {{from: lake, select: ['**/users'], into: [pr], at: {at}}}"
    plan = reconciler.plan(world.manifest(lake=LAKE, preview=preview))
    assert plan.changes[-1].reason == f"clone of lake/features/users {told}"
    append(place(world, "lake", USERS), 10)
    world.apply(world.manifest(lake=LAKE, preview=preview), plan)
    assert rows(world, ("pr", *USERS)) == count


def test_what_cannot_be_cloned_is_blocked_with_what_to_do(world: World) -> None:
    lance.dataset(place(world, "lake", USERS)).tags.delete("prod")
    shutil.rmtree(place(world, "lake", EVENTS))
    manifest = world.manifest(lake="prune: never", preview=TAGGED)
    plan = reconciler.plan(manifest)
    unavailable = ReasonCode.BASE_UNAVAILABLE
    assert_blocked(plan, "preview/features/users", unavailable, detail="it has no tag `prod`")
    assert_blocked(plan, "preview/features/events", unavailable, name="lake/features/events")
    [users] = [entry for entry in plan.blocked if entry.address == "preview/features/users"]
    leave_out = "namespaces: {features: {tables: {users: {absent: true}}}}"
    assert leave_out in users.remedy
    assert "set its tag `prod` with pylance's `tags.create`" in users.remedy
    [events] = [entry for entry in plan.blocked if entry.address == "preview/features/events"]
    assert "tags.create" not in events.remedy
    assert [change.address for change in plan.waiting] == ["preview/features"]
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    assert world.catalog("preview").scan().tables == {}


@pytest.mark.parametrize("problem", CloneProblem)
def test_every_problem_of_a_base_is_told(world: World, monkeypatch: pytest.MonkeyPatch, problem: CloneProblem) -> None:
    monkeypatch.setattr(storage, "read_base", lambda *_: CloneRefusal(problem, "DETAIL"))
    plan = reconciler.plan(world.manifest(lake="prune: never", preview=TAGGED))
    assert {code for _, code in blocked(plan)} == {ReasonCode.BASE_UNAVAILABLE}
    assert "{" not in plan.blocked[0].reason
    assert ("`root` in the store of" in plan.blocked[0].remedy) == (problem in OTHER_STORES)


def test_a_table_whose_data_or_tag_the_same_plan_writes_is_cloned_after_it(world: World) -> None:
    more = LAKE + "      more: {schema: [{name: id, type: int64}]}\n"
    more = more.replace("tier: gold}}", "tier: gold}, tags: {prod: 3}}")
    manifest = world.manifest(lake=more, preview=TAGGED)
    plan = reconciler.plan(manifest)
    assert blocked(plan) == [
        ("lake/features/users", ReasonCode.TAG_TAKEN),
        ("preview/features/more", ReasonCode.SOURCE_CHANGES),
    ]
    manifest = world.manifest(lake=more, preview="clone: {from: lake}")
    plan = reconciler.plan(manifest, take_over=True)
    assert blocked(plan) == [("preview/features/more", ReasonCode.SOURCE_CHANGES)]
    plan = reconciler.plan(world.manifest(lake=more, preview=TAGGED), take_over=True)
    assert blocked(plan) == [("preview/features/more", ReasonCode.SOURCE_CHANGES)]
    assert plan.changes[-1].reason == "clone of lake/features/users at 3 (tag prod), 6 rows"
    world.apply(world.manifest(lake=more, preview=TAGGED), Plan.from_json(plan.to_json()), skip_blocked=True)
    assert rows(world) == 6
    gone = more.replace("tags: {prod: 3}", "tags: {}")
    plan = reconciler.plan(world.manifest(lake=gone, other=TAGGED.replace("{", "{select: ['**/users'], ", 1)))
    assert blocked(plan) == [("other/features/users", ReasonCode.SOURCE_CHANGES)]


def retag(location: str) -> None:
    lance.dataset(location).tags.update("prod", 3)


def untag(location: str) -> None:
    lance.dataset(location).tags.delete("prod")


def remake(location: str) -> None:
    shutil.rmtree(location)
    for count in (1, 4):
        append(location, count)
    lance.dataset(location).tags.create("prod", 2)


def clean_up(location: str) -> None:
    untag(location)
    dataset = lance.dataset(location)
    dataset.cleanup_old_versions(older_than=timedelta(0))


@pytest.mark.parametrize("act", [retag, untag, remake, clean_up, shutil.rmtree])
@pytest.mark.parametrize("at", ["{tag: prod}", "{version: 2}"])
def test_no_other_version_is_ever_cloned(world: World, act: Callable[[str], None], at: str) -> None:
    preview = f"clone: {{from: lake, select: ['**/users'], at: {at}}}"
    manifest = world.manifest(lake="prune: never", preview=preview)
    plan = reconciler.plan(manifest)
    act(place(world, "lake", USERS))
    report = reconciler.apply(plan, manifest, journal=world.folder / "journal")
    if act in (retag, untag) and "version" in at:
        assert report.ok
        assert rows(world) == 5
        return
    assert [result.status.value for result in report.results] == ["done", "failed"]
    assert world.catalog("preview").scan().tables == {}
    again = reconciler.plan(manifest)
    assert [*blocked(again), *(change.clone.version for change in again.changes if change.clone)]
    if again.blocked:
        assert blocked(again) == [("preview/features/users", ReasonCode.BASE_UNAVAILABLE)]


def test_a_source_that_has_moved_makes_the_plan_stale(world: World) -> None:
    manifest = world.manifest(lake="prune: never", preview=TAGGED)
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    lake = world.catalog("lake")
    before = lake.remove_table(USERS)
    lake.insert_table(USERS, str(world.folder / "lake" / "elsewhere"), before.properties)
    with pytest.raises(StalePlanError, match=r"lake/features/users +location"):
        reconciler.apply(saved, manifest, journal=world.folder / "journal")
    assert world.catalog("preview").scan().tables == {}


def edits(change: dict[str, Any]) -> dict[str, Callable[[], object]]:
    return {
        "another base": lambda: change["clone"].update(location="/data/other.lance"),
        "another tag": lambda: change["clone"].update(tag="dev"),
        "another mark": lambda: change["after"].update(clone="lake/features/users@1"),
        "no base": lambda: change.pop("clone"),
        "another source": lambda: change["mirror_of"].update(identifier=["features", "events"]),
        "another location": lambda: change["after"].update(location="/data/other.lance"),
        "other columns": lambda: change["after"].update(columns=[]),
        "no columns": lambda: change["after"].pop("columns"),
        "other columns of the base": lambda: change["clone"]["columns"].append({"name": "n", "type": "int8"}),
        "no columns of the base": lambda: change["clone"].pop("columns"),
        "other fields": lambda: change.update(fields=[]),
        "another tag of its own": lambda: change["after"]["tags"].update(tried="1"),
    }


@pytest.mark.parametrize("edit", sorted(edits({})))
def test_an_edited_plan_is_refused(world: World, edit: str) -> None:
    schema = "schema: [{name: id, type: int64}, {name: age, type: int32}], evolve: additive"
    block = f"namespaces: {{features: {{tables: {{users: {{{schema}, tags: {{tried: 2}}}}}}}}}}"
    manifest = world.manifest(lake=LAKE, preview=f"{TAGGED}\n{block}")
    document = json.loads(reconciler.plan(manifest).to_json())
    edits(document["changes"][-1])[edit]()
    with pytest.raises((PlanFileError, StalePlanError)):
        reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")
    assert world.catalog("preview").scan().tables == {}


def test_only_a_tag_leads_to_another_branch_in_an_edited_plan(world: World) -> None:
    """The path of a branch could lead out of the source's root."""
    manifest = world.manifest(lake=LAKE, preview="clone: {from: lake}")
    document = json.loads(reconciler.plan(manifest).to_json())
    document["changes"][-1]["clone"]["branch"] = "../../../elsewhere"
    with pytest.raises(PlanFileError):
        reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")


def test_a_base_that_is_not_the_tags_version_in_an_edited_plan_is_not_cloned(world: World) -> None:
    manifest = world.manifest(lake=LAKE, preview=TAGGED)
    document = json.loads(reconciler.plan(manifest).to_json())
    for change in document["changes"][1:]:
        change["clone"]["version"] = change["params"]["version"] = 1
        change["reason"] = change["reason"].replace("at 2", "at 1")
        change["after"]["clone"] = change["after"]["clone"].replace("@2", "@1")
    report = reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")
    assert not report.ok
    assert world.catalog("preview").scan().tables == {}


# ---- interrupted runs, and what is there already ---------------------------------------------------------------------


def killing(number: int, calls: Iterator[int]) -> Callable[..., Any]:
    genuine = storage.write_clone

    def write(*args: Any) -> None:
        if next(calls) == number:
            genuine(*args)
            raise Crash("killed")
        genuine(*args)

    return write


@pytest.mark.parametrize("impl", ["memory", "dir"])
@pytest.mark.parametrize("at", ["{tag: prod}", "{latest: true}"])
def test_a_clone_whose_entry_is_missing_is_registered(
    world: World, monkeypatch: pytest.MonkeyPatch, impl: str, at: str
) -> None:
    """Directly under the root of a directory, the data is a table before it has an entry."""
    world.impls["preview"] = impl
    preview = f"clone: {{from: lake, select: ['**/users'], names: {{features/users: users}}, at: {at}}}"
    manifest = world.manifest(lake="prune: never", preview=preview)
    saved = reconciler.plan(manifest).to_json()
    monkeypatch.setattr(storage, "write_clone", killing(0, iter(range(9))))
    with pytest.raises(Crash):
        reconciler.apply(Plan.from_json(saved), manifest, journal=world.folder / "journal")
    append(place(world, "lake", USERS), 1)
    plan = reconciler.plan(manifest)
    assert steps(plan) == [f"{'register' if impl == 'memory' else 'update'}-table preview/users"]
    world.apply(manifest, Plan.from_json(saved if impl == "memory" else plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    backend = world.catalog("preview") if impl == "memory" else DirBackend(root=str(world.folder / "preview"))
    users = backend.load_table(("users",))
    assert (users.properties[CLONE], users.properties[MANAGED_BY]) == (
        f"lake/features/users@{2 if 'tag' in at else 3}",
        "store/preview",
    )


_WRITES: Sequence[tuple[Any, str]] = (
    *((DirBackend, name) for name in ("insert_namespace", "enter_table", "alter_table", "remove_table")),
    (MemoryBackend, "alter_table"),
    *((storage, name) for name in ("write_clone", "add_columns", "evolve_columns", "write_tags")),
    *((storage, name) for name in ("pin_base", "unpin_base")),
)


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """Kill the process before or after one of its writes; return a function that counts those points."""
    points = iter(range(1_000_000))
    last = [0]

    def point() -> None:
        last[0] = next(points)
        if last[0] == number:
            raise Crash("killed")

    def wrapped(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **kwargs: Any) -> Any:
            point()
            result = genuine(*args, **kwargs)
            point()
            return result

        return write

    for owner, name in _WRITES:
        monkeypatch.setattr(owner, name, wrapped(getattr(owner, name)))
    return lambda: last[0] + 1


@pytest.mark.end_to_end
def test_killed_before_or_after_any_write_the_next_run_ends_as_one_that_was_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clones of a directory: one in a namespace, and one directly under the root, each with a block on top."""
    lake, expected = files(world.folder / "lake"), None
    columns = "[{name: key, type: int64, renamed_from: id}, {name: age, type: int32}]"
    block = f"{{schema: {columns}, evolve: additive, tags: {{tried: 2}}}}"
    for number in range(100):
        world.impls = {f"preview{number}": "dir"}
        preview = "clone: {from: lake, names: {features/users: top}, at: {tag: prod}}"
        preview += f"\ntables: {{top: {block}}}\nnamespaces: {{features: {{tables: {{events: {block}}}}}}}"
        manifest = world.manifest(lake=LAKE, **{f"preview{number}": preview})
        saved = reconciler.plan(manifest).to_json()
        with monkeypatch.context() as patch:
            points = killed_at(patch, number)
            with suppress(Crash):
                reconciler.apply(Plan.from_json(saved), manifest, journal=world.folder / "journal", parallelism=1)
            is_done = number >= points()
        plan = reconciler.plan(manifest)
        assert not plan.blocked
        assert plan.is_empty or not is_done
        world.apply(manifest, Plan.from_json(saved) if number % 2 and not _shows_root(plan) else plan)
        assert reconciler.plan(manifest).is_empty
        tables = DirBackend(root=str(world.folder / f"preview{number}")).scan().tables
        marks = {name: {**table.properties, MANAGED_BY: ""} for name, table in tables.items()}
        assert marks == (expected or marks)
        for table in tables.values():
            clone = lance.dataset(table.location)
            assert (clone.count_rows(), clone.schema.names, [*clone.tags.list()]) == (5, ["key", "age"], ["tried"])
        expected = marks
        if is_done:
            break
    assert number > 15
    assert files(world.folder / "lake") == lake


def _shows_root(plan: Plan) -> bool:
    """Return whether data under the root of a directory is a table of nobody's, which a saved plan does not know."""
    return any(change.identifier == ("top",) and change.before is not None for change in plan.changes)


def test_a_clone_that_was_begun_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clone of a dataset that cleans itself up takes a second commit, before which the process is killed."""
    location = place(world, "lake", USERS)
    lance.dataset(location).update_config({"lance.auto_cleanup.interval": "20"})
    block = "{schema: [{name: id, type: int64}, {name: n, type: string}], evolve: additive, tags: {own: 4}}"
    preview = f"clone: {{from: lake, select: ['**/users']}}\nnamespaces: {{features: {{tables: {{users: {block}}}}}}}"
    manifest = world.manifest(lake="prune: never", preview=preview)

    def killed(*_: object) -> None:
        raise Crash("killed")

    with monkeypatch.context() as patch:
        patch.setattr(cloning, "end_cleanup", killed)
        with pytest.raises(Crash):
            reconciler.apply(reconciler.plan(manifest), manifest, journal=world.folder / "journal")
    plan = reconciler.plan(manifest)
    assert steps(plan) == ["create-table preview/features/users"]
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    clone = lance.dataset(place(world, "preview", USERS))
    assert (clone.config(), clone.schema.names, [*clone.tags.list()]) == ({}, ["id", "n"], ["own"])
    assert "lance.auto_cleanup.interval" in lance.dataset(location).config()


def test_data_that_is_no_such_clone_is_left_alone(world: World) -> None:
    manifest = world.settle(lake=LAKE, preview=TAGGED)
    backend = world.catalog("preview")
    _, events = [backend.remove_table(name).location for name in (USERS, EVENTS)]
    lance.dataset(place(world, "lake", USERS)).tags.update("prod", 3)
    shutil.rmtree(events)
    append(events, 1)
    plan = reconciler.plan(manifest)
    assert_blocked(plan, "preview/features/users", ReasonCode.NOT_THIS_CLONE, version=2)
    assert_blocked(plan, "preview/features/events", ReasonCode.NOT_THIS_CLONE, version=None)
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)


def test_a_table_of_the_name_that_is_no_clone_is_left_alone(world: World) -> None:
    world.settle(preview="namespaces: {features: {tables: {users: {schema: [{name: id, type: int64}]}}}}", lake=LAKE)
    manifest = world.manifest(lake=LAKE, preview=TAGGED)
    plan = reconciler.plan(manifest)
    assert blocked(plan) == [("preview/features/users", ReasonCode.NOT_THIS_CLONE)]
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    assert CLONE not in world.catalog("preview").load_table(USERS).properties


def test_blocks_win_and_keep_the_mark_of_a_clone(world: World) -> None:
    world.settle(lake=LAKE, preview=TAGGED)
    own = "namespaces: {features: {tables: {users: {properties: {tier: own}}, events: {absent: true}}}}"
    world.settle(lake=LAKE, preview=f"{TAGGED}\n{own}")
    [users] = world.catalog("preview").scan().tables.values()
    assert (users.properties["tier"], users.properties[CLONE]) == ("own", "lake/features/users@2")


def test_a_block_is_on_top_of_its_clone(world: World) -> None:
    """One plan clones, sets properties, and changes columns and tags."""
    schema = "schema: [{name: id, type: int64}, {name: age, type: int32}], evolve: additive"
    users = f"users: {{{schema}, properties: {{tier: silver}}, tags: {{tried: 2}}}}"
    more = "more: {schema: [{name: id, type: int64}]}"
    preview = f"{TAGGED}\nnamespaces: {{features: {{tables: {{{users}, {more}}}}}}}"
    before = files(world.folder / "lake")
    manifest = world.manifest(lake="prune: never", preview=preview)
    plan = reconciler.plan(manifest)
    reasons = {change.address: change.reason for change in plan.changes}
    cloned = "clone of lake/features/users at 2 (tag prod), 5 rows"
    assert reasons["preview/features/users"] == f"{cloned}; columns to add"
    for form in ("text", "markdown"):
        assert "age: int32" in render(plan, form), form
    assert "clone" not in reasons["preview/features/more"]
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    assert world.catalog("preview").load_table(USERS).properties["tier"] == "silver"
    clone = lance.dataset(place(world, "preview", USERS))
    assert (clone.schema.names, clone.count_rows()) == (["id", "age"], 5)
    assert [*clone.tags.list()] == ["tried"]
    assert files(world.folder / "lake") == before


def test_secrets_of_columns_are_no_part_of_a_plan(world: World) -> None:
    """The metadata of the source's columns, and that of the block."""
    location = place(world, "lake", USERS)
    lance.dataset(location).update_field_metadata({"id": {"token": "old-s3cret"}})
    block = "{name: id, type: int64, metadata: {token: new-s3cret}}"
    for evolve in ("additive", "never"):
        users = f"namespaces: {{features: {{tables: {{users: {{schema: [{block}], evolve: {evolve}}}}}}}}}"
        manifest = world.manifest(lake="prune: never", preview=f"clone: {{from: lake, select: ['**/users']}}\n{users}")
        plan = reconciler.plan(manifest)
        assert "s3cret" not in plan.to_json()
        assert "s3cret" not in "".join(render(plan, form) for form in ("text", "markdown", "html"))
        world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
        if evolve == "additive":
            assert reconciler.plan(manifest).is_empty
            [column] = lance.dataset(place(world, "preview", USERS)).schema
            assert column.metadata == {b"token": b"new-s3cret"}
            world.catalog("preview").remove_table(USERS)
            shutil.rmtree(world.folder / "preview")


@pytest.mark.parametrize(
    ("preview", "name", "remedy"),
    [
        (f"{TAGGED}\nnamespaces: {{features: {{tables: {{users: {USERS_SCHEMA}}}}}}}", USERS, "leave it out"),
        (
            f"tables: {{t: {{clone: {{of: lake/features/users, at: {{tag: prod}}}}, {USERS_SCHEMA[1:]}}}",
            ("t",),
            "clone lake/features/users",
        ),
    ],
)
def test_a_lost_clone_is_not_made_again_without_rows(
    world: World, preview: str, name: tuple[str, ...], remedy: str
) -> None:
    manifest = world.settle(lake="prune: never", preview=preview)
    shutil.rmtree(place(world, "preview", name))
    plan = reconciler.plan(manifest, recreate_lost=["preview/**"])
    assert blocked(plan) == [("/".join(("preview", *name)), ReasonCode.DATA_LOST)]
    assert remedy in plan.blocked[0].remedy
    absent = f"{TAGGED}\nnamespaces: {{features: {{tables: {{users: {{absent: true}}}}}}}}"
    world.settle(lake="prune: never", preview=absent if name == USERS else "tables: {t: {absent: true}}")
    world.settle(lake="prune: never", preview=preview)
    assert rows(world, name) == 5


def test_what_a_clone_has_from_its_source_is_no_drift(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    users = "namespaces: {features: {tables: {users: {properties: {own: x}}}}}"
    manifest = world.settle(lake=LAKE, preview=f"{TAGGED}\n{users}")
    assert reconciler.plan(manifest).is_empty
    assert world.catalog("preview").load_table(USERS).properties["tier"] == "gold"
    ran = lancens(capsys, "audit", "--engine", "local", manifest.files[0])
    assert "Checked 4 tables" in ran.out
    assert "property-drift" not in ran.out
    assert "moved-tag" not in ran.out
    lance.dataset(place(world, "lake", USERS)).tags.update("prod", 3)
    found = [finding for finding in reconciler.audit(manifest).document.findings if finding.rule == "moved-tag"]
    assert [finding.address for finding in found] == ["preview/features/users"]
    assert "whose tag `prod` is at 3 now" in found[0].reason


@pytest.mark.parametrize(
    ("block", "code", "remedy"),
    [
        (
            "schema: [{name: id, type: string}]",
            ReasonCode.OTHER_COLUMNS,
            "write `{name: id, type: int64}` in its block",
        ),
        (
            "schema: [{name: id, type: int64}, {name: n, type: string}]",
            ReasonCode.OTHER_COLUMNS,
            "write `evolve: additive` in its block",
        ),
        (
            "schema: [{name: id, type: int64}, {name: n, type: string, nullable: false}], evolve: additive",
            ReasonCode.OTHER_COLUMNS,
            "make `n` nullable in its block",
        ),
        (
            "schema: [{name: n, type: int64}], extra_columns: conflict, evolve: additive",
            ReasonCode.OTHER_COLUMNS,
            "write `{name: id, type: int64}` in its block or `extra_columns: keep`",
        ),
        ("tags: {own: 3}", ReasonCode.TAG_WITHOUT_VERSION, "write versions that pylance"),
    ],
)
def test_a_block_that_does_not_fit_its_clone_is_blocked(
    world: World, block: str, code: ReasonCode, remedy: str
) -> None:
    preview = f"{TAGGED}\nnamespaces: {{features: {{tables: {{users: {{{block}}}}}}}}}"
    manifest = world.manifest(lake="prune: never", preview=preview)
    plan = reconciler.plan(manifest)
    assert blocked(plan) == [("preview/features/users", code)]
    assert plan.blocked[0].remedy.startswith(remedy)
    assert "lance.dataset" not in plan.blocked[0].remedy
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    assert [*world.catalog("preview").scan().tables] == [EVENTS]


def test_a_table_that_a_line_moves_is_cloned_under_its_new_name(world: World) -> None:
    """Before the source has moved its own, and after that."""
    moved = "moved: [{from: features/users, to: features/people}]"
    people = "namespaces: {features: {tables: {people: {schema: [{name: id, type: int64}]}}}}"
    preview = f"{TAGGED}\n{moved}\n{people}"
    manifest = world.settle(lake="prune: never", preview=preview)
    assert (rows(world, ("features", "people")), rows(world, EVENTS)) == (5, 5)
    assert USERS not in world.catalog("preview").scan().tables

    lake = world.catalog("lake")
    users = lake.remove_table(USERS)
    lake.insert_table(("features", "people"), users.location, users.properties)
    world.apply(manifest)
    assert reconciler.plan(manifest).is_empty
    mark = world.catalog("preview").load_table(("features", "people")).properties[CLONE]
    assert mark == "lake/features/people@2"


def test_a_clone_moves_with_the_line_that_moves_its_table(world: World) -> None:
    world.settle(lake="prune: never", preview=TAGGED)
    append(place(world, "preview", USERS), 1)
    moved = "moved: [{from: features/users, to: features/people}]"
    people = "namespaces: {features: {tables: {people: {}}}}"
    world.settle(lake="prune: never", preview=f"{TAGGED}\n{moved}\n{people}")
    assert rows(world, ("features", "people")) == 6
    assert USERS not in world.catalog("preview").scan().tables


def test_a_block_with_a_location_is_no_clone(world: World) -> None:
    preview = f"{TAGGED}\nnamespaces: {{features: {{tables: {{users: {{location: {world.folder}/own.lance}}}}}}}}"
    world.apply(world.manifest(lake=LAKE, preview=preview))
    assert place(world, "preview", USERS) == f"{world.folder}/own.lance"
    assert rows(world, EVENTS) == 5


@pytest.mark.parametrize("clone", [TAGGED, "clone: {from: lake}"], ids=["tagged", "latest"])
def test_a_source_that_is_excluded_is_cloned_as_it_is(world: World, clone: str) -> None:
    manifest = world.manifest(lake=LAKE.replace("gold", "silver"), preview=clone)
    expected = [
        "create-namespace preview/features",
        "create-table preview/features/events",
        "create-table preview/features/users",
    ]
    assert steps(reconciler.plan(manifest)) == ["update-table lake/features/users", *expected]
    for exclude in (["lake/**"], ["lake/features/users"]):
        assert steps(reconciler.plan(manifest, exclude=exclude)) == expected
    plan = reconciler.plan(manifest, exclude=["lake/**", "preview/**/users"])
    assert steps(plan) == expected[:2]
    edited = json.loads(plan.to_json())
    edited["options"]["exclude"] = ["preview/features/events"]
    with pytest.raises(PlanFileError, match="edited"):
        reconciler.apply(Plan.from_json(resealed(edited)), manifest, journal=world.folder / "journal")
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert [*world.catalog("preview").scan().tables] == [EVENTS]
    assert world.catalog("lake").load_table(USERS).properties["tier"] == "gold"
    gone = world.manifest(lake=LAKE, preview="prune: owned")
    kept = reconciler.plan(gone, exclude=["preview/**/events"], allow_mass_removal=True)
    assert steps(kept) == [], "the namespace holds what is excluded"


def test_the_clone_of_one_table_is_excluded_as_a_table_is(world: World) -> None:
    block = "namespaces: {features: {tables: {users: {clone: {of: lake/features/users}}}}}"
    manifest = world.manifest(lake=LAKE.replace("gold", "silver"), preview=block)
    clones = ["create-namespace preview/features", "create-table preview/features/users"]
    assert steps(reconciler.plan(manifest, exclude=["lake/**"])) == clones
    assert steps(reconciler.plan(manifest, exclude=["preview/**"])) == ["update-table lake/features/users"]
    assert steps(reconciler.plan(manifest, exclude=["lake/**", "preview/**/users"])) == clones[:1]


@pytest.mark.parametrize(
    ("lake", "clone", "own"),
    [
        (LAKE, "{from: lake}", {"preview/features/events"}),
        (LAKE, "{from: lake, select: ['**/users'], pin: true}", {"preview/features/users"}),
        (LAKE, "{from: lake, select: ['**/users'], at: {tag: prod}}", {"preview/features/users"}),
        (LAKE, "{from: lake, select: ['**/users'], into: [pr]}", {"preview/pr", "preview/pr/features/users"}),
        (
            LAKE.replace("gold", "silver"),
            "{from: lake, select: ['**/users']}",
            {"lake/features/users", "preview/features/users"},
        ),
        (f"scope: ['features/**']\n{LAKE}", "{from: lake, select: ['**/users']}", {"preview/features/users"}),
    ],
    ids=["more", "pin", "tag", "elsewhere", "source", "scope"],
)
def test_what_a_branch_clones_itself_is_told_from_what_was_pending(
    world: World, lake: str, clone: str, own: set[str]
) -> None:
    base = world.manifest(lake=LAKE, preview="clone: {from: lake, select: ['**/users']}")
    plan = reconciler.plan(world.manifest(lake=lake, preview=f"clone: {clone}"), against=base)
    found = {change.address for change in plan.changes if change.key not in plan.pending}
    assert own <= found
    assert found - own <= {"preview/features", "preview/pr/features"}, "namespaces above them"


# ---- the end of clones -----------------------------------------------------------------------------------------------


def test_entries_go_with_the_line_and_their_data_stays(world: World) -> None:
    world.settle(lake=LAKE, preview=TAGGED)
    data = files(world.folder / "preview")
    manifest = world.manifest(lake=LAKE, preview="prune: owned")
    with pytest.raises(SafetyError):
        reconciler.plan(manifest)
    plan = reconciler.plan(manifest, allow_mass_removal=True)
    assert [str(change.code) for change in plan.changes if change.kind == "table"] == ["no-longer-in-manifest"] * 2
    told = describe_removed(plan, manifest)
    assert sorted(told.values()) == ["a clone of lake/features/events@2", "a clone of lake/features/users@2"]
    places = sorted(place(world, "preview", name) for name in (USERS, EVENTS))
    report = world.apply(manifest, Plan.from_json(plan.to_json()), allow_mass_removal=True)
    assert world.catalog("preview").scan().tables == {}
    assert files(world.folder / "preview") == data
    assert report.unreferenced == places
    assert [*unreferenced_lines(report)] == [
        "2 clones have no entry any more, and their data stays:",
        *(f"  {location}/" for location in places),
    ]


def test_data_that_another_entry_has_is_not_told_as_unreferenced(world: World) -> None:
    world.settle(lake=LAKE, preview=TAGGED)
    preview = world.catalog("preview")
    preview.insert_table(("kept",), place(world, "preview", USERS), {})
    manifest = world.manifest(lake=LAKE, preview="prune: owned")
    report = world.apply(manifest, reconciler.plan(manifest, allow_mass_removal=True), allow_mass_removal=True)
    assert [Path(location).name for location in report.unreferenced] == ["features$events.lance"]


def test_a_clone_goes_with_its_source_unless_that_is_back(world: World) -> None:
    world.settle(lake=LAKE, preview=TAGGED)
    lake = world.catalog("lake")
    before = lake.remove_table(EVENTS)
    manifest = world.manifest(lake="prune: never", preview=TAGGED)
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    assert steps(saved) == ["deregister-table preview/features/events"]
    assert saved.changes[0].reason == "a clone of lake/features/events, which is not cloned any more"
    lake.insert_table(EVENTS, before.location, before.properties)
    with pytest.raises(StalePlanError, match="events clones lake/features/events"):
        reconciler.apply(saved, manifest, journal=world.folder / "journal")
    lake.remove_table(EVENTS)
    world.apply(manifest, saved)
    assert [*world.catalog("preview").scan().tables] == [USERS]
    lake.remove_table(USERS)
    with pytest.raises(SafetyError, match="finds no table"):
        reconciler.plan(manifest)


def test_a_mirror_of_clones_and_a_clone_of_clones(world: World) -> None:
    world.settle(lake=LAKE, preview=TAGGED, copy="mirror: {from: preview}")
    assert place(world, "copy", USERS) == place(world, "preview", USERS)
    schema = "schema: [{name: id, type: int64}, {name: n, type: string}], evolve: additive"
    block = f"namespaces: {{features: {{tables: {{users: {{{schema}}}}}}}}}"
    world.settle(lake=LAKE, preview=TAGGED, again=f"clone: {{from: preview}}\n{block}")
    assert rows(world, catalog="again") == 5


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_base_outside_the_roots_of_its_catalog_is_refused(world: World) -> None:
    lake = world.catalog("lake")
    outside = str(world.folder / "secret.lance")
    append(outside, 1)
    lake.insert_table(("secret",), outside, {})
    plan = reconciler.plan(world.manifest(lake="prune: never", preview="clone: {from: lake, select: [secret]}"))
    assert_blocked(plan, "preview/secret", ReasonCode.BASE_OUTSIDE, location=outside, other="lake")


def test_the_roots_of_a_source_are_admitted_while_its_tables_are_cloned(world: World) -> None:
    lake, own = str(world.folder / "lake"), str(world.folder / "preview")
    blocks = {
        TAGGED: {own, lake},
        "mirror: {from: between}": {own, lake},
        "tables: {a: {clone: {of: lake/a}}}": {own, lake},
        "mirror: {from: lake}": {own},
        "prune: owned": {own},
    }
    for block, roots in blocks.items():
        manifest = world.manifest(lake="prune: never", between="clone: {from: lake}", preview=block)
        with open_connections(manifest, ["preview"]) as connections:
            assert set(connections["preview"].backend.admission().roots) == roots, block


def test_storage_options_that_differ_are_refused(world: World) -> None:
    manifest = world.manifest(lake="prune: never", preview=TAGGED)
    file = world.folder / Path(manifest.files[0]).name
    text = file.read_text().replace("/preview}", "/preview, storage.region: eu-west-1}")
    file.write_text(text)
    plan = reconciler.plan(reconciler.load(file))
    assert {code for _, code in blocked(plan)} == {ReasonCode.OPTIONS_DIFFER}


@pytest.mark.parametrize(
    ("clone", "told"),
    [
        ("clone: {from: lake, at: {tag: a, version: 1}}", "one of `tag`, `version` and `latest`"),
        ("clone: {from: lake, at: {version: 0}}", "`at.version` in the clone of preview is `0`, expected 1 or more"),
        ("clone: {from: lake, at: {tag: ''}}", "`at.tag` in the clone of preview is ``: expected at most 100"),
        ("clone: {from: lake, at: {tag: }}", "`at.tag` in the clone of preview is ``: expected at most 100"),
        ("clone: {from: lake, at: {tag: '${env:HOME}'}}", "`at` is `${env:HOME}`: values of the environment"),
        ("clone: {from: lake, at: {tag: a/b}}", "`at.tag` in the clone of preview is `a/b`: expected at most 100"),
        ("clone: {from: lake, at: {branch: a}}", "in the clone of preview; expected `tag`, `version`, `latest`"),
        ("clone: {from: lake, tag: prod}", "write `at: {tag: NAME}`"),
        ("clone: {from: lak}", "`from` in the clone of preview is `lak`"),
        ("clone: {from: preview}", "the mirrors have a dependency cycle: preview clones preview"),
        ("mirror: {from: lake}\nclone: {from: lake}", "`clone` in catalog preview contradicts `mirror`"),
    ],
)
def test_what_is_wrong_with_a_clone_is_told_where_it_stands(world: World, clone: str, told: str) -> None:
    with pytest.raises(ManifestError) as caught:
        world.manifest(lake="prune: never", preview=clone)
    [problem] = caught.value.problems
    assert told in problem.message
    assert problem.line in (11, 12)


def test_a_clone_counts_in_the_digest_of_its_manifest(world: World) -> None:
    blocks = (TAGGED, "clone: {from: lake}", "mirror: {from: lake}", "clone: {from: lake, at: {version: 1}}")
    assert len({world.manifest(lake=LAKE, preview=block).digest for block in blocks}) == len(blocks)


def test_many_clones_fold_into_a_line_with_the_rows_of_all(world: World) -> None:
    lake = world.catalog("lake")
    for number in range(30):
        lake.insert_table(("features", f"t{number}"), place(world, "lake", USERS), {})
    text = render(reconciler.plan(world.manifest(lake="prune: never", preview=TAGGED)), "text")
    assert "31 tables: clone of lake/… at 2 (tag prod), 155 rows" in text


# ---- other commands --------------------------------------------------------------------------------------------------


def test_list_and_show_say_what_a_table_is_a_clone_of(world: World) -> None:
    manifest = world.settle(lake=LAKE, preview=TAGGED)
    listed, _ = list_tables(manifest, ["preview/**"])
    assert [table.clone for table in listed] == ["lake/features/events@2", "lake/features/users@2"]
    shown = describe(manifest, "preview/features/users")
    assert [(value.key, value.text) for value in shown.desired or ()] == [("clone", "lake")]
    assert ("properties.lancens.clone", "lake/features/users@2") in [
        (value.key, value.text) for value in shown.live or ()
    ]


def test_every_format_says_what_is_cloned(world: World) -> None:
    plan = reconciler.plan(world.manifest(lake=LAKE, preview=TAGGED), select=["preview/features/users"])
    for form in ("text", "markdown", "html", "json"):
        shown = render(plan, form)
        assert "clone of lake/features/users at 2" in shown, form
        assert place(world, "lake", USERS).rpartition("/")[2] in shown, form
    assert "create (clone)" in render(plan, "text", summary=True)
    assert (
        json.loads(plan.to_json())["changes"][-1]["clone"].items() >= {"version": 2, "tag": "prod", "rows": 5}.items()
    )


def test_import_leaves_clones_to_their_line_and_blocks_keep_the_mark(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(world.settle(lake=LAKE, preview=TAGGED).files[0])
    before = file.read_text()
    assert lancens(capsys, "import", "--append", file).code == 0
    assert file.read_text() == before
    text = reconciler.import_(reconciler.load(file), catalog="preview")
    assert "# a clone of lake/features/users@2, which this manifest cannot name" in text
    file.with_name("imported.yaml").write_text(text)
    assert reconciler.plan(reconciler.load(file.with_name("imported.yaml"))).is_empty


@pytest.mark.parametrize("more", [{}, {"with_schema": True}, {"select": ["preview/**"]}])
def test_import_writes_clones_back(world: World, more: dict[str, Any]) -> None:
    other = "clone: {from: lake, at: {version: 1}, pin: true, select: ['**/users'], names: {features/users: 'a b'}}"
    manifest = world.settle(lake=LAKE, preview=TAGGED, pinned=other)
    text = reconciler.import_(manifest, **more)
    file = Path(manifest.files[0]).with_name("imported.yaml")
    file.write_text(text)
    imported = reconciler.load(file)
    if "select" in more:
        assert "# a clone of lake/features/users@2" in text
    else:
        assert "clone: {of: lake/features/users, at: {version: 2}}" in text
        assert "clone: {of: lake/features/users, at: {version: 1}, pin: true}" in text
        world.catalog("preview").remove_table(USERS)
        assert steps(reconciler.plan(imported)) == ["register-table preview/features/users"]
        world.apply(imported)
    assert reconciler.plan(imported).is_empty


def test_import_writes_no_clone_that_would_be_an_error(world: World) -> None:
    """Of catalogs that clone tables of each other, of a table that is gone, and of a mark without a number."""
    world.settle(lake=LAKE, preview=TAGGED)
    manifest = world.manifest(lake=LAKE, preview="prune: never")
    lake, preview = world.catalog("lake"), world.catalog("preview")
    lake.insert_table(("a",), place(world, "lake", USERS), {CLONE: "preview/features/users@2"})
    marks = ("lake/none@1", "lake/features/users@", "lake@1", "preview/b@1", "s3://key:s3cret@lake/users@1")
    for name, mark in zip("bcdef", marks, strict=True):
        preview.insert_table((name,), place(world, "preview", USERS), {CLONE: mark})
    text = reconciler.import_(manifest)
    assert text.count("clone: {") == 1
    assert text.count("# a clone of") == 7
    assert "s3cret" not in text
    file = Path(manifest.files[0]).with_name("imported.yaml")
    file.write_text(text)
    assert reconciler.plan(reconciler.load(file)).is_empty


def test_import_appends_a_clone_to_the_manifest_of_its_source(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    one = "namespaces: {features: {tables: {u: {clone: {of: lake/features/users, at: {tag: prod}}}}}}"
    world.settle(lake=LAKE, preview=one)
    file = Path(world.manifest(lake=LAKE, preview="prune: never").files[0])
    assert lancens(capsys, "import", "--append", file).code == 0
    assert "clone: {of: lake/features/users, at: {version: 2}}" in file.read_text()
    assert reconciler.plan(reconciler.load(file)).is_empty


# ---- clones of one table ---------------------------------------------------------------------------------------------

TRIED = """
namespaces:
  try:
    tables:
      users:
        clone: {of: lake/features/users, at: {tag: prod}}
        schema: [{name: id, type: int64}, {name: country, type: string}]
        evolve: additive
"""


def test_a_change_of_columns_is_tried_on_a_clone_of_one_table(world: World) -> None:
    before = files(world.folder / "lake")
    manifest = world.manifest(lake=LAKE, preview=TRIED)
    plan = reconciler.plan(manifest)
    assert steps(plan) == ["create-namespace preview/try", "create-table preview/try/users"]
    [added] = plan.changes[-1].fields
    assert (added.path, added.before, added.after) == ("schema.country", None, "string")
    desired = describe(manifest, "preview/try/users").desired or ()
    assert ("clone", "lake/features/users (tag prod)") in [(value.key, value.text) for value in desired]
    assert {entry.address for entry in plan.fingerprints if entry.catalog == "lake"} == {"lake/features/users"}
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    clone = lance.dataset(place(world, "preview", ("try", "users")))
    assert (clone.schema.names, clone.count_rows()) == (["id", "country"], 5)
    assert files(world.folder / "lake") == before


def test_the_source_of_one_clone_is_checked_and_comes_first(world: World) -> None:
    block = "tables: {a: {clone: {of: lake/features/users}}, b: {clone: {of: lake/features/none}}}"
    manifest = world.manifest(lake=LAKE.replace("tier: gold", "tier: silver"), preview=block)
    plan = reconciler.plan(manifest)
    assert blocked(plan) == [("preview/b", ReasonCode.BASE_UNAVAILABLE)]
    assert plan.blocked[0].remedy.startswith("correct `of`")
    [update, create] = plan.changes
    assert [plan.changes[position] for position in create.depends_on] == [update]
    lake = world.catalog("lake")
    before = lake.remove_table(USERS)
    lake.insert_table(USERS, str(world.folder / "lake" / "elsewhere"), before.properties)
    saved = Plan.from_json(plan.to_json())
    with pytest.raises(StalePlanError, match=r"lake/features/users +location"):
        reconciler.apply(saved, manifest, journal=world.folder / "journal", skip_blocked=True)
    lake.remove_table(USERS)
    lake.insert_table(USERS, before.location, before.properties)
    world.apply(manifest, saved, skip_blocked=True)
    assert rows(world, ("a",)) == 6


@pytest.mark.parametrize("edit", ["clone", "mirror_of"])
def test_an_edited_plan_of_one_clone_is_refused(world: World, edit: str) -> None:
    manifest = world.manifest(lake=LAKE, preview=TRIED)
    document = json.loads(reconciler.plan(manifest).to_json())
    change = document["changes"][-1]
    other = {"clone": {"location": place(world, "lake", EVENTS)}, "mirror_of": {"identifier": list(EVENTS)}}
    change[edit].update(other[edit])
    with pytest.raises(PlanFileError):
        reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")


def test_a_block_with_another_clone_is_one_of_that_table(world: World) -> None:
    own = "namespaces: {features: {tables: {users: {clone: {of: lake/features/events}}}}}"
    world.settle(lake=LAKE, preview=f"{TAGGED}\n{own}")
    assert world.catalog("preview").load_table(USERS).properties[CLONE] == "lake/features/events@3"


def test_a_clone_stays_a_table_when_its_line_goes(world: World) -> None:
    world.settle(lake=LAKE, preview="tables: {a: {clone: {of: lake/features/users}}}")
    world.settle(lake=LAKE, preview="tables: {a: {properties: {tier: own}}}")
    assert world.catalog("preview").load_table(("a",)).properties[CLONE] == "lake/features/users@3"


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("{clone: {of: lak/a}}", "begins with no catalog of this manifest; did you mean `lake`?"),
        ("{clone: {of: preview/a}}", "expected a table of another catalog"),
        ("{clone: {at: {tag: prod}}}", "the clone of table preview/t has no `of`; expected the table to clone"),
        ("{clone: {of: lake/a, from: lake}}", "unknown key `from` in the clone of table preview/t"),
        ("{clone: {of: lake/a, at: {tga: prod}}}", "unknown key `tga` in `at` in the clone of table preview/t"),
        ("{clone: {of: lake/a, at: {tag: ''}}}", "`at.tag` in the clone of table preview/t is ``: expected"),
        ("{clone: {of: lake}}", "is in `lake`, and names no table"),
        ("{clone: {of: 'lake/${env:HOME}'}}", "`clone` is `lake/${env:HOME}`: values of the environment"),
        ("{clone: {of: lake/a, at: {tag: '${env:HOME}'}}}", "`clone` is `${env:HOME}`: values of the environment"),
        ("{clone: {of: lake/}}", "expected names joined by a slash"),
        ("{clone: {of: lake/a$b}}", "a name cannot contain `$`"),
        ("{clone: {of: lake/a}, absent: true}", "contradicts `absent: true`"),
        ("{clone: {of: lake/a}, probe: false}", "contradicts `probe: false`"),
        ("{clone: lake/a}", "such as `{of: prod/features/users, at: {tag: prod}}`"),
    ],
)
def test_what_is_wrong_with_the_clone_of_a_table_is_told_where_it_stands(world: World, block: str, told: str) -> None:
    with pytest.raises(ManifestError) as caught:
        world.manifest(lake="prune: never", preview=f"tables: {{t: {block}}}")
    [problem] = caught.value.problems
    assert told in problem.message
    assert problem.line == 11


def test_catalogs_that_clone_tables_of_each_other_are_an_error(world: World) -> None:
    with pytest.raises(ManifestError, match=r"dependency cycle: [ab] needs [ab] needs [ab]"):
        world.manifest(a="tables: {t: {clone: {of: b/t}}}", b="tables: {u: {clone: {of: a/u}}}")


def test_the_clone_of_a_table_counts_in_the_digest(world: World) -> None:
    blocks = ("{}", "{clone: {of: lake/a}}", "{clone: {of: lake/b}}", "{clone: {of: lake/a, at: {version: 1}}}")
    made = {world.manifest(lake="prune: never", preview=f"tables: {{t: {block}}}").digest for block in blocks}
    assert len(made) == len(blocks)


OFFLINE = """
manifest: MANIFEST
live:
  - {address: lake/features/users, managed: true, schema: [{name: id, type: int64}]}
  - {address: lake/features/events, managed: true}
  - {address: preview/features/events, managed: true, clone: lake/features/events@7}
  - {address: preview/features/old, managed: true, clone: lake/features/old@3}
tests:
  - name: what is live is cloned, and what is a clone stays
    expect:
      - {action: create-table, address: preview/features/users, code: cloned}
      - {action: deregister-table, address: preview/features/old, code: clone-ended}
    reject:
      - {action: blocked}
      - {address: preview/features/events}
  - name: a block that does not fit the source is blocked
    live:
      - {address: lake/features/users, managed: true, schema: [{name: id, type: string}]}
    expect:
      - {action: blocked, address: preview/features/users, code: other-columns}
"""


def test_plans_of_clones_are_tested_without_storage(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    users = "users: {schema: [{name: id, type: int64}, {name: n, type: string}], evolve: additive}"
    preview = f"{TAGGED}\nnamespaces: {{features: {{tables: {{{users}}}}}}}"
    file = Path(world.manifest(lake=LAKE, preview=preview).files[0]).resolve()
    tests = file.parent / "clones.tests.yaml"
    tests.write_text(OFFLINE.replace("MANIFEST", file.name))
    ran = lancens(capsys, "test", tests)
    assert ran.code == 0, ran.out


def test_clones_lie_in_another_part_of_the_same_service(tmp_path: Path) -> None:
    catalog = f"impl: dir, config: {{root: {tmp_path / 'lake'}}}"
    block = "namespaces: {features: {tables: {users: {schema: [{name: id, type: int64}]}}}}"
    prod = f"  prod: {{{catalog}, scope: ['features/**'], {block}}}\n"
    manifest = load_text(tmp_path, f"version: 1\nname: store\ncatalogs:\n{prod}")
    reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal")
    with closing(DirBackend(root=str(tmp_path / "lake"))) as backend:
        append(backend.load_table(USERS).location, 5)
    clone = ", clone: {from: prod, into: [pr_7]}"
    pr = f"  pr: {{{catalog}, scope: ['pr_7/**']{clone}}}\n"
    manifest = load_text(tmp_path, f"version: 1\nname: store\ncatalogs:\n{prod}{pr}")
    plan = reconciler.plan(manifest)
    assert steps(plan) == [
        "create-namespace pr/pr_7",
        "create-namespace pr/pr_7/features",
        "create-table pr/pr_7/features/users",
    ]
    assert reconciler.apply(plan, manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).is_empty
    with closing(DirBackend(root=str(tmp_path / "lake"))) as backend:
        assert lance.dataset(backend.load_table(("pr_7", *USERS)).location).count_rows() == 5
    gone = load_text(tmp_path, f"version: 1\nname: store\ncatalogs:\n{prod}{pr.replace(clone, '')}")
    plan = reconciler.plan(gone, allow_mass_removal=True)
    assert {str(change.action) for change in plan.changes} == {"deregister-table", "drop-namespace"}
    assert {change.catalog for change in plan.changes} == {"pr"}


def test_a_mark_that_others_wrote_needs_no_number(world: World) -> None:
    own = "namespaces: {features: {tables: {users: {schema: [{name: id, type: int64}], properties: {tier: own}}}}}"
    world.settle(lake=LAKE, preview=TAGGED)
    world.catalog("preview").alter_table(USERS, PropertyChanges({CLONE: "lake/features/users@latest"}))
    manifest = world.manifest(lake=LAKE, preview=f"{TAGGED}\n{own}")
    world.apply(manifest, Plan.from_json(reconciler.plan(manifest).to_json()))
    assert world.catalog("preview").load_table(USERS).properties["tier"] == "own"


@pytest.mark.parametrize("key", [CLONE, MANAGED_BY, MIRROR, POLICY, MANIFEST_ID])
def test_credentials_that_others_wrote_into_a_mark_are_not_shown(world: World, key: str) -> None:
    manifest = world.settle(lake=LAKE, preview=TAGGED)
    mark = "s3://key:s3cret@lake/users@1 pinned"
    world.catalog("preview").alter_table(USERS, PropertyChanges({key: mark}))
    shown = [
        *map(str, list_tables(manifest, ["preview/**"])[0]),
        str(describe(manifest, "preview/features/users")),
        reconciler.import_(manifest),
    ]
    for block in (TAGGED, "prune: all"):
        plan = reconciler.plan(world.manifest(lake=LAKE, preview=block), allow_mass_removal=True)
        shown += [render(plan, form) for form in ("text", "markdown", "html", "json")]
    assert not [text for text in shown if "s3cret" in text]
    taken = reconciler.plan(manifest, take_over=True, adopt=True)
    reconciler.apply(Plan.from_json(taken.to_json()), manifest, journal=world.folder / "journal")
    assert reconciler.plan(manifest, take_over=True).is_empty


# ---- clones that follow a tag ----------------------------------------------------------------------------------------

FOLLOWING = "clone: {from: lake, select: ['**/users'], at: {tag: prod}, follow: true}"
FOLLOWING_TABLE = (
    "namespaces: {features: {tables: {users: {clone: {of: lake/features/users, at: {tag: prod}, follow: true}}}}}"
)


OWN_BLOCK = (
    "namespaces: {features: {tables: {users: {evolve: additive, "
    "schema: [{name: id, type: int64}, {name: n, type: string}]}}}}"
)


def move_tag(world: World, version: int, name: tuple[str, ...] = USERS) -> None:
    lance.dataset(place(world, "lake", name)).tags.update("prod", version)


def entry_of(world: World, impl: str, name: tuple[str, ...] = USERS) -> LiveTable:
    preview = DirBackend(root=str(world.folder / "preview")) if impl == "dir" else world.catalog("preview")
    return preview.load_table(name)


@pytest.mark.parametrize("block", [FOLLOWING, FOLLOWING_TABLE])
@pytest.mark.parametrize("impl", ["memory", "dir"])
def test_a_clone_that_follows_is_replaced_once_its_tag_has_moved(world: World, impl: str, block: str) -> None:
    world.impls["preview"] = impl
    manifest = world.settle(lake="prune: never", preview=block)
    old = entry_of(world, impl).location
    append(old, 1)
    append(old, 1)
    move_tag(world, 3)
    kept, lake = files(Path(old)), files(world.folder / "lake")
    plan = reconciler.plan(manifest)
    assert steps(plan) == ["relocate-table preview/features/users"]
    assert plan.changes[0].reason == (
        "new clone of lake/features/users at 3 (tag prod) instead of 2, 6 rows; "
        "2 versions written since stay with the old one"
    )
    for form in ("text", "markdown", "html"):
        assert "2 versions written since stay with the old one" in render(plan, form), form
        assert Path(old).name in render(plan, form), form
    report = world.apply(manifest, Plan.from_json(plan.to_json()))
    live = entry_of(world, impl)
    assert live.properties[CLONE] == "lake/features/users@3"
    assert live.properties[DATA] == "true"
    assert lance.dataset(live.location).count_rows() == 6
    assert (files(Path(old)), files(world.folder / "lake")) == (kept, lake)
    assert list(report.unreferenced) == [old]
    after = reconciler.plan(manifest)
    assert (steps(after), blocked(after), after.notes) == ([], [], ())


@pytest.mark.parametrize("impl", ["memory", "dir"])
def test_no_clone_that_was_left_is_used_again(world: World, impl: str) -> None:
    world.impls["preview"] = impl
    block = FOLLOWING.replace("follow", "names: {features/users: top}, follow")
    manifest = world.settle(lake="prune: never", preview=block)
    seen = []
    for version in (3, 2, 3):
        seen.append(entry_of(world, impl, ("top",)).location)
        append(seen[-1], 1)
        move_tag(world, version)
        world.apply(manifest)
        assert reconciler.plan(manifest).is_empty
        live = entry_of(world, impl, ("top",))
        assert lance.dataset(live.location).count_rows() == version + 3
        assert live.location not in seen
    assert [shown.address for shown in list_tables(manifest, ["preview/**"])[0]] == ["preview/top"]


def test_a_clone_that_was_left_and_written_to_is_not_used_once_its_name_is_made_again(world: World) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    move_tag(world, 3)
    world.apply(manifest)
    append(place(world, "preview", USERS), 100)
    world.catalog("preview").remove_table(USERS)
    move_tag(world, 2)
    world.apply(manifest)
    before = world.catalog("preview").load_table(USERS)
    move_tag(world, 3)
    plan = reconciler.plan(manifest)
    assert_blocked(
        plan, "preview/features/users", ReasonCode.CLONE_WRITTEN, name="lake/features/users", version=3, tag="prod"
    )
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    assert world.catalog("preview").load_table(USERS) == before


def test_a_clone_that_was_left_and_is_written_to_after_the_plan_is_not_used(world: World) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    move_tag(world, 3)
    world.apply(manifest)
    left = place(world, "preview", USERS)
    world.catalog("preview").remove_table(USERS)
    move_tag(world, 2)
    world.apply(manifest)
    before = world.catalog("preview").load_table(USERS)
    move_tag(world, 3)
    plan = reconciler.plan(manifest)
    assert steps(plan) == ["relocate-table preview/features/users"]
    append(left, 100)
    report = reconciler.apply(plan, manifest, journal=world.folder / "journal")
    assert "holds an earlier clone of this version, which others have written to" in report.results[0].message
    assert world.catalog("preview").load_table(USERS) == before


def test_a_base_that_was_rebuilt_with_the_same_number_is_another_version(world: World) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    source = place(world, "lake", USERS)
    shutil.rmtree(source)
    append(source, 7)
    append(source, 1)
    lance.dataset(source).tags.create("prod", 2)
    plan = Plan.from_json(reconciler.plan(manifest).to_json())
    assert steps(plan) == ["relocate-table preview/features/users"]
    world.apply(manifest, plan)
    assert rows(world) == 8


def test_only_what_follows_reads_the_source_of_a_clone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    following = world.settle(lake="prune: never", preview=FOLLOWING)
    fixed = world.manifest(lake="prune: never", preview=FOLLOWING.replace(", follow: true", ""))
    monkeypatch.setattr(storage, "read_base", fail)
    assert reconciler.plan(fixed).is_empty
    with pytest.raises(AssertionError):
        reconciler.plan(following)


@pytest.mark.end_to_end
@pytest.mark.parametrize("same_plan", [False, True])
@pytest.mark.parametrize("impl", ["memory", "dir"])
def test_killed_at_any_write_a_followed_clone_ends_as_without(
    world: World, monkeypatch: pytest.MonkeyPatch, impl: str, same_plan: bool
) -> None:
    world.impls["preview"] = impl
    block = f"{FOLLOWING.replace('follow', 'pin: true, follow')}\n{OWN_BLOCK}"
    manifest = world.settle(lake="prune: never", preview=block)
    options: Any = {"journal": world.folder / "journal", "parallelism": 1}
    for number in range(100):
        old = entry_of(world, impl).location
        move_tag(world, 3 - number % 2)
        saved = reconciler.plan(manifest).to_json()
        with monkeypatch.context() as patch:
            points = killed_at(patch, number)
            with suppress(Crash):
                reconciler.apply(Plan.from_json(saved), manifest, **options)
            is_done = number >= points()
        again = reconciler.plan(manifest)
        if not is_done:
            report = reconciler.apply(Plan.from_json(saved) if same_plan else again, manifest, **options)
            assert report.ok
        live = entry_of(world, impl)
        assert live.location != old
        assert live.properties[CLONE] == f"lake/features/users@{3 - number % 2} pinned"
        assert pins(world) == {storage.pin_of(live.location): 3 - number % 2}
        assert lance.dataset(live.location).schema.names == ["id", "n"]
        assert reconciler.plan(manifest).is_empty
        if is_done:
            break
    assert number > 5


def test_a_tag_that_moves_again_before_apply_is_stale(world: World) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    before = world.catalog("preview").load_table(USERS)
    move_tag(world, 3)
    plan = reconciler.plan(manifest)
    append(place(world, "lake", USERS), 1)
    move_tag(world, 4)
    report = reconciler.apply(plan, manifest, journal=world.folder / "journal")
    assert [result.message.partition(" at ")[0] for result in report.results] == ["stale: tag `prod`"]
    assert world.catalog("preview").load_table(USERS) == before


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("version", 1, "is not what the manifest"),
        ("location", "/elsewhere", "is not what the manifest"),
        ("transaction", "0", "is not what the manifest"),
    ],
)
def test_an_edited_plan_of_a_followed_clone_is_refused(world: World, field: str, value: object, told: str) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    move_tag(world, 3)
    document = json.loads(reconciler.plan(manifest).to_json())
    document["changes"][0]["clone"][field] = value
    with pytest.raises(PlanFileError, match=told):
        reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")


def test_a_clone_whose_tag_is_gone_or_whose_entry_is_fixed_is_blocked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    move_tag(world, 3)
    with monkeypatch.context() as patch:
        able = replace(MemoryBackend.known_capabilities, relocate_table=False)
        patch.setattr(MemoryBackend, "known_capabilities", able)
        plan = reconciler.plan(manifest)
        assert blocked(plan) == [("preview/features/users", ReasonCode.CANNOT_RELOCATE)]
        report = reconciler.apply(
            Plan.from_json(plan.to_json()), manifest, journal=world.folder / "journal", skip_blocked=True
        )
        assert report.results == ()
    lance.dataset(place(world, "lake", USERS)).tags.delete("prod")
    assert_blocked(reconciler.plan(manifest), "preview/features/users", ReasonCode.BASE_UNAVAILABLE, tag="prod")


@pytest.mark.parametrize("same_plan", [False, True])
def test_a_tag_that_the_same_plan_moves_is_followed_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch, same_plan: bool
) -> None:
    tagged = "namespaces: {features: {tables: {users: {tags: {prod: VERSION}}}}}\nprune: never"
    world.apply(world.manifest(lake=tagged.replace("VERSION", "2"), preview=FOLLOWING))
    options: Any = {"journal": world.folder / "journal", "parallelism": 1}
    for number in range(100):
        version = 3 - number % 2
        manifest = world.manifest(lake=tagged.replace("VERSION", str(version)), preview=FOLLOWING)
        saved = reconciler.plan(manifest).to_json()
        assert steps(Plan.from_json(saved)) == ["tag lake/features/users", "relocate-table preview/features/users"]
        with monkeypatch.context() as patch:
            points = killed_at(patch, number)
            with suppress(Crash):
                reconciler.apply(Plan.from_json(saved), manifest, **options)
            is_done = number >= points()
        again = Plan.from_json(saved) if same_plan else reconciler.plan(manifest)
        assert reconciler.apply(again, manifest, **options).ok
        assert (rows(world), reconciler.plan(manifest).is_empty) == (version + 3, True)
        if is_done:
            break
    assert number > 3


def test_a_lost_clone_that_follows_is_replaced(world: World) -> None:
    manifest = world.settle(lake="prune: never", preview=FOLLOWING)
    shutil.rmtree(place(world, "preview", USERS))
    move_tag(world, 3)
    world.apply(manifest)
    assert rows(world) == 6


def test_a_block_is_on_top_of_each_new_clone(world: World) -> None:
    for version in (2, 3, 2):
        own = OWN_BLOCK.replace("users: {", f"users: {{properties: {{tier: own}}, tags: {{mine: {version}}}, ")
        manifest = world.manifest(lake="prune: never", preview=f"{FOLLOWING}\n{own}")
        move_tag(world, version)
        plan = Plan.from_json(reconciler.plan(manifest).to_json())
        assert steps(plan)[-1].endswith("-table preview/features/users")
        assert plan.changes[-1].reason.endswith("; columns to add")
        assert [summary.removals for summary in plan.catalogs] == [(0, 0, 0, 0)] * 2
        world.apply(manifest, plan)
        assert reconciler.plan(manifest).is_empty
        clone = lance.dataset(place(world, "preview", USERS))
        assert (clone.schema.names, clone.count_rows()) == (["id", "n"], version + 3)
        assert {name: tag["version"] for name, tag in clone.tags.list().items()} == {"mine": version}
        assert world.catalog("preview").load_table(USERS).properties["tier"] == "own"


def test_a_block_that_a_new_clone_cannot_have_is_blocked(world: World) -> None:
    own = OWN_BLOCK.replace("evolve: additive", "evolve: additive, tags: {mine: 2}")
    manifest = world.settle(lake="prune: never", preview=f"{FOLLOWING}\n{own}")
    move_tag(world, 3)
    plan = reconciler.plan(manifest)
    assert blocked(plan) == [("preview/features/users", ReasonCode.TAG_WITHOUT_VERSION)]
    report = reconciler.apply(
        Plan.from_json(plan.to_json()), manifest, journal=world.folder / "journal", skip_blocked=True
    )
    assert report.results == ()
    fixed = world.manifest(
        lake="prune: never", preview=f"{FOLLOWING}\n{own}".replace("evolve: additive", "evolve: never")
    )
    assert blocked(reconciler.plan(fixed)) == [("preview/features/users", ReasonCode.OTHER_COLUMNS)]


def test_a_mirror_and_a_move_go_with_a_followed_clone(world: World) -> None:
    mirrored = {"lake": "prune: never", "preview": FOLLOWING, "copy": "mirror: {from: preview}"}
    world.settle(**mirrored)
    move_tag(world, 3)
    world.settle(**mirrored)
    assert place(world, "copy", USERS) == place(world, "preview", USERS)
    move_tag(world, 2)
    moved = FOLLOWING_TABLE.replace("users: {clone", "people: {clone")
    moved += "\nmoved: [{from: features/users, to: features/people}]"
    manifest = world.manifest(lake="prune: never", preview=moved)
    assert steps(reconciler.plan(manifest)) == ["move-table preview/features/people"]
    world.apply(manifest)
    world.apply(manifest)
    assert rows(world, ("features", "people")) == 5


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (
            FOLLOWING.replace("{tag: prod}", "{version: 2}"),
            "`follow` in the clone of preview has no tag; expected a tag",
        ),
        (FOLLOWING.replace("at: {tag: prod}, ", ""), "`follow` in the clone of preview has no tag; expected a tag"),
        (
            FOLLOWING_TABLE.replace("{clone:", "{location: ./here.lance, clone:"),
            "contradicts `location`: each new clone gets a location of its own",
        ),
    ],
)
def test_a_clone_cannot_follow_without_a_tag_or_to_one_location(world: World, block: str, told: str) -> None:
    with pytest.raises(ManifestError) as error:
        world.manifest(lake="prune: never", preview=block)
    [problem] = error.value.problems
    assert told in problem.message


# ---- pinned bases ----------------------------------------------------------------------------------------------------

PINNED = "clone: {from: lake, select: ['**/users'], at: {version: 2}, pin: true}"
PINNED_TABLE = (
    "namespaces: {features: {tables: {users: {clone: {of: lake/features/users, at: {tag: prod}, pin: true}}}}}"
)


def pins(world: World) -> Mapping[str, int]:
    tags = lance.dataset(place(world, "lake", USERS)).tags.list()
    return {name: tag["version"] for name, tag in tags.items() if name != "prod"}


@pytest.mark.parametrize("block", [PINNED, PINNED_TABLE])
@pytest.mark.parametrize("impl", ["memory", "dir"])
def test_a_pinned_base_has_a_tag_as_long_as_the_clone_has_an_entry(world: World, impl: str, block: str) -> None:
    world.impls["preview"] = impl
    before = files(world.folder / "lake")
    manifest = world.manifest(lake="prune: never", preview=block)
    plan = reconciler.plan(manifest)
    for form in ("text", "markdown", "html"):
        assert "5 rows, pinned" in render(plan, form), form
        assert "kept by a tag that apply sets there" in render(plan, form), form
        assert "which no tag keeps" not in render(plan, form), form
    assert json.loads(plan.to_json())["changes"][-1]["clone"]["pin"] is True
    world.apply(manifest, Plan.from_json(plan.to_json()))
    assert reconciler.plan(manifest).is_empty
    [clone] = list_tables(manifest, ["preview/**"])[0]
    assert clone.clone == "lake/features/users@2 pinned"
    tag = storage.pin_of(clone.location or "")
    assert pins(world) == {tag: 2}
    with pytest.raises(OSError, match="tagged"):
        lance.dataset(place(world, "lake", USERS)).cleanup_old_versions(older_than=timedelta(0))
    after = files(world.folder / "lake")
    assert [Path(name).stem for name in after.keys() - before.keys()] == [tag]
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    plan = reconciler.plan(gone, allow_mass_removal=True)
    for form in ("text", "markdown", "html"):
        assert "kept by a tag for the clone, which apply then removes there" in render(plan, form), form
    report = world.apply(gone, plan, allow_mass_removal=True)
    assert (len(report.unreferenced), report.kept_tags) == (1, [])
    assert files(world.folder / "lake") == before


def test_what_is_not_pinned_has_no_tag_and_an_entry_is_never_pinned_later(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED.replace(", pin: true", ""))
    world.settle(lake=LAKE, preview=PINNED)
    assert pins(world) == {}


@pytest.mark.end_to_end
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("same_plan", [False, True])
def test_killed_at_any_write_the_pin_ends_as_without(
    world: World, monkeypatch: pytest.MonkeyPatch, ends: bool, same_plan: bool
) -> None:
    """One clone directly under the root, which is a table before it has an entry."""
    lake = files(world.folder / "lake")
    for number in range(100):
        world.impls = {f"preview{number}": "dir"}
        block = PINNED.replace("select: ['**/users']", "select: ['**/users'], names: {features/users: top}")
        manifest = world.manifest(lake="prune: never", **{f"preview{number}": block})
        if ends:
            world.apply(manifest)
            manifest = world.manifest(lake="prune: never", **{f"preview{number}": "prune: owned"})
        saved = reconciler.plan(manifest, allow_mass_removal=True).to_json()
        options: Any = {"journal": world.folder / "journal", "allow_mass_removal": True, "parallelism": 1}
        with monkeypatch.context() as patch:
            points = killed_at(patch, number)
            with suppress(Crash):
                reconciler.apply(Plan.from_json(saved), manifest, **options)
            is_done = number >= points()
        root = DirBackend(root=str(world.folder / f"preview{number}"))
        for table in root.scan().tables.values():
            if ownership.is_pinned(table.properties.get(CLONE)):
                assert ends or storage.pin_of(table.location) in pins(world)
        if ends:
            assert pins(world).keys() <= {storage.pin_of(table.location) for table in root.scan().tables.values()}
        plan = reconciler.plan(manifest, allow_mass_removal=True)
        again = Plan.from_json(saved) if same_plan and not _shows_root(plan) else plan
        reconciler.apply(again, manifest, **options)
        tables = root.scan().tables.values()
        marked = [table for table in tables if ownership.is_pinned(table.properties.get(CLONE))]
        assert len(marked) == (0 if ends else 1)
        if not ends:
            assert [*pins(world).values()] == [2] * (number + 1)
        else:
            assert files(world.folder / "lake") == lake
        if is_done:
            break
    assert number > 2


def test_a_pin_that_is_denied_fails_before_anything_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(world.folder)
    manifest = world.manifest(lake="prune: never", preview=PINNED)
    before = files(world.folder / "lake")

    def deny(*_: object) -> None:
        raise PermissionDeniedError("403")

    monkeypatch.setattr(storage, "pin_base", deny)
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=world.folder / "journal")
    [message] = [result.message for result in report.results if result.message]
    assert "`pin` needs credentials that may set the tag lancens-clone-" in message
    assert files(world.folder / "lake") == before
    assert not files(world.folder / "preview")


def test_a_clone_that_cannot_be_written_leaves_no_pin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.manifest(lake="prune: never", preview=PINNED), files(world.folder / "lake")

    def deny(*_: object) -> None:
        raise PermissionDeniedError("403")

    monkeypatch.setattr(storage, "write_clone", deny)
    report = reconciler.apply(reconciler.plan(before[0]), before[0], journal=world.folder / "journal")
    assert "403" in [result.message for result in report.results]
    assert files(world.folder / "lake") == before[1]


def test_two_runs_at_once_pin_a_base_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run sets the tag between this one's look and its write, and then fails, and removes it."""
    write = storage.write_clone
    fails = [True, False, False]

    def late(location: str, targets: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        write_tags(location, targets, options)
        if fails.pop(0):
            raise TableAlreadyExistsError("the tag exists already")

    def unpinned(base: CloneBase, options: Any, target: str, *rest: Any) -> None:
        write(base, options, target, *rest)
        storage.unpin_base(base.location, target, options)

    manifest = world.manifest(lake="prune: never", preview=PINNED)
    with monkeypatch.context() as patch:
        patch.setattr("reconciler.storage.pins.write_tags", late)
        patch.setattr(storage, "write_clone", unpinned)
        world.apply(manifest)
    assert pins(world) == {storage.pin_of(place(world, "preview", USERS)): 2}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_that_fails_leaves_no_tag_but_that_of_another_run(
    world: World, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def fail(*_: object) -> None:
        raise ServiceUnavailableError("down")

    manifest = world.manifest(lake="prune: never", preview=PINNED)
    plan = reconciler.plan(manifest)
    [change] = [change for change in plan.changes if change.clone is not None]
    assert change.clone is not None
    if is_there:
        storage.pin_base(change.clone, change.destination or "", {})
    before = pins(world)
    with monkeypatch.context() as patch:
        patch.setattr(cloning, "commit_clone", fail)
        assert not reconciler.apply(plan, manifest, journal=world.folder / "journal").ok
    assert (pins(world), len(before)) == (before, is_there)


@pytest.mark.parametrize("is_denied", [False, True])
def test_the_pin_of_a_clone_whose_data_is_gone_is_found_by_its_source(
    world: World, monkeypatch: pytest.MonkeyPatch, is_denied: bool
) -> None:
    def deny(*_: object) -> None:
        raise PermissionDeniedError("403")

    world.settle(lake=LAKE, preview=PINNED)
    shutil.rmtree(place(world, "preview", USERS))
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    plan = reconciler.plan(gone, allow_mass_removal=True)
    if is_denied:
        monkeypatch.setattr(storage, "unpin_base", deny)
    report = world.apply(gone, plan, allow_mass_removal=True)
    assert [kept.reason for kept in report.kept_tags] == ["lake (memory): 403"] * is_denied
    assert len(pins(world)) == is_denied


@pytest.mark.parametrize(
    ("fault", "told"),
    [(ServiceUnavailableError("503"), "503; the tag lancens-clone-"), (PermissionDeniedError("403"), "")],
)
def test_an_entry_waits_for_a_tag_that_a_later_apply_can_remove(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Exception, told: str
) -> None:
    def fail(*_: object) -> None:
        raise fault

    world.settle(lake=LAKE, preview=PINNED)
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    options: Any = {"journal": world.folder / "journal", "allow_mass_removal": True}
    with monkeypatch.context() as patch:
        patch.setattr(storage, "unpin_base", fail)
        report = reconciler.apply(reconciler.plan(gone, allow_mass_removal=True), gone, **options)
    assert (world.catalog("preview").scan().tables.keys() == {USERS}) is bool(told)
    assert any(told in result.message for result in report.results)
    assert len(report.kept_tags) == (not told)
    if told:
        assert reconciler.apply(reconciler.plan(gone, allow_mass_removal=True), gone, **options).ok
        assert (pins(world), [*world.catalog("preview").scan().tables]) == ({}, [])


@pytest.mark.parametrize("was_pinned", [True, False])
def test_a_clone_whose_removal_is_refused_is_pinned_as_before(
    world: World, monkeypatch: pytest.MonkeyPatch, was_pinned: bool
) -> None:
    seen: list[Mapping[str, int]] = []

    def refuse(*_: object) -> None:
        seen.append(pins(world))
        raise PermissionDeniedError("403")

    world.settle(lake=LAKE, preview=PINNED)
    if not was_pinned:
        lance.dataset(place(world, "lake", USERS)).tags.delete(*pins(world))
    before = pins(world)
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    plan = reconciler.plan(gone, allow_mass_removal=True)
    monkeypatch.setattr(MemoryBackend, "remove_table", refuse)
    options: Any = {"journal": world.folder / "journal", "allow_mass_removal": True}
    report = reconciler.apply(plan, gone, **options)
    assert not report.ok
    assert seen == [{}]
    assert pins(world) == before
    assert not report.unreferenced


def test_an_entry_that_is_relocated_is_no_clone_any_more(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED_TABLE)
    clone, other = place(world, "preview", USERS), str(world.folder / "preview" / "other.lance")
    append(other, 7)
    moved = world.manifest(
        lake="prune: never", preview=f"namespaces: {{features: {{tables: {{users: {{location: {other}}}}}}}}}"
    )
    plan = reconciler.plan(moved)
    assert steps(plan) == ["relocate-table preview/features/users"]
    assert "kept by a tag for the clone, which apply then removes there" in render(plan, "text")
    report = world.apply(moved, Plan.from_json(plan.to_json()))
    assert (report.unreferenced, pins(world)) == ([clone], {})
    assert CLONE not in world.catalog("preview").load_table(USERS).properties
    assert reconciler.plan(moved).is_empty


def test_the_pin_of_a_clone_is_kept_when_its_source_has_a_new_name(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED)
    before, lake = pins(world), world.catalog("lake")
    entry = lake.remove_table(USERS)
    lake.insert_table(("features", "people"), entry.location, entry.properties)
    names = PINNED.replace("**/users", "**/people").replace(", pin: true", ", names: {features/people: features/users}")
    manifest = world.manifest(lake="prune: never", preview=names)
    world.apply(manifest)
    assert world.catalog("preview").load_table(USERS).properties[CLONE] == "lake/features/people@2 pinned"
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    lake.insert_table(USERS, entry.location, entry.properties)
    assert pins(world) == before
    world.apply(gone, reconciler.plan(gone, allow_mass_removal=True), allow_mass_removal=True)
    assert pins(world) == {}


def test_a_released_clone_keeps_its_pin_which_is_told(world: World) -> None:
    manifest = world.settle(lake=LAKE, preview=PINNED)
    before = pins(world)
    report = release(plan_release(manifest, ["preview/**"]), manifest, journal=world.folder / "journal")
    [tag] = pins(world)
    assert (report.ok, pins(world)) == (True, before)
    assert f"the tag {tag} of lake/features/users stays: the clone reads" in [*unreferenced_lines(report)][-1]


def test_a_pin_of_a_source_that_is_gone_or_rebuilt_keeps_no_entry(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED)
    source = place(world, "lake", USERS)
    shutil.rmtree(source)
    append(source, 1)
    gone = world.manifest(lake="prune: never", preview="prune: owned")
    report = world.apply(gone, reconciler.plan(gone, allow_mass_removal=True), allow_mass_removal=True)
    assert (len(report.kept_tags), pins(world)) == (0, {})
    world.settle(
        lake="prune: never",
        preview=PINNED.replace("version: 2", "version: 1").replace("from: lake,", "from: lake, into: [b],"),
    )
    shutil.rmtree(place(world, "preview", ("b", *USERS)))
    world.catalog("lake").remove_table(USERS)
    report = world.apply(gone, reconciler.plan(gone, allow_mass_removal=True), allow_mass_removal=True)
    [kept] = report.kept_tags
    assert (kept.location, kept.reason.partition(":")[0]) == (None, "its data is not found")
    assert world.catalog("preview").scan().tables == {}


def test_a_tag_that_cannot_be_removed_is_told_with_the_call_that_does(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED)
    location = place(world, "lake", USERS)
    gone = world.manifest(preview="prune: owned")
    report = world.apply(gone, reconciler.plan(gone, allow_mass_removal=True), allow_mass_removal=True)
    [tag] = pins(world)
    [kept] = report.kept_tags
    assert (kept.tag, kept.source, kept.location) == (tag, "lake/features/users", location)
    told = [*unreferenced_lines(report)][-1]
    assert "the manifest has no catalog `lake`" in told
    assert f"`lance.dataset({location!r}).tags.delete({tag!r})` removes it" in told
    lance.dataset(location).tags.delete(tag)
    assert pins(world) == {}


def test_no_tag_is_removed_outside_the_root_of_the_source(world: World) -> None:
    world.settle(lake=LAKE, preview=PINNED)
    location = place(world, "lake", USERS)
    gone = Path(world.manifest(lake="prune: never", preview="prune: owned").files[0])
    gone.write_text(gone.read_text().replace(f"root: {world.folder / 'lake'}", f"root: {world.folder / 'other'}"))
    (world.folder / "other").mkdir()
    manifest = reconciler.load(gone)
    report = world.apply(manifest, reconciler.plan(manifest, allow_mass_removal=True), allow_mass_removal=True)
    [kept] = report.kept_tags
    assert (kept.location, kept.reason) == (location, "its data is not below the `root` of lake")
    assert [*pins(world)] == [kept.tag]


def test_a_pin_stays_while_another_entry_has_the_data(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.settle(lake=LAKE, preview=PINNED)
    preview = world.catalog("preview")
    preview.insert_table(("kept",), place(world, "preview", USERS), {})
    manifest = world.manifest(lake=LAKE, preview="prune: owned")
    options = ("--format", "json", "--auto-approve", "--allow-mass-removal")
    ran = lancens(capsys, "apply", manifest.files[0], *options)
    [kept] = json.loads(ran.out.splitlines()[-1])["kept_tags"]
    assert (kept["source"], kept["reason"]) == ("lake/features/users", "another entry has the clone, or a clone of it")
    assert [kept["tag"]] == [*pins(world)]


@pytest.mark.parametrize("ends", [False, True])
def test_a_pin_stays_while_a_clone_of_the_clone_reads_the_data(world: World, ends: bool) -> None:
    """The second clone is in a catalog in which the plan changes nothing; a third one reads from all three."""
    others = {
        "second": "prune: never\nclone: {from: preview, select: ['**/users']}",
        "third": "prune: never\nclone: {from: second, select: ['**/users']}",
    }
    following = f"prune: never\n{FOLLOWING.replace('follow', 'pin: true, follow')}"
    for catalogs in ({}, {"second": others["second"]}, others):
        world.settle(lake="prune: never", preview=following, **catalogs)
    old, before = place(world, "preview", USERS), pins(world)
    world.catalog("second").remove_table(USERS)
    move_tag(world, 3)
    if ends:
        following = following.replace("]", "], names: {features/users: other/users}").replace("never", "owned")
        world.catalog("preview").insert_namespace(("other",), {})
    manifest = world.manifest(lake="prune: never", preview=following, **others)
    plan = reconciler.plan(manifest, select=["preview/**"], allow_mass_removal=True)
    report = world.apply(manifest, plan, allow_mass_removal=True)
    [kept] = report.kept_tags
    assert (kept.reason, [*report.unreferenced]) == ("another entry has the clone, or a clone of it", [])
    assert before.items() < pins(world).items()
    third = place(world, "third", USERS)
    assert lance.dataset(third).count_rows() == 5
    assert old not in (place(world, "preview", ("other", "users") if ends else USERS), third)


def test_a_pin_stays_while_a_mirror_has_the_data(world: World) -> None:
    catalogs = {"lake": "prune: never", "preview": FOLLOWING.replace("follow", "pin: true, follow")}
    manifest = world.settle(**catalogs, copy="mirror: {from: preview}")
    before = pins(world)
    move_tag(world, 3)
    report = world.apply(manifest, reconciler.plan(manifest, select=["preview/**"]))
    assert (len(report.kept_tags), len(report.unreferenced)) == (1, 0)
    assert before.items() < pins(world).items()


@pytest.mark.parametrize("of_data", [False, True])
def test_a_pin_stays_while_it_is_not_known_who_has_the_data(
    world: World, monkeypatch: pytest.MonkeyPatch, of_data: bool
) -> None:
    """A directory of clones of the clone, whose entries or whose data cannot be read."""
    world.impls["second"] = "dir"
    catalogs = {"lake": "prune: never", "preview": FOLLOWING.replace("follow", "pin: true, follow")}
    world.settle(**catalogs)
    manifest = world.settle(**catalogs, second="clone: {from: preview, select: ['**/users']}")
    before = pins(world)
    move_tag(world, 3)
    plan = reconciler.plan(manifest, select=["preview/**"])
    if of_data:
        probe, denied = storage.probe, Storage(StorageKind.DENIED)
        monkeypatch.setattr(storage, "probe", lambda place, *to: denied if "/second/" in place else probe(place, *to))
    else:
        for version in (world.folder / "second" / "__manifest" / "_versions").iterdir():
            version.write_bytes(b"damaged")
    report = reconciler.apply(plan, manifest, journal=world.folder / "journal")
    assert report.ok
    [kept] = report.kept_tags
    assert kept.reason == "a catalog or a clone cannot be read, so another entry may need this one"
    assert [*report.unreferenced] == []
    assert before.items() < pins(world).items()


def test_only_clones_that_may_read_the_clone_left_are_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    following = "prune: never\nclone: {from: lake, at: {tag: prod}, pin: true, follow: true}"
    manifest = world.settle(lake="prune: never", preview=following)
    preview, opened = world.catalog("preview"), list[str]()
    append(plain := str(world.folder / "plain.lance"), 1)
    preview.insert_table(("plain",), plain, {})
    move_tag(world, 3)
    plan, probe = reconciler.plan(manifest, select=["preview/**"]), storage.probe

    def noted(place: str, *to: Any) -> Storage:
        opened.append(place)
        return probe(place, *to)

    assert steps(plan) == ["relocate-table preview/features/users"]
    monkeypatch.setattr(storage, "probe", noted)
    assert reconciler.apply(plan, manifest, journal=world.folder / "journal").ok
    assert {place(world, "preview", EVENTS), plain}.isdisjoint(opened)


def test_the_pin_of_another_clone_at_the_place_stays(world: World) -> None:
    manifest = world.manifest(lake="prune: never", preview=PINNED)
    plan = reconciler.plan(manifest)
    others = world.manifest(lake="prune: never", preview=PINNED.replace("version: 2", "version: 3"))
    made = world.apply(others)
    assert made.ok
    world.catalog("preview").remove_table(USERS)
    report = reconciler.apply(plan, manifest, journal=world.folder / "journal")
    assert not report.ok
    assert [*pins(world).values()] == [3]


def test_a_pin_counts_in_the_digest(world: World) -> None:
    blocks = (PINNED, PINNED.replace(", pin: true", ""), PINNED_TABLE, PINNED_TABLE.replace(", pin: true", ""))
    assert len({world.manifest(lake=LAKE, preview=block).digest for block in blocks}) == len(blocks)


def test_a_catalog_without_properties_cannot_pin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    able = replace(MemoryBackend.known_capabilities, table_markers=False)
    monkeypatch.setattr(MemoryBackend, "known_capabilities", able)
    plan = reconciler.plan(world.manifest(lake="prune: never", preview=PINNED))
    assert_blocked(plan, "preview/features/users", ReasonCode.BASE_UNAVAILABLE, name="lake/features/users")
