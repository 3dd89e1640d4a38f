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
_APPROVAL_LINE = re.compile(
    r"<!-- lancens approves plan=([0-9a-f]{64}) manifest=([0-9a-f]{64}) services=([0-9a-f]{64}) "
    r"options=([0-9a-f]{64}) "
    r"changes=((?:[A-Za-z0-9+/]{16})*) -->"
)
_ORIGIN_LINE = re.compile(r"<!-- lancens shows commit=([0-9a-f]{40,64}) run=([0-9]*\.[0-9]*) -->")
_PLAN_LINE = re.compile(r"<!-- lancens plan\.json ([A-Za-z0-9+/=]+) -->")


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """The commit whose plan a comment shows, and the run as ``RUN.ATTEMPT``."""

    commit: str
    run_attempt: str


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The changes of `config` as Markdown; not ``is_complete`` if some were cut."""

    text: str = ""
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Approval:
    """The digests of the plan that a pull request showed for ``commit``.

    ``plan`` is the plan itself, or None if it was too large for the comment.
    """

    plan_digest: str
    manifest_digest: str
    services_digest: str
    options_digest: str
    commit: str
    change_digests: frozenset[bytes]
    plan: Plan | None = None

    def covers(self, plan: Plan) -> bool:
        """Return whether ``plan``, or a plan that includes it, was approved.

        Approved changes that are done already may be missing. Objects that ``plan`` does not touch may have changed.
        """
        plan_digests = (plan.manifest.digest, services_digest(plan), options_digest(plan))
        approved = (self.manifest_digest, self.services_digest, self.options_digest)
        return plan_digests == approved and all(
            _digest_change(change) in self.change_digests for change in plan.changes
        )

    def with_approved_data(self, plan: Plan) -> Plan:
        """Return ``plan`` with the dataset versions of the approved plan.

        The applier then refuses tables whose data is another one.
        """
        versions = {comparable_json(change): change.dataset for change in (self.plan.changes if self.plan else ())}
        changes = (
            change.model_copy(update={"dataset": versions.get(comparable_json(change), change.dataset)})
            for change in plan.changes
        )
        return plan.model_copy(update={"changes": tuple(changes)})


def services_digest(plan: Plan) -> str:
    """Return a digest of the services and roots that the catalogs of ``plan`` stand for.

    Values from outside the manifest count by slow digests: this one is public, and must not confirm guessed addresses.
    """
    services = sorted((catalog.name, catalog.impl, catalog.service) for catalog in plan.catalogs)
    return hashlib.sha256(json.dumps(services).encode()).hexdigest()


def options_digest(plan: Plan) -> str:
    """Return a digest of the options of ``plan``, without that for mass removal."""
    options = plan.options.model_dump(mode="json", exclude={"mass_removal"})
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def marker_prefix(kind: str, key: str) -> str:
    """Return how every text about the plan with the digest ``key`` begins.

    ``kind`` is what the text is about: `plan`, `apply` or `drift`.
    """
    return f"<!-- lancens {kind} key={key}"


def marker(kind: str, key: str, by: str) -> str:
    """Return the first line of a text; ``by`` identifies the step or selection."""
    return f"{marker_prefix(kind, key)} by={by} -->"


def origin_line(origin: PlanOrigin) -> str:
    """Return the second line of a comment that shows a plan."""
    return f"<!-- lancens shows commit={origin.commit} run={origin.run_attempt} -->"


def read_origin(body: str) -> PlanOrigin | None:
    """Return the origin of the plan in the comment ``body``; None without a plan."""
    lines = body.splitlines()
    match = _ORIGIN_LINE.fullmatch(lines[1]) if len(lines) > 1 else None
    return PlanOrigin(*match.groups()) if match else None


def comparable_json(entry: Entry) -> str:
    """Return ``entry`` as JSON, to compare with the entries of another plan.

    It leaves out the line in the manifest, the order in the plan, and the latest version of the dataset.
    """
    excluded = {"source", "depends_on", "dataset"}
    return json.dumps(entry.model_dump(mode="json", exclude=excluded, exclude_defaults=True))


def _digest_change(change: Change) -> bytes:
    return hashlib.sha256(comparable_json(change).encode()).digest()[:_DIGEST_BYTES]


def approval_line(plan: Plan) -> str:
    """Return the third line of a comment: the digests that approve ``plan``."""
    changes = base64.b64encode(b"".join(map(_digest_change, plan.changes))).decode()
    return (
        f"<!-- lancens approves plan={plan.digest()} manifest={plan.manifest.digest} "
        f"services={services_digest(plan)} options={options_digest(plan)} changes={changes} -->"
    )


def plan_line(plan: Plan) -> str:
    """Return the last line of a comment, which holds ``plan`` itself, compressed."""
    content = base64.b64encode(zlib.compress(plan.to_json().encode("utf-8", "surrogatepass"), 9)).decode()
    return f"<!-- lancens plan.json {content} -->"


def read_approval(body: str) -> Approval | None:
    """Return the approval in the comment ``body``; None if it approves nothing."""
    lines, origin = body.splitlines(), read_origin(body)
    match = _APPROVAL_LINE.fullmatch(lines[2]) if len(lines) > 2 else None
    if match is None or origin is None:
        return None
    plan_digest, manifest, services, options, encoded_changes = match.groups()
    joined = base64.b64decode(encoded_changes)
    changes = frozenset(joined[at : at + _DIGEST_BYTES] for at in range(0, len(joined), _DIGEST_BYTES))
    plan = _read_plan(lines[-1], plan_digest)
    return Approval(plan_digest, manifest, services, options, origin.commit, changes, plan)


def _read_plan(line: str, digest: str) -> Plan | None:
    """Return the plan in the last line of a comment, or None.

    It is None if the line holds no plan, is damaged, or has a plan with another digest.
    """
    match = _PLAN_LINE.fullmatch(line)
    if match is None:
        return None
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(match[1], validate=True), _LARGEST_PLAN_BYTES)
        plan = Plan.from_json(content)
    except (binascii.Error, zlib.error, PlanFileError):
        return None
    return plan if plan.digest() == digest else None
