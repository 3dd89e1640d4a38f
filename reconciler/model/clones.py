"""Shallow clones: the version of a dataset that a clone refers to, and why there can be none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconciler.model import locations
from reconciler.model.columns import Schema
from reconciler.model.tags import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class CloneBase:
    """The version of a dataset that a clone shares its files with.

    ``transaction`` identifies the commit of the version. It tells the dataset from another one that was later written
    at its location. ``tag`` is the tag by which the version was found, ``rows`` is None if storage cannot tell them.
    ``pin``: whether a tag of lancens is to keep the version as long as the clone has its entry. ``columns`` are those
    that the data of the clone has before its block's are applied; None if the block has none.
    """

    location: str
    version: int
    transaction: str
    tag: str | None = None
    branch: str = MAIN_BRANCH
    rows: int | None = None
    pin: bool = False
    columns: Schema | None = None

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
    FIXED_COLUMNS = "fixed-columns"
    """pylance cannot add the columns of the clone's block. ``detail`` says why."""
    BLOBS = "blobs"
    """pylance 14 reads blobs of the first format in the directory of the clone only. ``detail`` is the column."""
    OTHER_STORE = "other-store"
    """Across stores, pylance 14 cannot write a clone at the target. ``detail`` says why, if there is more to say."""
    STABLE_ROW_IDS = "stable-row-ids"
    """Across stores, no commit can keep stable row ids."""
    OLD_INDEX = "old-index"
    """Across stores, pylance 14 loses vector indices whose details no manifest has. ``detail`` is the index."""
    UNCOUNTED = "uncounted"
    """Across stores, no commit can take over fragments whose rows or deleted rows were never counted."""
    UNKNOWN_FEATURES = "unknown-features"
    """Across stores, the version has features that no commit here takes over. ``detail`` names them."""


@dataclass(frozen=True, slots=True)
class CloneRefusal:
    """Why there is no clone; ``detail`` is the missing tag or version, or what else the problem says."""

    problem: CloneProblem
    detail: str = ""
