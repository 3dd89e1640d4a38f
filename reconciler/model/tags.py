"""The tags of datasets, as blocks ask for them and as the data has them.

The target of a tag is a text: ``42``, or ``branch:42`` where the branch is not the main one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MAIN_BRANCH = "main"

SEGMENT = r"(?!\.)(?!\S*\.\.)[A-Za-z0-9._-]+(?<!\.)(?<!\.lock)"
"""A tag, or a part of a branch. pylance 14 writes a tag with another letter, and can then list none."""

PIN = "lancens-clone-"
"""The beginning of the tags by which lancens keeps the bases of clones."""

_LONGEST = 100  # the entry lists the tags in one property
_NAME = re.compile(SEGMENT)
_BRANCH = re.compile(r"(?!.*\.\.)[\w.-]+(/[\w.-]+)*(?<!\.lock)")


class TagTarget(NamedTuple):
    """The version that a tag leads to."""

    version: int
    branch: str = MAIN_BRANCH

    def __str__(self) -> str:
        return str(self.version) if self.branch == MAIN_BRANCH else f"{self.branch}:{self.version}"

    @classmethod
    def of(cls, text: str) -> TagTarget:
        """Return the target that ``text`` says."""
        branch, _, version = text.rpartition(":")
        return cls(int(version), branch or MAIN_BRANCH)


@dataclass(frozen=True, slots=True)
class FoundTags:
    """The tags in question that a dataset has, and the names of wanted ones whose version it lacks."""

    there: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def tag_name_problem(name: str) -> str | None:
    """Return why a tag cannot have this name; None if it can."""
    if len(name) <= _LONGEST and _NAME.fullmatch(name):
        return None
    shape = "with no dot at an end, no two in a row and no `.lock` last"
    return f"expected at most 100 ASCII letters, digits, `.`, `-` and `_`, {shape}"


def branch_name_problem(name: str) -> str | None:
    """Return why no branch can have this name; None if one can."""
    if _BRANCH.fullmatch(name):
        return None
    return "expected letters, digits, `.`, `-` and `_`, in parts with `/` between, and no two dots in a row"
