from __future__ import annotations

import re

import pytest

from reconciler.model import display
from reconciler.model.maintenance import Maintain
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.output import render
from reconciler.output.wording import closing_line, question, read_line
from reconciler.planner.entries import Action, Blocked, Change, Note, UpkeepJob
from reconciler.planner.plan import Options, Plan
from reconciler.planner.views import FieldChange, ObjectView
from tests.strategies import HOSTILE
from tests.unit.output.examples import LONG, at, change, held, large_plan, removals, small_plan, view

EXPECTED = """\
feature-store (env = prod) on lake (dir, s3://lake) and prod (glue, eu-west-1)

lake (dir)
  ~ features/clicks        relocate    registered elsewhere              lancens.yaml:23
        location: s3://lake/old/clicks.lance -> s3://lake/clicks.lance (data stays at both)
  ~ features/events        update      differs from the manifest         lancens.yaml:19
        + contact: ml-platform
        - reviewed: no
        tier: silver -> gold
  + features/sessions      register    data found at its location        lancens.yaml:25
        data is at s3://lake/sessions.lance
  + features/eu            namespace   in the manifest                   lancens.yaml:20
  + features/eu/users      create      schema of 2 fields                lancens.yaml:21
        at s3://lake/features/eu/users.lance

prod (glue)
  - analytics/clicks_2023  deregister  owned, no longer in the manifest
        data stays at s3://prod/clicks_2023.lance
  ! analytics/orders       protected   kept; would be deregistered
        owned, no longer in the manifest
  ~ analytics/scores       alter       columns to add                    lancens.yaml:31
        + column score: float32

Notes
  prod: 7 tables in prod are not managed by feature-store; `lancens list --unmanaged 'prod/**'` shows them.

Plan: 2 to create, 0 to declare, 1 to register, 3 to update, 1 to deregister. 1 protected. No data is deleted.
"""


NARROW = """\
  ~ features/clicks        relocate    registered elsewhere      lancens.yaml:23
        location: (data stays at both)
             s3://lake/old/clicks.lance
          -> s3://lake/clicks.lance
  ~ features/events        update      differs from the          lancens.yaml:19
"""


def plan_of(*changes: Change) -> Plan:
    return small_plan().model_copy(update={"changes": changes, "guards": (), "notes": ()})


def updated(**fields: tuple[str | None, str | None]) -> Plan:
    before = view("s3://b/t", **{key: old for key, (old, _) in fields.items() if old is not None})
    after = view("s3://b/t", **{key: new for key, (_, new) in fields.items() if new is not None})
    return plan_of(change("lake", "t", Action.UPDATE_TABLE, before, after, "differs from the manifest"))


def test_the_example_reads_as_it_should() -> None:
    assert render(small_plan(), "text") == EXPECTED


def test_a_narrow_terminal_has_reasons_and_long_values_on_their_own_lines() -> None:
    lines = render(small_plan(), "text", width=80).splitlines()
    assert lines[4:9] == NARROW.splitlines()


def test_full_lists_what_a_creation_sets() -> None:
    text = render(small_plan(), "text", full=True)
    for line in (
        "+ tier: gold",
        "+ column user_id: int64 not null",
        "+ column embedding: fixed_size_list<float32>[768]",
    ):
        assert f"        {line}\n" in text


def test_an_empty_plan_says_what_matches() -> None:
    plan = small_plan().model_copy(update={"changes": (), "guards": (), "notes": ()})
    assert render(plan, "text").splitlines()[2].startswith("No changes. 1,260 objects in 2 ")


def test_one_object_matches() -> None:
    [first, *_] = small_plan().catalogs
    alone = first.model_copy(update={"desired_objects": 1, "unnamed_tables": 0})
    plan = small_plan().model_copy(update={"catalogs": (alone,), "changes": (), "guards": ()})
    assert "1 object in 1 catalog matches " in closing_line(plan)


def test_the_question_says_where_it_is() -> None:
    plan = small_plan()
    manifest = plan.manifest.model_copy(
        update={"given": {"env": "prod"}, "services": {"lake": "s3://l\x1b", "prod": ""}}
    )
    plan = plan.model_copy(update={"manifest": manifest})
    asked = (
        f"Apply {len(plan.changes)} changes of feature-store (env = prod) to lake (dir, s3://l\\x1b) and prod (glue)?"
    )
    assert question(plan, "Apply").startswith(asked)
    only = plan.model_copy(update={"changes": tuple(one for one in plan.changes if one.catalog == "prod")})
    assert " to prod (glue)? " in question(only, "Apply"), "a catalog that was only read does not change"
    many = [f"lake_{number}" for number in range(9)]
    spread = {
        "catalogs": tuple(plan.catalogs[0].model_copy(update={"name": name}) for name in many),
        "changes": tuple(plan.changes[0].model_copy(update={"catalog": name}) for name in many),
    }
    assert " (env = prod) to 9 catalogs? " in question(plan.model_copy(update=spread), "Apply")


