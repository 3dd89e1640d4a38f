"""What is planned for a table, from what is wanted, what is there and what storage holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from reconciler.model.capabilities import Capabilities, Safeguard
from reconciler.model.columns import Column
from reconciler.model.desired import DesiredCatalog, DesiredTable, Evolve, ExtraColumns, Prune
from reconciler.model.live import LiveTable, Storage, StorageKind
from reconciler.model.ownership import CHOSEN_LOCATION, REQUESTED_LOCATION
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.planner.entries import Action
from reconciler.planner.facts import PlanOptions, TableFacts
from reconciler.planner.plan import Plan
from tests.plans import assert_blocked, noted
from tests.unit.planner.building import (
    OTHER,
    OWNER,
    USERS,
    desired,
    live,
    live_table,
    plan_of,
    questions_on,
    steps,
    stored,
    table,
)

NAME = "{name: name, type: string}"
NO_ALTER = Capabilities(alter_table=False, relocate_table=False)


class TestNew:
    def test_without_schema_and_data_it_is_declared_after_its_namespace(self) -> None:
        plan = plan_of(desired(table("a/t", {"tier": "gold"})), live())
        assert steps(plan) == ["create-namespace a", "declare-table a/t"]
        after = plan.changes[1].after
        assert after is not None
        assert (after.managed_by, after.keys, after.properties) == (OWNER, ("tier",), {"tier": "gold"})

    def test_with_schema_and_no_data_a_dataset_is_created(self) -> None:
        plan = plan_of(desired(table("t", schema=USERS)), live())
        assert steps(plan) == ["create-table t"]
        after = plan.changes[0].after
        assert after is not None
        assert after.columns is not None
        assert [column.name for column in after.columns] == ["user_id", "name"]

    def test_with_data_it_is_registered_and_the_data_decides(self) -> None:
        facts = {"t": stored(StorageKind.DATASET, schema=USERS)}
        plan = plan_of(desired(table("t", schema=USERS)), live(), storage=facts)
        assert steps(plan) == ["register-table t"]
        assert plan.changes[0].after
        assert plan.changes[0].after.columns, "so that apply can see whether the schema is still this one"
        assert steps(plan_of(desired(table("t")), live(), storage=facts)) == ["register-table t"]

    def test_data_of_another_schema_is_a_conflict_that_shows_the_difference(self) -> None:
        found = (Column("user_id", "int32", nullable=False), Column("extra", "string"))
        facts = {"t": stored(StorageKind.DATASET, schema=found)}
        plan = plan_of(desired(table("t", schema=USERS)), live(), storage=facts)
        [one] = plan.blocked
        assert (one.address, one.code, str(one.source)) == ("lake/t", ReasonCode.OTHER_COLUMNS, "lancens.yaml:1")
        [line] = one.params["lines"]
        missing, changed = one.params["differences"]
        assert missing.startswith("`name` (string)")
        assert changed.startswith("`user_id` is int32 not null")
        assert one.params["location"] == "/data/new.lance"
        # What to write in the block, what to run, and what may have got another name.
        assert one.params["added"] == ("name",)
        assert yaml.safe_load(line) == {"name": "user_id", "type": "int32", "nullable": False}
        assert [step.partition("(")[0] for step in one.params["code"].split("; ")] == [
            "ds = lance.dataset",
            "ds.alter_columns",
            "ds.add_columns",
        ]
        assert one.params["renames"] == {"extra": "name"}
        assert one.params["rename_code"].endswith('{"path": "extra", "name": "name"})')

    def test_data_with_columns_of_its_own_is_registered_and_said_to_have_them(self) -> None:
        facts = {"t": stored(StorageKind.DATASET, schema=(*USERS, Column("extra", "string")))}
        plan = plan_of(desired(table("t", schema=USERS)), live(), storage=facts)
        assert steps(plan) == ["register-table t"]
        [change] = plan.changes
        assert change.after is not None
        assert change.after.columns == (*USERS, Column("extra", "string"))
        assert noted(plan, "where", "name", "columns") == [(NoteCode.EXTRA_COLUMNS, "lake", "t", ("extra",))]

    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            (StorageKind.DENIED, ReasonCode.STORAGE_DENIED),
            (StorageKind.NOT_LANCE, ReasonCode.NOT_LANCE),
            (StorageKind.UNKNOWN, ReasonCode.STORAGE_UNREADABLE),
        ],
    )
    def test_storage_that_gives_no_answer_is_a_conflict(self, kind: StorageKind, code: ReasonCode) -> None:
        assert_blocked(plan_of(desired(table("t")), live(), storage={"t": stored(kind)}), "lake/t", code)

    def test_what_a_catalog_hands_out_is_not_for_a_table_to_be_made(self) -> None:
        vending, facts = Capabilities(vends_credentials=True), {"t": stored(StorageKind.DENIED)}
        plan = plan_of(desired(table("t")), live(), storage=facts, capabilities=vending)
        assert_blocked(plan, "lake/t", ReasonCode.CREDENTIALS_NOT_VENDED)

    @pytest.mark.parametrize("kind", [StorageKind.DENIED, StorageKind.NOT_LANCE, StorageKind.UNKNOWN])
    def test_no_conflict_shows_a_secret_of_a_location(self, kind: StorageKind) -> None:
        facts = {"t": stored(kind, "s3://AKIA:topsecret@b/x?sig=abcdef")}
        plan = plan_of(desired(table("t")), live(), storage=facts)
        assert len(plan.blocked) == 1
        assert "topsecret" not in plan.to_json()
        assert "abcdef" not in plan.to_json()

    def test_without_a_probe_it_is_declared_whatever_storage_holds(self) -> None:
        wanted = desired(table("t", schema=USERS, probe=False))
        plan = plan_of(wanted, live(), storage={"t": stored(StorageKind.UNKNOWN)})
        assert steps(plan) == ["declare-table t"]

    def test_a_catalog_without_a_default_location_needs_one(self) -> None:
        assert_blocked(
            plan_of(desired(table("t")), live(), storage={"t": TableFacts(None, Storage(StorageKind.NOTHING))}),
            "lake/t",
            ReasonCode.NO_DEFAULT_LOCATION,
        )

    def test_two_datasets_cannot_be_written_to_one_place(self) -> None:
        wanted = desired(table("a", schema=USERS, location="/x/"), table("b", schema=USERS, location="file:///x"))
        assert_blocked(plan_of(wanted, live()), "lake/b", ReasonCode.LOCATION_SHARED, name="lake/a", location="/x")

    def test_nothing_is_declared_where_a_dataset_will_be_written(self) -> None:
        wanted = desired(table("a", schema=USERS, location="/x"), table("b", location="/x"))
        assert_blocked(plan_of(wanted, live()), "lake/b", ReasonCode.LOCATION_SHARED, name="lake/a", location="/x")

    def test_a_catalog_that_keeps_no_marks_gets_none(self) -> None:
        plan = plan_of(desired(table("t")), live(), capabilities=Capabilities(table_markers=False))
        after = plan.changes[0].after
        assert after is not None
        assert after.managed_by is None


class TestExisting:
    def test_owned_and_equal_is_no_change(self) -> None:
        wanted = desired(table("a/t", {"tier": "gold"}))
        assert plan_of(wanted, live(live_table("a/t", {"tier": "gold"}, owner=OWNER))).is_empty

    def test_what_engines_add_is_left_alone(self) -> None:
        there = live(live_table("t", {"tier": "gold"}, owner=OWNER, extra={"numFiles": "7"}))
        assert plan_of(desired(table("t", {"tier": "gold"})), there).is_empty

    def test_a_differing_property_is_updated_and_nothing_else_is_named(self) -> None:
        there = live(live_table("t", {"tier": "silver", "team": "ml"}, owner=OWNER))
        plan = plan_of(desired(table("t", {"tier": "gold", "team": "ml"})), there)
        assert steps(plan) == ["update-table t"]
        assert [(field.path, field.before, field.after) for field in plan.changes[0].fields] == [
            ("properties.tier", "silver", "gold")
        ]

    def test_a_key_lancens_set_and_the_manifest_dropped_is_removed(self) -> None:
        there = live(live_table("t", {"tier": "gold", "team": "ml"}, owner=OWNER))
        plan = plan_of(desired(table("t", {"tier": "gold"})), there)
        assert [(field.path, field.after) for field in plan.changes[0].fields] == [("properties.team", None)]
        after = plan.changes[0].after
        assert after is not None
        assert after.keys == ("tier",)

    def test_a_secret_value_is_not_in_the_plan_and_its_change_still_shows(self) -> None:
        there = live(live_table("t", {"api_token": "hunter2"}, owner=OWNER))
        plan = plan_of(desired(table("t", {"api_token": "swordfish"})), there)
        assert "hunter2" not in plan.to_json()
        assert "swordfish" not in plan.to_json()
        before, after = plan.changes[0].fields[0].before, plan.changes[0].fields[0].after
        assert before != after

    @pytest.mark.parametrize(
        ("wanted", "there"),
        [("s3://b/t.lance", "s3a://b/t.lance/"), ("file:///data/t", "/data//t/"), ("s3n://b/x", "s3://b/x")],
    )
    def test_forms_of_one_location_are_one(self, wanted: str, there: str) -> None:
        state = live(live_table("t", owner=OWNER, location=there))
        assert plan_of(desired(table("t", location=wanted)), state).is_empty

    def test_no_location_in_the_manifest_never_relocates(self) -> None:
        assert plan_of(desired(table("t")), live(live_table("t", owner=OWNER, location="s3://else/where"))).is_empty

    def test_another_location_relocates(self) -> None:
        plan = plan_of(desired(table("t", location="s3://b/new")), live(live_table("t", owner=OWNER)))
        assert steps(plan) == ["relocate-table t"]

    def test_a_location_the_service_ignored_is_asked_for_once(self) -> None:
        extra = {REQUESTED_LOCATION: "s3://asked/", CHOSEN_LOCATION: "s3://chosen/"}
        there = live(live_table("t", owner=OWNER, location="s3://chosen", extra=extra))
        assert plan_of(desired(table("t", location="s3://asked")), there).is_empty
        assert plan_of(desired(table("t")), there).is_empty
        assert steps(plan_of(desired(table("t", location="s3://other")), there)) == ["relocate-table t"]

    def test_a_request_counts_only_while_the_entry_is_where_the_service_put_it(self) -> None:
        extra = {REQUESTED_LOCATION: "s3://asked", CHOSEN_LOCATION: "s3://chosen"}
        moved = live(live_table("t", owner=OWNER, location="s3://moved", extra=extra))
        assert steps(plan_of(desired(table("t", location="s3://asked")), moved)) == ["relocate-table t"]
        for wanted in (table("t"), table("t", location="s3://moved")):
            [change] = plan_of(desired(wanted), moved).changes
            assert change.action is Action.UPDATE_TABLE
            assert [(field.path, field.after) for field in change.fields] == [
                ("chosen-location", None),
                ("requested-location", None),
            ]
            assert change.code is ReasonCode.LOCATION_NOTE_STALE

    def test_a_request_that_was_honoured_is_forgotten(self) -> None:
        there = live(live_table("t", owner=OWNER, location="s3://asked", extra={REQUESTED_LOCATION: "s3://asked/"}))
        for wanted in (table("t"), table("t", location="s3://asked")):
            [change] = plan_of(desired(wanted), there).changes
            assert [(field.path, field.before, field.after) for field in change.fields] == [
                ("requested-location", "s3://asked/", None)
            ]

    def test_a_request_whose_answer_was_never_recorded_is_asked_again_where_there_is_data(self) -> None:
        there = live(live_table("t", owner=OWNER, location="s3://x", extra={REQUESTED_LOCATION: "s3://asked"}))
        wanted = desired(table("t", location="s3://asked", schema=USERS))
        [question] = questions_on(wanted, there).storage
        assert (question.location, question.otherwise) == ("s3://asked", "s3://x")
        facts = {"t": stored(StorageKind.DATASET, "s3://asked", USERS)}
        assert steps(plan_of(wanted, there, storage=facts)) == ["relocate-table t"]

    @pytest.mark.parametrize("location", [None, "s3://asked"])
    def test_such_a_request_counts_as_ignored_without_one(self, location: str | None) -> None:
        there = live(live_table("t", owner=OWNER, location="s3://x", extra={REQUESTED_LOCATION: "s3://asked"}))
        facts = {"t": stored(StorageKind.DATASET, "s3://x", USERS)}
        [change] = plan_of(desired(table("t", location=location, schema=USERS)), there, storage=facts).changes
        assert change.action is Action.UPDATE_TABLE
        assert [(field.path, field.before, field.after) for field in change.fields] == [
            ("chosen-location", None, "s3://x")
        ]
        assert change.code is ReasonCode.LOCATION_NOTED
        facts = {"t": stored(StorageKind.NOTHING, "s3://x")}
        empty = plan_of(desired(table("t", location=location, schema=USERS)), there, storage=facts)
        assert steps(empty) == ["create-table t"]
        assert empty.changes[0].after is not None
        assert empty.changes[0].after.request == ("s3://asked", "s3://x")

    def test_the_marks_of_what_is_not_ours_are_left_alone(self) -> None:
        there = live(live_table("t", location="s3://asked", extra={REQUESTED_LOCATION: "s3://asked"}))
        plan = plan_of(desired(table("t", location="s3://asked")), there)
        assert plan.is_empty
        assert "--adopt" in plan.notes[0].message

    def test_a_declared_table_gets_its_dataset(self) -> None:
        there = live(live_table("t", owner=OWNER))
        facts = {"t": stored(StorageKind.NOTHING)}
        assert steps(plan_of(desired(table("t", schema=USERS)), there, storage=facts)) == ["create-table t"]

    def test_relocating_to_where_no_data_is_needs_the_data_first(self) -> None:
        wanted = desired(table("t", schema=USERS, location="/new"))
        for block in (wanted, desired(table("t", location="/new"))):
            assert_blocked(
                plan_of(block, live(live_table("t", owner=OWNER)), storage={"t": stored(StorageKind.NOTHING)}),
                "lake/t",
                ReasonCode.NO_DATA_TO_RELOCATE_TO,
                location="/new",
            )


class TestSafeguard:
    guarded = Capabilities(safeguard=Safeguard("gc.enabled", "false", "a clean-up would delete the data"))

    hazardous = Capabilities(safeguard=Safeguard("external", "yes", "a drop would delete the data", hazard="purge"))

    def of(self, wanted: DesiredCatalog, *tables: LiveTable, **options: Any) -> Plan:
        return plan_of(wanted, live(*tables), capabilities=self.guarded, **options)

    @pytest.mark.parametrize(("extra", "before"), [({}, None), ({"gc.enabled": "TRUE"}, "TRUE")])
    def test_an_owned_entry_without_it_gets_it(self, extra: dict[str, str], before: str | None) -> None:
        [change] = self.of(desired(table("t")), live_table("t", owner=OWNER, extra=extra)).changes
        assert (change.action, change.reason) == (Action.UPDATE_TABLE, "a clean-up would delete the data")
        [field] = change.fields
        assert (field.path, field.before, field.after) == ("safeguards.gc.enabled", before, "false")

    @pytest.mark.parametrize("said", ["false", "False", "FALSE"])
    def test_one_that_has_it_is_no_change(self, said: str) -> None:
        plan = self.of(desired(table("t")), live_table("t", owner=OWNER, extra={"gc.enabled": said}))
        assert (plan.changes, plan.notes) == ((), ())

    @pytest.mark.parametrize(
        ("wanted", "there"),
        [
            (desired(table("t")), live_table("t")),
            (desired(), live_table("t")),
            (desired(), live_table("t", owner=OTHER)),
            (desired(prune=Prune.NEVER), live_table("t", owner=OWNER)),
            (desired(), live_table("t", owner=OWNER, protect=True)),
        ],
    )
    def test_one_that_is_not_changed_is_noted(self, wanted: DesiredCatalog, there: LiveTable) -> None:
        plan = self.of(wanted, there)
        assert plan.is_empty
        unsafe = (NoteCode.UNSAFE, "lake", 1, "gc.enabled", "false")
        assert unsafe in noted(plan, "where", "count", "key", "value")

    def test_one_that_is_deregistered_is_not(self) -> None:
        plan = self.of(desired(table("t", absent=True)), live_table("t", owner=OWNER))
        assert (steps(plan), plan.notes) == (["deregister-table t"], ())

    def test_every_other_change_of_the_entry_sets_it_too(self) -> None:
        there = live_table("t", owner=OWNER)
        facts = {"t": stored(StorageKind.DATASET, "/new")}
        for wanted in (table("t", {"tier": "gold"}), table("t", location="/new")):
            [change] = self.of(desired(wanted), there, storage=facts if wanted.location else None).changes
            assert ("safeguards.gc.enabled", "false") in [(field.path, field.after) for field in change.fields]
        [change] = self.of(desired(table("t")), there, options=PlanOptions(adopt=True)).changes
        assert change.after is not None
        assert change.after.safeguards == {"gc.enabled": "false"}

    def test_a_new_table_has_it(self) -> None:
        [change] = self.of(desired(table("t"))).changes
        assert change.after is not None
        assert change.after.safeguards == {"gc.enabled": "false"}

    @pytest.mark.parametrize("said", ["true", "TRUE", "True"])
    def test_an_owned_entry_with_the_hazard_loses_it(self, said: str) -> None:
        there = live_table("t", owner=OWNER, extra={"purge": said})
        [change] = plan_of(desired(table("t")), live(there), capabilities=self.hazardous).changes
        assert (change.action, change.reason) == (Action.UPDATE_TABLE, "a drop would delete the data")
        assert [(field.path, field.before, field.after) for field in change.fields] == [
            ("safeguards.external", None, "yes"),
            ("safeguards.purge", said, "false"),
        ]

    @pytest.mark.parametrize("extra", [{}, {"purge": "false"}, {"purge": "FALSE"}, {"purge": "no"}])
    def test_an_entry_without_the_hazard_is_no_change(self, extra: dict[str, str]) -> None:
        there = live_table("t", owner=OWNER, extra={"external": "yes", **extra})
        plan = plan_of(desired(table("t")), live(there), capabilities=self.hazardous)
        assert (plan.changes, plan.notes) == ((), ())

    @pytest.mark.parametrize("owner", [None, OTHER])
    def test_a_hazard_on_an_entry_of_others_is_noted(self, owner: str | None) -> None:
        there = live_table("t", owner=owner, extra={"external": "yes", "purge": "TRUE"})
        plan = plan_of(desired(), live(there), capabilities=self.hazardous)
        assert plan.is_empty
        assert (NoteCode.HAZARDOUS, "lake", 1, "purge") in noted(plan, "where", "count", "key")

    def test_a_new_table_does_not_name_the_hazard(self) -> None:
        [change] = plan_of(desired(table("t")), live(), capabilities=self.hazardous).changes
        assert change.after is not None
        assert change.after.safeguards == {"external": "yes"}

    def test_a_fingerprint_holds_it(self) -> None:
        states = [live_table("t", {"a": "b"}, owner=OWNER, extra={"gc.enabled": said}) for said in ("false", "true")]
        one, other = (self.of(desired(table("t", {"a": "c"})), state).fingerprints[-1] for state in states)
        assert one.digest != other.digest


class TestSchema:
    there = live(live_table("t", owner=OWNER))

    def test_the_same_schema_in_another_order_is_no_change(self) -> None:
        facts = {"t": stored(StorageKind.DATASET, schema=tuple(reversed(USERS)))}
        assert plan_of(desired(table("t", schema=USERS)), self.there, storage=facts).is_empty

    def test_additive_adds_nullable_columns(self) -> None:
        wanted = desired(table("t", schema=(*USERS, Column("age", "int32")), evolve=Evolve.ADDITIVE))
        plan = plan_of(wanted, self.there, storage={"t": stored(StorageKind.DATASET, schema=USERS)})
        assert steps(plan) == ["alter-table t"]
        assert [(field.path, field.after) for field in plan.changes[0].fields] == [("schema.age", "int32")]

    @pytest.mark.parametrize(
        ("wanted", "evolve", "said", "params"),
        [
            ((*USERS, Column("age", "int32")), Evolve.NEVER, "`age` (int32)", {"evolves": True}),
            (
                (*USERS, Column("age", "int32", nullable=False)),
                Evolve.ADDITIVE,
                "`age` (int32 not null)",
                {"relaxed": ("age",), "fills": True},
            ),
            ((USERS[0], Column("name", "binary")), Evolve.ADDITIVE, "`name` is string", {"lines": (NAME,)}),
            ((Column("user_id", "int64"), USERS[1]), Evolve.NEVER, "`user_id` is int64 not null", {"evolves": True}),
            (
                (USERS[0], Column("name", "string", nullable=False)),
                Evolve.ADDITIVE,
                "`name` is string",
                {"lines": (NAME,)},
            ),
        ],
    )
    def test_anything_else_is_a_conflict(
        self, wanted: tuple[Column, ...], evolve: Evolve, said: str, params: dict[str, object]
    ) -> None:
        plan = plan_of(
            desired(table("t", schema=wanted, evolve=evolve)),
            self.there,
            storage={"t": stored(StorageKind.DATASET, schema=USERS)},
        )
        assert_blocked(plan, "lake/t", ReasonCode.OTHER_COLUMNS, **params)
        [difference] = plan.blocked[0].params["differences"]
        assert difference.startswith(said)

    def test_additive_lets_columns_be_null(self) -> None:
        wanted = desired(table("t", schema=(Column("user_id", "int64"), USERS[1]), evolve=Evolve.ADDITIVE))
        plan = plan_of(wanted, self.there, storage={"t": stored(StorageKind.DATASET, schema=USERS)})
        assert steps(plan) == ["alter-table t"]
        assert [(field.path, field.before, field.after) for field in plan.changes[0].fields] == [
            ("schema.user_id", "int64 not null", "int64")
        ]
        assert plan.changes[0].code is ReasonCode.COLUMNS
        assert "relaxed" in plan.changes[0].params

    @pytest.mark.parametrize(
        ("location", "can"),
        [
            ("/data/t", True),
            ("s3://lake/t", True),
            ("s3a://lake/t", True),
            ("gs://lake/t", True),
            ("az://lake/t", True),
            ("abfss://lake@account.dfs.core.windows.net/t", True),
            ("s3+ddb://lake/t.lance?ddbTableName=x", False),
            ("oss://lake/t.lance", False),
            ("cos://lake/t.lance", False),
            ("tos://lake/t.lance", False),
            ("hf://datasets/lake/t", False),
        ],
    )
    def test_columns_change_only_where_a_commit_can_be_held_to_the_next_version(self, location: str, can: bool) -> None:
        """Elsewhere another writer may set the keys of Lance's own clean-up right before the commit."""
        there = live(live_table("t", owner=OWNER, location=location))
        facts = {"t": stored(StorageKind.DATASET, location, USERS)}
        assert plan_of(desired(table("t", schema=USERS)), there, storage=facts).is_empty
        for wider in ((*USERS, Column("age", "int32")), (Column("user_id", "int64"), USERS[1])):
            plan = plan_of(desired(table("t", schema=wider, evolve=Evolve.ADDITIVE)), there, storage=facts)
            assert steps(plan) == (["alter-table t"] if can else [])
            assert [one.code for one in plan.blocked] == ([] if can else [ReasonCode.UNBOUND_COMMIT])
            # Both ways out.
            assert all("pylance" in one.remedy and "`abfss`, `az`, `gs`, `s3`" in one.remedy for one in plan.blocked)

    def test_a_column_that_may_be_another_one_renamed_says_how_to_rename_it(self) -> None:
        wanted = desired(table("t", schema=(USERS[0], Column("full_name", "string")), evolve=Evolve.ADDITIVE))
        plan = plan_of(wanted, self.there, storage={"t": stored(StorageKind.DATASET, schema=USERS)})
        [change] = plan.changes
        assert (change.code, change.params["renames"]) == (ReasonCode.COLUMNS, {"name": "full_name"})
        assert change.params["rename_code"].endswith('({"path": "name", "name": "full_name"})')

    @pytest.mark.parametrize("evolve", Evolve)
    def test_columns_that_a_writer_added_are_kept_and_counted(self, evolve: Evolve) -> None:
        tables = [table(f"a/{name}", schema=USERS, evolve=evolve) for name in ("t", "u", "v")]
        there = live(*(live_table(f"a/{name}", owner=OWNER) for name in ("t", "u", "v")))
        wide = (*USERS, *(Column(f"c{number}", "int8") for number in range(5)))
        facts = {
            "a/t": stored(StorageKind.DATASET, schema=USERS),
            "a/u": stored(StorageKind.DATASET, schema=wide),
            "a/v": stored(StorageKind.DATASET, schema=wide[:3]),
        }
        plan = plan_of(desired(*tables), there, storage=facts)
        assert plan.is_empty
        columns = tuple(f"c{number}" for number in range(5))
        assert noted(plan, "where", "count", "name", "columns") == [(NoteCode.EXTRA_COLUMNS, "lake/a", 2, "u", columns)]

    def test_they_are_a_conflict_where_the_block_says_so(self) -> None:
        block = replace(table("t", schema=USERS), extra_columns=ExtraColumns.CONFLICT)
        facts = {"t": stored(StorageKind.DATASET, schema=(*USERS, Column("extra", "int8")))}
        plan = plan_of(desired(block), self.there, storage=facts)
        lines = ("{name: extra, type: int8}",)
        assert_blocked(plan, "lake/t", ReasonCode.OTHER_COLUMNS, lines=lines, extra=("extra",))
        assert plan.blocked[0].params["code"].endswith('drop_columns(["extra"])')

    def test_metadata_engines_add_to_a_column_is_no_difference(self) -> None:
        found = (USERS[0], Column("name", "string", metadata={"added-by": "engine"}))
        facts = {"t": stored(StorageKind.DATASET, schema=found)}
        assert plan_of(desired(table("t", schema=USERS)), self.there, storage=facts).is_empty


