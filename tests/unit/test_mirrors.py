"""One catalog follows another: planned, applied, changed at the source, and followed again, with real datasets."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler import storage
from reconciler.applier.report import ApplyReport
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.manifest import Manifest
from reconciler.model.errors import BlockedError, ManifestError, PlanFileError, SafetyError, StalePlanError
from reconciler.model.ownership import DATA, MANAGED_BY, MIRROR
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.plan import Plan
from reconciler.storage import reading
from tests.plans import assert_blocked, blocked, noted, resealed
from tests.writing import load_text

COLUMNS = "schema: [{name: id, type: int64}]"
USERS = f"users: {{{COLUMNS}, properties: {{tier: gold}}}}"


class World:
    """A manifest that says what the test says, over catalogs of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = uuid.uuid4().hex
        self.impls: dict[str, str] = {}

    def manifest(self, **catalogs: str) -> Manifest:
        """Each catalog's block without its `impl` and `config`, which are those of a catalog in memory."""
        lines = ["version: 1", "name: store", "catalogs:"]
        for name, block in catalogs.items():
            impl = self.impls.get(name, "memory")
            named = "" if impl == "dir" else f"name: {self.run}-{name}, "
            config = f"{{{named}root: {self.folder / name}}}"
            lines += [f"  {name}:", f"    impl: {impl}", f"    config: {config}"]
            lines += [f"    {line}" for line in block.strip("\n").splitlines()]
        return load_text(self.folder, "\n".join(lines))

    def catalog(self, name: str) -> MemoryBackend:
        return MemoryBackend(name=f"{self.run}-{name}", root=str(self.folder / name))

    def apply(self, manifest: Manifest, plan: Plan | None = None, **options: Any) -> ApplyReport:
        made = reconciler.plan(manifest, allow_mass_removal=options.get("allow_mass_removal", False))
        journal = self.folder / "journal"
        report = reconciler.apply(plan or made, manifest, journal=journal, **options)
        assert report.ok, [result.message for result in report.results]
        return report

    def settle(self, **catalogs: str) -> Manifest:
        """Apply a manifest, and see that nothing is left to do."""
        manifest = self.manifest(**catalogs)
        self.apply(manifest)
        again = reconciler.plan(manifest)
        assert (steps(again), blocked(again)) == ([], [])
        return manifest


def steps(plan: Plan) -> list[str]:
    return [f"{change.action} {change.address}" for change in plan.changes]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


LAKE = f"""
namespaces:
  features:
    tables:
      {USERS}
      events: {{{COLUMNS}}}
"""
PROD = "mirror: {from: lake, into: [analytics]}"
OWN_TABLE = "namespaces: {m: {tables: {a: OWN}}}"
NAMED = f"mirror: {{from: lake, into: [m], names: {{x: a}}}}\n{OWN_TABLE}"


def test_a_source_that_is_made_in_the_same_plan_is_followed_by_one_apply(world: World) -> None:
    manifest = world.manifest(lake=LAKE, prod=PROD)
    plan = reconciler.plan(manifest)
    assert steps(plan) == [
        "create-namespace lake/features",
        "create-table lake/features/events",
        "create-table lake/features/users",
        "create-namespace prod/analytics",
        "create-namespace prod/analytics/features",
        "register-table prod/analytics/features/events",
        "register-table prod/analytics/features/users",
    ]
    register = plan.changes[-1]
    assert (register.reason, str(register.source)) == ("mirrors lake", f"{manifest.files[0]}:15")
    assert [plan.changes[position].address for position in register.depends_on] == [
        "lake/features/users",
        "prod/analytics/features",
    ]
    world.settle(lake=LAKE, prod=PROD)
    made = world.catalog("prod").load_table(("analytics", "features", "users"))
    assert made.location == world.catalog("lake").load_table(("features", "users")).location
    assert made.properties == {
        "tier": "gold",
        "lancens.keys": '["tier"]',
        MANAGED_BY: "store/prod",
        MIRROR: "lake",
        DATA: "true",
    }


