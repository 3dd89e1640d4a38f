"""A schema edit over 306 tables of three catalogs, in every format for people, as it is to be read.

``LANCENS_GOLDEN=write pytest tests/unit/output/test_fleet.py`` writes the files anew; look at what changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given

from reconciler.model.reasons import ReasonCode
from reconciler.output import render
from reconciler.output.grouping import FoldedRow, entries_in, sections
from reconciler.output.markdown import COMMENT_LIMIT, pull_request_comment
from reconciler.output.omissions import Omissions
from reconciler.output.wording import entries_of
from reconciler.planner.entries import Action, Change
from reconciler.planner.plan import Plan
from tests.strategies import plans
from tests.unit.output.examples import change, schema_edit, small_plan, view

GOLDEN = Path(__file__).parent / "golden"


def essence(page: str) -> str:
    """Return the header and body of a page, with one of the entries of each group and the number of the others."""
    header, body = (page.partition(f"<{tag}")[2].partition(f"</{tag}>")[0] for tag in ("header", "main"))
    parts = re.split(r'(<details class="entry .*?\n</details>\n)', body, flags=re.DOTALL)
    shown = [header]
    for is_entry, group in groupby(
        (part for part in parts if part), key=lambda part: part.startswith('<details class="e')
    ):
        found = [*group]
        shown += [found[0], f"(and {len(found) - 1} entries)\n"] if is_entry else found
    return "".join(shown)


def pending_plan() -> Plan:
    """Return a plan of a part of the catalogs, of which every other change was pending before."""
    plan = small_plan()
    part = plan.model_copy(update={"options": plan.options.model_copy(update={"exclude": ("lake/scratch/**",)})})
    return part.with_pending(plan.model_copy(update={"changes": plan.changes[::2], "blocked": (), "guards": ()}))


@pytest.mark.parametrize(
    ("plan", "name", "summary"),
    [(schema_edit, "schema_edit", False), (small_plan, "summary", True), (pending_plan, "pending", False)],
)
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_plan_reads_as_it_did(form: str, plan: Callable[[], Plan], name: str, summary: bool) -> None:
    shown = render(plan(), form, width=120, summary=summary)
    shown = essence(shown) if form == "html" else shown
    golden = GOLDEN / f"{name}.{form}"
    if os.environ.get("LANCENS_GOLDEN") == "write":
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


def test_300_tables_with_one_cause_are_a_screen() -> None:
    plan = schema_edit()
    assert len(render(plan, "text", width=120).splitlines()) < 40
    assert len(render(plan, "markdown")) < 10_000
    assert render(plan, "html").count('<details class="entry') == 318


def test_a_comment_that_cannot_name_all_tables_of_a_fold_approves_nothing() -> None:
    plan = schema_edit()
    longer = [
        one.model_copy(update={"identifier": (f"{'n' * 200}_{number}", f"{'x' * 250}_{number}")})
        for number, one in enumerate(plan.changes)
    ]
    plan = plan.model_copy(update={"changes": tuple(longer)})
    comment = pull_request_comment(plan, commit="c0ffee")
    assert len(comment) < COMMENT_LIMIT
    assert "approves nothing" in comment
    assert re.search(r"Left out: .*[\d,]+ names", comment)


def test_equal_words_of_different_codes_do_not_fold() -> None:
    def declared(number: int, code: ReasonCode) -> Change:
        one = change("lake", f"ns_{number}/t", Action.DECLARE_TABLE, None, view(f"s3://b/{number}"), "in the manifest")
        return one.model_copy(update={"code": code, **({"params": {}} if code is ReasonCode.IN_MANIFEST else {})})

    changes = [declared(n, ReasonCode.IN_MANIFEST if n % 2 else ReasonCode.SAFEGUARD) for n in range(60)]
    plan = small_plan().model_copy(update={"changes": tuple(changes), "guards": ()})
    assert len({one.reason for one in changes}) == 1
    (section,) = sections(plan, Omissions())
    assert [len(row.entries) for row in section.rows if isinstance(row, FoldedRow)] == [30, 30]


@given(plans(max_changes=40))
def test_every_entry_is_in_one_row(plan: Plan) -> None:
    for full in (False, True):
        found = entries_in(row for section in sections(plan, Omissions(), full=full) for row in section.rows)
        assert sorted(map(id, found)) == sorted(map(id, entries_of(plan)))
