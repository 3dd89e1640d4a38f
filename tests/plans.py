"""Saved plans as somebody who edits them sees them, and what plans say by code."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reconciler.model.reasons import ReasonCode
from reconciler.planner.plan import Plan

__all__ = ["assert_blocked", "blocked", "noted", "resealed"]


def resealed(plan: str | dict[str, Any]) -> str:
    """Return an edited plan with the digest that fits it, as somebody who knows how it is made would write it."""
    document = json.loads(plan) if isinstance(plan, str) else plan
    content = {key: value for key, value in document.items() if key != "digest"}
    parts = [part for part in ("changes", "waiting") if part in content]
    counted = {part: [{**one, "dataset": None} for one in content[part]] for part in parts}
    for one in (one for entries in counted.values() for one in entries):
        del one["dataset"]
    text = json.dumps({**content, **counted}, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()})


def blocked(plan: Plan) -> list[tuple[str, ReasonCode]]:
    """Return each object that a plan blocks, and the reason code."""
    return [(one.address, one.code) for one in plan.blocked]


def assert_blocked(plan: Plan, address: str, code: ReasonCode, **params: object) -> None:
    """Check that the plan blocks an object for this reason, with these parameters, and changes nothing blocked."""
    assert (address, code) in blocked(plan), blocked(plan)
    [found] = [one.params for one in plan.blocked if (one.address, one.code) == (address, code)]
    assert params == {key: found.get(key) for key in params}, found
    assert not {one.key for one in plan.blocked} & {change.key for change in plan.changes}


def noted(plan: Plan, *keys: str) -> list[tuple[object, ...]]:
    """Return the code of each note in a plan, and these of its parameters."""
    return [(note.code, *(note.params.get(key) for key in keys)) for note in plan.notes]