MORE = """
namespaces:
  features:
    tables:
      users: {schema: [{name: id, type: int64}, {name: more, type: string}], evolve: additive, tags: {first: 1}}
      events: {schema: [{name: id, type: int64}]}
"""


@pytest.mark.parametrize("lake", ["prune: never", LAKE, MORE], ids=["no blocks", "blocks", "tags and a new column"])
def test_a_plan_opens_a_dataset_once_for_all_catalogs(world: World, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world.settle(lake=LAKE)
    opened: list[str] = []
    genuine = storage.open_dataset

    def counted(location: str, options: Mapping[str, str], **how: Any) -> Any:
        opened.append(location)
        return genuine(location, options, **how)

    monkeypatch.setattr(reading, "open_dataset", counted)
    plan = reconciler.plan(world.manifest(lake=lake, prod=PROD, more=PROD, backup=PROD))
    assert plan.summary().register_ == 6
    locations = [table.location for table in world.catalog("lake").scan().tables.values()]
    assert sorted(opened) == sorted(locations)


def test_what_changes_at_the_source_is_followed_in_the_same_plan(world: World) -> None:
    world.settle(lake=LAKE, prod=PROD)
    changed = f"""
moved: [{{from: features/events, to: features/clicks}}]
namespaces:
  features:
    tables:
      users: {{{COLUMNS}, properties: {{tier: silver, owner: ml}}}}
      clicks: {{{COLUMNS}}}
      more: {{{COLUMNS}}}
"""
    manifest = world.manifest(lake=changed, prod=PROD)
    plan = reconciler.plan(manifest)
    assert [step for step in steps(plan) if "prod" in step] == [
        "register-table prod/analytics/features/more",
        "update-table prod/analytics/features/users",
        "deregister-table prod/analytics/features/events",
        "register-table prod/analytics/features/clicks",
    ]
    gone = next(change for change in plan.changes if change.address == "prod/analytics/features/events")
    assert gone.reason == "mirrored, no longer in lake"
    assert "lake/features/clicks" in [plan.changes[position].address for position in gone.depends_on]
    world.settle(lake=changed, prod=PROD)
    tables = world.catalog("prod").scan().tables
    assert sorted(name[-1] for name in tables) == ["clicks", "more", "users"]
    assert tables["analytics", "features", "users"].properties["tier"] == "silver"


def test_tables_that_no_manifest_has_are_followed_and_their_data_stays(world: World) -> None:
    world.settle(lake=LAKE)
    world.settle(lake="prune: never", prod=PROD)
    lake, prod = world.catalog("lake"), world.catalog("prod")
    place = lake.load_table(("features", "events")).location
    lake.remove_table(("features", "events"))
    world.settle(lake="prune: never", prod=PROD)
    assert list(prod.scan().tables) == [("analytics", "features", "users")]
    assert Path(place).is_dir()


def placed(world: World, name: str) -> str:
    """A table whose data a `dir` catalog called prod can have as well."""
    return f"{{{COLUMNS}, location: {world.folder}/prod/{name}}}"


@pytest.mark.parametrize(
    ("of_lake", "of_prod", "refused", "line"),
    [
        ("tables: {a: ONE}\nnamespaces: {a: {tables: {t: TWO}}}", "", "m/a", "names: {a: a_2, a/t: a/t}"),
        ("tables: {a: ONE}", "namespaces: {m: {namespaces: {a: {}}}}", "m/a", "names: {a: a_2}"),
        ("namespaces: {a: {tables: {t: ONE}}}", OWN_TABLE, "m/a/t", "names: {a: a_2}"),
        ("namespaces: {x: {tables: {t: ONE}}}", NAMED, "m/a/t", "names: {x/t: a_2/t}"),
    ],
)
def test_a_table_and_a_namespace_of_one_new_name_are_blocked_with_the_line_to_write(
    world: World, of_lake: str, of_prod: str, refused: str, line: str
) -> None:
    world.impls["prod"] = "dir"
    lake = of_lake.replace("ONE", placed(world, "one")).replace("TWO", placed(world, "two"))
    own = of_prod.replace("OWN", placed(world, "own"))
    mirror = "mirror: {from: lake, into: [m], names: {}}" if "names:" not in own else ""
    manifest = world.manifest(lake=lake, prod=f"{mirror}\n{own}")
    plan = reconciler.plan(manifest)
    assert ["/".join(one.identifier) for one in plan.blocked] == [refused]
    assert line in plan.blocked[0].remedy
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    world.settle(lake=lake, prod=f"{mirror}\n{own}".replace("names: {}", line).replace("names: {x: a}", line))


def test_a_table_takes_the_name_of_a_namespace_that_is_to_be_absent(world: World) -> None:
    world.impls["prod"] = "dir"
    lake = f"tables: {{a: {placed(world, 'one')}}}"
    world.settle(lake=lake, prod="mirror: {from: lake, into: [m]}\nnamespaces: {m: {namespaces: {a: {absent: true}}}}")
    assert [*DirBackend(root=str(world.folder / "prod")).scan().tables] == [("m", "a")]


def test_a_mirror_tells_where_the_data_of_a_lost_entry_is(world: World) -> None:
    place = str(world.folder / "elsewhere" / "users")
    placed = f"namespaces: {{features: {{tables: {{users: {{{COLUMNS}, location: {place}}}}}}}}}"
    world.settle(lake=placed, prod=PROD)
    world.catalog("lake").remove_table(("features", "users"))
    block = f"namespaces: {{features: {{tables: {{users: {{{COLUMNS}}}}}}}}}"
    plan = reconciler.plan(world.manifest(lake=block, prod=PROD))
    assert (steps(plan), [one.address for one in plan.blocked]) == ([], ["lake/features/users"])
    assert plan.blocked[0].unreferenced == place
    world.apply(world.manifest(lake=block, prod=PROD), Plan.from_json(plan.to_json()), skip_blocked=True)
    world.settle(lake=placed, prod=PROD)


def test_a_plan_is_the_same_where_no_journal_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror tells of lost data on every machine; a journal lies on one, and names no service."""
    monkeypatch.chdir(world.folder)
    place = world.folder / "elsewhere" / "users"
    moved = "moved: [{from: features/users, to: features/people}]\n"
    for name, line in (("users", ""), ("people", moved)):
        tables = f"{{{name}: {{{COLUMNS}, location: {place}}}}}"
        manifest = world.manifest(lake=f"{line}namespaces: {{features: {{tables: {tables}}}}}", prod=PROD)
        assert reconciler.apply(reconciler.plan(manifest), manifest, journal=".lancens").ok
    world.catalog("lake").remove_table(("features", "people"))
    manifest = world.manifest(lake=f"{moved}namespaces: {{features: {{tables: {{people: {{{COLUMNS}}}}}}}}}", prod=PROD)
    plan = reconciler.plan(manifest)
    assert [one.unreferenced for one in plan.blocked] == [str(place)]
    shutil.rmtree(".lancens")
    assert reconciler.plan(manifest).to_json() == plan.to_json()


def test_blocks_of_its_own_win(world: World) -> None:
    own = """
mirror: {from: lake, into: [analytics]}
namespaces:
  analytics:
    namespaces:
      features:
        tables:
          users: {properties: {tier: own}, location: LAKE/users.lance}
          events: {absent: true}
""".replace("LAKE", str(world.folder / "own"))
    world.settle(lake=LAKE, prod=PROD)
    manifest = world.manifest(lake=LAKE, prod=own)
    plan = reconciler.plan(manifest)
    assert [one.address for one in plan.changes if one.action.removes] == ["prod/analytics/features/events"]


def test_nothing_is_mirrored_into_a_namespace_that_is_to_be_absent(world: World) -> None:
    own = f"{PROD}\nnamespaces: {{analytics: {{namespaces: {{features: {{absent: true}}}}}}}}"
    world.settle(lake=LAKE, prod=own)
    assert list(world.catalog("prod").scan().tables) == []


def test_an_entry_stays_when_the_line_is_gone_and_a_block_takes_the_mark_off(world: World) -> None:
    world.settle(lake=LAKE, prod=PROD)
    manifest = world.manifest(lake=LAKE, prod="prune: owned")
    plan = reconciler.plan(manifest)
    assert steps(plan) == []
    stays = (NoteCode.MIRRORED_BEFORE, "prod/analytics/features", 2, "lake")
    assert stays in noted(plan, "where", "count", "mirror")
    own = """
namespaces:
  analytics: {namespaces: {features: {tables: {users: {properties: {tier: gold}}, events: {absent: true}}}}}
"""
    world.settle(lake=LAKE, prod=own)
    tables = world.catalog("prod").scan().tables
    assert list(tables) == [("analytics", "features", "users")]
    assert MIRROR not in tables["analytics", "features", "users"].properties


def test_select_and_names_say_what_is_followed_and_under_which_name(world: World) -> None:
    lake = f"""
tables: {{top: {{{COLUMNS}}}}}
namespaces:
  features: {{tables: {{{USERS}, events: {{{COLUMNS}}}}}, namespaces: {{eu: {{tables: {{users: {{{COLUMNS}}}}}}}}}}}
  scratch: {{tables: {{x: {{{COLUMNS}}}}}}}
"""
    prod = "mirror: {from: lake, select: ['features/**'], names: {features/eu: eu, features/users: people/users}}"
    world.settle(lake=lake, prod=prod)
    assert sorted(world.catalog("prod").scan().tables) == [
        ("eu", "users"),
        ("features", "events"),
        ("people", "users"),
    ]


def test_defaults_hold_for_mirrored_tables_and_the_source_says_more(world: World) -> None:
    prod = """
defaults: {tables: {properties: {tier: bronze, owner: platform}}}
mirror: {from: lake, into: [analytics]}
namespaces: {analytics: {defaults: {tables: {protect: true, properties: {owner: ml}}}}}
"""
    world.settle(lake=LAKE, prod=prod)
    users = world.catalog("prod").load_table(("analytics", "features", "users")).properties
    events = world.catalog("prod").load_table(("analytics", "features", "events")).properties
    assert (users["tier"], users["owner"], users["lancens.protect"]) == ("gold", "ml", "true")
    assert (events["tier"], events["owner"], events["lancens.protect"]) == ("bronze", "ml", "true")
    world.catalog("lake").remove_table(("features", "users"))
    plan = reconciler.plan(world.manifest(lake="prune: never", prod=prod))
    assert [guard.address for guard in plan.guards] == ["prod/analytics/features/users"]


def test_secrets_and_what_engines_write_are_not_taken_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN", "from outside")
    lake = f"""
tables:
  users: {{{COLUMNS}, properties: {{tier: gold, password: "hunter22", plain: "${{env:PLAIN}}"}}}}
"""
    world.settle(lake=lake, prod=PROD)
    lake_backend = world.catalog("lake")
    from reconciler.model.live import PropertyChanges

    lake_backend.alter_table(("users",), PropertyChanges({"numFiles": "7", "token": "abcdefgh"}))
    world.settle(lake=lake, prod=PROD)
    kept = world.catalog("prod").load_table(("analytics", "users")).properties
    assert {key for key in kept if not key.startswith("lancens.")} == {"tier"}


def test_nothing_is_made_for_tables_of_which_the_catalog_takes_none(world: World) -> None:
    """Namespaces were made, and stayed empty, where a directory has no place for data that is elsewhere."""
    world.impls["prod"] = "dir"
    manifest = world.manifest(lake=LAKE, prod=PROD)
    world.apply(world.manifest(lake=LAKE))
    plan = reconciler.plan(manifest)
    assert [one.address for one in plan.blocked] == ["prod/analytics/features/events", "prod/analytics/features/users"]
    assert steps(plan) == []
    assert [change.address for change in plan.waiting] == ["prod/analytics", "prod/analytics/features"]
    world.apply(manifest, Plan.from_json(plan.to_json()), skip_blocked=True)
    assert DirBackend(root=str(world.folder / "prod")).scan().namespaces == {}

    inside = f"{world.folder}/prod/beside.lance"
    more = f"{LAKE}      beside: {{location: '{inside}', {COLUMNS}}}\n"
    world.apply(world.manifest(lake=more, prod=PROD), skip_blocked=True)
    assert [*DirBackend(root=str(world.folder / "prod")).scan().tables] == [("analytics", "features", "beside")]


def test_an_empty_source_needs_leave_whatever_the_count(world: World) -> None:
    world.settle(lake=f"tables: {{only: {{{COLUMNS}}}}}", prod=PROD)
    world.catalog("lake").remove_table(("only",))
    manifest = world.manifest(lake="prune: never", prod=PROD)
    with pytest.raises(SafetyError, match="prod: its mirror finds no table"):
        reconciler.plan(manifest)
    world.apply(manifest, allow_mass_removal=True)
    assert world.catalog("prod").scan().tables == {}


def test_what_is_blocked_at_the_source_keeps_its_mirror_waiting(world: World) -> None:
    world.settle(lake=LAKE, prod=PROD)
    wrong = LAKE.replace("events: {schema: [{name: id, type: int64}]}", "events: {schema: [{name: id, type: string}]}")
    wrong += "      new: {location: /nowhere/at/all.lance, probe: true, schema: [{name: id, type: int64}]}\n"
    world.catalog("prod").remove_table(("analytics", "features", "events"))
    plan = reconciler.plan(world.manifest(lake=wrong, prod=PROD))
    assert "lake/features/events" in {one.address for one in plan.blocked}
    assert "prod/analytics/features/events" in {change.address for change in plan.waiting}
    assert "prod/analytics/features/events" not in {change.address for change in plan.changes}


def test_a_mirror_of_a_mirror(world: World) -> None:
    catalogs = {"a": "mirror: {from: b, into: [from_b]}", "b": "mirror: {from: lake, into: [from_lake]}", "lake": LAKE}
    world.settle(**catalogs)
    assert sorted(world.catalog("a").scan().tables) == [
        ("from_b", "from_lake", "features", "events"),
        ("from_b", "from_lake", "features", "users"),
    ]
    shrunk = {**catalogs, "lake": LAKE.replace(f"events: {{{COLUMNS}}}", "")}
    world.settle(**shrunk)
    assert len(world.catalog("a").scan().tables) == 1


# ---- selection and saved plans ---------------------------------------------------------------------------------------


def test_the_source_is_read_selected_or_not_and_left_as_it_is(world: World) -> None:
    world.settle(lake=LAKE)
    manifest = world.manifest(lake=LAKE + f"      more: {{{COLUMNS}}}\n", prod=PROD)
    plan = reconciler.plan(manifest, select=["prod/**"])
    assert {change.catalog for change in plan.changes} == {"prod"}
    assert "prod/analytics/features/more" not in {change.address for change in plan.changes}
    assert {one.address for one in plan.fingerprints if one.catalog == "lake"} == {
        "lake/features/events",
        "lake/features/users",
    }
    assert world.apply(manifest, Plan.from_json(plan.to_json())).ok


def test_a_saved_plan_is_stale_when_the_source_has_changed(world: World) -> None:
    world.settle(lake=LAKE)
    manifest = world.manifest(lake=LAKE, prod=PROD)
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    lake = world.catalog("lake")
    before = lake.remove_table(("features", "users"))
    lake.insert_table(("features", "users"), str(world.folder / "elsewhere"), before.properties)
    with pytest.raises(StalePlanError, match=r"lake/features/users +location"):
        reconciler.apply(saved, manifest, journal=world.folder / "journal")
    assert world.catalog("prod").scan().tables == {}


def test_a_saved_plan_follows_a_table_that_is_as_a_policy_wants_it(world: World) -> None:
    lake = world.catalog("lake")
    lake.insert_namespace(("raw",), {})
    lake.insert_table(("raw", "clicks"), str(world.folder / "clicks"), {"tier": "x"})
    manifest = world.manifest(lake='policies: [{match: "**", properties: {tier: x}}]', prod="mirror: {from: lake}")
    world.apply(manifest, Plan.from_json(reconciler.plan(manifest).to_json()))
    assert list(world.catalog("prod").scan().tables) == [("raw", "clicks")]
    assert lake.load_table(("raw", "clicks")).properties == {"tier": "x"}


def test_a_saved_plan_is_stale_when_what_it_takes_away_is_back_at_the_source(world: World) -> None:
    world.settle(lake=LAKE, prod=PROD)
    lake = world.catalog("lake")
    before = lake.remove_table(("features", "events"))
    manifest = world.manifest(lake="prune: never", prod=PROD)
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    assert steps(saved) == ["deregister-table prod/analytics/features/events"]
    lake.insert_table(("features", "events"), before.location, before.properties)
    with pytest.raises(StalePlanError, match="events mirrors lake/features/events"):
        reconciler.apply(saved, manifest, journal=world.folder / "journal")


def edits(document: dict[str, Any]) -> dict[str, Callable[[], object]]:
    change = document["changes"][-1]
    return {
        "another location": lambda: change["after"].update(location="/data/other.lance"),
        "another source": lambda: change["mirror_of"].update(identifier=["features", "events"]),
        "no source": lambda: change.pop("mirror_of"),
        "another mark": lambda: change["after"].update(mirror="prod"),
        "one more property": lambda: change["after"]["properties"].update(evil="1"),
        "no dependency": lambda: change.pop("depends_on"),
        "no state of the source": lambda: document.update(
            fingerprints=[one for one in document["fingerprints"] if one["catalog"] != "lake"]
        ),
    }


@pytest.mark.parametrize("edit", sorted(edits({"changes": [{}], "fingerprints": []})))
def test_an_edited_plan_is_refused(world: World, edit: str) -> None:
    world.settle(lake=LAKE)
    manifest = world.manifest(lake=LAKE, prod=PROD)
    document = json.loads(reconciler.plan(manifest).to_json())
    edits(document)[edit]()
    with pytest.raises((PlanFileError, StalePlanError)):
        reconciler.apply(Plan.from_json(resealed(document)), manifest, journal=world.folder / "journal")
    assert world.catalog("prod").scan().tables == {}


# ---- what the target cannot take -------------------------------------------------------------------------------------


def test_a_saved_plan_moves_a_table_away_from_a_name_that_is_mirrored(world: World) -> None:
    """It also adds a column, which the plan records with the old name."""
    world.settle(lake="prune: owned", prod=f"tables: {{old: {{{COLUMNS}}}}}")
    wider = COLUMNS.replace("]", ", {name: name, type: string}]")
    own = f"mirror: {{from: lake}}\nmoved: [{{from: old, to: new}}]\ntables: {{new: {{{wider}, evolve: additive}}}}"
    manifest = world.manifest(lake=f"tables: {{old: {{{COLUMNS}}}}}", prod=own)
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    assert steps(saved) == ["create-table lake/old", "move-table prod/new"]
    assert blocked(saved) == [("prod/old", ReasonCode.NAME_MOVED_AWAY)]
    world.apply(manifest, saved, skip_blocked=True)
    assert list(world.catalog("prod").scan().tables) == [("new",)]


def test_names_that_come_to_one_are_blocked_with_the_line_to_add(world: World) -> None:
    prod = "mirror: {from: lake, names: {features/users: people}}"
    lake = LAKE + "tables: {people: {schema: [{name: id, type: int64}]}}"
    plan = reconciler.plan(world.manifest(lake=lake, prod=prod))
    several = {"names": ("lake/features/users", "lake/people"), "write": "names: {people: people_2}", "catalog": "prod"}
    assert_blocked(plan, "prod/people", ReasonCode.SEVERAL_SOURCES, **several)
    assert [str(one.source) for one in plan.blocked if one.address == "prod/people"] == [f"{plan.manifest.files[0]}:16"]
    with pytest.raises(BlockedError):
        reconciler.apply(plan, world.manifest(lake=lake, prod=prod), journal=world.folder / "journal")
    saved = Plan.from_json(plan.to_json())
    assert reconciler.apply(
        saved, world.manifest(lake=lake, prod=prod), journal=world.folder / "journal", skip_blocked=True
    ).ok


# ---- the manifest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mirror", "said"),
    [
        (
            "{from: lak}",
            "`from` in the mirror of prod is `lak`, which is not a catalog of this manifest; did you mean `lake`?",
        ),
        ("{into: [a]}", "the mirror of prod has no `from`; expected the catalog to follow: `lake`"),
        ("{from: prod}", "the mirrors have a dependency cycle: prod mirrors prod"),
        ("{from: lake, form: x}", "unknown key `form` in the mirror of prod; did you mean `from`?"),
        ("{from: lake, select: []}", "`select` in the mirror of prod is empty; expected at least one entry"),
        ("{from: lake, select: ['a//b']}", "`select` in the mirror of prod: `a//b` has an empty name"),
        ("{from: lake, into: [a$b]}", "`into` in the mirror of prod (memory): `a$b`: a name cannot contain `$`"),
        ("{from: lake, names: {a: x, b: x}}", "`names` in the mirror of prod: `x` is a duplicate, first at"),
        ("{from: lake, names: {a: x//y}}", "`names` in the mirror of prod: `x//y`; expected names joined by a slash"),
        ("{from: '${env:LAKE}'}", "are secrets, which `from` cannot hold"),
        ("[lake]", "the mirror of prod is a list, expected a block of keys"),
    ],
)
def test_what_is_wrong_with_a_mirror_is_told_where_it_stands(world: World, mirror: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        world.manifest(lake="prune: never", prod=f"mirror: {mirror}")
    [problem] = caught.value.problems
    assert said in problem.message
    assert problem.line == 11


def test_catalogs_that_mirror_each_other_are_an_error(world: World) -> None:
    with pytest.raises(ManifestError) as caught:
        world.manifest(a="mirror: {from: b}", b="mirror: {from: c}", c="mirror: {from: a}", d="mirror: {from: a}")
    [problem] = caught.value.problems
    assert problem.message.endswith("cycle: a mirrors b mirrors c mirrors a")


def test_a_mirror_counts_in_the_digest_of_its_manifest(world: World) -> None:
    first = world.manifest(lake=LAKE, prod=PROD).digest
    assert world.manifest(lake=LAKE, prod="mirror: {from: lake}").digest != first
    assert world.manifest(lake=LAKE, prod=PROD + "\ndefaults: {tables: {protect: true}}").digest != first


def test_a_property_that_is_no_secret_any_more_is_followed_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTE", "from outside")
    world.settle(lake="tables: {t: {properties: {note: '${env:NOTE}'}}}", prod="mirror: {from: lake}")
    assert "note" not in world.catalog("prod").load_table(("t",)).properties
    world.settle(lake="tables: {t: {properties: {note: open}}}", prod="mirror: {from: lake}")
    assert world.catalog("prod").load_table(("t",)).properties["note"] == "open"