@pytest.mark.parametrize("limit", ["select", "exclude"])
def test_what_was_not_selected_is_not_said_to_match(limit: str) -> None:
    changed = {"changes": (), "guards": (), "options": Options.model_validate({limit: ("lake/**",)})}
    line = closing_line(small_plan().model_copy(update=changed))
    assert line == "No changes. What was selected of 1,260 objects in 2 catalogs matches the manifest."


def test_what_is_protected_is_said_when_nothing_changes() -> None:
    plan = small_plan().model_copy(update={"changes": ()})
    assert closing_line(plan).endswith("match the manifest. 1 protected.")
    assert "! analytics/orders  protected" in render(plan, "text")


def test_changes_of_one_kind_in_a_namespace_fold_though_they_differ() -> None:
    different = [
        change("lake", f"ns/t{n:02}", Action.UPDATE_TABLE, view("s", tier="a"), view("s", tier=f"b{n}"), "differs")
        for n in range(21)
    ]
    text = render(plan_of(*different), "text")
    assert re.search(r"~ ns/\* +update +21 tables: differs", text)
    assert "t00, t01, t02, t03, t04 and 16 more" in text
    assert "differ: tier in 21" in text
    assert "--full shows every one" in text
    assert "ns/t20" in render(plan_of(*different), "text", full=True)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_fifty_removals_are_all_shown_and_more_fold_by_namespace(form: str) -> None:
    few, many = render(removals(50), form), render(removals(51), form)
    covers = "Approval covers all 51 removals"
    assert covers not in few
    assert covers in many
    assert "ns_0/*" not in few
    assert "ns_0/*" in many
    assert "11 tables" in many
    assert covers not in render(removals(51), "text", full=True)


def test_removals_of_several_reasons_do_not_fold_into_one() -> None:
    plan = removals(60)
    half = [one.model_copy(update={"code": ReasonCode.ABSENT, "params": {}}) for one in plan.changes[:30]]
    text = render(plan.model_copy(update={"changes": (*half, *plan.changes[30:])}), "text")
    assert len(re.findall(r"- ns_0/\* ", text)) == 2


def test_what_is_blocked_or_removed_comes_first() -> None:
    for form in ("text", "markdown"):
        lines = render(large_plan(1_000), form).splitlines()
        start = next(number for number, line in enumerate(lines) if "prod" in line and "(glue)" in line)
        signs = "".join(line.strip(" |`")[0] for line in lines[start:] if re.match(r"  [!+~-] \w|\| `[!+~-]`", line))
        assert re.match("-+[!+~]", signs)


def moved(number: int) -> Change:
    one = change("lake", f"b/t{number:03}", Action.MOVE_TABLE, view("s"), view("s"), f"was a table of a{number}")
    return one.model_copy(update={"moved": view("s")}) if "moved" in Change.model_fields else one


@pytest.mark.parametrize(("moves", "makes"), [(3, 3), (3, 40), (40, 3), (40, 40)])
def test_moves_come_next_and_before_what_is_made(moves: int, makes: int) -> None:
    made = [change("lake", f"a/t{number:03}", Action.DECLARE_TABLE, None, view("s"), "new") for number in range(makes)]
    gone = change("lake", "z/t", Action.DEREGISTER_TABLE, view("s"), None, "not in the manifest any more")
    plan = plan_of(*made, *(moved(number) for number in range(moves)), gone)
    for form in ("text", "markdown"):
        lines = render(plan, form).splitlines()
        signs = [line.strip(" |`")[0] for line in lines if re.match(r"\s*[>+-] \w|\| `[>+-]`", line)]
        assert "".join(dict.fromkeys(signs)) == "->+", (form, signs)
    comment = render(plan, "markdown")
    removal = next(line for line in comment.splitlines() if line.startswith("| `-`"))
    assert comment.index(removal) < (comment.find("<details>") if "<details>" in comment else len(comment))
    assert ("<details><summary>40 moves in" in comment) is (moves > 20)


