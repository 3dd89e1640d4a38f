"""Applied again after a crash at any write, a manifest is carried out as a model says that uses no plan."""

from __future__ import annotations

import time
from pathlib import Path
from unittest import mock

import pytest

from reconciler.applier.report import Status
from tests.soak import count, seeded
from tests.torture.crashes import DISK, in_memory, played, run_crashes
from tests.torture.memory import SERVICES, memory
from tests.torture.others import Act
from tests.torture.sabotages import SABOTAGES
from tests.torture.scenario import Existing, Scenario, Table, Wanted
from tests.torture.tally import Violation
from tests.torture.targets.base import OWNER

_IN_FULL = 200_000 // len(SERVICES)


@pytest.mark.soak
@pytest.mark.parametrize("name", SERVICES)
def test_after_a_crash_at_any_write_the_end_is_what_the_model_says(name: str) -> None:
    _play(name, count(45, _IN_FULL))


@pytest.mark.soak
def test_after_a_crash_at_any_write_of_real_datasets_too() -> None:
    _play(DISK, count(10, _IN_FULL // 10))


def _play(name: str, most: int) -> None:
    """Play scenarios until there were so many crash points; on a disk, each line of a journal would wait for it."""
    dice = seeded(f"crash points {name}")
    points, began = 0, time.process_time()
    with in_memory() as folder:
        while points < most:
            points += run_crashes(dice.randrange(2**31), folder, [name]).points
    minutes = (time.process_time() - began) / 60
    print(f"{name}: {points:,} crash points, {points / minutes:,.0f} a CPU minute", flush=True)


def test_what_is_broken_on_purpose_is_seen_and_the_scenario_shrunk(tmp_path: Path) -> None:
    before = [Existing("namespace", ("a",)), Existing("lance", ("a", "stale"), {"lancens.managed-by": OWNER})]
    wanted = Wanted({("a",): {"team": "ml"}, ("b",): None}, {("b", "users"): Table("create", {"tier": "gold"})})
    scenario = Scenario(False, before, (wanted, wanted), meanwhile=((Act("add", ("a", "late")),), ()))
    assert played(memory("hive2", tmp_path), scenario, 1).points
    with SABOTAGES["removes-no-table"](), pytest.raises(Violation) as raised:
        played(memory("hive2", tmp_path), scenario, 1)
    first, second, *_, again = str(raised.value).splitlines()
    assert first == "not what the manifest and others ask for:"
    assert second.strip() == "table a/stale is still there"
    assert again.strip() == "python -m tests.torture.crashes hive2 --points 1 --seed 1"
    assert not {"users", "late", "team"} & {*str(raised.value).replace("'", " ").split()}


def test_a_failed_change_that_is_reported_as_done_is_seen(tmp_path: Path) -> None:
    wanted = Wanted({("a",): None}, {("a", name): Table("create") for name in ("clicks", "orders", "users")})
    scenario = Scenario(False, (), (wanted, wanted))
    assert played(memory("hive2", tmp_path), scenario, 4).points
    with mock.patch.object(Status, "satisfies", property(lambda _: True)), pytest.raises(Violation) as raised:
        played(memory("hive2", tmp_path), scenario, 4)
    assert "not what the manifest and others ask for" in str(raised.value)


def test_a_table_that_others_make_anew_as_its_block_says_stays_theirs(tmp_path: Path) -> None:
    wanted = Wanted({("a",): None}, {("a", "clicks"): Table("register")})
    acts = (Act("remake", ("a", "clicks")),)
    scenario = Scenario(False, (), (wanted, wanted, Wanted({("a",): None})), between=acts, meanwhile=((), (), ()))
    assert played(memory("hive3", tmp_path), scenario, 1).points
