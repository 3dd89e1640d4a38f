"""When a finding was first seen, when it went, and which ones a manifest suppresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from reconciler import load
from reconciler.auditor import history
from reconciler.auditor.document import AuditDocument, CatalogCoverage, Finding, RuleInfo, Suppressed
from reconciler.auditor.records import Severity
from reconciler.auditor.suppressions import Suppressions
from reconciler.model.desired import Source
from reconciler.model.errors import ManifestError
from reconciler.pipeline.rows import ReadFailure
from tests.unit.pipeline.documents import NOW, SETTINGS, document, finding

COVERAGE = [CatalogCoverage(name="lake", impl="dir")]
LOST, DRIFT, ORPHAN = (
    finding("dangling", "lake/a/t"),
    finding("property-drift", "lake/a/u"),
    finding("orphan", "lake/x"),
)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., AuditDocument]:
    """Return what makes the next run with some findings, an hour after the one before, and keeps it."""
    uri, number = str(tmp_path / "history.lance"), 0

    def next_run(*found: Finding, **changed: object) -> AuditDocument:
        nonlocal number
        number += 1
        made = document(found, [], COVERAGE, run_id=f"run-{number}")
        made = made.model_copy(update={"finished": NOW + timedelta(hours=number), **changed})
        trend = history.with_trend(made, history.read(uri, {}))
        told = history.with_past_findings(trend, uri, {})
        history.append(uri, told, {})
        return told

    return next_run


def hours(told: AuditDocument) -> dict[str, float]:
    """Return the run in which each finding was first seen."""
    seen = {one.address: one.first_seen for one in told.findings}
    return {address: (first - NOW) / timedelta(hours=1) for address, first in seen.items() if first is not None}


def past(told: AuditDocument) -> list[tuple[str, float, float, bool]]:
    hour = timedelta(hours=1)
    return [(one.address, (one.first_seen - NOW) / hour, (one.last_seen - NOW) / hour, one.gone) for one in told.past]


def test_a_finding_keeps_its_first_day_and_goes_once(run: Callable[..., AuditDocument]) -> None:
    assert hours(run(LOST)) == {"lake/a/t": 1}
    second = run(LOST, DRIFT)
    assert (hours(second), past(second)) == ({"lake/a/t": 1, "lake/a/u": 2}, [])
    third = run(DRIFT)
    assert (hours(third), past(third)) == ({"lake/a/u": 2}, [("lake/a/t", 1, 2, True)])
    fourth = run(DRIFT, LOST)
    assert (hours(fourth), past(fourth)) == ({"lake/a/u": 2, "lake/a/t": 4}, [])


def test_a_finding_is_the_same_in_other_words_and_of_another_severity_twice(run: Callable[..., AuditDocument]) -> None:
    run(DRIFT, DRIFT)
    told = run(*(DRIFT.model_copy(update={"reason": reason}) for reason in ("one", "two")))
    assert [one.first_seen for one in told.findings] == [NOW + timedelta(hours=1)] * 2


SUPPRESSED = Suppressed(
    catalog="lake", rule="dangling", match="a/*", until=date(2027, 1, 1), reason="known", source=Source("m.yaml", 1)
)


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ((), {"failures": (ReadFailure(catalog="lake", namespace=("a",), message="denied"),)}),
        ((), {"suppressed": (SUPPRESSED,)}),
        ((), {"findings_left_out": 1}),
        ((LOST.model_copy(update={"rule": "unreadable"}),), {}),
    ],
    ids=["its namespace was not read", "it is suppressed", "the list is cut", "its table was not read"],
)
def test_what_was_not_looked_at_is_not_gone(
    run: Callable[..., AuditDocument], found: tuple[Finding, ...], changed: dict[str, object]
) -> None:
    run(LOST)
    assert past(run(*found, **changed)) == [("lake/a/t", 1, 1, False)]
    assert hours(run(LOST)) == {"lake/a/t": 1}


UNREADABLE = RuleInfo(name="unreadable", severity=Severity.ERROR, title="", help="")
DENIED = CatalogCoverage(name="lake", impl="dir", tables=1, tables_unreadable=1)


@pytest.mark.parametrize("is_suppressed", [True, False], ids=["it is suppressed", "the rule is left out"])
def test_a_table_that_nothing_reports_as_unreadable_has_no_finding_that_is_gone(
    run: Callable[..., AuditDocument], is_suppressed: bool
) -> None:
    settings = SETTINGS.model_copy(update={"rules": (*SETTINGS.rules, *([UNREADABLE] if is_suppressed else []))})
    hidden = SUPPRESSED.model_copy(update={"rule": "unreadable", "findings": 1})
    run(LOST, settings=settings)
    told = run(settings=settings, coverage=(DENIED,), suppressed=(hidden,) if is_suppressed else ())
    assert past(told) == [("lake/a/t", 1, 1, False)]
    assert past(run(settings=settings)) == [("lake/a/t", 1, 1, True)]


def test_an_orphan_below_the_unread_root_of_another_catalog_is_not_gone(run: Callable[..., AuditDocument]) -> None:
    run(ORPHAN)
    failure = ReadFailure(catalog="other", namespace=("a",), message="denied")
    assert past(run(failures=(failure,))) == [("lake/x", 1, 1, False)]


def test_only_runs_of_the_same_settings_are_compared(run: Callable[..., AuditDocument]) -> None:
    first = run(LOST, DRIFT)
    strict = first.settings.model_copy(update={"stale_after_days": 1})
    other = run(LOST, settings=strict)
    assert (hours(other), other.past, len(other.history)) == ({"lake/a/t": 2}, (), 1)
    again = run(LOST)
    assert (hours(again), past(again)) == ({"lake/a/t": 1}, [("lake/a/u", 1, 1, True)])
    assert [one.run_id for one in again.history] == ["run-1", "run-3"]
    fewer = first.settings.model_copy(update={"rules": first.settings.rules[:-1]})
    assert len(run(settings=fewer).history) == 1
    described = [rule.model_copy(update={"help": "in other words"}) for rule in reversed(first.settings.rules)]
    assert len(run(settings=first.settings.model_copy(update={"rules": tuple(described)})).history) == 3


# ---- suppressions ----------------------------------------------------------------------------------------------------


def suppressions(folder: Path, *entries: str) -> Suppressions:
    path = folder / "lancens.yaml"
    path.write_text(
        "version: 1\nname: s\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    suppress:\n"
        + "".join(f"      - {{{entry}, reason: known}}\n" for entry in entries)
    )
    return Suppressions.of(load(path), date(2026, 6, 1))


@pytest.mark.parametrize(
    ("match", "covered"),
    [("a/t", [True, False]), ("a/*", [True, False]), ("**", [True, False]), ("*", [False, False])],
)
def test_a_suppression_covers_one_rule_in_one_part_of_a_catalog(
    tmp_path: Path, match: str, covered: list[bool]
) -> None:
    found = suppressions(tmp_path, f"rule: dangling, match: '{match}', until: 2026-06-01")
    assert [found.covering(one) == 0 for one in (LOST, ORPHAN)] == covered
    assert found.covering(LOST.model_copy(update={"catalog": "prod"})) is None


def test_a_suppression_that_expired_covers_nothing_and_is_a_finding(tmp_path: Path) -> None:
    found = suppressions(tmp_path, "rule: dangling, match: '**', until: 2026-05-31")
    assert found.covering(LOST) is None
    (expired,) = found.findings()
    assert (expired.rule, expired.address, str(expired.source).rpartition(":")[2]) == (
        "expired-suppression",
        "lake",
        "8",
    )


def test_a_suppression_of_no_rule_is_an_error_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refused:
        suppressions(tmp_path, "rule: orphans, match: '**', until: 2026-06-01")
    assert "lancens.yaml:8:" in str(refused.value)
    assert "did you mean `orphan`?" in str(refused.value)
