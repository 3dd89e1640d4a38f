"""Policies for live tables without a block: which apply, what they set and take back, and what they leave alone."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from reconciler.applier.step import property_changes
from reconciler.model import ownership
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import DesiredCatalog, DesiredPolicy, Expectations, Prune
from reconciler.model.live import LiveTable, Snapshot
from reconciler.model.names import Scope
from reconciler.model.policies import Policies
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.output import render
from reconciler.output.grouping import FoldedRow, sections
from reconciler.output.omissions import Omissions
from reconciler.planner.entries import Action
from reconciler.planner.facts import PlanOptions
from reconciler.planner.plan import Plan
from tests.plans import assert_blocked
from tests.unit.planner.building import OTHER, OWNER, at, desired, identifier, live, live_table, plan_of, steps, table


def policy(pattern: str, line: int = 1, **properties: str) -> DesiredPolicy:
    return DesiredPolicy(pattern, Scope((pattern,)), at(line), properties)


def with_policies(*policies: DesiredPolicy, prune: Prune = Prune.OWNED) -> DesiredCatalog:
    return replace(desired(prune=prune), policies=policies)


def applied(plan: Plan, there: Snapshot) -> Snapshot:
    """Return the catalog after the plan's updates of tables."""
    tables = dict(there.tables)
    for change in plan.changes:
        one = tables[change.identifier]
        changes = property_changes(change, one.properties, one.location, marks_request=False)
        tables[change.identifier] = replace(one, properties=changes.applied_to(one.properties))
    return replace(there, tables=tables)


