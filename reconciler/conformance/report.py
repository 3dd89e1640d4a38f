"""Running checks, and the table of their results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from reconciler import display
from reconciler.conformance.check import Check
from reconciler.conformance.context import AddForeign, NotApplicable, Offer, prepared
from reconciler.namespace import CatalogNamespace

if TYPE_CHECKING:
    from reconciler.backends.base import Backend

__all__ = ["Outcome", "Report", "Result", "run", "run_check"]


class Outcome(Enum):
    """How a check ended."""

    PASSED = "ok"
    FAILED = "FAILED"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one check; ``detail`` says what is wrong, or what the capabilities exclude."""

    check: Check
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks against one catalog."""

    catalog: str
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(result.outcome is not Outcome.FAILED for result in self.results)

    def count(self, outcome: Outcome) -> int:
        """Return how many checks ended in ``outcome``."""
        return sum(result.outcome is outcome for result in self.results)

    def table(self) -> str:
        """Return a table of operation, result and check, and a last line with the counts."""
        widest = max((len(result.check.operation) for result in self.results), default=0)
        lines = [display.message(self.catalog)]
        operation = ""
        for result in sorted(self.results, key=lambda one: one.check.operation.lower()):
            shown = "" if result.check.operation == operation else result.check.operation
            operation = result.check.operation
            lines.append(f"  {shown:<{widest}}  {result.outcome.value:<6}  {result.check.title}")
            if result.detail:
                lines.append(f"  {'':<{widest}}  {'':<6}    {display.message(result.detail)}")
        passed, failed, excluded = map(self.count, (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_APPLICABLE))
        lines.append(f"{passed} passed, {failed} failed, {excluded} not applicable.")
        return "\n".join(lines)


def run_check(
    check: Check,
    backend: Backend,
    connect: Callable[[], Backend],
    *,
    namespace: Sequence[str] = (),
    scratch: str,
    add_foreign: AddForeign | None = None,
    offer: Offer = CatalogNamespace,
) -> Result:
    """Run one check in a namespace of its own below ``namespace`` and return its result.

    ``connect`` returns another connection to the same catalog. ``scratch`` is a directory or URI for real datasets
    where the catalog has no default location. ``add_foreign`` makes objects that are not Lance tables, ``offer`` the
    namespace whose operations are checked.
    """
    try:
        with prepared(backend, connect, tuple(namespace), scratch, add_foreign, offer) as context:
            check.run(context)
    except NotApplicable as reason:
        return Result(check, Outcome.NOT_APPLICABLE, str(reason))
    except AssertionError as fault:
        return Result(check, Outcome.FAILED, str(fault))
    except Exception as error:  # noqa: BLE001 - whatever a backend raises where it should not is a finding
        return Result(check, Outcome.FAILED, f"{type(error).__name__}: {error}")
    return Result(check, Outcome.PASSED)


def run(
    impl: str,
    config: Mapping[str, str],
    checks: Iterable[Check],
    *,
    namespace: Sequence[str] = (),
    scratch: str | None = None,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Run ``checks`` against the catalog that ``impl`` and ``config`` name."""
    from reconciler.backends import registry

    backend = registry.connect(impl, config)
    results = []
    try:
        with tempfile.TemporaryDirectory(prefix="lancens-conformance-") as folder:
            for check in checks:
                result = run_check(
                    check,
                    backend,
                    lambda: registry.connect(impl, config),
                    namespace=namespace,
                    scratch=scratch or folder,
                )
                results.append(result)
                if progress is not None:
                    progress(result)
    finally:
        backend.close()
    return Report(backend.namespace_id(), tuple(results))
