"""The choices of a reader: colour, width, folding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.planner.entries import Key


@dataclass(frozen=True, slots=True)
class Look:
    """How a plan is rendered.

    Args:
        color: use ANSI colours (text only).
        full: fold and shorten nothing (text only; the other formats fold what can be unfolded).
        width: terminal cells a line may take, None for no limit (text only).
        removed: what to say of the data of tables that are deregistered; it is no part of the plan (not in JSON).
    """

    color: bool = False
    full: bool = False
    width: int | None = None
    removed: Mapping[Key, str] = field(default_factory=dict)
