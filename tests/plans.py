"""Saved plans as somebody who edits them sees them."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from reconciler.planner.plan import Plan

__all__ = ["assert_blocked", "blocked", "resealed"]


def resealed(plan: str | dict[str, Any]) -> str:
    """Return an edited plan with the digest that fits it, as somebody who knows how it is made would write it."""
    document = json.loads(plan) if isinstance(plan, str) else plan
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()})


def blocked(plan: Plan) -> list[str]:
    """Return what a plan says of each object that is blocked, in one line each."""
    return [f"{one.source}: {one.address}: {one.reason} -> {one.remedy}" for one in plan.blocked]


def assert_blocked(plan: Plan, *, match: str) -> None:
    """Check that the plan says this of a blocked object, and changes none of those that are blocked."""
    assert any(re.search(match, said) for said in blocked(plan)), blocked(plan)
    assert not {one.key for one in plan.blocked} & {change.key for change in plan.changes}
