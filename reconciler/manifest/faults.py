"""Collecting the faults of all files, so that one run reports them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from reconciler.errors import ManifestError, Problem
from reconciler.manifest.nodes import Place, position
from reconciler.state import Source

__all__ = ["Faults", "SourceFile", "expected_keys"]

_MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a manifest: ``name`` as seen from the current folder, ``folder`` absolute, ``path`` real."""

    name: str
    folder: str
    path: str


@dataclass
class Faults:
    """The files read so far, and what is wrong with them."""

    files: list[SourceFile] = field(default_factory=list)
    _found: dict[tuple[int, int, int, str], Problem] = field(default_factory=dict)
    _more: int = 0

    def at(self, place: Place, message: str) -> None:
        """Add a fault at ``place``."""
        file, line, column = position(place)
        self._add((file, line, column, message), Problem(self.files[file].name, line, column, message))

    def in_file(self, name: str, message: str) -> None:
        """Add a fault of a whole file, perhaps one that could not be read."""
        self._add((-1, 0, 0, f"{name}: {message}"), Problem(name, 0, 0, message))

    def add(self, problem: Problem) -> None:
        """Add a fault that knows its place already."""
        numbers = {file.name: number for number, file in enumerate(self.files)}
        order = (numbers.get(problem.file, -1), problem.line, problem.column, problem.message)
        self._add(order, problem)

    def _add(self, order: tuple[int, int, int, str], problem: Problem) -> None:
        if len(self._found) < _MOST_PROBLEMS:
            self._found.setdefault(order, problem)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def source(self, place: Place) -> Source:
        """Return ``place`` as a plan keeps it."""
        file, line, column = position(place)
        return Source(self.files[file].name, line, column)

    def shown(self, place: Place) -> str:
        """Return ``place`` as an error names it."""
        file, line, column = position(place)
        return f"{self.files[file].name}:{line}:{column}"

    def folder(self, place: Place) -> str:
        """Return the absolute folder that relative paths at ``place`` start from."""
        return self.files[position(place)[0]].folder

    def raise_if_any(self) -> None:
        """Report what was found.

        Raises:
            ManifestError: there is at least one fault.
        """
        if not self._found:
            return
        problems = [problem for _, problem in sorted(self._found.items())]
        if self._more:
            problems.append(Problem(problems[-1].file, 0, 0, f"{self._more:,} more errors are not shown"))
        raise ManifestError(problems)


def expected_keys(key: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the nearest valid one, or all of them."""
    names = list(known)
    nearest = get_close_matches(key, names, n=1)
    if nearest:
        return f"did you mean `{nearest[0]}`?"
    return "expected " + ", ".join(f"`{name}`" for name in names)
