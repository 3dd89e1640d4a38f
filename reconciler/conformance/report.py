"""Run checks and report their results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Unpack

from lance_namespace import ListNamespacesRequest
from lance_namespace.errors import UnsupportedOperationError

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.conformance.context import REGISTERED, CheckOptions, ConformanceCheck, as_namespace, check_context
from reconciler.conformance.expectations import NotApplicable, NotInSpecificationError, WrongErrorError
from reconciler.conformance.others import OthersNamespace
from reconciler.conformance.others import connect as connect_others
from reconciler.model import display, locations
from reconciler.model.errors import ConfigError
from reconciler.model.names import join


class CheckOutcome(Enum):
    """The outcome of a check."""

    PASSED = "ok"
    FAILED = "FAILED"
    WRONG_ERROR = "error"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check; ``detail`` has the violation or missing capability."""

    check: ConformanceCheck
    outcome: CheckOutcome
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether the behaviour or the class of an error is wrong."""
        return self.outcome in (CheckOutcome.FAILED, CheckOutcome.WRONG_ERROR)


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks against one catalog."""

    catalog: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not any(result.failed for result in self.results)

    def count(self, outcome: CheckOutcome) -> int:
        """Return the number of checks with ``outcome``."""
        return sum(result.outcome is outcome for result in self.results)

    def document(self) -> dict[str, object]:
        """Return the report as a JSON document."""
        return {
            "catalog": self.catalog,
            "results": [
                {
                    "operation": result.check.operation,
                    "check": result.check.name,
                    "title": result.check.title,
                    "outcome": result.outcome.value,
                    "detail": result.detail,
                }
                for result in self.results
            ],
        }

    def table(self) -> str:
        """Return a table of operations, outcomes and checks, with a last line of counts."""
        widest = max((len(result.check.operation) for result in self.results), default=0)
        lines = [display.message(self.catalog)]
        operation = ""
        for result in sorted(self.results, key=lambda result: result.check.operation.lower()):
            shown = "" if result.check.operation == operation else result.check.operation
            operation = result.check.operation
            lines.append(f"  {shown:<{widest}}  {result.outcome.value:<6}  {result.check.title}")
            if result.detail:
                lines.append(f"  {'':<{widest}}  {'':<6}    {display.message(result.detail)}")
        passed, failed, wrong, excluded = map(
            self.count,
            (CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.WRONG_ERROR, CheckOutcome.NOT_APPLICABLE),
        )
        wrong_text = f"{wrong} with an error of another class, " if wrong else ""
        lines.append(f"{passed} passed, {failed} failed, {wrong_text}{excluded} not applicable.")
        return "\n".join(lines)


def checks() -> tuple[ConformanceCheck, ...]:
    """Return every check, in order."""
    from reconciler.conformance import data, namespaces, tables, whole  # noqa: F401 - importing registers their checks

    return tuple(REGISTERED)


def run_check(
    check: ConformanceCheck, backend: Backend, connect: Callable[[], Backend], **options: Unpack[CheckOptions]
) -> CheckResult:
    """Run one check in a namespace of its own and return its result.

    ``connect`` returns another connection to the same catalog; ``options`` has the keys of :class:`CheckOptions`.
    """
    try:
        with check_context(backend, connect, **options) as context:
            check.run(context)
    except NotInSpecificationError:
        raise
    except NotApplicable as reason:
        return CheckResult(check, CheckOutcome.NOT_APPLICABLE, str(reason))
    except (NotImplementedError, UnsupportedOperationError) as error:
        # A backend declares what it lacks in its capabilities, so this error violates the contract.
        outcome = CheckOutcome.NOT_APPLICABLE if isinstance(backend, OthersNamespace) else CheckOutcome.FAILED
        return CheckResult(check, outcome, f"{type(error).__name__}: {error}")
    except WrongErrorError as violation:
        return CheckResult(check, CheckOutcome.WRONG_ERROR, str(violation))
    except AssertionError as violation:
        return CheckResult(check, CheckOutcome.FAILED, str(violation))
    except Exception as error:  # noqa: BLE001 - any unexpected error fails the check
        return CheckResult(check, CheckOutcome.FAILED, f"{type(error).__name__}: {error}")
    return CheckResult(check, CheckOutcome.PASSED)