class TestOwnership:
    def test_unowned_and_equal_is_a_note(self) -> None:
        plan = plan_of(desired(table("a/t", {"tier": "gold"})), live(live_table("a/t", {"tier": "gold"})))
        assert plan.is_empty
        assert noted(plan, "where", "count") == [(NoteCode.ADOPTABLE, "lake/a", 1)]

    def test_adopt_marks_it(self) -> None:
        plan = plan_of(desired(table("t")), live(live_table("t")), options=PlanOptions(adopt=True))
        assert [change.reason for change in plan.changes] == ["adopted"]

    def test_another_change_of_it_marks_it_too(self) -> None:
        plan = plan_of(desired(table("t", {"tier": "gold"})), live(live_table("t", {"tier": "silver"})))
        after = plan.changes[0].after
        assert after is not None
        assert after.managed_by == OWNER

    @pytest.mark.parametrize("absent", [False, True])
    def test_what_another_manifest_owns_is_a_conflict(self, absent: bool) -> None:
        assert_blocked(
            plan_of(desired(table("t", absent=absent)), live(live_table("t", owner=OTHER))),
            "lake/t",
            ReasonCode.FOREIGN_OWNER,
            owner=OTHER,
        )

    def test_take_over_claims_it(self) -> None:
        plan = plan_of(desired(table("t")), live(live_table("t", owner=OTHER)), options=PlanOptions(take_over=True))
        assert [(change.reason, change.fields[0].path) for change in plan.changes] == [("taken over", "managed-by")]


