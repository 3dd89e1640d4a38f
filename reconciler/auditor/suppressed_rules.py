"""Check the rules that a manifest suppresses, without the rules' own imports where it suppresses none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.model.display import did_you_mean
from reconciler.model.errors import ManifestError

if TYPE_CHECKING:
    from reconciler.manifest import Manifest


def check_suppressed_rules(manifest: Manifest) -> None:
    """Check that the rules in `suppress` exist.

    Raises:
        ManifestError: naming each that does not, and its line.
    """
    declared = [suppression for catalog in manifest.catalogs.values() for suppression in catalog.desired.suppress]
    if not declared:
        return
    from reconciler.auditor.rules import RULES

    problems = [
        suppression.source.problem(
            f"`rule` in `suppress` is `{suppression.rule}`, which is no rule of an audit; "
            f"{did_you_mean(suppression.rule, RULES, 'see `lancens audit --help`')}"
        )
        for suppression in declared
        if suppression.rule not in RULES
    ]
    if problems:
        raise ManifestError(problems)
