from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reconciler.auditor.document import AuditDocument, Distribution, Finding, FindingCounts, ReportedTable
from reconciler.auditor.records import Severity
from reconciler.auditor.scales import AGES, SIZES, Scale, age_in_days
from reconciler.model import figures
from reconciler.pipeline.rows import ReadFailure
from reconciler.report.html import render_html
from reconciler.report.json import render_json
from reconciler.report.junit import render_junit_findings
from reconciler.report.sarif import render_sarif
from tests.strategies import SECRET
from tests.unit.pipeline.documents import NOW, counted, document, finding, large_document, small_document
from tests.unit.pipeline.strategies import documents


def problem(catalog: str, name: str, details: dict[str, str] | None = None) -> Finding:
    return Finding(
        catalog=catalog,
        namespace=(),
        name=name,
        rule="unreadable",
        severity=Severity.ERROR,
        reason="denied",
        remedy="ask",
        details=details or {},
    )


@given(documents())
def test_no_form_shows_a_secret(document: AuditDocument) -> None:
    for render in (render_html, render_json, render_sarif):
        assert SECRET not in render(document)


def test_credentials_are_gone_before_anything_is_rendered() -> None:
    table = ReportedTable(
        catalog="lake", namespace=(), name="t", location=f"s3://key:{SECRET}@bucket/t.lance?sig={SECRET}"
    )
    assert table.location == "s3://(redacted)@bucket/t.lance?(redacted)"
    found = problem("lake", "t", details={"api_key": SECRET})
    assert SECRET not in repr(found)


def test_a_finding_may_be_about_a_whole_catalog() -> None:
    found = problem("prod", "")
    assert found.address == "prod"
    assert found.identifier == ()


def test_times_are_in_utc_and_never_without_a_zone() -> None:
    document = small_document()
    values = dict(document)
    values["finished"] = datetime(2026, 11, 21, 17, 0, tzinfo=timezone(timedelta(hours=2)))
    assert AuditDocument.model_validate(values).finished == datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
    assert AuditDocument.model_validate(values).model_dump_json().count("2026-11-21T15:00:00Z") == 1
    values["finished"] = datetime(2026, 11, 21, 17, 0)
    with pytest.raises(ValidationError, match="timezone"):
        AuditDocument.model_validate(values)


def test_a_document_is_complete_only_when_everything_was_read() -> None:
    assert large_document(10).complete
    assert not small_document().complete
    assert not small_document().model_copy(update={"failures": ()}).complete
    assert not small_document().model_copy(update={"coverage": ()}).complete


def test_findings_are_counted_four_ways_with_the_most_first() -> None:
    counts = small_document().counts
    assert [(found.rule, found.error, found.warning, found.note) for found in counts.by_rule] == [
        ("shared-location", 2, 0, 0),
        ("unmanaged", 0, 0, 2),
        ("dangling", 1, 0, 0),
        ("orphan", 0, 1, 0),
        ("property-drift", 0, 1, 0),
        ("stale", 0, 0, 1),
    ]
    assert [(found.catalog, found.total) for found in counts.by_catalog] == [("lake", 4), ("prod", 4)]
    assert [(found.address, found.total) for found in counts.by_namespace] == [
        ("prod/analytics", 4),
        ("lake/features", 2),
        ("lake/features/eu", 1),
        ("lake/old", 1),
    ]
    assert [(found.owner, found.total) for found in counts.by_owner] == [(None, 5), ("feature-store/lake", 3)]


def test_counts_do_not_depend_on_the_order_of_findings() -> None:
    findings = [finding("stale", f"lake/n{number % 3}/t{number}", owner=f"o{number % 2}") for number in range(12)]
    assert counted(findings) == counted(findings[::-1])
    assert FindingCounts.of({}) == FindingCounts()


def test_what_matters_most_comes_first() -> None:
    assert [found.severity.value for found in small_document().findings] == ["error"] * 3 + ["warning"] * 2 + [
        "note"
    ] * 3


@pytest.mark.parametrize("scale", [SIZES, AGES], ids=lambda scale: scale.unit)
@given(value=st.integers(0, 1 << 60) | st.floats(0, 1e18))
def test_every_value_is_in_the_class_between_its_edges(scale: Scale, value: float) -> None:
    at = scale.bin_of(value)
    assert scale.classes[at][0] <= value
    assert at == len(scale.classes) - 1 or value < scale.classes[at + 1][0]


@pytest.mark.parametrize(
    ("scale", "value", "label"),
    [
        (SIZES, 0, "empty"),
        (SIZES, 1, "under 1 MiB"),
        (SIZES, (1 << 20) - 1, "under 1 MiB"),
        (SIZES, 1 << 20, "1 to 10 MiB"),
        (SIZES, 1 << 50, "1 TiB and more"),
        (AGES, 0.99, "under a day"),
        (AGES, 30, "30 to 90 days"),
        (AGES, 10_000, "2 years and more"),
        (AGES, -0.5, "under a day"),
    ],
)
def test_a_class_is_called_what_it_holds(scale: Scale, value: float, label: str) -> None:
    assert scale.classes[scale.bin_of(value)][1] == label


def test_an_age_is_in_days() -> None:
    assert age_in_days(NOW - timedelta(hours=36), NOW) == 1.5


def test_a_distribution_shows_empty_classes_too() -> None:
    found = Distribution.of(AGES, {0: 4, 7: 1, None: 2})
    assert [each.tables for each in found.bins] == [4, 0, 0, 0, 0, 0, 0, 1]
    assert [each.at_least for each in found.bins] == [0, 1, 7, 30, 90, 180, 365, 730]
    assert (found.unit, found.unknown) == ("days", 2)


def test_a_run_is_summed_up_by_its_own_figures() -> None:
    document = small_document()
    summary = document.summary()
    assert (summary.run_id, summary.manifest, summary.complete) == (document.run_id, "feature-store", False)
    assert summary.totals == document.totals
    assert summary.by_rule == document.counts.by_rule


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (3 << 30, "3 GiB"),
        (130 * (1 << 30) + (1 << 29), "130 GiB"),
        (1 << 70, "1,024 EiB"),
    ],
)
def test_sizes_are_easy_to_read(value: int, text: str) -> None:
    assert figures.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1204, "1,204"), (9_999_999, "9,999,999"), (12_400_000, "12.4 M"), (24_800_000_000, "24.8 B")],
)
def test_counts_are_easy_to_read(value: int, text: str) -> None:
    assert figures.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (41, "41 s"), (59.7, "1 min 0 s"), (200, "3 min 20 s"), (3725, "1 h 2 min")]
)
def test_durations_are_easy_to_read(seconds: float, text: str) -> None:
    assert figures.duration(timedelta(seconds=seconds)) == text


def test_junit_fails_for_what_could_not_be_read() -> None:
    failure = ReadFailure(catalog="lake", message="s3://lake could not be listed")
    assert 'tests="1" failures="1"' in render_junit_findings(document([], [], [], [failure]))