def test_a_blocked_object_shows_its_reason_and_its_remedy() -> None:
    blocked = Blocked(
        catalog="lake",
        kind="table",
        identifier=("ns", "orders"),
        code=ReasonCode.MADE_OUTSIDE,
        source=at(7),
    )
    waits = change("lake", "ns/x", Action.DECLARE_TABLE, None, view("s"), "in the manifest")
    plan = plan_of(change("lake", "ns/a", Action.DECLARE_TABLE, None, view("s"), "in the manifest")).model_copy(
        update={"blocked": (blocked,), "waiting": (waits,)}
    )
    text = render(plan, "text")
    first, reason, remedy, after = text[text.index("  ! ns/orders ") :].splitlines()[:4]
    assert re.search("blocked .*lancens.yaml:7$", first)
    assert (reason.strip(), remedy.strip()) == (blocked.reason, f"-> {blocked.remedy}")
    assert after.startswith("  + ns/a")
    assert re.search(r"1 change waits .* ns/x \(declare\)", text)
    assert "1 to declare" in closing_line(plan)
    assert "; 1 blocked." in closing_line(plan)
    for form in ("markdown", "html"):
        shown = render(plan, form)
        for said in ("it does not exist", "create it, or remove its block", "1 change waits", "1 blocked"):
            assert said in shown, (form, said)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_catalog_in_which_changes_only_wait_is_shown(form: str) -> None:
    """A mirror waits for the tables of its source that are blocked."""
    blocked = Blocked(catalog="lake", kind="table", identifier=("x",), code=ReasonCode.MADE_OUTSIDE)
    waits = change("prod", "x", Action.REGISTER_TABLE, None, view("s"), "mirrored")
    plan = plan_of().model_copy(update={"blocked": (blocked,), "waiting": (waits,)})
    assert "1 change waits" in render(plan, form)


def test_a_fold_shows_the_difference_its_changes_share() -> None:
    same = [
        change("lake", f"ns/t{n:02}", Action.UPDATE_TABLE, view("s", tier="a"), view("s", tier="b"), "differs")
        for n in range(21)
    ]
    text = render(plan_of(*same), "text")
    assert "21 tables: differs" in text
    assert text.count("tier: a -> b") == 1
    other = change("lake", "ns/t99", Action.UPDATE_TABLE, view("s", tier="a"), view("s", tier="c"), "differs")
    mixed = render(plan_of(*same, other), "text")
    assert mixed.count("tier: a -> b") == mixed.count("tier: a -> c") == 1


def test_twenty_changes_of_one_kind_are_all_shown() -> None:
    few = [change("lake", f"ns/t{n:02}", Action.DEREGISTER_TABLE, view(f"s{n}"), None, "gone") for n in range(20)]
    text = render(plan_of(*few), "text")
    assert all(f"ns/t{n:02}" in text for n in range(20))


def test_a_long_value_is_shortened_in_the_middle_unless_full() -> None:
    plan = updated(note=("short", "start-" + "x" * 500 + "-end"))
    line = next(line for line in render(plan, "text").splitlines() if "note:" in line)
    assert "start-xxx" in line
    assert "…" in line
    assert line.endswith("xxx-end")
    assert "x" * 500 in render(plan, "text", full=True)


def test_wide_characters_keep_the_columns_aligned() -> None:
    plan = plan_of(
        change("lake", "表テーブル", Action.DEREGISTER_TABLE, view("s"), None, "gone"),
        change("lake", "a_plain_name", Action.DEREGISTER_TABLE, view("s"), None, "gone"),
    )
    rows = [line for line in render(plan, "text").splitlines() if "deregister" in line][:2]
    columns = [display.width_of(row[: row.index("deregister")]) for row in rows]
    assert columns[0] == columns[1]


def test_a_property_called_location_is_not_mistaken_for_the_location() -> None:
    assert "properties.location: a -> b\n" in render(updated(location=("a", "b")), "text")


def test_a_raw_secret_in_a_field_is_still_not_shown() -> None:
    secret = Change(
        catalog="lake",
        kind="table",
        identifier=("t",),
        action=Action.UPDATE_TABLE,
        before=ObjectView(),
        after=ObjectView(),
        fields=(
            FieldChange(path="properties.db_password", before="hunter2hunter2", after="correct-horse"),
            FieldChange(path="location", before="s3://key:hunter2hunter2@b/t", after="s3://b/t?sig=correct-horse"),
        ),
        code=ReasonCode.DIFFERS,
    )
    for format_ in ("text", "markdown", "html"):
        page = render(plan_of(secret), format_)
        assert "hunter2" not in page
        assert "correct-horse" not in page


