"""Match findings with a manifest's suppressions, and report expired ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from reconciler.auditor.document import Finding, Suppressed
from reconciler.auditor.rules import RULES
from reconciler.auditor.rules.drift import expired_suppression
from reconciler.model.display import did_you_mean
from reconciler.model.errors import ManifestError

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


@dataclass(frozen=True, slots=True)
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
        declared = [suppression for catalog in manifest.catalogs.values() for suppression in catalog.desired.suppress]
        problems = [
            suppression.source.problem(_unknown_rule(suppression.rule))
            for suppression in declared
            if suppression.rule not in RULES
        ]
        if problems:
            raise ManifestError(problems)
        suppressed = [Suppressed.model_validate(suppression, from_attributes=True) for suppression in declared]
        return cls(
            [suppression for suppression in suppressed if suppression.until >= today],
            [suppression for suppression in suppressed if suppression.until < today],
        )

    def covering(self, finding: Finding) -> int | None:
        """Return the position of the suppression that covers a finding.

        The result is None if no suppression does.
        """
        return next(
            (position for position, suppression in enumerate(self.in_force) if suppression.covers(finding)), None
        )

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


def _unknown_rule(name: str) -> str:
    hint = did_you_mean(name, RULES, "see `lancens audit --help`")
    return f"`rule` in `suppress` is `{name}`, which is no rule of an audit; {hint}"
