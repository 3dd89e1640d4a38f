from __future__ import annotations

import pytest

from reconciler.model import display
from reconciler.pipeline.rows import ReadFailure
from reconciler.report.text import remark_lines, worst_lines
from tests.unit.pipeline.documents import document, finding

CALL = f'lance.dataset("s3://{"b" * 40}").restore()'


def test_equal_findings_are_printed_once_with_their_addresses() -> None:
    """They differ in what names them; one that names another table is not equal."""
    places = {f"lake/ns/t{number}": f"s3://b/t{number}" for number in range(5)} | {"lake/ns/t": "s3://b/t"}
    findings = [
        finding("dangling", address, location=location, reason=f"nothing is at {location}: {address} fails.")
        for address, location in places.items()
    ]
    findings.append(finding("dangling", "lake/ns/u", location="s3://b/u", reason="nothing is at s3://b/u2: …"))
    lines = [*worst_lines(document(findings, [], []))]
    assert lines[1:4] == [
        "error: dangling: lake/ns/t, lake/ns/t0, lake/ns/t1 and 3 more",
        "  nothing is at …: … fails.",
        f"  {findings[0].remedy}",
    ]
    assert lines[5:7] == ["error: dangling: lake/ns/u", "  nothing is at s3://b/u2: …"]


def test_equal_failures_are_printed_once() -> None:
    failures = [ReadFailure(catalog="prod", namespace=(name,), message="denied") for name in "abcde"]
    assert [*remark_lines(document([], [], [], failures))][-1] == "prod/a, prod/b, prod/c and 2 more: denied"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("  " + "word " * 9, ["  word word word word word word word", "      word word"]),
        (f"  restore it: `{CALL}`.", ["  restore it:", f"      `{CALL}`."]),
        (
            "run `lancens list --unmanaged 'lake/features/**'`, then `lancens apply`",
            ["run", "    `lancens list --unmanaged 'lake/features/**'`,", "    then `lancens apply`"],
        ),
        (f"`s3://{'b' * 20}    error: dangling: lake/t`", [f"`s3://{'b' * 20}    error:", "    dangling: lake/t`"]),
        ("    ", [""]),
    ],
)
def test_a_line_that_is_too_long_goes_on_under_its_indent_with_its_code_whole(text: str, lines: list[str]) -> None:
    assert display.hang(text, 38) == lines
