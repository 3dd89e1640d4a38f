"""Group equal findings, so that one cause with many tables reads as one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.auditor.document import Finding
from reconciler.auditor.records import Severity
from reconciler.model import display, locations

_MORE_OF_A_NAME = re.compile(r"\.?[\w-]")


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one rule, equal but for their own addresses and locations; those are an ellipsis in its texts."""

    findings: Sequence[Finding]
    reason: str
    remedy: str

    @property
    def first(self) -> Finding:
        """The finding that the group is sorted and styled by."""
        return self.findings[0]


def group_findings(findings: Iterable[Finding]) -> Sequence[FindingGroup]:
    """Return the groups of equal findings, in the order of their first ones; one finding keeps its texts."""
    groups: defaultdict[tuple[Severity, str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        reason, remedy = (_shared_text(text, finding) for text in (finding.reason, finding.remedy))
        groups[finding.severity, finding.rule, reason, remedy].append(finding)
    return [
        FindingGroup(equal, reason, remedy) if len(equal) > 1 else FindingGroup(equal, equal[0].reason, equal[0].remedy)
        for (_, _, reason, remedy), equal in groups.items()
    ]


def _shared_text(text: str, finding: Finding) -> str:
    """Return a text of ``finding`` with an ellipsis for its address and location."""
    location = finding.location or ""
    own = {location, locations.pylance_uri(location), finding.address if finding.identifier else ""}
    for name in sorted(filter(None, own), key=len, reverse=True):
        text, *others = text.split(name)
        for other in others:
            is_part = text[-1:].isalnum() or text.endswith(("_", "-", ".", "/")) or _MORE_OF_A_NAME.match(other)
            text += (name if is_part else display.ELLIPSIS) + other
    return text
