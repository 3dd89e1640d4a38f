"""Define the assertions of checks, and the exceptions that end a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lance_namespace.errors import LanceNamespaceError, UnsupportedOperationError

from reconciler.model.errors import BackendError

_Coded: TypeAlias = type[LanceNamespaceError] | type[BackendError]


class ViolationError(AssertionError):
    """The namespace violates the contract."""


class WrongErrorError(ViolationError):
    """The call fails as expected, but with an error of another class or code."""


class NotApplicable(Exception):  # noqa: N818 - it is not an error
    """The namespace declares that it lacks a capability; the message names it."""


class NotInSpecificationError(NotApplicable):
    """The check is for backends of lancens: the specification does not cover it."""


def require(condition: bool, reason: str) -> None:
    """Raise NotApplicable with ``reason`` unless the ``condition`` of a check holds."""
    if not condition:
        raise NotApplicable(reason)


def equal(label: str, actual: object, expected: object) -> None:
    """Raise ViolationError unless ``actual`` equals ``expected``."""
    if actual != expected:
        raise ViolationError(f"{label}: expected {expected!r}, got {actual!r}")


def raises(expected: _Coded | tuple[_Coded, ...], call: Callable[[], object]) -> None:
    """Raise ViolationError unless ``call`` raises ``expected`` with its code."""
    kinds = expected if isinstance(expected, tuple) else (expected,)
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        answer = call()
    except kinds as error:
        if error.code not in {kind.code for kind in kinds}:
            raise WrongErrorError(f"expected the code of {names}, got {error.code}") from error
    except (NotApplicable, NotImplementedError, UnsupportedOperationError):
        raise  # run_check decides what these mean
    except Exception as error:
        raise WrongErrorError(f"expected {names}, got {type(error).__name__}: {error}") from error
    else:
        raise ViolationError(f"expected {names}, got the answer {answer!r}")
