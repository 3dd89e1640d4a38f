"""Applied again after a crash at any write, a manifest is carried out as a model says that uses no plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import count, seeded
from tests.torture.crashes import run_crashes
from tests.torture.memory import SERVICES

_IN_FULL = 200_000 // len(SERVICES)


@pytest.mark.soak
@pytest.mark.parametrize("name", SERVICES)
def test_after_a_crash_at_any_write_the_end_is_what_the_model_says(name: str, tmp_path: Path) -> None:
    dice = seeded(f"crash points {name}")
    points = 0
    while points < count(45, _IN_FULL):
        points += run_crashes(dice.randrange(2**31), tmp_path, [name]).points