def test_colour_marks_what_is_added_and_removed() -> None:
    text = render(small_plan(), "text", color=True)
    assert "\x1b[32mgold\x1b[0m" in text
    assert "\x1b[31msilver\x1b[0m" in text
    assert "\x1b" not in render(small_plan(), "text")


def test_many_notes_are_counted() -> None:
    notes = tuple(Note(catalog="lake", code=NoteCode.SCAN, params={"detail": f"note {n}"}) for n in range(25))
    plan = small_plan().model_copy(update={"notes": notes})
    text = render(plan, "text")
    assert "note 19" in text
    assert "note 20" not in text
    assert "and 5 more notes" in text
    assert "note 24" in render(plan, "text", full=True)


def test_the_line_about_what_was_read() -> None:
    lake, prod = read_line(small_plan()).removeprefix("Read 2 catalogs: ").split(" · ")
    assert lake == "lake (dir) 3 namespaces, 41 tables"
    assert prod == "prod (glue) 12 namespaces, 1,204 tables"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("users", "users"),
        ("users.v2", "users.v2"),
        ("a b", '"a b"'),
        ("", '""'),
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\\n", r"\\n"),
        ("\u202eabc", r"\u202eabc"),
        ("[red]", "[red]"),
        ("-/+", '"-/+"'),
    ],
)
def test_names_are_shown_safely(name: str, safe: str) -> None:
    assert display.name(name) == safe


def test_no_two_names_look_the_same() -> None:
    names = [*HOSTILE, *(repr(name)[1:-1] for name in HOSTILE), *(name.strip() for name in HOSTILE)]
    assert len({display.name(name) for name in names}) == len(set(names))


@pytest.mark.parametrize("width", [60, 100, None])
def test_each_call_of_a_remedy_can_be_copied_from_a_line_of_its_own(width: int | None) -> None:
    text = render(plan_of().model_copy(update={"blocked": (held("orders"),)}), "text", width=width)
    lines = text[text.index("-> ") :].partition("\n\n")[0].splitlines()
    start = next(number for number, line in enumerate(lines) if "ds = " in line)
    assert [line.strip() for line in lines[start:]] == [
        f'ds = lance.dataset("{LONG}")',
        'ds.alter_columns({"path": "amount", "data_type": pa.int64()})',
        'ds.drop_columns(["x"])',
        "that rewrites `amount`",
    ]
    assert all(line.startswith(" " * 11) for line in lines[1:])


def test_a_location_with_spaces_cannot_look_like_a_row() -> None:
    """A terminal breaks a line that is too long at any place, and starts the rest at its margin."""
    blocked = held("orders", f"s3://{'b' * 60}{'  + features/eu  create' * 9}")
    text = render(plan_of().model_copy(update={"blocked": (blocked,)}), "text", width=60)
    assert max(len(line) for line in text.splitlines() if "+ features/eu" in line) <= 60


def test_the_line_for_a_rename_stands_alone() -> None:
    write = "moved: [{from: features/people, to: features/clients}]"
    params = {"name": "a", "other": "b", "does": "deregister", "other_does": "create", "write": write}
    note = Note.model_validate({"catalog": "lake", "code": NoteCode.RENAME_LIKELY, "params": params})
    lines = render(plan_of().model_copy(update={"notes": (note,)}), "text", width=40).splitlines()
    assert write in [line.strip() for line in lines]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_equal_jobs_are_one_line_with_the_cost_of_all(form: str) -> None:
    jobs = [
        change("lake", f"ns/t{n}", Action.COMPACT, view(f"s{n}"), view(f"s{n}"), "12 small fragments").model_copy(
            update={"job": UpkeepJob(reads=1024 * n, writes=512, config="", wanted=Maintain())}
        )
        for n in range(4)
    ]
    held = [
        Blocked(catalog="lake", kind="table", identifier=("ns", f"b{n}"), code=ReasonCode.SERVICE_COMMITS)
        for n in range(4)
    ]
    plan = plan_of(*jobs).model_copy(update={"blocked": tuple(held), "options": Options(maintain=True)})
    shown = render(plan, form)
    assert "4 tables: 12 small fragments; reads 6 KiB, writes 2 KiB" in shown
    assert "4 tables: not there" in shown


def test_a_location_breaks_after_a_slash() -> None:
    blocked = held("orders")
    text = render(plan_of().model_copy(update={"blocked": (blocked,)}), "text", width=70)
    assert "s3://a-bucket-with-a-long-name/features/eu/customers/\n" in text
