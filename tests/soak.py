"""The full count of a long check under `make soak`, a sample of it otherwise; seeds that can be run again."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["count", "in_full", "sampled", "seeded"]

OneT = TypeVar("OneT")

in_full = pytest.mark.skipif("LANCENS_SOAK" not in os.environ, reason="`make soak` runs it")
"""A test that takes long beside what it adds to others of ``make test``."""


def count(sample: int, full: int) -> int:
    """Return how often to do something that takes long."""
    return full if os.environ.get("LANCENS_SOAK") else sample


def sampled(every: Sequence[OneT], step: int) -> Sequence[OneT]:
    """Return all of them, or each ``step``-th: for what runs in full on something that is nearly the same."""
    return every[:: count(step, 1)]


def seeded(what: str) -> random.Random:
    """Return a source of randomness: equal in each `make test`, new in each soak, whose seed is printed.

    LANCENS_SEED runs a soak again.
    """
    if not os.environ.get("LANCENS_SOAK"):
        return random.Random(what)
    seed = int(os.environ.get("LANCENS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"{what}: LANCENS_SEED={seed}", file=sys.__stdout__, flush=True)  # a test that reads stdout drops the other
    return random.Random(seed)
