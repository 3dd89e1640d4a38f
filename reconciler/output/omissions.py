"""Count what a rendering of a plan leaves out: the one place for every cut and every shortening."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from reconciler.model import display

ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class Omissions:
    """Counts what one rendering leaves out; true if there is anything, so that it cannot approve the plan.

    Without ``may_cut``, nothing is cut. ``rows`` counts rows by word, ``details`` objects without their details. Names
    in a note are not counted: a note changes nothing.
    """

    may_cut: bool = True
    rows: Counter[str] = field(default_factory=Counter)
    names: int = 0
    values: int = 0
    schemas: int = 0
    notes: int = 0
    details: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.names or self.values or self.schemas or self.notes or self.details)

    def shorten(self, text: str, limit: int) -> str:
        """Return ``text``; if it takes more than ``limit`` cells, leave out its middle and count that."""
        shown = display.shorten(text, limit) if self.may_cut else text
        self.values += shown != text
        return shown

    def first(self, names: Sequence[ItemT], most: int) -> Sequence[ItemT]:
        """Return the first ``most`` names, and count the others; the caller writes "and N more"."""
        shown = names[:most] if self.may_cut else names
        self.names += len(names) - len(shown)
        return shown
