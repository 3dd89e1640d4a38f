"""The approval in a comment: hidden lines that apply reads after the merge.

A comment begins with a marker: the key of the plan and the step that made it. If it shows a plan, the second line holds
the commit and the run. If it shows the whole plan, the third line holds digests: of the plan, the manifest, the
resolved configuration of its catalogs, its options, and each change. If there is room, the last line holds the plan
itself, so that a later refusal can show the difference.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from dataclasses import dataclass

from reconciler.model.errors import PlanFileError
from reconciler.planner.entries import Change, Entry
from reconciler.planner.plan import Plan

_LARGEST_PLAN_BYTES = 64 * 1024 * 1024
_DIGEST_BYTES = 12
_APPROVES = re.compile(
    r"<!-- lancens approves plan=([0-9a-f]{64}) manifest=([0-9a-f]{64}) services=([0-9a-f]{64}) "
    r"options=([0-9a-f]{64}) "
    r"changes=((?:[A-Za-z0-9+/]{16})*) -->"
)
_SHOWS = re.compile(r"<!-- lancens shows commit=([0-9a-f]{40,64}) run=([0-9]*\.[0-9]*) -->")
_PACKED = re.compile(r"<!-- lancens plan\.json ([A-Za-z0-9+/=]+) -->")


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """The commit whose plan a comment shows, and the ``run`` and attempt of it."""

    commit: str
    run: str


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The changes of `config` as Markdown; not ``whole`` if some were cut."""

    text: str = ""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Approval:
    """The plan that a pull request showed; without ``plan`` if it was too large."""

    plan_digest: str
    manifest: str
    services: str
    options: str
    commit: str
    changes: frozenset[bytes]
    plan: Plan | None = None

    def covers(self, plan: Plan) -> bool:
        """Return whether ``plan`` is the approved plan or what is left of it.

        The applier checks its fingerprints; objects that it does not touch may have changed.
        """
        bound = (plan.manifest.digest, services_of(plan)) == (self.manifest, self.services)
        bound = bound and options_of(plan) == self.options
        return bound and all(_digest(change) in self.changes for change in plan.changes)

    def bind(self, plan: Plan) -> Plan:
        """Return ``plan`` on the data that was approved, so that the applier refuses other data in its place."""
        versions = {essence(change): change.dataset for change in (self.plan.changes if self.plan else ())}
        changes = (
            change.model_copy(update={"dataset": versions.get(essence(change), change.dataset)})
            for change in plan.changes
        )
        return plan.model_copy(update={"changes": tuple(changes)})


def services_of(plan: Plan) -> str:
    """Return a digest of the services of ``plan``, by their resolved configurations.

    It is made of slow digests, so that a guessed address cannot be confirmed with it.
    """
    services = sorted((catalog.name, catalog.impl, catalog.service) for catalog in plan.catalogs)
    return hashlib.sha256(json.dumps(services).encode()).hexdigest()


def options_of(plan: Plan) -> str:
    """Return a digest of the options of ``plan``, other than of mass removal."""
    options = plan.options.model_dump(mode="json", exclude={"mass_removal"})
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def marked(kind: str, key: str) -> str:
    """Return the start of every text of the Action about the plan with ``key``."""
    return f"<!-- lancens {kind} key={key}"


def marker(kind: str, key: str, by: str) -> str:
    """Return the first line of a text that the step ``by`` writes."""
    return f"{marked(kind, key)} by={by} -->"


def shown_line(shown: PlanOrigin) -> str:
    """Return the second line of a comment that shows a plan."""
    return f"<!-- lancens shows commit={shown.commit} run={shown.run} -->"


def shown_in(body: str) -> PlanOrigin | None:
    """Return the plan that the comment ``body`` shows, or None."""
    lines = body.splitlines()
    match = _SHOWS.fullmatch(lines[1]) if len(lines) > 1 else None
    return PlanOrigin(*match.groups()) if match else None


def essence(entry: Entry) -> str:
    """Return ``entry`` as JSON, without its position in the manifest and in the plan, and its data's latest version."""
    hidden = {"source", "depends_on", "dataset"}
    return json.dumps(entry.model_dump(mode="json", exclude=hidden, exclude_defaults=True))


def _digest(change: Change) -> bytes:
    return hashlib.sha256(essence(change).encode()).digest()[:_DIGEST_BYTES]


def approval_line(plan: Plan) -> str:
    """Return the third line of a comment that shows all of ``plan``."""
    changes = base64.b64encode(b"".join(map(_digest, plan.changes))).decode()
    return (
        f"<!-- lancens approves plan={plan.digest()} manifest={plan.manifest.digest} "
        f"services={services_of(plan)} options={options_of(plan)} changes={changes} -->"
    )


def packed(plan: Plan) -> str:
    """Return the last line of a comment, which holds ``plan``."""
    content = base64.b64encode(zlib.compress(plan.to_json().encode("utf-8", "surrogatepass"), 9)).decode()
    return f"<!-- lancens plan.json {content} -->"


def approval_in(body: str) -> Approval | None:
    """Return the approval in the comment ``body``; None if it approves nothing."""
    lines, shown = body.splitlines(), shown_in(body)
    match = _APPROVES.fullmatch(lines[2]) if len(lines) > 2 else None
    if match is None or shown is None:
        return None
    plan_digest, manifest, services, options, listed = match.groups()
    joined = base64.b64decode(listed)
    changes = frozenset(joined[at : at + _DIGEST_BYTES] for at in range(0, len(joined), _DIGEST_BYTES))
    return Approval(plan_digest, manifest, services, options, shown.commit, changes, _unpacked(lines[-1], plan_digest))


def _unpacked(line: str, digest: str) -> Plan | None:
    match = _PACKED.fullmatch(line)
    if match is None:
        return None
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(match[1], validate=True), _LARGEST_PLAN_BYTES)
        plan = Plan.from_json(content)
    except (binascii.Error, zlib.error, PlanFileError):
        return None
    return plan if plan.digest() == digest else None
