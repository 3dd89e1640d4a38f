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
    """What one rendering leaves out; true if it leaves out anything, so that it cannot approve the plan.

    ``limits`` is whether long values and lists are cut at all. Names in the sentence of a note are not counted: a note
    changes nothing.
    """

    limits: bool = True
    rows: Counter[str] = field(default_factory=Counter)
    names: int = 0
    values: int = 0
    schemas: int = 0
    notes: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.names or self.values or self.schemas or self.notes)

    def short(self, text: str, limit: int) -> str:
        """Return ``text`` in at most ``limit`` cells, with its middle left out if it is longer."""
        shown = display.shorten(text, limit) if self.limits else text
        self.values += shown != text
        return shown

    def first(self, names: Sequence[ItemT], most: int) -> Sequence[ItemT]:
        """Return the first ``most`` names; "and N more" stands for the others."""
        shown = names[:most] if self.limits else names
        self.names += len(names) - len(shown)
        return shown