class TestRemoval:
    def test_owned_and_gone_from_the_manifest_is_deregistered(self) -> None:
        wanted = desired(table("keep"))
        plan = plan_of(wanted, live(live_table("keep", owner=OWNER), live_table("gone", owner=OWNER)))
        assert steps(plan) == ["deregister-table gone"]

    def test_prune_never_leaves_it(self) -> None:
        wanted = desired(table("keep"), prune=Prune.NEVER)
        assert plan_of(wanted, live(live_table("keep", owner=OWNER), live_table("gone", owner=OWNER))).is_empty

    def test_unmanaged_is_left_and_counted(self) -> None:
        plan = plan_of(
            desired(table("a/t")), live(live_table("a/t", owner=OWNER), live_table("a/x"), live_table("a/y"))
        )
        assert plan.is_empty
        unmanaged = (NoteCode.UNMANAGED, "lake/a", 2, "store", "lake")
        assert noted(plan, "where", "count", "owner", "catalog") == [unmanaged]

    def test_prune_all_takes_unmanaged_ones_too(self) -> None:
        wanted = desired(table("t"), prune=Prune.ALL)
        assert steps(plan_of(wanted, live(live_table("t", owner=OWNER), live_table("x")))) == ["deregister-table x"]

    @pytest.mark.parametrize("owner", [None, OWNER])
    def test_absent_removes_owned_or_not(self, owner: str | None) -> None:
        plan = plan_of(desired(table("t", absent=True)), live(live_table("t", owner=owner)))
        assert steps(plan) == ["deregister-table t"]

    def test_absent_and_not_there_is_no_change(self) -> None:
        assert plan_of(desired(table("t", absent=True)), live()).is_empty


