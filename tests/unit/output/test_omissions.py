"""A comment approves only what it shows: plans that try to hide a change from the reviewer, and honest ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given

from reconciler.action.approval import ConfigChanges, PlanOrigin, marker, read_approval
from reconciler.action.inputs import PlanKey
from reconciler.action.pages import plan_comment
from reconciler.model import display
from reconciler.model.columns import Column
from reconciler.model.reasons import ReasonCode
from reconciler.output import render, wording
from reconciler.output.markdown import COMMENT_LIMIT
from reconciler.output.wording import field_changes, labelled_location
from reconciler.planner.entries import Action, Change
from reconciler.planner.plan import Plan
from tests.strategies import plans
from tests.unit.output.examples import change, schema_edit, small_plan, view

CANARY = "hidden-canary"


def comment_on(plan: Plan) -> tuple[str, bool]:
    """Return the comment that the Action writes, and whether it approves the plan."""
    key = PlanKey(("lancens.yaml",), (), (), "default")
    text = plan_comment(
        plan,
        key=key,
        origin=PlanOrigin("a" * 40, "1.1"),
        run_url="https://ci",
        removal_notes={},
        config_changes=ConfigChanges(),
    )
    approval = read_approval(f"{marker('plan', key.digest, '0' * 16)}\n{text}")
    assert len(text) <= COMMENT_LIMIT
    assert (approval is None) == ("approves nothing" in text)
    # The plan that an approving comment carries is not what a person reads.
    return text.partition("<!-- lancens plan.json")[0], approval is not None


def plan_of(changes: Sequence[Change]) -> Plan:
    return small_plan().model_copy(update={"changes": tuple(changes), "guards": (), "notes": ()})


def middle(length: int) -> str:
    """Return text of about this length with the canary in its middle."""
    return f"{'x' * (length // 2)}{CANARY}{'y' * (length // 2)}"


def place(number: int) -> str:
    return f"s3://lake/ns/t{number:03}.lance"


def names(length: int) -> list[str]:
    """Return names that take about this many characters; a few hundred long ones exceed a comment like many short."""
    return [f"t{'n' * (length // 1_000)}{number:03}" for number in range(min(length // 10, 700))]


def long_value(length: int) -> list[Change]:
    return [
        change("lake", "ns/t", Action.UPDATE_TABLE, view(place(0), note="a"), view(place(0), note=middle(length)), "")
    ]


def long_value_of_a_creation(length: int) -> list[Change]:
    return [change("lake", "ns/t", Action.DECLARE_TABLE, None, view(place(0), note=middle(length)), "")]


def long_key(length: int) -> list[Change]:
    return [change("lake", "ns/t", Action.UPDATE_TABLE, view(place(0)), view(place(0), **{middle(length): "a"}), "")]


def long_place(length: int) -> list[Change]:
    return [change("lake", "ns/t", Action.DECLARE_TABLE, None, view(f"s3://{middle(length)}"), "")]


def long_relocation(length: int) -> list[Change]:
    return [change("lake", "ns/t", Action.RELOCATE_TABLE, view(place(0)), view(f"s3://lake/{middle(length)}"), "")]


def long_type(length: int) -> list[Change]:
    before, added = Column(name="a", type="int64"), Column(name="b", type=f"struct<{middle(length)}: int64>")
    return [change("lake", "ns/t", Action.ALTER_TABLE, view(place(0), before), view(place(0), before, added), "")]


def fold_of_creations(length: int) -> list[Change]:
    places = {name: f"s3://lake/ns/{name}.lance" for name in names(length)} | {"z": f"s3://elsewhere/{CANARY}"}
    return [
        change("lake", f"ns/{name}", Action.DECLARE_TABLE, None, view(location), "")
        for name, location in places.items()
    ]


def fold_of_values(length: int) -> list[Change]:
    tiers = dict.fromkeys(names(length), "silver") | {"z": CANARY}
    return [
        change(
            "lake", f"ns/{name}", Action.UPDATE_TABLE, view(place(0), tier=tier), view(place(0), tier="gold"), ""
        ).model_copy(update={"code": ReasonCode.POLICY, "params": {"names": ("ns/**",)}})
        for name, tier in tiers.items()
    ]


def fold_of_removals(length: int) -> list[Change]:
    gone = [f"ns_{number % 5}/{name}" for number, name in enumerate(names(length + 510))]
    return [
        change("lake", path, Action.DEREGISTER_TABLE, view(f"s3://lake/{path}"), None, "")
        for path in (*gone, f"ns_0/z_{CANARY}")
    ]


def fold_of_names_that_differ_at_the_end(length: int) -> list[Change]:
    ends = [*(f"{number:05}" for number in range(max(length // 100, 20))), CANARY]
    return [
        change("lake", f"ns/{'n' * 240}_{end}", Action.REGISTER_TABLE, None, view(f"s3://lake/{'n' * 240}_{end}"), "")
        for end in ends
    ]


def fold_of_namespaces(length: int) -> list[Change]:
    return [
        change("lake", f"{'n' * 200}_{end}/t", Action.DECLARE_TABLE, None, view(f"s3://lake/{end}/t.lance"), "")
        for end in (*range(max(length // 100, 20)), CANARY)
    ]


HOSTILE = [
    long_value,
    long_value_of_a_creation,
    long_key,
    long_place,
    long_relocation,
    long_type,
    fold_of_creations,
    fold_of_values,
    fold_of_removals,
    fold_of_names_that_differ_at_the_end,
    fold_of_namespaces,
]


@pytest.mark.parametrize("length", [300, 3_000, 100_000])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_comment_approves_what_it_does_not_show(hostile: Callable[[int], list[Change]], length: int) -> None:
    text, approves = comment_on(plan_of(hostile(length)))
    assert not approves or CANARY in text
    assert approves or "Left out:" in text
    assert approves or length > 300
    assert not approves or length < 100_000


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_format_without_a_limit_shows_everything(hostile: Callable[[int], list[Change]], form: str) -> None:
    assert CANARY in render(plan_of(hostile(3_000)), form)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_shows_everything_or_names_the_option_that_does(hostile: Callable[[int], list[Change]]) -> None:
    plan = plan_of(hostile(3_000))
    assert CANARY in render(plan, "text", full=True)
    text = render(plan, "text")
    assert CANARY in text or "--full shows every one" in text or hostile is long_value_of_a_creation


@given(plans())
def test_an_approving_comment_shows_every_name_place_and_value(plan: Plan) -> None:
    text, approves = comment_on(plan)
    assert approves
    shown = text.replace("\\|", "|")
    for entry in plan.changes:
        assert display.address(*entry.identifier) in shown
        located = labelled_location(entry)
        values = [field.after for field in (*field_changes(entry), *wording.set_fields(entry, with_removed=False))]
        for value in (*values, located and located[1]):
            assert value is None or display.value(value) in shown


def test_an_honest_plan_of_306_tables_is_approved() -> None:
    plan = schema_edit()
    text, approves = comment_on(plan)
    assert approves
    for entry in plan.changes:
        assert f"{'/'.join((entry.catalog, *entry.identifier[:-1]))}`, 17" in text
        assert entry.identifier[-1] in text


def test_one_line_says_where_306_new_tables_go() -> None:
    made = [
        change("lake", f"ns/t{at:03}", Action.DECLARE_TABLE, None, view(place(at), tier="gold"), "")
        for at in range(306)
    ]
    text, approves = comment_on(plan_of(made))
    assert approves
    assert "- `lake/ns`, 306, at `s3://lake/ns/….lance`: `t000, t001, " in text
    assert "t305`\n" in text
    assert "add `tier`: `gold`" in text


def test_a_place_that_holds_an_ellipsis_is_written_out() -> None:
    made = [
        change("lake", f"ns/t{at:03}", Action.DECLARE_TABLE, None, view(f"s3://…/t{at:03}"), "") for at in range(12)
    ]
    text, approves = comment_on(plan_of(made))
    assert approves
    assert "at `s3://…/t007`: `t007`" in text


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://lake/{}/{}", "s3://lake/t007/…"),
        ("s3://lake/{}/{}.lance", "s3://lake/t007/….lance"),
        ("s3://lake/{}/{}_v2.lance", "s3://lake/…/t007_v2.lance"),
        ("s3://{}x/{}x", "s3://t007x/t007x"),
    ],
)
def test_the_last_segment_that_is_the_name_is_an_ellipsis(location: str, shown: str) -> None:
    names = [f"t{at:03}" for at in range(12)]
    made = [
        change("lake", f"ns/{name}", Action.DECLARE_TABLE, None, view(location.format(name, name)), "")
        for name in names
    ]
    text, approves = comment_on(plan_of(made))
    assert approves
    assert f"at `{shown}`: `t007`" in text
