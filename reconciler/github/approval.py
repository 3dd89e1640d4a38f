"""What a comment approves: written into it where nobody sees it, and read again when the pull request is merged.

A comment begins with a marker that says whose it is. When it shows the whole plan, the second line holds the digests
that it approves, and where there is room, the last line holds the plan itself, so that what has changed since can be
told in detail and an interrupted apply can be gone on with.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass

from reconciler.errors import PlanFileError
from reconciler.planner.plan import Plan

__all__ = ["Approval", "approval_in", "approval_lines", "marker", "packed", "steps_digest"]

_LONGEST_PACKED = 20_000
_LARGEST_PLAN_BYTES = 64 * 1024 * 1024
_APPROVES = re.compile(
    r"<!-- lancens approves plan=([0-9a-f]{64}) steps=([0-9a-f]{64}) "
    r"manifest=([0-9a-f]{64}) commit=([0-9a-f]{40,64}) -->"
)
_PACKED = re.compile(r"<!-- lancens plan\.json ([A-Za-z0-9+/=]+) -->")


@dataclass(frozen=True, slots=True)
class Approval:
    """The plan that a pull request showed; ``plan`` is None where it was too large to be kept in the comment."""

    plan_digest: str
    steps: str
    manifest: str
    commit: str
    plan: Plan | None = None


def marker(kind: str, label: str) -> str:
    """Return the first line of a text of the Action: by it the text is found again, to be brought up to date."""
    return f"<!-- lancens {kind} label={label} -->"


def steps_digest(plan: Plan) -> str:
    """Return the SHA-256 over what ``plan`` does and what it was planned on.

    That is the plan without what may move while the plan stays what it is: how many objects the catalogs hold, notes
    about objects it leaves alone, and line numbers of the manifest.
    """
    return plan.model_copy(
        update={
            "catalogs": (),
            "notes": (),
            "changes": tuple(change.model_copy(update={"source": None}) for change in plan.changes),
            "guards": tuple(guard.model_copy(update={"source": None}) for guard in plan.guards),
        }
    ).digest()


def approval_lines(plan: Plan, commit: str) -> str:
    """Return the second line of a comment that shows all of ``plan``."""
    return (
        f"<!-- lancens approves plan={plan.digest()} steps={steps_digest(plan)} "
        f"manifest={plan.manifest.digest} commit={commit} -->"
    )


def packed(plan: Plan) -> str:
    """Return the last line of a comment, with ``plan`` in it; empty where that would be too long."""
    content = base64.b64encode(zlib.compress(plan.to_json().encode(), 9)).decode()
    return f"<!-- lancens plan.json {content} -->" if len(content) <= _LONGEST_PACKED else ""


def approval_in(body: str) -> Approval | None:
    """Return what the comment ``body`` approves, None for one that approves nothing, such as one that was cut."""
    lines = body.splitlines()
    found = _APPROVES.fullmatch(lines[1]) if len(lines) > 1 else None
    if found is None:
        return None
    plan_digest, steps, manifest, commit = found.groups()
    return Approval(plan_digest, steps, manifest, commit, _unpacked(lines[-1], plan_digest))


def _unpacked(line: str, digest: str) -> Plan | None:
    found = _PACKED.fullmatch(line)
    if found is None:
        return None
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(found[1], validate=True), _LARGEST_PLAN_BYTES)
        plan = Plan.from_json(content)
    except (binascii.Error, zlib.error, PlanFileError):
        return None
    return plan if plan.digest() == digest else None