class TestProtect:
    def test_it_outlives_its_block(self) -> None:
        plan = plan_of(
            desired(table("keep")), live(live_table("keep", owner=OWNER), live_table("t", owner=OWNER, protect=True))
        )
        assert plan.is_empty
        assert [guard.address for guard in plan.guards] == ["lake/t"]
        assert plan.summary().protected == 1

    def test_absent_does_not_lift_it_but_protect_false_does(self) -> None:
        there = live(live_table("t", owner=OWNER, protect=True))
        assert plan_of(desired(table("t", absent=True)), there).is_empty
        assert steps(plan_of(desired(table("t", absent=True, protect=False)), there)) == ["deregister-table t"]

    def test_it_is_written_and_lifted_as_an_update(self) -> None:
        raised = plan_of(desired(table("t", protect=True)), live(live_table("t", owner=OWNER)))
        lifted = plan_of(desired(table("t", protect=False)), live(live_table("t", owner=OWNER, protect=True)))
        assert [field.after for field in raised.changes[0].fields] == ["true"]
        assert [field.after for field in lifted.changes[0].fields] == ["false"]

    def test_saying_nothing_keeps_it(self) -> None:
        assert plan_of(desired(table("t")), live(live_table("t", owner=OWNER, protect=True))).is_empty


class TestCapabilities:
    def test_a_catalog_that_cannot_alter_is_a_conflict(self) -> None:
        there = live(live_table("t", {"tier": "x"}, owner=OWNER))
        assert_blocked(
            plan_of(desired(table("t", {"tier": "y"})), there, capabilities=NO_ALTER),
            "lake/t",
            ReasonCode.CANNOT_ALTER,
        )

    @pytest.mark.parametrize(
        ("wanted", "there", "code"),
        [
            (table("t"), live_table("t"), NoteCode.UNMARKABLE),
            (table("t", protect=True), live_table("t"), NoteCode.UNPROTECTABLE),
            (table("t", protect=True), live_table("t", owner=OWNER), NoteCode.UNPROTECTABLE),
            (table("t", protect=False), live_table("t", owner=OWNER, protect=True), NoteCode.STAYS_PROTECTED),
        ],
    )
    def test_marks_that_cannot_be_written_are_a_note(
        self, wanted: DesiredTable, there: LiveTable, code: NoteCode
    ) -> None:
        for options in (PlanOptions(), PlanOptions(adopt=True)):
            plan = plan_of(desired(wanted), live(there), capabilities=NO_ALTER, options=options)
            assert plan.is_empty
            assert noted(plan, "count") == [(code, 1)]

    def test_where_no_mark_is_kept_nothing_is_pruned(self) -> None:
        markless = Capabilities(table_markers=False, namespace_markers=False)
        wanted = desired(table("t"), prune=Prune.ALL)
        assert plan_of(wanted, live(live_table("t"), live_table("a/x")), capabilities=markless).is_empty

    def test_properties_that_cannot_be_kept_are_a_conflict(self) -> None:
        markless = Capabilities(table_markers=False)
        for there in (live(), live(live_table("t"))):
            assert_blocked(
                plan_of(desired(table("t", {"tier": "gold"})), there, capabilities=markless),
                "lake/t",
                ReasonCode.KEEPS_NO_PROPERTIES,
            )

    def test_a_place_the_catalog_refuses_is_a_conflict(self) -> None:
        facts = {"t": TableFacts("/else", Storage(StorageKind.NOTHING), "it is not under the root /data")}
        for there in (live(), live(live_table("t", owner=OWNER))):
            assert_blocked(
                plan_of(desired(table("t", location="/else")), there, storage=facts),
                "lake/t",
                ReasonCode.BAD_LOCATION,
                location="/else",
            )

    def test_protection_that_cannot_be_kept_is_a_warning(self) -> None:
        markless = Capabilities(table_markers=False)
        plan = plan_of(desired(table("t", protect=True)), live(live_table("t")), capabilities=markless)
        assert noted(plan, "count") == [(NoteCode.UNPROTECTABLE_TABLES, 1)]
