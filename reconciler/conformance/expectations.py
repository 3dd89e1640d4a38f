"""What a check expects, and how it ends where that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lance_namespace.errors import LanceNamespaceError, UnsupportedOperationError

from reconciler.model.errors import BackendError

_Coded: TypeAlias = type[LanceNamespaceError] | type[BackendError]


class FaultError(AssertionError):
    """The namespace does not do what the contract says; the message says what was expected and what came."""


class NotApplicable(Exception):  # noqa: N818 - it is not an error
    """The namespace cannot do this and says so; the message says what."""


class NotAsked(NotApplicable):
    """The check is for backends of lancens: the specification does not say, or has no operation for, what it asks."""


def need(able: bool, reason: str) -> None:
    """End the check as not applicable unless the backend is ``able``."""
    if not able:
        raise NotApplicable(reason)


def equal(what: str, actual: object, wanted: object) -> None:
    """Find fault unless ``actual`` is ``wanted``."""
    if actual != wanted:
        raise FaultError(f"{what}: expected {wanted!r}, got {actual!r}")


def raises(wanted: _Coded | tuple[_Coded, ...], call: Callable[[], object]) -> None:
    """Find fault unless ``call`` raises ``wanted`` with the code that belongs to it."""
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        answer = call()
    except kinds as error:
        if error.code not in {kind.code for kind in kinds}:
            raise FaultError(f"expected the code of {names}, got {error.code}") from error
    except (NotApplicable, NotImplementedError, UnsupportedOperationError):
        raise  # what that means, whoever runs the check knows
    except Exception as error:
        raise FaultError(f"expected {names}, got {type(error).__name__}: {error}") from error
    else:
        raise FaultError(f"expected {names}, got the answer {answer!r}")
