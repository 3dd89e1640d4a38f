"""The error tree of lancens.

Every error a user can cause or meet is a :class:`LancensError`; its text is complete (what, where, what to do)
and safe to print: it never holds a secret. Backends raise ``lance_namespace.errors`` types instead, because they
are Lance namespaces in their own right; :class:`CatalogError` is how the rest of lancens reports those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ApplyError",
    "CatalogError",
    "ConfigError",
    "LancensError",
    "ManifestError",
    "MissingExtraError",
    "PlanError",
    "PlanFileError",
    "Problem",
    "SafetyError",
    "SelectionError",
    "StalePlanError",
]


class LancensError(Exception):
    """Base of every error lancens reports; ``str(error)`` is what the user reads."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault at one place: ``file:line:column: message``.

    ``line`` and ``column`` count from 1; 0 means that the whole file is meant.
    """

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        if not self.line:
            return f"{self.file}: {self.message}"
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class _ProblemsError(LancensError):
    """Several faults reported together, so that one run shows them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        files = len({problem.file for problem in self.problems})
        summary = f"{_count(len(self.problems), 'error')} in {_count(files, 'file')}. Nothing was read or changed."
        super().__init__("\n".join([*map(str, self.problems), summary]))


class ManifestError(_ProblemsError):
    """The manifest cannot be used; raised before any catalog is read."""


class ConfigError(LancensError):
    """A catalog's ``config`` is incomplete or wrong."""


class MissingExtraError(LancensError):
    """A backend or command needs a package that is not installed; the message names the pip command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed: pip install 'lancens[{extra}]'")


class CatalogError(LancensError):
    """A catalog could not be read completely, or refused a change.

    ``code`` is the ``lance_namespace`` error code (see ``lance_namespace.errors.ErrorCode``).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class PlanError(LancensError):
    """Desired and live state cannot be reconciled as asked; carries every conflict found."""

    def __init__(self, conflicts: Sequence[str]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__("\n".join([*self.conflicts, f"{_count(len(conflicts), 'conflict')}. Nothing was changed."]))


class SafetyError(LancensError):
    """The plan would remove more than the manifest's thresholds allow."""


class SelectionError(LancensError):
    """``--select`` or ``--catalog`` names nothing."""


class PlanFileError(LancensError):
    """A saved plan cannot be read, or is of a format this version does not know."""


class StalePlanError(LancensError):
    """Something a saved plan touches has moved since it was made."""


class ApplyError(LancensError):
    """Apply could not start, or some changes failed."""
