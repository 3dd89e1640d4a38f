"""What a check is, and how it finds fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lance_namespace.errors import LanceNamespaceError, UnsupportedOperationError

from reconciler.conformance.context import CheckContext
from reconciler.conformance.outcomes import FaultError, NotApplicable, NotAsked
from reconciler.model.errors import BackendError


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """One promise of the contract. ``operation`` groups checks in a report; ``title`` says what holds."""

    name: str
    operation: str
    title: str
    run: Callable[[CheckContext], None]

    def __str__(self) -> str:
        return self.name


_registered: list[ConformanceCheck] = []

CheckFunction = Callable[[CheckContext], None]
_Coded: TypeAlias = type[LanceNamespaceError] | type[BackendError]


def check(operation: str, *, promised: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function as a check of ``operation``; its docstring is the title.

    What is ``promised`` by lancens of its backends, and not by the specification, is not asked of namespaces of others.
    """

    def register(function: CheckFunction) -> CheckFunction:
        def run(context: CheckContext) -> None:
            if promised and not context.is_ours:
                raise NotAsked("lancens promises this of its backends, the specification does not")
            function(context)

        title = (function.__doc__ or "").strip()
        _registered.append(ConformanceCheck(function.__name__, operation, title, run))
        return function

    return register


def registered() -> tuple[ConformanceCheck, ...]:
    """Return the checks registered so far, in the order of their definition."""
    return tuple(_registered)


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
