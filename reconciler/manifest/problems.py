"""The errors of all files, collected so that one run reports them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.manifest.nodes import Position, split_position
from reconciler.model.desired import Source
from reconciler.model.display import did_you_mean
from reconciler.model.errors import ManifestError, Problem

_MOST_PROBLEMS = 1000


class SourceFile(NamedTuple):
    """One file of a manifest: ``name`` as seen from the current folder, ``folder`` absolute."""

    name: str
    folder: str


@dataclass
class Problems:
    """The files read so far, and the errors found in them.

    Every method that adds an error raises :class:`ManifestError` once there are too many.
    """

    files: list[SourceFile] = field(default_factory=list)
    _found: set[Problem] = field(default_factory=set)

    def at(self, position: Position, message: str) -> None:
        """Add an error at ``position``."""
        self.add(self.source(position).problem(message))

    def in_file(self, name: str, message: str) -> None:
        """Add an error of a whole file, perhaps one that cannot be read."""
        self.add(Problem(name, 0, 0, message))

    def add(self, problem: Problem) -> None:
        """Add an error."""
        if problem not in self._found and len(self._found) == _MOST_PROBLEMS:
            # Messages are slow to make, and a hostile file can have a million errors.
            raise ManifestError([*self._in_order(), Problem(problem.file, 0, 0, "more errors are not shown")])
        self._found.add(problem)

    def _in_order(self) -> list[Problem]:
        numbers = {file.name: number for number, file in enumerate(self.files)}
        return sorted(self._found, key=lambda problem: (numbers.get(problem.file, -1), problem))

    def __len__(self) -> int:
        return len(self._found)

    def source(self, position: Position) -> Source:
        """Return ``position`` as a plan keeps it."""
        file, line, column = split_position(position)
        return Source(self.files[file].name, line, column)

    def shown(self, position: Position) -> str:
        """Return ``position`` as an error names it."""
        return self.source(position).exact

    def folder(self, position: Position) -> str:
        """Return the absolute folder that relative paths at ``position`` start from."""
        return self.files[split_position(position)[0]].folder

    def raise_if_any(self) -> None:
        """Raise the errors found.

        Raises:
            ManifestError: there is at least one error.
        """
        if self._found:
            raise ManifestError(self._in_order())


def expected_keys(key: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the nearest valid one, or all of them."""
    names = list(known)
    return did_you_mean(key, names, "expected " + ", ".join(f"`{name}`" for name in names))
