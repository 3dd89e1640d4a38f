"""What holds for every renderer, whatever the plan: complete, safe to print, and silent about secrets."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import display
from reconciler.output import FORMATS, render
from reconciler.output.markdown import pull_request_comment
from reconciler.output.wording import SYMBOLS, entries_of
from reconciler.planner.plan import Plan
from tests.strategies import SECRET, plans
from tests.unit.output.examples import small_plan

WIDTHS = st.none() | st.integers(1, 160)


def test_each_format_renders_the_example() -> None:
    plan = small_plan()
    for format_ in FORMATS:
        page = render(plan, format_)
        assert page.endswith("\n")
        assert "features" in page


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_plan_gives_the_same_bytes(format_: str) -> None:
    assert render(small_plan(), format_) == render(small_plan(), format_)


@given(plans())
def test_every_changed_object_is_named(plan: Plan) -> None:
    text, markdown = render(plan, "text", full=True), render(plan, "markdown")
    page = unescape(re.sub(r"<[^>]*>", "", render(plan, "html")))
    for entry in entries_of(plan):
        address = display.address(*entry.identifier)
        assert address in text
        assert address.replace("|", "\\|") in markdown
        assert address in page


@given(plans(), st.sampled_from([*FORMATS]), st.booleans(), WIDTHS)
def test_nothing_secret_is_shown(plan: Plan, format_: str, full: bool, width: int | None) -> None:
    assert SECRET not in render(plan, format_, full=full, width=width)
    assert SECRET not in pull_request_comment(plan, commit="c0ffee")


@given(plans(), st.sampled_from(("text", "markdown", "html")), st.booleans(), WIDTHS)
def test_everything_shown_is_visible(plan: Plan, format_: str, full: bool, width: int | None) -> None:
    for character in render(plan, format_, full=full, width=width):
        assert character == "\n" or character.isprintable()


@given(plans())
def test_json_can_be_read_again_and_holds_nothing_a_terminal_acts_on(plan: Plan) -> None:
    saved = render(plan, "json")
    assert Plan.from_json(saved).to_json() == saved
    for character in saved:
        assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        )


@given(plans(), WIDTHS)
def test_no_name_or_value_can_forge_a_line_of_text(plan: Plan, width: int | None) -> None:
    lines = render(plan, "text", full=True, width=width).splitlines()
    body = lines[: lines.index("Notes")] if plan.notes else lines
    rows = [line for line in body if line[:3].strip() in SYMBOLS and line[3:4] == " "]
    assert len(rows) == len(entries_of(plan))
    catalogs = len({entry.catalog for entry in (*entries_of(plan), *plan.waiting)})
    at_the_margin = [line for line in lines if line and not line.startswith(" ")]
    assert len(at_the_margin) == catalogs + bool(plan.notes) + 2
    assert at_the_margin[-1].startswith("No changes." if plan.is_empty and not plan.blocked else "Plan: ")


@given(plans(), st.integers(40, 160), st.sampled_from(["full", "summary", "color"]))
def test_no_line_is_wider_than_the_terminal(plan: Plan, width: int, choice: str) -> None:
    shown = render(plan, "text", full=choice == "full", summary=choice == "summary", width=width)
    for line in shown.splitlines():
        assert display.width_of(line) <= width


@given(plans())
def test_a_summary_has_a_line_for_each_object_and_approves_nothing(plan: Plan) -> None:
    shown = {form: render(plan, form, summary=True) for form in ("text", "markdown", "html")}
    rows = [line for line in shown["text"].splitlines() if line[:3].strip() in SYMBOLS and line[3:4] == " "]
    assert len(rows) == len(entries_of(plan))
    hides = bool(entries_of(plan) or plan.waiting or plan.notes)
    assert ("A summary approves nothing." in shown["markdown"]) is hides
    assert not [form for form, text in shown.items() if SECRET in text]


@given(plans(), WIDTHS)
def test_colour_changes_nothing_but_colour(plan: Plan, width: int | None) -> None:
    plain = render(plan, "text", width=width)
    coloured = render(plan, "text", width=width, color=True)
    without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


def test_importing_the_package_is_light() -> None:
    heavy = "rich", "deepdiff", "lance", "pyarrow", "boto3", "pydantic", "jinja2"
    code = (
        "import sys; before = set(sys.modules); import reconciler; base = set(sys.modules);"
        f"import reconciler.output; print([name for name in {heavy} if name in set(sys.modules) - base])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
