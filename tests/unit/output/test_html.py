from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given

from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.output import render
from reconciler.output.wording import entries_of
from reconciler.planner.entries import Action, Blocked, Note
from reconciler.planner.plan import Plan
from tests.strategies import HOSTILE, plans
from tests.unit.output.browser import driven, visit
from tests.unit.output.examples import change, held, large_plan, small_plan, view

OWN_TAGS = frozenset(
    (
        *("html", "head", "meta", "link", "title", "style", "body", "script", "header", "main", "section", "footer"),
        *("form", "button", "input", "select", "option", "output", "details", "summary", "p", "h1", "h2", "ul", "li"),
        *(
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "dl",
            "dt",
            "dd",
            "div",
            "span",
            "b",
            "bdi",
            "code",
            "pre",
            "wbr",
            "del",
            "ins",
        ),
    )
)


class Page(HTMLParser):
    """The tags and attributes of a page, as a browser would tell them apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.classes.update((dict(attrs).get("class") or "").split())


def test_what_is_blocked_or_removed_comes_first_and_is_open() -> None:
    """With what to do about it, or how many rows go: nothing of that is folded away."""
    plan = large_plan(500)
    plan = plan.model_copy(update={"changes": tuple(one for one in plan.changes if not one.action.removes)})
    gone = change("lake", "z/gone", Action.DEREGISTER_TABLE, view("s"), None, "not in the manifest any more")
    blocked = Blocked(
        catalog="lake",
        kind="table",
        identifier=("z", "held"),
        code=ReasonCode.NOT_LANCE,
        params={"location": "/data"},
    )
    plan = plan.model_copy(update={"changes": (*plan.changes, gone), "blocked": (blocked,)})
    page = render(plan, "html", removed={gone.key: "3,104,221 rows"})
    lake = page.partition('<section class="catalog" data-catalog="lake">')[2].partition("</section>")[0]
    groups = lake.split('<details class="group"')[1:]
    opened = [group.startswith(" open>") for group in groups]
    assert opened == [True, *(False for _ in groups[1:])]
    entries = re.findall('<details class="entry [a-z-]*" [^>]*>', groups[0])
    assert sum(entry.endswith(" open>") for entry in entries) == 2
    assert "3,104,221 rows" in groups[0]
    assert "write another <code>location:</code> in its block" in groups[0]
    others = "".join(groups[1:])
    assert not re.search('<span class="word">(blocked|deregister)', others)


@given(plans())
def test_nothing_foreign_is_markup(plan: Plan) -> None:
    page = Page(render(plan, "html"))
    assert set(page.tags) <= OWN_TAGS
    assert page.tags["script"] == 1
    assert page.tags["style"] == 1
    assert page.classes["entry"] == len(entries_of(plan))
    assert not [name for name in page.attributes if name.startswith("on") or name in ("style", "src")]


def test_the_page_asks_for_nothing_from_anywhere() -> None:
    page = render(small_plan(), "html")
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|<(img|iframe|object|embed|base)\b|\bsrc=", page)
    assert re.findall(r"href=\"(?!data:)", page) == []


def test_an_empty_plan_has_no_toolbar() -> None:
    plan = small_plan().model_copy(update={"changes": (), "guards": ()})
    page = render(plan, "html")
    assert "No changes." in page
    assert 'class="toolbar"' not in page


@pytest.fixture
def large_page(tmp_path: Path) -> Path:
    page = tmp_path / "plan.html"
    page.write_text(render(large_plan(1_000), "html"), encoding="utf-8")
    return page


def shown_entries(dom: str) -> list[str]:
    return [tag for tag in re.findall(r"<details class=\"entry[^>]*>", dom) if " hidden" not in tag]


@pytest.mark.end_to_end
def test_a_browser_shows_the_page_without_errors_or_requests(tmp_path: Path) -> None:
    hostile = [
        change("lake", "ns", action.action, action.before, action.after, "differs").model_copy(
            update={"identifier": ("ns", text), "fields": action.fields}
        )
        for action in small_plan().changes[:4]
        for text in HOSTILE
    ]
    page = tmp_path / "plan.html"
    plan = small_plan().model_copy(update={"changes": (*small_plan().changes, *hostile)})
    page.write_text(render(plan, "html"), encoding="utf-8")
    seen = visit(page, tmp_path)
    assert seen.console == ()
    assert seen.requests == ()
    assert len(shown_entries(seen.dom)) == len(entries_of(plan))


@pytest.mark.end_to_end
def test_a_request_or_an_error_of_a_page_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://example.invalid/x.png"><script>nothing()</script>', encoding="utf-8")
    seen = visit(page, tmp_path)
    assert seen.requests == ("http://example.invalid/x.png",)
    assert "nothing is not defined" in seen.console[0]


@pytest.mark.end_to_end
def test_a_browser_searches(large_page: Path, tmp_path: Path) -> None:
    seen = visit(large_page, tmp_path, "q=TEAM_2+gold")
    assert len(shown_entries(seen.dom)) == 100
    assert "100 of 1,001 shown" in seen.dom
    assert seen.console == ()


@pytest.mark.end_to_end
def test_a_browser_filters_by_action_and_catalog(large_page: Path, tmp_path: Path) -> None:
    seen = visit(large_page, tmp_path, "show=deregister,protected&catalog=prod")
    entries = shown_entries(seen.dom)
    assert len(entries) == 68
    assert all('data-catalog="prod"' in entry for entry in entries)
    assert Counter(re.findall(r'data-sort="(\w+)"', " ".join(entries))) == {"deregister": 67, "protected": 1}


@pytest.mark.end_to_end
def test_a_browser_says_when_nothing_matches(large_page: Path, tmp_path: Path) -> None:
    seen = visit(large_page, tmp_path, "q=no-such-table")
    assert shown_entries(seen.dom) == []
    assert '<p class="nothing">' in seen.dom


@pytest.mark.end_to_end
def test_the_fragment_may_hold_anything(large_page: Path, tmp_path: Path) -> None:
    seen = visit(large_page, tmp_path, "q=%3Cimg+src=x%3E&show=%22%5D&catalog=nowhere&x=%")
    assert seen.console == ()
    assert "<img" not in seen.dom


def test_a_difference_can_be_unfolded(tmp_path: Path) -> None:
    plan = small_plan()
    gone = change("lake", "a/b", small_plan().changes[-1].action, view("s3://b/t", tier="gold"), None, "gone")
    page = render(plan.model_copy(update={"changes": (*plan.changes, gone)}), "html")
    assert "<bdi>tier</bdi><td><del>gold</del><td>" in page
    assert "data stays at <code>s3://b/<wbr>t</code>" in page


def test_equal_blocked_objects_are_one_group_with_the_calls_of_each() -> None:
    locations = [f"s3://b/{name}.lance" for name in ("orders", "items")]
    blocked = tuple(held(location[7:-6], location) for location in locations)
    page = Page(text := render(small_plan().model_copy(update={"blocked": blocked}), "html"))
    [group] = [part for part in text.split('<details class="group"') if "2 tables" in part]
    assert group.count("or change the data:") == 1
    assert group.count('<button type="button" class="copy">') == 2
    assert [location for location in locations if f"lance.dataset(&#34;{location}&#34;)\n" not in group] == []
    assert page.classes["entry"] == len(small_plan().changes) + 1 + 2


def test_what_is_to_be_written_is_the_first_note_and_stands_above_the_changes() -> None:
    rename = Note(
        catalog="prod",
        code=NoteCode.RENAME_LIKELY,
        params={"name": "a", "other": "b", "does": "deregister", "other_does": "create", "write": "moved: [x]"},
    )
    plan = small_plan()
    page = render(plan.model_copy(update={"notes": (*plan.notes, rename)}), "html")
    parts = ["<pre>moved: [x]</pre>", "are not managed by", '<section class="catalog"']
    assert sorted(parts, key=page.index) == parts


def test_the_page_has_no_count_of_nothing() -> None:
    plan = small_plan()
    empty = plan.catalogs[0].model_copy(update={"namespaces": 0, "tables": 0})
    page = render(plan.model_copy(update={"catalogs": (empty, plan.catalogs[1])}), "html")
    assert not re.search(r"\b0 (?!auto)", page.partition("<header")[2].partition("<footer")[0])


@pytest.mark.end_to_end
def test_a_press_of_the_button_copies_the_calls(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text(render(small_plan().model_copy(update={"blocked": (held("orders"),)}), "html"), encoding="utf-8")
    with driven(tmp_path) as browser:
        browser.open(page)
        selected = browser.evaluate("document.querySelector('.copy').click() ?? getSelection().toString()")
        assert browser.evaluate("document.querySelector('.copy').textContent") in ("Copied", "Selected")
        assert selected.splitlines()[1] == 'ds.alter_columns({"path": "amount", "data_type": pa.int64()})'
        assert browser.faults == []