def under(names: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table that is in step with this manifest's policies."""
    return {**names, ownership.KEYS: ownership.encode_keys(names), ownership.POLICY: OWNER}


# ---- against a brute-force model -------------------------------------------------------------------------------------

_PARTS = ("ads", "web", "a*", "*s", "?eb", "*", "**")
_KEYS = ("owner", "tier", "team")


def random_policies(chance: random.Random) -> list[DesiredPolicy]:
    return [
        policy(
            "/".join(chance.choices(_PARTS, k=chance.randint(1, 3))),
            position,
            **{key: chance.choice("xyz") for key in chance.sample(_KEYS, chance.randint(1, 2))},
        )
        for position in range(1, 5)
    ]


def random_table(chance: random.Random, path: str, policies: Sequence[DesiredPolicy]) -> LiveTable:
    properties = {key: chance.choice("xyz") for key in chance.sample((*_KEYS, "rows"), chance.randint(0, 3))}
    case = chance.randrange(5)
    if case == 0:
        return live_table(path, properties, owner=chance.choice((OWNER, OTHER)))
    if case < 3:
        owner = OWNER if case == 1 else OTHER
        keys = chance.sample(sorted(properties), chance.randint(0, len(properties)))
        marks = {ownership.POLICY: owner, ownership.KEYS: ownership.encode_keys(keys)}
        return live_table(path, properties, extra=marks)
    return live_table(path, {**properties, **expected(policies, path)} if case == 3 else properties)


def matches(pattern: str, path: str) -> bool:
    """Return what a glob means, by one regular expression over the whole path."""
    text = "/" + re.escape(pattern).replace(r"\*\*", "§").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return re.fullmatch(text.replace("/§", "(/[^/]+)*"), f"/{path}") is not None


def expected(policies: Sequence[DesiredPolicy], path: str) -> dict[str, str]:
    """Return what the policies ask of a table."""
    found: dict[str, str] = {}
    for one in policies:
        if matches(one.pattern, path):
            found |= one.properties
    return found


def model(policies: Sequence[DesiredPolicy], one: LiveTable) -> dict[str, str]:
    """Return the properties, without marks, that a table has after an apply."""
    properties = {key: value for key, value in one.properties.items() if not key.startswith("lancens.")}
    owner, mark = ownership.owner_of(one.properties), ownership.policy_of(one.properties)
    if owner is not None or mark not in (None, OWNER):
        return properties
    wanted = expected(policies, "/".join(one.id))
    gone = ownership.recorded_keys(one.properties) - wanted.keys()
    return {key: value for key, value in properties.items() if key not in gone} | wanted


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_random_policies_do_what_the_model_says(seed: int) -> None:
    for round_ in range(25):
        chance = random.Random(seed * 25 + round_)
        policies = random_policies(chance)
        paths = {"/".join(chance.choices(("ads", "web", "abs"), k=chance.randint(1, 3))) for _ in range(8)}
        there = live(*(random_table(chance, path, policies) for path in sorted(paths)))
        wanted = with_policies(*policies, prune=Prune.NEVER)
        plan = plan_of(wanted, there)
        after = applied(plan, there)
        for name, one in there.tables.items():
            shown = {key: text for key, text in after.tables[name].properties.items() if not key.startswith("lancens.")}
            assert shown == model(policies, one), (seed, round_, name)
            assert ownership.owner_of(after.tables[name].properties) == ownership.owner_of(one.properties)
        assert {change.action for change in plan.changes} <= {Action.UPDATE_TABLE}
        assert not plan_of(wanted, after).changes, (seed, round_)
        assert all(
            ownership.policy_of(after.tables[change.identifier].properties) in (OWNER, None) for change in plan.changes
        )
        # What policies set goes with them, and nothing else.
        without = applied(plan_of(with_policies(prune=Prune.NEVER), after), after)
        for name, one in without.tables.items():
            if ownership.policy_of(after.tables[name].properties) == OWNER:
                kept = set(there.tables[name].properties) - {ownership.KEYS, ownership.POLICY}
                assert set(one.properties) <= kept, (seed, round_, name)


# ---- one by one ------------------------------------------------------------------------------------------------------


def test_later_policies_win_key_by_key_and_the_change_names_those_that_count() -> None:
    plan = plan_of(
        with_policies(policy("**", 1, owner="all"), policy("ads/**", 2, owner="ads", tier="gold"), policy("web/*", 3)),
        live(live_table("ads/clicks"), live_table("web/hits")),
    )

    ads, web = plan.changes
    assert (ads.after and ads.after.properties, ads.params) == (
        {"owner": "ads", "tier": "gold"},
        {"names": ("ads/**",)},
    )
    assert (web.after and web.after.properties, web.params) == ({"owner": "all"}, {"names": ("**",)})
    assert (ads.code, ads.source and ads.source.line) == (ReasonCode.POLICY, 2)


def test_a_table_with_a_block_takes_nothing_from_a_policy() -> None:
    wanted = replace(desired(table("ads/clicks", {"tier": "gold"})), policies=(policy("**", owner="all"),))

    assert not plan_of(wanted, live(live_table("ads/clicks", {"tier": "gold"}, owner=OWNER))).changes
    [change] = plan_of(wanted, live(live_table("ads/clicks", under({"owner": "all"})))).changes
    assert change.after is not None
    assert (change.after.properties, change.after.policy, change.after.managed_by) == ({"tier": "gold"}, None, OWNER)


def test_a_policy_neither_removes_a_table_nor_keeps_it() -> None:
    there, sets = live(live_table("clicks", under({"owner": "ads"}))), policy("**", owner="ads")

    assert steps(plan_of(with_policies(sets), there)) == []
    assert steps(plan_of(with_policies(), there)) == ["update-table clicks"]
    assert steps(plan_of(with_policies(sets, prune=Prune.ALL), there)) == ["deregister-table clicks"]


def test_equal_values_need_no_mark_unless_the_plan_adopts() -> None:
    wanted, there = with_policies(policy("**", owner="ads")), live(live_table("ads/clicks", {"owner": "ads"}))

    assert not plan_of(wanted, there).changes
    [change] = plan_of(wanted, there, options=PlanOptions(adopt=True)).changes
    assert change.after is not None
    assert (change.after.policy, change.after.keys, change.after.managed_by) == (OWNER, ("owner",), None)


@pytest.mark.parametrize("owner", [OTHER, OWNER])
def test_a_managed_table_is_left_with_a_note(owner: str) -> None:
    wanted = with_policies(policy("**", owner="ads"), prune=Prune.NEVER)

    plan = plan_of(wanted, live(live_table("ads/clicks", {"owner": "web"}, owner=owner)))
    assert not plan.changes
    assert [note.code for note in plan.notes] == [NoteCode.POLICY_NOT_APPLIED]


def test_the_policies_of_another_manifest_keep_their_keys_unless_they_are_taken_over() -> None:
    wanted, marked = with_policies(policy("**", owner="ads")), {**under({"owner": "web"}), ownership.POLICY: OTHER}
    there = live(live_table("ads/clicks", marked))

    assert [note.code for note in plan_of(wanted, there).notes] == [NoteCode.POLICY_NOT_APPLIED]
    [change] = plan_of(wanted, there, options=PlanOptions(take_over=True)).changes
    assert change.after is not None
    assert change.after.policy == OWNER


@pytest.mark.parametrize("said", [{}, {"owner": "ads"}])
def test_a_block_changes_no_value_of_another_manifests_policies_unless_it_takes_over(said: dict[str, str]) -> None:
    marked = {**under({"owner": "web"}), ownership.POLICY: OTHER, "note": "anybody's"}
    there, wanted = live(live_table("ads/clicks", marked)), desired(table("ads/clicks", {"tier": "gold", **said}))

    assert_blocked(plan_of(wanted, there), "lake/ads/clicks", ReasonCode.FOREIGN_POLICY, owner=OTHER, names=("owner",))
    [change] = plan_of(wanted, there, options=PlanOptions(take_over=True)).changes
    assert change.after is not None
    assert change.after.properties == {"tier": "gold", **said}
    kept = desired(table("ads/clicks", {"tier": "gold", "owner": "web"}))
    assert steps(plan_of(kept, there)) == ["update-table ads/clicks"]


@pytest.mark.parametrize("able", [Capabilities(alter_table=False), Capabilities(table_markers=False)])
def test_a_catalog_that_cannot_change_entries_gets_a_note(able: Capabilities) -> None:
    wanted = with_policies(policy("**", owner="ads"))

    plan = plan_of(wanted, live(live_table("ads/clicks"), live_table("ads/bids", {"owner": "ads"})), capabilities=able)
    assert (plan.changes, [note.code for note in plan.notes]) == ((), [NoteCode.POLICY_NOT_KEPT])


def test_a_policy_of_expectations_changes_no_plan() -> None:
    expects = replace(policy("ads/**"), expect={"max_versions": 5})
    last = replace(policy("ads/clicks"), expect={"max_fragments": 7, "max_versions": 9})
    wanted = with_policies(expects, last)

    assert not plan_of(wanted, live(live_table("ads/clicks"))).changes
    found = Policies(wanted.policies).of(identifier("ads/clicks"))
    assert found is not None
    assert found.block.expect == Expectations(max_fragments=7, max_versions=9)
    assert {key: writer.pattern for key, writer in found.writers.items()} == {
        "expect.max_versions": "ads/clicks",
        "expect.max_fragments": "ads/clicks",
    }


# ---- as a person reads it --------------------------------------------------------------------------------------------


def test_a_plan_folds_what_policies_change_whatever_was_there_before() -> None:
    tables = [live_table(f"{space}/t{at:03}", {"tier": "xyz"[at % 3]}) for space in ("ads", "web") for at in range(153)]
    wanted = with_policies(policy("**", 1, tier="gold"), policy("ads/**", 2, owner="ads"))
    plan = plan_of(wanted, live(*tables))

    folds = [row for section in sections(plan, Omissions()) for row in section.rows]
    assert [len(row.entries) for row in folds if isinstance(row, FoldedRow)] == [153, 153]
    text = render(plan, "text", width=120)
    assert "policy `**`, `ads/**`" in text
    assert "tier: … -> gold" in text
    assert len(text.splitlines()) < 20
