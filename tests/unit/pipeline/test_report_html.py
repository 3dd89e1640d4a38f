from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given

from reconciler.auditor.document import AuditDocument, CatalogCoverage, PastFinding, SeverityCounts, Suppressed
from reconciler.auditor.history import with_trend
from reconciler.auditor.records import Severity
from reconciler.model import figures
from reconciler.model.desired import Source
from reconciler.pipeline.rows import ReadFailure
from reconciler.report.grouping import group_findings
from reconciler.report.html import render_html
from reconciler.report.notebook import AuditResult
from tests.soak import count
from tests.strategies import HOSTILE
from tests.unit.output.browser import Driver, driven, visit
from tests.unit.pipeline.documents import document, finding, large_document, run, small_document, table
from tests.unit.pipeline.strategies import documents

OWN_TAGS = frozenset(
    (
        *("html", "head", "meta", "link", "title", "style", "body", "script", "header", "main", "section", "footer"),
        *("nav", "form", "button", "input", "select", "option", "output", "details", "summary", "p", "h1", "h2", "h3"),
        *("ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "b", "i"),
        *("bdi", "code", "a", "time", "svg", "g", "path", "rect", "polyline"),
    )
)


class Page(HTMLParser):
    """The tags and attributes of a page, as a browser would tell them apart, and the text of each section."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.sections: dict[str, str] = {}
        self._section = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.classes.update((dict(attrs).get("class") or "").split())
        if tag in ("section", "footer", "header") and dict(attrs).get("class") != "card":
            self._section = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.sections[self._section] = f"{self.sections.get(self._section, '')} {data.strip()}".strip()


def hostile_document() -> AuditDocument:
    """Return a document with every hostile name everywhere, and every amount and nothing of it."""
    findings, tables = [], []
    for number, text in enumerate(HOSTILE):
        names = f"lake/ns{number % 3}/t"
        one = finding("property-drift", names, location=f"s3://b/{text}/t", owner=text or None, reason=text or "why")
        findings.append(one)
        row = table(names, size=7 ** (number % 18), days=number, rules=["stale", "orphan"][: number % 3])
        changes = {"name": text, "location": f"/data/{text}", "owner": text or None}
        tables.append(row.model_copy(update=changes))
    made = document(findings, tables, [], [ReadFailure(catalog=text, message=text) for text in HOSTILE])
    renamed = [
        each.model_copy(update={"name": text, "namespace": (text,), "details": {text: text}, "remedy": text})
        for each, text in zip(made.findings, HOSTILE, strict=True)
    ]
    lost = {"rule": "stale", "severity": "note", "first_seen": made.started, "last_seen": made.finished, "gone": True}
    past = [
        PastFinding(catalog=text, namespace=(text,), name=text, fingerprint=str(number), **lost)
        for number, text in enumerate(HOSTILE)
    ]
    renamed[::2] = [each.model_copy(update={"first_seen": made.started}) for each in renamed[::2]]
    accepted = [
        Suppressed(catalog=text, rule=text, match=text, until=made.finished.date(), reason=text, source=Source(text, 1))
        for text in HOSTILE
    ]
    lives = {"findings": tuple(renamed), "past": tuple(past), "suppressed": tuple(accepted)}
    return made.model_copy(update={**lives, "run_id": HOSTILE[0]})


@given(documents())
def test_nothing_foreign_is_markup(document: AuditDocument) -> None:
    page = Page(render_html(document))
    assert set(page.tags) <= OWN_TAGS
    assert (page.tags["script"], page.tags["style"]) == (2, 1)
    assert page.classes["finding"] == len(group_findings(document.findings))
    assert page.tags["time"] == sum(table.committed is not None for table in document.tables)
    assert not [name for name in page.attributes if name.startswith("on") or name in ("style", "src")]


def test_the_page_asks_for_nothing_from_anywhere() -> None:
    page = render_html(small_document())
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|<(img|iframe|object|embed|base)\b|\bsrc=", page)
    assert re.findall(r"href=\"(?!data:|#)", page) == []


def test_coverage_and_failures_come_first() -> None:
    sections = Page(render_html(small_document())).sections
    assert list(sections) == [
        *(
            "",
            "header",
            "coverage",
            "figures",
            "findings",
            "where",
            "distributions",
            "trend",
            "tables",
            "rules",
            "footer",
        )
    ]
    assert "incomplete: 1 namespace could not be" in sections["coverage"]
    assert "the role lacks glue:GetTables" in sections["coverage"]
    assert "prod incomplete" in sections["coverage"]
    assert "2 of 3" in sections["coverage"]
    assert "12 directories below s3://lake" in sections["coverage"]
    assert "7 of 7 0 1 error, 2 warnings, 1 note" in sections["coverage"]
    assert "finding" not in sections["header"]


def test_a_complete_audit_says_so() -> None:
    whole = large_document(12)
    read = [catalog.model_copy(update={"tables_unreadable": 0}) for catalog in whole.coverage]
    coverage = Page(render_html(whole.model_copy(update={"coverage": tuple(read)}))).sections["coverage"]
    assert "Everything was read." in coverage
    assert "lake dir 400 of 400 4 4 of 4 0 1 error" in coverage


def test_an_audit_that_could_not_open_tables_does_not_say_that_everything_was_read() -> None:
    coverage = Page(render_html(large_document(12))).sections["coverage"]
    assert "Everything was read" not in coverage
    assert "3 tables could not be opened." in coverage


def test_a_clean_audit_says_that_nothing_was_found() -> None:
    clean = document([], [table("lake/a/t", size=1, days=1)], large_document(3).coverage)
    sections = Page(render_html(clean)).sections
    assert "Nothing was found in 1 table." in sections["header"]
    assert sections["where"].endswith("Nothing was found.")
    assert "findings" not in sections


def test_a_catalog_of_which_nothing_could_be_read_does_not_look_complete() -> None:
    unread = CatalogCoverage(name="prod", impl="glue")
    page = Page(render_html(document([], [], [unread], [ReadFailure(catalog="prod", message="denied")])))
    assert "prod incomplete glue none 0 none 0 none" in page.sections["coverage"]
    assert page.classes["full"] == 0


def test_of_many_notes_the_first_are_shown_and_all_are_counted() -> None:
    noted = small_document().model_copy(update={"notes": tuple(f"note {number}" for number in range(25))})
    section = Page(render_html(noted)).sections["coverage"]
    assert "note 19 and 5 more" in section


def test_every_failure_of_many_is_counted() -> None:
    failures = tuple(ReadFailure(catalog="prod", namespace=(f"n{number}",), message="denied") for number in range(130))
    sections = Page(render_html(small_document().model_copy(update={"failures": failures}))).sections
    assert sections["coverage"].count("denied") == 100
    assert "and 30 more" in sections["coverage"]


def test_without_its_script_the_page_shows_the_first_findings_and_says_where_the_others_are() -> None:
    unlike = [finding("dangling", f"lake/t{number}", reason=f"{number} files") for number in range(100)]
    sections = Page(render_html(large_document(500).model_copy(update={"findings": tuple(unlike)}))).sections
    assert "The first 50 of 100 rows." in sections["findings"]
    assert "The first 50 of 500 rows." in sections["tables"]
    assert sections["findings"].count("What to do") == 50
    assert "archive/team_" in sections["tables"]


def test_what_was_left_out_of_the_report_is_counted() -> None:
    cut = small_document().model_copy(update={"findings_left_out": 1_200, "tables_left_out": 3_400})
    sections = Page(render_html(cut)).sections
    assert "1,200 more findings are not" in sections["findings"]
    assert "3,400 more tables are not" in sections["tables"]


def test_figures_are_compared_with_the_run_before() -> None:
    whole = large_document(30)
    earlier = run(3)
    section = Page(render_html(with_trend(whole, [run(1), earlier]))).sections["figures"]
    found = earlier.totals.findings
    assert f"Errors {whole.totals.findings.error} −{found.error - whole.totals.findings.error}" in section  # noqa: RUF001
    assert f"Tables 30 +{30 - earlier.totals.tables}" in section
    assert f"since the run of {earlier.finished:%Y-%m-%d}" in section


@pytest.mark.parametrize(("this", "before"), [(True, False), (False, True)])
def test_runs_that_did_not_see_everything_are_not_compared(this: bool, before: bool) -> None:
    shown = large_document(30) if this else small_document()
    assert "since the run" not in render_html(with_trend(shown, [run(1, complete=before)]))


def test_the_trend_shows_every_run_and_marks_the_incomplete_ones() -> None:
    page = render_html(with_trend(large_document(30), [run(1), run(2, complete=False), run(3)]))
    assert len(re.findall(r'class="dot"', page)) == 3 * 6
    assert len(re.findall(r'class="dot loose"', page)) == len(re.findall(r'class="hole"', page)) == 6
    assert "A hollow point is a run" in page
    assert Page(page).sections["trend"].count("incomplete") == 1 + 6


def test_what_a_clean_up_would_give_back_is_followed_over_the_runs_that_listed_files() -> None:
    document = large_document(30)
    page = render_html(with_trend(document, [run(1), run(2, listed=False), run(3)]))
    now = document.totals.reclaimable or 0
    assert f'aria-label="reclaimable: {figures.size(now)} now"' in page
    assert re.findall(r"UTC: (\S+ \S+) reclaimable", page) == ["11 GiB", "13 GiB", figures.size(now)]
    assert f"Reclaimable {figures.size(now)} +{figures.size(now - (13 << 30))}" in Page(page).sections["figures"]
    quick = document.model_copy(
        update={"totals": document.totals.model_copy(update={"bytes_on_disk": None, "reclaimable": None})}
    )
    shown = Page(render_html(with_trend(quick, [run(1), run(2)]))).sections
    assert "eclaimable" not in shown["figures"] + shown["trend"].replace("On disk Reclaimable Coverage", "")


def test_runs_of_one_moment_and_without_tables_can_be_plotted() -> None:
    empty = document([], [], [])
    other = empty.summary().model_copy(update={"run_id": "another"})
    assert "NaN" not in render_html(with_trend(empty, [other]))


def test_a_first_run_says_how_to_get_a_trend() -> None:
    assert "no earlier run with the same settings" in Page(render_html(small_document())).sections["trend"]


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driven(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {"small": small_document(), "large": large_document(2_000), "hostile": hostile_document()}
    for name, each in made.items():
        (folder / f"{name}.html").write_text(render_html(each), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


def text_of(browser: Driver, selector: str) -> list[str]:
    """Return the text of everything in the page that ``selector`` selects."""
    found: list[str] = browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
    )
    return found


def go_to(browser: Driver, fragment: str) -> None:
    """Follow a link within the page."""
    browser.evaluate(
        "new Promise((done) => { addEventListener('hashchange', done, { once: true });"
        f"location.hash = {json.dumps(fragment)}; }})"
    )


def click(browser: Driver, selector: str) -> None:
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def choose(browser: Driver, selector: str, label: str) -> None:
    """Choose the option called ``label``, as a person does."""
    browser.evaluate(
        f"(() => {{ const control = document.querySelector({json.dumps(selector)});"
        f"control.selectedIndex = [...control.options].findIndex((each) => each.text === {json.dumps(label)});"
        "control.dispatchEvent(new Event('change')); })()"
    )


def shown(browser: Driver, what: str) -> str:
    (output,) = text_of(browser, f"#{what} output")
    return output


@pytest.mark.parametrize("page", ["small", "hostile"])
@pytest.mark.end_to_end
def test_a_browser_shows_the_page_without_errors_or_requests(pages: dict[str, Path], tmp_path: Path, page: str) -> None:
    seen = visit(pages[page], tmp_path)
    assert seen.console == ()
    assert seen.requests == ()


@pytest.mark.parametrize("page", ["small", "large", "hostile"])
@pytest.mark.parametrize("what", ["findings", "tables"])
def test_the_script_shows_what_the_page_shows_without_it(
    browser: Driver, pages: dict[str, Path], page: str, what: str
) -> None:
    browser.open(pages[page])
    static = json.dumps(pages[page].read_text(encoding="utf-8"))
    rows = f"querySelector('#{what} .rows').innerHTML"
    before, after = browser.evaluate(
        f"[new DOMParser().parseFromString({static}, 'text/html').{rows}.replaceAll('\\n', ''), document.{rows}]"
    )
    assert after == before
    assert browser.faults == []


def test_without_scripts_there_are_no_controls_that_do_nothing(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"], scripts=False)
    controls = "button, input, select, nav"
    visible = browser.evaluate(
        f"[...document.querySelectorAll('{controls}')].filter((each) => each.checkVisibility()).length"
    )
    assert visible == 0
    assert browser.evaluate("document.querySelector('.without-script').checkVisibility()") is True


def test_a_bar_leads_to_what_it_counts(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    bars: list[tuple[str, str]] = browser.evaluate(
        "[...document.querySelectorAll('.bars a')].map((bar) => [bar.hash, bar.querySelector('b').textContent])"
    )
    assert len(bars) > 20
    for link, number in bars[:: len(bars) // 15]:
        go_to(browser, link)
        assert shown(browser, "findings") == f"{number} of 400"
    top = browser.evaluate("document.querySelector('#findings').getBoundingClientRect().top < innerHeight / 2")
    assert top is True


def test_what_is_typed_is_searched_for(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    browser.press("/", *"TEAM_010 Nothing")
    browser.evaluate(
        "new Promise((done) => { const look = () => document.querySelector('#findings output').value === '400 of 400' "
        "? requestAnimationFrame(look) : done(); look(); })"
    )
    assert browser.evaluate("document.activeElement.getAttribute('aria-label')") == "Search findings"
    expected = [each for each in large_document(2_000).findings if each.namespace == ("team_010",)]
    expected = [each for each in expected if each.rule == "dangling"]
    assert shown(browser, "findings") == f"{len(expected)} of 400"
    assert text_of(browser, ".finding dd bdi bdi") == [each.address for each in expected]
    browser.press("Escape")
    assert shown(browser, "findings") == "400 of 400"


def test_choices_are_combined_and_kept_in_the_address(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    choose(browser, "#tables [data-filter=catalog]", "prod")
    choose(browser, "#tables [data-filter=rule]", "dangling")
    found = shown(browser, "tables")
    expected = sum(each.catalog == "prod" and "dangling" in each.rules for each in large_document(2_000).tables)
    assert found == f"{expected} of 2,000"
    browser.open(pages["large"], browser.evaluate("location.hash.slice(1)"))
    assert shown(browser, "tables") == found
    assert shown(browser, "findings") == "400 of 400"


def test_tables_with_and_without_findings_can_be_told_apart(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    for label, number in (("Any finding", "400"), ("No finding", "1,600")):
        choose(browser, "#tables [data-filter=rule]", label)
        assert shown(browser, "tables") == f"{number} of 2,000"


def test_severities_are_switched_on_and_off(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["small"])
    click(browser, ".tile.error")
    click(browser, ".tile.note")
    assert text_of(browser, ".finding .severity") == ["error"] * 3 + ["note"] * 2
    click(browser, ".tile.error")
    assert text_of(browser, ".finding .severity") == ["note"] * 2


def test_tables_are_sorted_both_ways_with_the_unknown_last(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["small"])
    rows = "#tables tbody td:nth-child(3)"
    original = text_of(browser, rows)
    click(browser, "[data-sort=rows] button")
    descending = text_of(browser, rows)
    click(browser, "[data-sort=rows] button")
    ascending = text_of(browser, rows)
    amounts = [int(text.replace(",", "")) for text in descending if text != "unknown"]
    assert amounts == sorted(amounts, reverse=True)
    assert (descending[-1], ascending[-1]) == ("unknown", "unknown")
    assert sorted(ascending[:-1]) == sorted(descending[:-1])
    assert browser.evaluate("document.querySelector('[data-sort=rows]').getAttribute('aria-sort')") == "ascending"
    click(browser, "[data-sort=rows] button")
    assert text_of(browser, rows) == original


def test_equal_findings_are_one_row_and_each_of_them_is_on_a_page(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    rules = [each.rule for each in large_document(2_000).findings]
    assert text_of(browser, ".finding .rule") == [*dict.fromkeys(rules)]
    assert text_of(browser, ".finding .name i")[0] == f"and {rules.count(rules[0]) - 1} more"
    go_to(browser, browser.evaluate("document.querySelector('.finding a').hash"))
    seen: list[str] = []
    for _ in range(2):
        seen += text_of(browser, ".finding .name")
        click(browser, "#findings .next")
    assert text_of(browser, "#findings .page-number") == ["Page 2 of 2"]
    assert browser.evaluate("document.querySelector('#findings .next').disabled") is True
    assert len(seen) == len(set(seen)) == rules.count(rules[0])
    click(browser, "#findings .first")
    assert text_of(browser, ".finding .name") == seen[:50]
    click(browser, "#findings .within")
    assert shown(browser, "findings") == "400 of 400"


def test_nothing_that_matches_is_said_and_can_be_undone(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["small"], "findings.q=no-such-table&tables.owner=-1")
    assert shown(browser, "findings") == "0 of 8"
    assert shown(browser, "tables") == "2 of 10"
    click(browser, "#findings .reset")
    assert shown(browser, "findings") == "8 of 8"
    assert shown(browser, "tables") == "2 of 10"


def test_the_fragment_may_hold_anything(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(
        pages["small"],
        "findings.q=%3Cimg+src=x%3E&findings.severity=%22%5D&findings.namespace=x&tables.sort=constructor"
        "&tables.rule=__proto__&tables.catalog=99&x=%",
    )
    assert browser.faults == []
    assert browser.evaluate("document.images.length") == 0


def test_everything_can_be_reached_and_opened_from_the_keyboard(browser: Driver, pages: dict[str, Path]) -> None:
    browser.open(pages["small"])
    browser.evaluate("document.querySelector('#findings [data-filter=owner]').focus()")
    browser.press("Tab", "Enter")
    assert browser.evaluate("document.querySelector('.finding').open") is True
    assert browser.evaluate("document.activeElement.matches('.finding summary:focus-visible')") is True


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_readable_in_light_and_dark_and_on_a_phone(
    browser: Driver, pages: dict[str, Path], width: int, dark: bool
) -> None:
    browser.open(pages["small"], dark=dark, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(_FAINT_TEXTS) == []


def test_the_headline_figures_stand_in_one_row_and_none_is_cut(browser: Driver, tmp_path: Path) -> None:
    found, page = small_document(), tmp_path / "long.html"
    long = dict.fromkeys(("rows", "fragments", "tables"), 9999999) | dict.fromkeys(
        ("bytes", "bytes_on_disk", "reclaimable"), 1023 << 40
    )
    counts = SeverityCounts(error=9_999_999, warning=9_999_999, note=9_999_999)
    totals = found.totals.model_copy(update={**long, "findings": counts})
    page.write_text(render_html(found.model_copy(update={"totals": totals})), encoding="utf-8")
    browser.open(page, width=1280)
    tops, cut = browser.evaluate(
        "(f => [f.map(e => e.offsetTop), f.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)])"
        "([...document.querySelectorAll('.figure')])"
    )
    assert (len(tops), len({*tops}), cut) == (9, 1, [])


# Texts whose contrast with what is behind them is under 4.5 to 1 (WCAG 2.2, success criterion 1.4.3).
_FAINT_TEXTS = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const node of document.body.querySelectorAll("*")) {
    const says = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!says || !node.checkVisibility() || node.closest("svg, script, :disabled")) continue;
    const [one, other] = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${node.tagName}.${node.className}: ${contrast.toFixed(2)}`);
  }
  return faint;
})()"""


def test_many_tables_put_one_page_of_rows_into_the_document(browser: Driver, tmp_path: Path) -> None:
    page, tables = tmp_path / "report.html", count(10_000, 100_000)
    page.write_text(render_html(large_document(tables)), encoding="utf-8")
    browser.open(page, "tables.sort=-bytes")
    assert shown(browser, "tables") == f"{tables:,} of {tables:,}"
    assert len(text_of(browser, "#tables tbody tr")) == 50
    assert browser.evaluate("document.querySelectorAll('*').length") < 5_000
    go_to(browser, "tables.q=events_0099")
    assert shown(browser, "tables") == f"100 of {tables:,}"
    assert browser.faults == []


def test_every_severity_has_a_look() -> None:
    page = render_html(small_document())
    assert all(re.search(rf"\.{severity.value} {{ --tint", page) for severity in Severity)


def test_every_column_that_can_be_chosen_sorts_the_tables() -> None:
    page = render_html(small_document())
    _, _, sorts, *_ = re.split(r"sorts: {|// What is not known comes last", page)
    columns = re.findall(r'data-sort="(\w+)"', page)
    assert len(columns) > 8
    assert [column for column in columns if not re.search(rf"\b{column}\b", sorts)] == []


def test_a_notebook_shows_the_page_in_a_frame_and_a_line_counts_the_findings() -> None:
    result = AuditResult(None, None, small_document())
    assert re.fullmatch(r"<AuditResult 'feature-store': error=\d+ warning=\d+ note=\d+>", repr(result))
    assert f"{result}".startswith("NOT COMPLETE: 1 part could not be read")
    framed = result._repr_html_()
    assert unescape(re.findall(r'srcdoc="([^"]*)"', framed)[0]) == render_html(result.document)
    assert Page(framed).tags == {"iframe": 1}
