from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from reconciler.auditor import history
from reconciler.auditor.document import AuditDocument
from reconciler.report.json import audit_json_schema, render_json
from tests.unit.pipeline.documents import large_document, run, small_document
from tests.unit.pipeline.strategies import documents

SCHEMA = Path(__file__).parents[3] / "schemas" / "audit.schema.json"


def test_the_schema_file_is_current() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == audit_json_schema(), (
        "schemas/audit.schema.json is stale: `make schemas`"
    )


@given(documents())
def test_documents_are_valid_and_read_back_as_they_were(document: AuditDocument) -> None:
    text = render_json(document)
    Draft202012Validator(audit_json_schema()).validate(json.loads(text))
    assert AuditDocument.model_validate_json(text) == document


def test_a_document_with_a_history_is_valid() -> None:
    document = history.with_trend(small_document(), [run(1), run(2, complete=False)])
    read = json.loads(render_json(document))
    Draft202012Validator(audit_json_schema()).validate(read)
    assert [each["complete"] for each in read["history"]] == [True, False, False]


@pytest.mark.parametrize("damage", ["format_version", "complete", "findings", "sizes"])
def test_the_schema_refuses_what_is_incomplete(damage: str) -> None:
    document = json.loads(render_json(small_document()))
    del document[damage]
    assert not Draft202012Validator(audit_json_schema()).is_valid(document)


def test_the_schema_takes_a_later_minor_version_and_no_other_major_one() -> None:
    document: dict[str, Any] = json.loads(render_json(small_document()))
    document["later"] = document["findings"][0]["later"] = {"a": 1}
    document["format_version"] = "2.7"
    Draft202012Validator(audit_json_schema()).validate(document)
    assert AuditDocument.model_validate(document).findings == small_document().findings
    document["format_version"] = "3.0"
    assert not Draft202012Validator(audit_json_schema()).is_valid(document)


def test_what_a_script_asks_for_first_stands_first() -> None:
    document = json.loads(render_json(small_document()))
    assert list(document)[:2] == ["format_version", "complete"]
    assert document["complete"] is False
    assert document["findings"][0]["address"] == "lake/features/clicks"
    assert document["findings"][0]["source"] == {"file": "lancens.yaml", "line": 23, "column": 1}


def test_every_table_is_one_line_so_that_two_reports_can_be_compared() -> None:
    lines = render_json(large_document(100)).splitlines()
    assert sum(line.startswith('    {"catalog"') and '"fragments"' in line for line in lines) == 100


def test_nothing_in_the_file_is_hidden_or_acts_on_a_terminal() -> None:
    hostile = small_document().model_copy(update={"run_id": "\x1b[31m\u202eecnal\u200b"})
    text = render_json(hostile)
    assert text.isascii()
    assert "\x1b" not in text
