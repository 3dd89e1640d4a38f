"""Collecting the faults of all files, so that one run reports them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from reconciler.manifest.nodes import Place, position
from reconciler.model.desired import Source
from reconciler.model.errors import ManifestError, Problem

_MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a manifest: ``name`` as seen from the current folder, ``folder`` absolute, ``path`` real."""

    name: str
    folder: str
    path: str


@dataclass
class Faults:
    """The files read so far, and what is wrong with them.

    Every method that adds a fault raises :class:`ManifestError` once there are more than anybody reads.
    """

    files: list[SourceFile] = field(default_factory=list)
    _found: dict[tuple[int, int, int, str], Problem] = field(default_factory=dict)

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
        if order not in self._found and len(self._found) == _MOST_PROBLEMS:
            # Explaining is slow, and a hostile file can need it a million times.
            raise ManifestError([*self._sorted(), Problem(problem.file, 0, 0, "more errors are not shown")])
        self._found.setdefault(order, problem)

    def _sorted(self) -> list[Problem]:
        return [problem for _, problem in sorted(self._found.items())]

    def __len__(self) -> int:
        return len(self._found)

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
        if self._found:
            raise ManifestError(self._sorted())


def expected_keys(key: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the nearest valid one, or all of them."""
    names = list(known)
    nearest = get_close_matches(key, names, n=1)
    if nearest:
        return f"did you mean `{nearest[0]}`?"
    return "expected " + ", ".join(f"`{name}`" for name in names)
