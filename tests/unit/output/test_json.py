from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from reconciler.model.desired import Source
from reconciler.model.errors import PlanFileError
from reconciler.model.json_encoding import encode_json
from reconciler.output import render
from reconciler.output.json import plan_json_schema
from reconciler.planner.plan import Plan
from tests.plans import resealed
from tests.strategies import plans
from tests.unit.output.examples import small_plan

SCHEMA = Path(__file__).parents[3] / "schemas" / "plan.schema.json"


def test_the_schema_file_is_current() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == plan_json_schema(), (
        "schemas/plan.schema.json is stale: `lancens schema plan > schemas/plan.schema.json`"
    )


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(plan_json_schema())


@given(plans())
def test_saved_plans_are_valid(plan: Plan) -> None:
    validator().validate(json.loads(render(plan, "json")))


@pytest.mark.parametrize("damage", ["format_version", "manifest", "summary", "digest"])
def test_the_schema_refuses_what_is_incomplete(damage: str) -> None:
    document = json.loads(render(small_plan(), "json"))
    del document[damage]
    assert not validator().is_valid(document)


def test_the_schema_refuses_an_unknown_action() -> None:
    document = json.loads(render(small_plan(), "json"))
    document["changes"][0]["action"] = "delete-data"
    assert not validator().is_valid(document)


def test_unknown_keys_are_ignored() -> None:
    saved = render(small_plan(), "json")
    document = json.loads(saved)
    document["format_version"] = "1.7"
    document["later"] = {"a": 1}
    document["changes"][0]["later"] = True
    document["changes"][0]["after"]["later"] = True
    validator().validate(document)
    read = Plan.from_json(resealed(document))
    assert read.changes == Plan.from_json(saved).changes


def test_a_plan_of_a_later_version_is_sealed_with_what_is_ignored_here() -> None:
    document = json.loads(render(small_plan(), "json"))
    sealed = json.loads(resealed({**document, "format_version": "1.7", "later": {"a": 1}}))
    with pytest.raises(PlanFileError, match="`digest` does not match"):
        Plan.from_json(json.dumps({**sealed, "later": {"a": 2}}))


def test_a_plan_without_a_digest_is_refused() -> None:
    document = json.loads(render(small_plan(), "json"))
    del document["digest"]
    with pytest.raises(PlanFileError, match=r"Make the plan again\."):
        Plan.from_json(json.dumps(document))


def test_however_it_is_laid_out_a_plan_has_the_digest_that_it_says() -> None:
    document = json.loads(render(small_plan(), "json"))
    backwards = dict(reversed(document.items()))
    assert Plan.from_json(json.dumps(backwards)).digest() == small_plan().digest() == document["digest"]


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("key", ["é\u2028\x1f", "\ud800", "[" * 300], ids=["text", "lone surrogate", "deep"])
def test_json_is_what_another_encoder_writes(key: str, indent: int | None) -> None:
    deep = json.loads(key + "]" * len(key)) if key.startswith("[") else []
    written = encode_json([{key: deep}, Source("m", 1)], indent)
    assert json.loads(written) == [{key: deep}, {"file": "m", "line": 1, "column": 1}]
    assert (indent is None) == ("\n" not in written)


def test_a_summary_that_counts_something_else_is_refused() -> None:
    document = json.loads(render(small_plan(), "json"))
    document["summary"]["deregister"] = 0
    with pytest.raises(PlanFileError, match="`summary` does not count its changes"):
        Plan.from_json(resealed(document))


@pytest.mark.parametrize("part", ["changes", "fingerprints"])
def test_an_object_without_a_name_is_refused(part: str) -> None:
    document = json.loads(render(small_plan(), "json"))
    document.setdefault(part, [{"catalog": "lake", "kind": "table"}])[0]["identifier"] = []
    with pytest.raises(PlanFileError, match="identifier"):
        Plan.from_json(resealed(document))


def test_another_major_version_is_refused() -> None:
    document = json.loads(render(small_plan(), "json"))
    document["format_version"] = "2.0"
    assert not validator().is_valid(document)
    with pytest.raises(PlanFileError, match=r"format 2\.0"):
        Plan.from_json(json.dumps(document))


def test_the_summary_counts_what_the_last_line_counts() -> None:
    assert json.loads(render(small_plan(), "json"))["summary"] == {
        "create": 2,
        "declare": 0,
        "register": 1,
        "update": 3,
        "move": 0,
        "deregister": 1,
        "drop": 0,
        "protected": 1,
        "blocked": 0,
    }
