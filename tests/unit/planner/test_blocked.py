"""What one blocked object keeps from being planned, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.capabilities import Capabilities
from reconciler.model.columns import Column, ShownColumn
from reconciler.model.desired import Evolve, ExtraColumns, Origin, Prune
from reconciler.model.live import StorageKind
from reconciler.model.reasons import ReasonCode, Why
from reconciler.planner.facts import EntryColumns
from reconciler.planner.plan import Plan
from tests.plans import assert_blocked, blocked
from tests.unit.planner.building import (
    OTHER,
    OWNER,
    USERS,
    claim,
    desired,
    live,
    live_namespace,
    live_table,
    plan_of,
    steps,
    stored,
    table,
)

NOT_LANCE = stored(StorageKind.NOT_LANCE, "/new/t.lance")


def names(plan: Plan) -> list[str]:
    return ["/".join(one.identifier) for one in plan.blocked]


def waits(plan: Plan) -> list[str]:
    return [f"{change.action} {'/'.join(change.identifier)}" for change in plan.waiting]


def test_the_others_are_planned() -> None:
    wanted = desired(table("a/t", location="/new/t.lance"), table("a/good"))
    plan = plan_of(wanted, live(live_namespace("a")), storage={"a/t": NOT_LANCE})
    assert steps(plan) == ["declare-table a/good"]
    assert names(plan) == ["a/t"]
    assert blocked(plan) == [("lake/a/t", ReasonCode.NOT_LANCE)]
    assert plan.summary().blocked == 1


def test_what_is_below_a_blocked_namespace_waits() -> None:
    there = live(live_namespace("a", owner=OTHER), live_table("a/old", owner=OWNER), live_table("b/old", owner=OWNER))
    wanted = desired(claim("a", {"team": "ml"}), table("a/b/t"), table("b/t"))
    plan = plan_of(wanted, there)
    assert names(plan) == ["a"]
    assert steps(plan) == ["declare-table b/t", "deregister-table b/old"]
    assert waits(plan) == ["create-namespace a/b", "declare-table a/b/t", "deregister-table a/old"]
    assert plan.catalogs[0].removed_tables == 1


def test_a_removal_waits_with_what_would_take_its_place() -> None:
    there = live(live_table("old", owner=OWNER, location="s3://b/t/"), live_table("other", owner=OWNER))
    wanted = desired(table("new", location="s3a://b//t", schema=USERS))
    plan = plan_of(wanted, there, storage={"new": stored(StorageKind.DENIED, "s3a://b//t")})
    assert names(plan) == ["new"]
    assert waits(plan) == ["deregister-table old"]
    assert steps(plan) == ["deregister-table other"]


def test_a_removal_waits_with_what_would_take_its_name() -> None:
    there = live(live_table("a", owner=OWNER))
    wanted = desired(claim("a", kind="database"), table("a/b/t"))
    capabilities = Capabilities(namespace_kinds=("catalog", "database"), one_name_space=True)
    plan = plan_of(wanted, there, capabilities=capabilities)
    assert names(plan) == ["a"]
    assert waits(plan) == ["deregister-table a", "create-namespace a/b", "declare-table a/b/t"]


def test_a_removal_waits_with_what_the_service_keeps_under_its_name() -> None:
    fault = Why(ReasonCode.KEPT_UNDER_ANOTHER_NAME, {"name": "Orders", "other": "orders"}, kept_as=("orders",))
    asked = replace(table("Orders", location="/new"), mirrors=Origin("source", ("Orders",)), refused=fault)
    plan = plan_of(desired(asked), live(live_table("orders", owner=OWNER), live_table("other", owner=OWNER)))
    assert (names(plan), waits(plan), steps(plan)) == (
        ["Orders"],
        ["deregister-table orders"],
        ["deregister-table other"],
    )


def test_a_removal_waits_with_what_waits_itself() -> None:
    there = live(live_namespace("a", owner=OTHER), live_table("old", owner=OWNER, location="/x"))
    wanted = desired(claim("a", {"team": "ml"}), table("a/t", location="/x"))
    plan = plan_of(wanted, there)
    assert steps(plan) == []
    assert waits(plan) == ["declare-table a/t", "deregister-table old"]


def test_a_namespace_stays_while_what_it_holds_waits() -> None:
    there = live(live_namespace("a", owner=OWNER), live_table("a/old", owner=OWNER, location="/x"))
    wanted = desired(table("new", location="/x"))
    plan = plan_of(wanted, there, storage={"new": stored(StorageKind.NOT_LANCE, "/x")})
    assert steps(plan) == []
    assert "lake/a is kept" in plan.notes[0].message


def test_prune_all_is_blocked_only_by_what_others_manage() -> None:
    wanted = desired(table("t"), prune=Prune.ALL)
    plan = plan_of(wanted, live(live_table("t", owner=OWNER), live_table("x", owner=OTHER), live_table("y")))
    assert names(plan) == ["x"]
    assert steps(plan) == ["deregister-table y"]


def test_the_states_it_was_decided_by_are_kept() -> None:
    there = live(live_table("t", {"tier": "gold"}, owner=OTHER), live_table("taken", location="/x"))
    plan = plan_of(desired(table("t"), table("new", location="/x", schema=USERS)), there)
    assert names(plan) == ["new", "t"]
    kept = {one.identifier[0]: one.view for one in plan.fingerprints}
    assert kept["new"] is None
    assert kept["t"] is not None
    assert kept["t"].managed_by == OTHER
    assert kept["taken"] is not None, "what is in the way is looked at again before anything is written"


def test_nothing_is_written_where_a_blocked_table_is_to_be() -> None:
    """It would unblock that one, whose plan after the apply would not be empty."""
    there = live(live_table("a/moves", owner=OWNER, location="/data/old.lance"))
    wanted = desired(
        table("a/moves", location="/data/new.lance"), table("a/made", location="/data/x/../new.lance", schema=USERS)
    )
    nothing = {"a/moves": stored(StorageKind.NOTHING, "/data/new.lance")}
    plan = plan_of(wanted, there, storage=nothing)
    assert steps(plan) == []
    assert blocked(plan) == [
        ("lake/a/made", ReasonCode.LOCATION_AWAITED),
        ("lake/a/moves", ReasonCode.NO_DATA_TO_RELOCATE_TO),
    ]
    assert plan.blocked[0].params["name"] == "lake/a/moves"


def test_nothing_is_written_where_a_waiting_table_is_to_be() -> None:
    """It would block that one once what it waits for is planned."""
    there = live(live_namespace("a", owner=OTHER))
    waiting = table("a/waits", location="/data/new.lance", schema=(Column("other", "string"),))
    wanted = desired(
        claim("a", {"team": "ml"}), waiting, table("b/made", location="/data/x/../new.lance", schema=USERS)
    )
    plan = plan_of(wanted, there)
    assert waits(plan) == ["create-table a/waits"]
    assert blocked(plan) == [("lake/a", ReasonCode.FOREIGN_OWNER), ("lake/b/made", ReasonCode.LOCATION_AWAITED)]


def test_data_is_not_changed_where_a_waiting_table_is_to_be() -> None:
    there = live(live_namespace("a", owner=OTHER), live_table("b/grows", owner=OWNER, location="/data/t.lance"))
    wider = (*USERS, Column("email", "string"))
    grows = table("b/grows", location="/data/t.lance", schema=wider, evolve=Evolve.ADDITIVE)
    waiting = replace(table("a/waits", location="/data/t.lance", schema=USERS), extra_columns=ExtraColumns.CONFLICT)
    found = stored(StorageKind.DATASET, "/data/t.lance", schema=USERS)
    wanted = desired(claim("a", {"team": "ml"}), waiting, grows)
    plan = plan_of(wanted, there, storage={"a/waits": found, "b/grows": found})
    assert waits(plan) == ["register-table a/waits"]
    assert_blocked(plan, "lake/b/grows", ReasonCode.LOCATION_SHARED, name="lake/a/waits")


def test_a_table_is_not_made_new_while_no_entry_has_data_that_may_be_its_own() -> None:
    wanted = desired(table("a/new"), table("a/other"))
    found = {"a/new": ["/data/taken.lance", "/data/lost.lance", "/data/also.lance"]}
    plan = plan_of(wanted, live(live_table("a/theirs", location="/data/taken.lance")), elsewhere=found)
    assert (steps(plan), names(plan)) == (["declare-table a/other"], ["a/new"])
    assert plan.blocked[0].unreferenced == "/data/lost.lance"


def test_data_that_an_entry_has_or_gets_is_no_other_tables_own() -> None:
    wanted = desired(table("a/new"), table("a/heir", location="/data/lost.lance"))
    there = live(live_table("a/theirs", location="/data/taken.lance"))
    found = {"a/new": ["/data/taken.lance", "/data/lost.lance"]}
    at_place = {"a/heir": stored(StorageKind.DATASET, "/data/lost.lance")}
    assert steps(plan_of(wanted, there, storage=at_place, elsewhere=found)) == [
        "register-table a/heir",
        "declare-table a/new",
    ]


def test_two_ways_to_one_place_are_one_place() -> None:
    """Where symbolic links lead is looked up before planning."""
    links = {"/data/link/t.lance": "/data/real/t.lance"}
    spelled = {
        "a/one": ("/data/real/x/../t.lance", "/data/link/t.lance"),
        "a/two": ("/data/link/./t.lance", "/data/real/t.lance"),
    }
    for mine, theirs in spelled.values():
        wanted = desired(table("a/one", location=mine, schema=USERS), table("a/two", location=theirs, schema=USERS))
        plan = plan_of(wanted, live(), links=links)
        assert [one.reason.partition(" at /")[0] for one in plan.blocked] == [
            "it and lake/a/two would both be",
            "it and lake/a/one would both be",
        ]
        there = live(live_table("a/theirs", location=theirs))
        plan = plan_of(desired(table("a/one", location=mine, schema=USERS)), there, links=links)
        assert_blocked(plan, "lake/a/one", ReasonCode.LOCATION_TAKEN, name="lake/a/theirs")


def test_what_an_entry_shows_is_no_part_of_its_blocked_state() -> None:
    """The check of a saved plan knows it of changes alone."""
    there = live(live_table("a", owner=OWNER, location="/x"), live_table("b", owner=OWNER, location="/x"))
    shown = EntryColumns((), (ShownColumn("user_id", "bigint"),))
    facts = replace(stored(StorageKind.NOTHING, "/x"), entry=shown)
    plan = plan_of(desired(table("a", schema=USERS), table("b", schema=USERS)), there, storage={"a": facts, "b": facts})
    assert blocked(plan) == [("lake/a", ReasonCode.LOCATION_SHARED), ("lake/b", ReasonCode.LOCATION_SHARED)]
    assert [one.before and one.before.shown_columns for one in plan.blocked] == [None, None]
