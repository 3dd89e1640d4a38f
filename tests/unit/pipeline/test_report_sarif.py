from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from reconciler.auditor.document import AuditDocument
from reconciler.report.sarif import render_sarif
from tests.unit.pipeline.documents import document, finding, small_document
from tests.unit.pipeline.strategies import documents

_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_UTC = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
_LOGICAL = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["fullyQualifiedName", "kind"],
        "properties": {key: {"type": "string"} for key in ("fullyQualifiedName", "name", "kind")},
        "additionalProperties": False,
    },
}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


# What SARIF 2.1.0 and GitHub's code scanning ask of the parts that are used here.
SARIF = _object(
    ["$schema", "version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": _object(
            ["tool", "results", "invocations", "automationDetails", "columnKind"],
            tool=_object(
                ["driver"],
                driver=_object(
                    ["name", "version", "rules"],
                    name={"const": "lancens"},
                    version={"type": "string"},
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": _object(
                            ["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
                            id={"type": "string", "minLength": 1},
                            shortDescription=_TEXT,
                            fullDescription=_TEXT,
                            help=_TEXT,
                            defaultConfiguration=_object(["level"], level=_LEVEL),
                        ),
                    },
                ),
            ),
            automationDetails=_object(["id"], id={"type": "string"}),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            invocations={
                "type": "array",
                "items": _object(
                    ["executionSuccessful", "startTimeUtc", "endTimeUtc", "toolExecutionNotifications"],
                    executionSuccessful={"type": "boolean"},
                    startTimeUtc=_UTC,
                    endTimeUtc=_UTC,
                    toolExecutionNotifications={
                        "type": "array",
                        "items": _object(
                            ["level", "message"],
                            level=_LEVEL,
                            message=_TEXT,
                            locations={
                                "type": "array",
                                "items": _object(["logicalLocations"], logicalLocations=_LOGICAL),
                            },
                        ),
                    },
                ),
            },
            results={
                "type": "array",
                "items": _object(
                    ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
                    ruleId={"type": "string"},
                    ruleIndex={"type": "integer", "minimum": 0},
                    level=_LEVEL,
                    message=_TEXT,
                    locations={
                        "type": "array",
                        "minItems": 1,
                        "items": _object(
                            ["physicalLocation", "logicalLocations"],
                            physicalLocation=_object(
                                ["artifactLocation", "region"],
                                artifactLocation=_object(
                                    ["uri"], uri={"type": "string", "pattern": r"^[A-Za-z0-9._~%/:-]+$"}
                                ),
                                region=_object(["startLine"], startLine={"type": "integer", "minimum": 1}),
                            ),
                            logicalLocations=_LOGICAL,
                        ),
                    },
                    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
                    properties={"type": "object"},
                ),
            },
        ),
    },
)


def run_of(document: AuditDocument) -> dict[str, Any]:
    log = json.loads(render_sarif(document))
    Draft202012Validator(SARIF).validate(log)
    run: dict[str, Any] = log["runs"][0]
    return run


def fingerprints(document: AuditDocument) -> list[str]:
    return [value for result in run_of(document)["results"] for value in result["partialFingerprints"].values()]


@given(documents())
def test_every_document_is_valid_sarif(document: AuditDocument) -> None:
    run = run_of(document)
    assert len(run["results"]) == len(document.findings)
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        text = result["message"]["text"]
        assert text.isprintable()
        assert not re.search(r"(?<!\\)\[[^\[\]]*\]\(", text)


def test_a_finding_points_to_the_line_of_the_manifest() -> None:
    first = run_of(small_document())["results"][0]
    assert (first["ruleId"], first["level"]) == ("dangling", "error")
    assert first["message"]["text"].startswith("lake/features/clicks: nothing is at")
    (place,) = first["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": "lancens.yaml"}, "region": {"startLine": 23}}
    assert place["logicalLocations"] == [
        {"fullyQualifiedName": "lake/features/clicks", "name": "clicks", "kind": "resource"}
    ]


def test_a_finding_without_a_block_points_to_the_whole_manifest() -> None:
    places = [
        result["locations"][0]
        for result in run_of(small_document())["results"]
        if result["ruleId"] in ("orphan", "unmanaged")
    ]
    assert len(places) == 3
    assert all(place["physicalLocation"]["artifactLocation"]["uri"] == "lancens.yaml" for place in places)
    assert all(place["physicalLocation"]["region"]["startLine"] == 1 for place in places)


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("teams/my ads.yaml", "teams/my%20ads.yaml"),
        ("../other/lancens.yaml", "../other/lancens.yaml"),
        ("/srv/lancens.yaml", "file:///srv/lancens.yaml"),
        ("a:b#c?.yaml", "a%3Ab%23c%3F.yaml"),
    ],
)
def test_files_are_named_by_uris(file: str, uri: str) -> None:
    manifest = small_document().manifest.model_copy(update={"files": (file,)})
    found = run_of(document([finding("orphan", "lake/x")], [], []).model_copy(update={"manifest": manifest}))
    assert found["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}


def test_levels_are_those_of_the_findings() -> None:
    results = run_of(small_document())["results"]
    assert [result["level"] for result in results] == ["error"] * 3 + ["warning"] * 2 + ["note"] * 3


def test_a_finding_keeps_its_fingerprint_when_its_words_and_lines_change() -> None:
    before = finding("stale", "lake/a/t", location="s3://b/t.lance", line=10, reason="412 days ago")
    after = finding("stale", "lake/a/t", location="s3a://b//t.lance/", line=99, reason="419 days ago")
    assert fingerprints(document([before], [], [])) == fingerprints(document([after], [], []))


def test_no_two_findings_have_one_fingerprint() -> None:
    findings = [
        finding("stale", "lake/a/t"),
        finding("dangling", "lake/a/t"),
        finding("stale", "lake/at"),
        finding("stale", "prod/a/t"),
        finding("orphan", "lake/t", location="s3://one/t"),
        finding("orphan", "lake/t", location="s3://two/t"),
        finding("property-drift", "lake/a/t", reason="`tier` differs"),
        finding("property-drift", "lake/a/t", reason="`team` differs"),
    ]
    assert len(set(fingerprints(document(findings, [], [])))) == len(findings)


def test_what_could_not_be_read_is_a_notification_and_the_run_no_success() -> None:
    (invocation,) = run_of(small_document())["invocations"]
    assert invocation["executionSuccessful"] is False
    failure, note = invocation["toolExecutionNotifications"]
    assert "prod/finance could not be read" in failure["message"]["text"]
    assert (note["level"], note["message"]["text"]) == ("note", small_document().notes[0])


def test_more_findings_than_a_service_takes_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.report.sarif._MOST_RESULTS", 50)
    one = small_document().findings[0]
    many = tuple(one.model_copy(update={"name": f"t{number}"}) for number in range(60))
    cut = small_document().model_copy(update={"findings": many, "findings_left_out": 5, "failures": (), "notes": ()})
    (run,) = json.loads(render_sarif(cut))["runs"]
    assert len(run["results"]) == 50
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("15 more findings are not in this file")


def test_a_rule_that_is_not_described_is_no_obstacle() -> None:
    found = finding("stale", "lake/t").model_copy(update={"rule": "of-a-later-lancens"})
    log = json.loads(render_sarif(small_document().model_copy(update={"findings": (found,)})))
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "of-a-later-lancens"
    assert "ruleIndex" not in result


def test_the_category_is_the_manifest_and_not_the_run() -> None:
    assert run_of(small_document())["automationDetails"]["id"].rpartition("/")[0] == "lancens-audit/feature-store"
