from __future__ import annotations

import re

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from reconciler.output import render
from reconciler.output.markdown import COMMENT_LIMIT, pull_request_comment
from reconciler.output.wording import entries_of
from reconciler.planner.plan import Plan
from tests.strategies import plans
from tests.unit.output.examples import large_plan, small_plan

OWN_HTML = re.compile(r"(</?(details|summary|code|sub)>|<br>|[^<])*")
PARSER = MarkdownIt("commonmark").enable("table")


def tokens(markdown: str) -> list[Token]:
    return [token for block in PARSER.parse(markdown) for token in (block, *(block.children or ()))]


def test_the_comment_of_the_example() -> None:
    plan = small_plan()
    comment = pull_request_comment(plan, commit="c0ffee")
    title, _, counts = comment.splitlines()[0].partition(": ")
    assert title == "### lancens plan of `feature-store`"
    assert counts.split(", ") == ["2 to create", "1 to register", "3 to update", "1 to deregister"]
    row = (
        "| `~` | `features/events` | update | differs from the manifest<br>add `contact`: `ml-platform`<br>"
        "remove `reviewed`: `no`<br>`tier`: `silver` → `gold` | `lancens.yaml:19` |\n"
    )
    assert row in comment
    diff = comment.partition("```diff\n")[2].partition("```")[0].splitlines()
    assert diff == ["+ user_id: int64 not null", "+ embedding: fixed_size_list<float32>[768]"]
    assert f"plan `{plan.digest()}`" in comment
    assert "commit `c0ffee`" in comment
    assert "Merging applies exactly this plan." in comment
    assert "Cut" not in comment


def test_the_document_promises_nothing_about_merging() -> None:
    assert "Merging" not in render(small_plan(), "markdown")


def test_no_changes() -> None:
    plan = small_plan().model_copy(update={"changes": (), "guards": (), "notes": ()})
    comment = pull_request_comment(plan)
    assert comment.splitlines()[0].endswith("`feature-store`: no changes")
    assert "|" not in comment


def test_long_tables_are_folded() -> None:
    comment = render(large_plan(100, unequal=True), "markdown")
    assert "27 changes in <code>lake</code>" in comment
    assert "<details>" not in render(small_plan(), "markdown")


def test_a_plan_over_the_limit_is_summed_up_and_approves_nothing() -> None:
    comment = pull_request_comment(large_plan(1_000, unequal=True), commit="c0ffee")
    assert len(comment) <= COMMENT_LIMIT
    assert "Left out: the details of 1,001 objects" in comment
    assert len(re.findall(r"^[+~!-] \w+/", comment, re.MULTILINE)) == 1_001
    assert ("A summary approves nothing." in comment, "Merging applies" in comment) == (True, False)


def test_a_summary_over_the_limit_is_cut_and_approves_nothing() -> None:
    plan = large_plan(2_000, unequal=True)
    comment = pull_request_comment(plan, commit="c0ffee")
    assert len(comment) <= COMMENT_LIMIT
    left_out = re.search(r"Left out: ([\d,]+) of 2,001 lines", comment)
    assert left_out is not None
    rows = len(re.findall(r"^\| `[+~!-]", comment, re.MULTILINE))
    assert rows + int(left_out[1].replace(",", "")) == 2_001
    assert "A cut comment can't approve the plan" in comment
    assert "Merging applies" not in comment
    assert plan.digest() in comment
    assert comment.count("<details>") == comment.count("</details>")


@pytest.mark.parametrize("limit", [2_000, 5_000, 20_000])
def test_any_limit_is_kept(limit: int) -> None:
    assert len(pull_request_comment(large_plan(300, unequal=True), commit="c0ffee", limit=limit)) <= limit


def test_a_cut_comment_counts_each_name_that_it_leaves_out_once() -> None:
    plan = large_plan(600)
    comment = pull_request_comment(plan, commit="c0ffee", limit=12_000)
    hidden = [change.identifier[-1] for change in plan.changes if change.identifier[-1] not in comment]
    assert f", {len(hidden):,} names, " in comment


@given(plans(max_changes=30))
def test_a_hostile_plan_keeps_the_limit(plan: Plan) -> None:
    comment = pull_request_comment(plan, commit="c0ffee", limit=3_000)
    assert len(comment.encode("utf-16-le")) // 2 <= 3_000


@given(plans())
def test_nothing_foreign_is_markup(plan: Plan) -> None:
    found = tokens(render(plan, "markdown"))
    assert not {token.type for token in found} & {"link_open", "image", "em_open", "strong_em", "s_open", "code_block"}
    for token in found:
        if token.type in ("html_block", "html_inline"):
            assert OWN_HTML.fullmatch(token.content)
        if token.type == "text":
            assert not re.search(r"[@#]\w|GH-\d|www\.\w|://", token.content)
    assert sum(token.type == "tr_open" for token in found) == len(entries_of(plan)) + sum(
        token.type == "thead_open" for token in found
    )
