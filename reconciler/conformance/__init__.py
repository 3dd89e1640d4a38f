"""The test kit every backend passes, and any ``LanceNamespace`` can be put to.

``lancens conformance --impl dir --config root=...`` prints a table of operation and result;
``pytest --pyargs reconciler.conformance`` runs the same checks as tests; :func:`verify` is for a backend's own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from reconciler.conformance.check import Check, registered
from reconciler.conformance.context import AddForeign, Offer
from reconciler.conformance.report import Outcome, Report, Result, run_check
from reconciler.conformance.report import run as _run
from reconciler.namespace import CatalogNamespace

if TYPE_CHECKING:
    from reconciler.backends.base import Backend

__all__ = ["AddForeign", "Check", "Outcome", "Report", "Result", "checks", "run", "run_check", "verify"]


def checks() -> tuple[Check, ...]:
    """Return every check, in order."""
    from reconciler.conformance import data, namespaces, tables, whole  # noqa: F401 - importing them registers

    return registered()


def run(
    impl: str,
    config: Mapping[str, str],
    *,
    namespace: Sequence[str] = (),
    scratch: str | None = None,
    starting: Callable[[Check], None] | None = None,
    progress: Callable[[Result], None] | None = None,
) -> Report:
    """Run every check against the catalog that ``impl`` and ``config`` name.

    Each check works in a namespace of its own below ``namespace`` and removes the entries it made. Datasets go to the
    catalog's default locations and stay there, or under ``scratch`` (a temporary directory when left out).
    ``starting`` is called with each check before it runs, ``progress`` with each result as it comes.

    ``impl`` is a backend, or the class path of any ``LanceNamespace``: of that the operations of the specification are
    asked only, and what it answers with Unsupported does not apply.

    Raises:
        ConfigError: the namespace cannot be reached, or nothing can be made where it is to be checked.
        MissingExtraError, InvalidInputError: see ``reconciler.backends.registry.connect``.
    """
    return _run(impl, config, checks(), namespace=namespace, scratch=scratch, starting=starting, progress=progress)


def verify(
    check: Check,
    connect: Callable[[], Backend],
    *,
    namespace: Sequence[str] = (),
    scratch: str,
    add_foreign: AddForeign | None = None,
    offer: Offer = CatalogNamespace,
) -> None:
    """Run one check inside a pytest test: a fault fails it, what capabilities exclude is skipped.

    The backend that ``connect`` returns is closed at the end. See :func:`run_check` for the parameters.
    """
    import pytest

    backend = connect()
    try:
        result = run_check(
            check, backend, connect, namespace=namespace, scratch=scratch, add_foreign=add_foreign, offer=offer
        )
    finally:
        backend.close()
    if result.outcome is Outcome.NOT_APPLICABLE:
        pytest.skip(result.detail)
    if result.outcome is Outcome.FAILED:
        pytest.fail(f"{check.title}\n{result.detail}", pytrace=False)
