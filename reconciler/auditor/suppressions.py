"""Match findings with a manifest's suppressions, and report expired ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.auditor.document import Finding, PastFinding, Suppressed
from reconciler.auditor.rules.drift import expired_suppression
from reconciler.auditor.suppressed_rules import check_suppressed_rules
from reconciler.model.globs import Globs

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


@dataclass(frozen=True)
class Suppressions:
    """The suppressions of a manifest that are in force, and the ``expired`` ones."""

    in_force: Sequence[Suppressed]
    expired: Sequence[Suppressed]

    @classmethod
    def of(cls, manifest: Manifest, today: date) -> Suppressions:
        """Return the suppressions of ``manifest``.

        Raises:
            ManifestError: one names an unknown rule.
        """
        check_suppressed_rules(manifest)
        declared = [suppression for catalog in manifest.catalogs.values() for suppression in catalog.desired.suppress]
        suppressed = [Suppressed.model_validate(suppression, from_attributes=True) for suppression in declared]
        return cls(
            [suppression for suppression in suppressed if suppression.until >= today],
            [suppression for suppression in suppressed if suppression.until < today],
        )

    def covering(self, finding: Finding | PastFinding) -> int | None:
        """Return the position of the first suppression that covers a finding; None if none does."""
        globs = self._globs.get((finding.catalog, finding.rule))
        return None if globs is None else min(globs.matching(finding.identifier), default=None)

    @cached_property
    def _globs(self) -> Mapping[tuple[str, str], Globs]:
        patterns: defaultdict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        for position, suppression in enumerate(self.in_force):
            patterns[suppression.catalog, suppression.rule].append((suppression.match, position))
        return {key: Globs(numbered) for key, numbered in patterns.items()}

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each expired suppression."""
        for suppression in self.expired:
            yield Finding(
                rule=expired_suppression.name,
                severity=expired_suppression.severity,
                catalog=suppression.catalog,
                namespace=(),
                name="",
                reason=(
                    f"the suppression of `{suppression.rule}` for `{suppression.match}` ended on {suppression.until}: "
                    f"{suppression.reason}"
                ),
                remedy="Correct what it suppressed and remove it from the manifest, or write another `until`.",
                source=suppression.source,
            )

    def with_numbers(self, numbers: Mapping[int, int]) -> tuple[Suppressed, ...]:
        """Return the suppressions in force with their ``numbers`` of findings, by position."""
        return tuple(
            suppression.model_copy(update={"findings": numbers.get(position, 0)})
            for position, suppression in enumerate(self.in_force)
        )
