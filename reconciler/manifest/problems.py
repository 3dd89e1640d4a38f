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
    _problems: set[Problem] = field(default_factory=set)

    def add_at(self, position: Position, message: str) -> None:
        """Add an error at ``position``."""
        self.add(self.source(position).problem(message))

    def add_in_file(self, name: str, message: str) -> None:
        """Add an error without a position to file ``name``, which may be unreadable."""
        self.add(Problem(name, 0, 0, message))

    def add(self, problem: Problem) -> None:
        """Add an error."""
        if problem not in self._problems and len(self._problems) == _MOST_PROBLEMS:
            # Messages are slow to make, and a hostile file can have a million errors.
            raise ManifestError([*self._in_order(), Problem(problem.file, 0, 0, "more errors are not shown")])
        self._problems.add(problem)

    def _in_order(self) -> list[Problem]:
        numbers = {file.name: number for number, file in enumerate(self.files)}
        return sorted(self._problems, key=lambda problem: (numbers.get(problem.file, -1), problem))

    def __len__(self) -> int:
        return len(self._problems)

    def source(self, position: Position) -> Source:
        """Return ``position`` as file, line and column, the form that plans save."""
        file, line, column = split_position(position)
        return Source(self.files[file].name, line, column)

    def locate(self, position: Position) -> str:
        """Return ``position`` as text for an error, such as ``lake.yaml:3:5``."""
        return self.source(position).exact

    def folder(self, position: Position) -> str:
        """Return the absolute folder that relative paths at ``position`` start from."""
        return self.files[split_position(position)[0]].folder

    def raise_if_any(self) -> None:
        """Raise all errors in one exception, if there are any.

        Raises:
            ManifestError: with the errors in the order of files and lines.
        """
        if self._problems:
            raise ManifestError(self._in_order())


def expected_keys(key: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the nearest valid one, or all of them."""
    names = list(known)
    return did_you_mean(key, names, "expected " + ", ".join(f"`{name}`" for name in names))
