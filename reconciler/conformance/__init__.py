"""The conformance kit: checks of backends and of any ``LanceNamespace``.

``lancens conformance --impl dir --config root=...`` prints a table of operation and result;
``pytest --pyargs reconciler.conformance`` runs the same checks as tests; :func:`verify` is for a backend's own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Unpack

from reconciler.backends.base import Backend
from reconciler.conformance.context import AddForeign, CheckOptions, ConformanceCheck
from reconciler.conformance.report import CheckOutcome, CheckResult, Report, checks, run, run_check

__all__ = [
    "AddForeign",
    "CheckOptions",
    "CheckOutcome",
    "CheckResult",
    "ConformanceCheck",
    "Report",
    "checks",
    "run",
    "run_check",
    "verify",
]


def verify(check: ConformanceCheck, connect: Callable[[], Backend], **options: Unpack[CheckOptions]) -> None:
    """Run one check as a pytest test.

    It is skipped if capabilities exclude it. The backend that ``connect`` returns is closed at the end. ``options`` has
    the keys of :class:`CheckOptions`.
    """
    import pytest

    with closing(connect()) as backend:
        result = run_check(check, backend, connect, **options)
    if result.outcome is CheckOutcome.NOT_APPLICABLE:
        pytest.skip(result.detail)
    if result.failed:
        pytest.fail(f"{check.title}\n{result.detail}", pytrace=False)
