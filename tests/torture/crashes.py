"""Runs in this process: a manifest is applied, and from what was there after each write it is applied again.

``python -m tests.torture.crashes --points 20000`` draws new seeds; a violation ends with the command that replays it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.errors import LancensError
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.planner.plan import Plan
from tests.torture.directory_in_memory import DirectoryInMemory
from tests.torture.manifests import set_up, write_manifest
from tests.torture.memory import SECOND_SERVICES, SERVICES, memory
from tests.torture.model import Model
from tests.torture.others import Act, do
from tests.torture.recorded import Recorded
from tests.torture.scenario import Scenario, draw
from tests.torture.shrinking import shrunk, told
from tests.torture.tally import Violation, difference
from tests.torture.targets.base import OWNER, Room
from tests.unit.applier.world import Crash, WriteFault

__all__ = ["DISK", "Crashes", "in_memory", "played", "run_crashes"]

_NAMES = re.compile(r"\S*/\S*|'[^']*'")
"""What differs between two violations of one kind."""
_DISK_IN_MEMORY = Path("/dev/shm")
_NEIGHBOUR = ("next",)
_LONGEST_CHAIN = 3
"""How often in a row a run is killed."""
_FAULTS = (*(None,) * 4, *WriteFault)
"""What may happen to a write."""


@dataclass
class Crashes:
    """A scenario that is played with a crash after each write; ``points`` counts them, and ``writes`` by their name."""

    target: Recorded
    scenario: Scenario
    seed: str
    points: int = 0
    writes: Counter[str] = field(default_factory=Counter)
    room: Room = field(init=False)
    manifest: Manifest = field(init=False)
    neighbour: Manifest = field(init=False)
    """Another manifest of the same catalog, which others apply."""

    def play(self) -> None:
        """Play it.

        Raises:
            Violation: a promise was not kept, after which crash is said.
        """
        self.room = self.target.room()
        try:
            with self.target.installed():
                self._play()
        finally:
            self.target.forget(self.room)

    def _play(self) -> None:
        set_up(self.target, self.room, self.scenario)
        self.neighbour = self._neighbour()
        second = self.target.second if self.scenario.second else None
        models = [Model(self.target, self.room, tuple(self.scenario.before))]
        models += [Model(second, self.room)] if second else []
        for number in range(len(self.scenario.manifests)):
            if number == 1:
                self._others_act(self.scenario.between, models[0])
            models = self._apply(number, models)

    def _neighbour(self) -> Manifest:
        """Write and read a manifest of another name, with a namespace of its own."""
        catalog = {
            "impl": self.target.impl,
            "config": dict(self.target.config(self.room)),
            "scope": list(self.target.scope(self.room)),
            "namespaces": _nested(self.target.identifier(self.room, _NEIGHBOUR), {"tables": {"next": {}}}),
        }
        file = self.room.folder / "neighbour.yaml"
        file.write_text(json.dumps({"version": 1, "name": "neighbour", "catalogs": {"lake": catalog}}), "utf-8")
        return reconciler.load(file)

    def _neighbour_applies(self, model: Model) -> None:
        """Let others apply their manifest, where what stands above is there."""
        before, above = self._whole_state(), self.target.above(self.room)
        if above and f"namespace {'/'.join(above)}" not in before:
            return
        plan = reconciler.plan(self.neighbour, parallelism=1)
        report = reconciler.apply(plan, self.neighbour, journal=self.room.folder / "neighbour", parallelism=1)
        if not report.ok:
            raise Violation(f"a second manifest fails: {[one.message for one in report.results]}")
        if not reconciler.plan(self.neighbour, parallelism=1).is_empty:
            raise Violation("a second manifest has something left to do")
        name = "/".join(self.target.identifier(self.room, _NEIGHBOUR))
        changed = {key for key, value in self._whole_state().items() if before.get(key) != value}
        if changed - {f"namespace {name}", f"table {name}/next"}:
            raise Violation(f"a second manifest changes what is not its own: {sorted(changed)}")
        model.happened(Act("space", _NEIGHBOUR))
        model.happened(Act("add", (*_NEIGHBOUR, "next")))

    def _others_act(self, acts: Sequence[Act], model: Model) -> None:
        for act in acts:
            do(self.target, self.room, act)
            model.happened(act)

    def _apply(self, number: int, models: list[Model]) -> list[Model]:
        """Apply a manifest, and again from what was there after each write; return what is known at the end."""
        own = self.scenario.second[number] if self.scenario.second else None
        file = write_manifest(
            self.target, self.room, self.scenario.manifests[number], own, mirrors=self.scenario.mirrors
        )
        self.manifest = reconciler.load(file)
        plan = self._plan()
        with self._crashing(f"manifest {number}") as again:
            self._carry_out(plan, skip_blocked=self._skips(number))
            self._expect_done(number, self._copies(models))
            again(lambda dice: self._recover(number, self._copies(models), plan, dice))
        if self.scenario.manifests[number].upkeep:
            self._maintain(number)
        self._others_act(self.scenario.meanwhile[number], models[0])
        self._expect_done(number, models)
        return models

    @contextmanager
    def _crashing(self, what: str) -> Iterator[Callable[[Callable[[random.Random], None]], None]]:
        """Note all moments of what is done, and yield what goes back to each of them; the end stays."""
        begin, ledger, moments = self.target.moment, self.target.ledger, list[Any]()
        ledger.after, before = lambda: moments.append(self.target.moment), len(ledger.writes)

        def again(recover: Callable[[random.Random], None]) -> None:
            ledger.after, end, done = _nothing, self.target.moment, ledger.writes[before:]
            self.writes.update(name.partition(" ")[0] for name in done)
            for crash, moment in enumerate([begin, *moments[:-1]] if moments else []):
                self.target.go_back(moment)
                try:
                    recover(random.Random(f"{self.seed} {what} {crash}"))
                except Violation as violation:
                    at = f"{what}, killed after {crash} of {len(done)} writes: {', '.join(done[:crash][-2:])}"
                    raise Violation(f"{violation}\n  {at}") from None
            self.target.go_back(end)

        try:
            yield again
        finally:
            ledger.after = _nothing

    def _maintain(self, number: int) -> None:
        """Carry out the jobs of `maintain`, and again after a crash at each, which may change no row and no entry."""
        expected = self._rows()
        plan = plan_maintenance(self.manifest, parallelism=1)

        def carry_out(jobs: Plan) -> None:
            self.points += 1
            report = maintain(jobs, self.manifest, journal=self.room.folder / "journal", parallelism=1)
            if not report.ok:
                raise Violation(f"maintain fails: {[one.message for one in report.results if one.message]}")
            if (found := self._rows()) != expected:
                raise Violation(f"changed by maintain: {difference(expected, found)}")
            if left := plan_maintenance(self.manifest, parallelism=1).changes:
                raise Violation(f"after maintain there are jobs: {[one.address for one in left]}")

        with self._crashing(f"maintain {number}") as again:
            carry_out(plan)
            again(lambda dice: carry_out(plan if dice.random() < 0.5 else plan_maintenance(self.manifest)))

    def _rows(self) -> Mapping[str, object]:
        """Return all entries, and what the datasets show but for their versions."""
        data = self.target.data(self.room)
        shown = {key: {**one, "versions": ""} if isinstance(one, Mapping) else one for key, one in data.items()}
        return {**self._whole_state(), **shown}

    @staticmethod
    def _copies(models: Sequence[Model]) -> list[Model]:
        return [model.copy() for model in models]

    def _recover(self, number: int, models: list[Model], plan: Plan, dice: random.Random) -> None:
        """Let others act after a crash, and apply the saved plan or a new one, perhaps with further crashes."""
        if dice.random() < 0.3:
            self._others_act(self.scenario.meanwhile[number], models[0])
        if dice.random() < 0.2:
            self._others_act(self._drift(number, dice), models[0])
            plan = self._plan()
        if dice.random() < 0.1 and self.scenario.manifests[number].prune == "owned" and not self.scenario.mirrors:
            self._neighbour_applies(models[0])
        if dice.random() < 0.1:
            self._carry_out_part(number, dice)
            plan = self._plan()
        if dice.random() < 0.2:
            self._carry_out_with_faults(
                number, self._copies(models), plan if dice.random() < 0.5 else self._plan(), dice
            )
        for _ in range(dice.choice((0, 0, 1, _LONGEST_CHAIN))):
            self.points += 1
            with self._dies_after(dice.randrange(1, 4)):
                again = plan if dice.random() < 0.5 else self._plan()
                try:
                    self._carry_out(again, skip_blocked=self._skips(number))
                except Crash:
                    continue
                break
        self.points += 1
        self._carry_out(plan if dice.random() < 0.5 else self._plan(), skip_blocked=self._skips(number))
        self._expect_done(number, models)

    def _carry_out_with_faults(self, number: int, models: list[Model], plan: Plan, dice: random.Random) -> None:
        """Apply while writes fail or lose their responses; an apply that reports success has to be done."""
        self.points += 1
        ledger = self.target.ledger
        ledger.fault = lambda: dice.choice(_FAULTS)
        try:
            report = self._applied(plan, skip_blocked=self._skips(number))
        finally:
            ledger.fault = _nothing
        if report.ok:
            self._expect_done(number, models)

    def _drift(self, number: int, dice: random.Random) -> Sequence[Act]:
        """Draw a change of a value that the manifest gives one of its tables."""
        wanted, state = self.scenario.manifests[number], self.target.state(self.room)
        asked = {
            path: sorted(wanted.properties_of(path))
            for path, table in wanted.tables.items()
            if not table.differs and f"table {'/'.join(self.target.identifier(self.room, path))}" in state
        }
        known = [path for path, keys in asked.items() if keys]
        if not known or not self.target.abilities.updates:
            return ()
        path = dice.choice(known)
        return (Act("change", path, {dice.choice(asked[path]): "drifted"}),)

    def _carry_out_part(self, number: int, dice: random.Random) -> None:
        """Apply the part of a manifest that is in one namespace, and check that the rest stays as it is."""
        wanted = self.scenario.manifests[number]
        spaces = sorted({path[:-1] for path in wanted.tables if len(path) > 1})
        if not spaces:
            return
        space = dice.choice(spaces)
        above = "/".join(self.target.identifier(self.room, space))
        plan = self._plan(select=[f"{OWNER.partition('/')[2]}/{above}/**"])
        before = self._whole_state()
        self._carry_out(plan, skip_blocked=True)
        after = self._whole_state()
        inside = [f"namespace {above}", f"namespace {above}/", f"table {above}/"]
        left = [old for new, old in wanted.spaces.items() if space[: len(new)] == new or new[: len(space)] == space]
        inside += [f"table {'/'.join(self.target.identifier(self.room, old))}/" for old in left]
        pairs = (*wanted.moves.items(), *wanted.spaces.items())
        moved = {path for pair in pairs if any(one[: len(space)] == space for one in pair) for path in pair}
        joined = ["/".join(self.target.identifier(self.room, path)) for path in moved]
        names = {f"{kind} {name}" for name in joined for kind in ("namespace", "table")}
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)} - names
        changed = {key for key in changed if not key.startswith(tuple(inside))}
        outside = [key for key in changed if not above.startswith(key.partition(" ")[2])]
        if outside:
            raise Violation(f"changed and not selected ({above}): {sorted(outside)}")

    def _whole_state(self) -> dict[str, Any]:
        second = self.target.second.state(self.room) if self.target.second else {}
        return {**self.target.state(self.room), **{f"second {key}": value for key, value in second.items()}}

    @contextmanager
    def _dies_after(self, writes: int) -> Iterator[None]:
        ledger = self.target.ledger
        ledger.crash_after, before = len(ledger.writes) + writes, len(ledger.writes)
        try:
            yield
        finally:
            del ledger.writes[before:]
            ledger.revive()

    def _plan(self, select: Sequence[str] = ()) -> Plan:
        try:
            return reconciler.plan(self.manifest, select=select, allow_mass_removal=True, parallelism=1)
        except LancensError as error:
            raise Violation(f"no plan: {error}") from None

    def _carry_out(self, plan: Plan, *, skip_blocked: bool) -> None:
        report = self._applied(plan, skip_blocked=skip_blocked)
        if not report.ok:
            told = "; ".join(f"{one.change.address}: {one.message}" for one in report.results if one.message)
            raise Violation(f"apply fails: {told}")

    def _applied(self, plan: Plan, *, skip_blocked: bool) -> reconciler.ApplyReport:
        try:
            return reconciler.apply(
                plan,
                self.manifest,
                journal=self.room.folder / "journal",
                allow_mass_removal=True,
                skip_blocked=skip_blocked,
                parallelism=1,
            )
        except LancensError as error:
            raise Violation(f"apply: {error}") from None

    def _skips(self, number: int) -> bool:
        """Return whether some of a manifest cannot be planned."""
        return any(one.blocked for one in (self.scenario.manifests[number], *self.scenario.second[number : number + 1]))

    def _expect_done(self, number: int, models: Sequence[Model]) -> None:
        """Check what the model says, and that nothing is left to do."""
        wanted = self.scenario.manifests[number]
        state, data = self.target.state(self.room), self.target.data(self.room)
        models[0].expect(wanted, state, data)
        if self.scenario.is_tagged:
            models[0].expect_tagged(wanted, data)
        second = self.target.second
        if second is not None and self.scenario.second:
            models[1].expect(self.scenario.second[number], second.state(self.room), data)
        if second is not None and self.scenario.mirrors:
            models[0].expect_mirrored(wanted, state, second.state(self.room))
        plan = self._plan()
        if plan.changes:
            told = ", ".join(f"{one.action.value} {one.address}" for one in plan.changes)
            raise Violation(f"after apply the plan is not empty: {told}")


def _nested(path: Sequence[str], block: dict[str, Any]) -> dict[str, Any]:
    """Return blocks of namespaces, the innermost of which is ``block``."""
    for name in reversed(path[1:]):
        block = {"namespaces": {name: block}}
    return {path[0]: block}


def _nothing() -> None:
    return None


@contextmanager
def cheap_digests() -> Iterator[None]:
    """Let scrypt take its fewest rounds."""
    scrypt = hashlib.scrypt
    with mock.patch.object(hashlib, "scrypt", lambda password, **options: scrypt(password, **{**options, "n": 2})):
        yield


DISK = "disk"
"""A real `dir` catalog with real datasets, beside the services in memory."""


def scenario_of(seed: int, folder: Path, services: Sequence[str] = SERVICES) -> tuple[Recorded, Scenario]:
    """Draw a service and what happens there."""
    name, dice = random.Random(f"{seed} service").choice(services), random.Random(seed)
    if name == DISK:
        directory = DirectoryInMemory(folder)
        scenario = draw(dice, directory.abilities, more=True)
        for wanted in scenario.manifests:
            wanted.upkeep = True
        return directory, scenario
    others = [one for one in SECOND_SERVICES if not name.startswith(one)]
    target = memory(name, folder, dice.choice(others) if dice.random() < 0.5 else "")
    second = target.second.abilities if target.second else None
    return target, draw(dice, target.abilities, second, more=True)


def run_crashes(seed: int, folder: Path, services: Sequence[str] = SERVICES) -> Crashes:
    """Play the scenario of one seed.

    Raises:
        Violation: a promise was not kept; the text has the smallest scenario that shows it.
    """
    target, scenario = scenario_of(seed, folder, services)
    return played(target, scenario, seed)


def played(target: Recorded, scenario: Scenario, seed: int) -> Crashes:
    """Play a scenario; ``seed`` decides what follows a crash.

    Raises:
        Violation: as of :func:`run_crashes`.
    """
    made = Crashes(target, scenario, str(seed))
    try:
        made.play()
    except Violation as violation:
        kind, text = _kind(violation), str(violation)
        smallest = shrunk(scenario, lambda smaller: kind == _violated(Crashes(target, smaller, str(seed)))[0])
        text = _violated(Crashes(target, smallest, str(seed)))[1] or text
        again = f"python -m tests.torture.crashes {_name_of(target)} --points 1 --seed {seed}"
        raise Violation(f"{text}\n  {told(smallest)}\n  {again}") from None
    return made


def _name_of(target: Recorded) -> str:
    return DISK if isinstance(target, DirectoryInMemory) else target.name


def _kind(violation: Violation) -> str:
    first, second, *_ = f"{violation}\n".split("\n")
    return first.partition(":")[0] + _NAMES.sub("", second)


def _violated(played: Crashes) -> tuple[str, str]:
    """Return what kind of violation a scenario has, and its text; a scenario that makes no sense has none."""
    try:
        played.play()
    except Violation as violation:
        return _kind(violation), str(violation)
    except (AttributeError, LookupError, LancensError):
        pass
    return "", ""


@contextmanager
def in_memory() -> Iterator[Path]:
    """Yield a new folder on a disk in memory, where there is one."""
    with tempfile.TemporaryDirectory(dir=_DISK_IN_MEMORY if _DISK_IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


def main() -> int:
    """Run until there were so many crash points, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("services", nargs="*", default=SERVICES)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--most", type=int, default=10)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    print(f"seeds from {seed}", flush=True)
    points, scenarios, violations = 0, 0, 0
    began = time.process_time()
    with in_memory() as folder, cheap_digests():
        while points < options.points and violations < options.most:
            try:
                points += run_crashes(seed + scenarios, folder, options.services).points
            except Violation as violation:
                violations += 1
                print(f"VIOLATION: {violation}", flush=True)
            scenarios += 1
            if options.points == 1:
                break
    seconds = time.process_time() - began
    rate = f"{points / seconds * 60:,.0f} a minute"
    print(f"{points:,} crash points of {scenarios:,} scenarios, {seconds:.0f} CPU s: {rate}; {violations} violations")
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