def run(
    impl: str,
    config: Mapping[str, str],
    *,
    namespace: Sequence[str] = (),
    scratch: str | None = None,
    starting: Callable[[ConformanceCheck], None] | None = None,
    progress: Callable[[CheckResult], None] | None = None,
    writing: Callable[[str], None] | None = None,
) -> Report:
    """Run every check against the catalog that ``impl`` and ``config`` name.

    Each check works in a namespace of its own below ``namespace`` and removes the entries it made. Datasets go to the
    catalog's default locations and stay there, or under ``scratch`` (by default a temporary directory). ``starting`` is
    called with each check before it runs, ``progress`` with each result, ``writing`` before all with the place of
    datasets if that is not on this machine.

    ``impl`` is a backend, or the class path of any ``LanceNamespace``: only the operations of the specification are
    checked there, and an Unsupported operation does not apply.

    Raises:
        ConfigError: the catalog cannot be reached, or no namespace can be created in ``namespace``.
        MissingExtraError, InvalidInputError: see ``reconciler.backends.registry.connect``.
    """
    connect = _connector(impl, config)
    results = []
    with closing(connect()) as backend, tempfile.TemporaryDirectory(prefix="lancens-conformance-") as folder:
        options: CheckOptions = {"namespace": namespace, "scratch": scratch or folder}
        location = _require_working_location(backend, connect, options)
        if writing is not None and location is not None and _is_remote(location):
            writing(locations.place(location))
        for check in checks():
            if starting is not None:
                starting(check)
            try:
                result = run_check(check, backend, connect, **options)
            except NotInSpecificationError:
                continue
            results.append(result)
            if progress is not None:
                progress(result)
    return Report(backend.namespace_id(), tuple(results))


def _connector(impl: str, config: Mapping[str, str]) -> Callable[[], Backend]:
    """Return a function that connects to ``impl``, a backend or a class path."""
    if impl in registry.names():
        return partial(registry.connect, impl, config)
    if "." not in impl:
        registry.backend_class(impl)  # raises an error with the known names
    return connect_others(impl, config)


def _is_remote(location: str) -> bool:
    """Return whether a location is outside this machine."""
    return locations.path_of(location) is None and locations.scheme(location) != "shared-memory"


def _require_working_location(backend: Backend, connect: Callable[[], Backend], options: CheckOptions) -> str | None:
    """Check that namespaces can be listed and created; return where data is written.

    The location is None if it is not known.

    Raises:
        ConfigError: they cannot; the text has the reason.
    """
    namespace = options.get("namespace", ())
    shown = f"namespace `{join(namespace)}`" if namespace else "the root"
    try:
        as_namespace(backend).list_namespaces(ListNamespacesRequest(id=list(namespace), limit=1))
    except UnsupportedOperationError:
        pass
    except Exception as error:
        raise ConfigError(
            f"{backend.namespace_id()}: the namespaces of {shown} cannot be listed, so nothing was checked: "
            f"{error}; check `--config` and `--namespace`"
        ) from error
    kept_levels = backend.capabilities().kept_levels
    if len(namespace) < kept_levels:
        raise ConfigError(
            f"{backend.namespace_id()}: the service drops no namespace of the outermost level, so what the checks "
            "create there would stay; name one that exists with `--namespace`"
        )
    try:
        with check_context(backend, connect, **options) as context:
            with suppress(Exception):  # the checks report it
                return context.new_location((*context.base, "table"))
            return None
    except Exception as error:
        raise ConfigError(
            f"{backend.namespace_id()}: no namespace can be created and dropped in {shown}, so nothing was checked: "
            f"{error}; name a parent that allows it with `--namespace`"
        ) from error
