"""The checks of the conformance kit, for a second server of a backend that has run all of them on another one."""

from __future__ import annotations

from reconciler.conformance import ConformanceCheck, checks
from tests.soak import count

__all__ = ["one_of_each_operation"]


def one_of_each_operation() -> list[ConformanceCheck]:
    """Return the first check of each operation; in a soak, all checks."""
    first = {check.operation: check for check in reversed(checks())}
    return [check for check in checks() if count(0, 1) or first[check.operation] is check]
