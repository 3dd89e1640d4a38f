"""Shallow clones: the version of a dataset that a clone refers to, and why there can be none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconciler.model import locations
from reconciler.model.tags import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class CloneBase:
    """The version of a dataset that a clone shares its files with.

    ``transaction`` identifies the commit of the version. It tells the dataset from another one that was later written
    at its location. ``tag`` is the tag by which the version was found, ``rows`` is None if storage cannot tell them.
    """

    location: str
    version: int
    transaction: str
    tag: str | None = None
    branch: str = MAIN_BRANCH
    rows: int | None = None

    def is_same_version(self, other: CloneBase | None) -> bool:
        """Return whether both are the same version of the same dataset, whatever tag leads to it."""
        return (
            other is not None
            and locations.same(self.location, other.location)
            and (self.branch, self.version, self.transaction) == (other.branch, other.version, other.transaction)
        )


class CloneProblem(Enum):
    """Why a dataset cannot be cloned."""

    MISSING_TAG = "missing-tag"
    MISSING_VERSION = "missing-version"
    DAMAGED = "damaged"
    INSIDE = "inside"
    """Base and clone would lie at one location, or one inside the other."""
    LOCAL_BASE = "local-base"
    """No dataset in an object store may refer to the disk of this machine."""
    OTHER_STORE = "other-store"


@dataclass(frozen=True, slots=True)
class CloneRefusal:
    """Why there is no clone; ``detail`` is the missing tag or version, or what is wrong with the data."""

    problem: CloneProblem
    detail: str = ""
