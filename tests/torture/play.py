"""Planning and applying in a room, and what has to hold after every step: the oracle."""

from __future__ import annotations

import json
import random
import re
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.errors import LancensError, PlanFileError, StalePlanError
from reconciler.model.reasons import ReasonCode
from reconciler.operations.connections import open_connections
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.planner.plan import Plan
from tests.plans import resealed
from tests.servers.lance_rest import served
from tests.torture.left import Storage
from tests.torture.manifests import SECOND, set_up, write_manifest
from tests.torture.model import Model, is_at, location_in
from tests.torture.others import Act, do, touched
from tests.torture.scenario import Scenario, Wanted, draw
from tests.torture.tally import Tally, Violation, difference
from tests.torture.targets.base import CANARY, OWNER, Path_, Room, Target, plain_state
from tests.torture.targets.http import Plain
from tests.torture.traces import Foreign, Journals, expect_no_secret, is_unclean, key_of

__all__ = [
    "IMPATIENT_SECONDS",
    "LONGEST_SECONDS",
    "Play",
    "drawn",
    "failures",
    "plays_of",
    "unread_in",
    "within",
]

LONGEST_SECONDS = 600
"""What takes longer counts as hanging: many times what the worst schedule of faults can cost."""
IMPATIENT_SECONDS = 2
_PATIENT, _IMPATIENT = "60", str(IMPATIENT_SECONDS)
_COMPARED = 0.2
_REWRITTEN = re.compile(r"(.*/)?(\.lance-[^/]*|latest_version_hint\.json|_refs/tags/.*)")
"""Marks of a directory, tags, and Lance's hint: every commit writes it again, and readers list the versions instead."""
ResultT = TypeVar("ResultT")


@dataclass
class Play:
    """A room of a server on which a scenario is played.

    ``faulty_port`` is where the proxy in front of the server listens, ``second_port`` that in front of the second
    catalog; without one, nothing is disturbed.
    """

    target: Target
    scenario: Scenario
    faulty_port: int = 0
    second_port: int = 0
    room: Room = field(init=False)
    files: dict[str, str] = field(init=False)
    model: Model = field(init=False)
    second_model: Model | None = field(init=False, default=None)
    wanted: Wanted = field(init=False)
    second_wanted: Wanted | None = field(init=False, default=None)
    storage: Storage | None = field(init=False)
    """None where nobody can say what is left there."""
    foreign: Foreign = field(init=False)
    journals: Journals = field(init=False)
    touched: set[str] = field(init=False, default_factory=set)
    """What others have changed in the state."""

    def __post_init__(self) -> None:
        self.room = self.target.room()
        set_up(self.target, self.room, self.scenario)
        self.files = self._lasting_files()
        self.storage = Storage(self.target.data(self.room))
        self.model = Model(self.target, self.room, tuple(self.scenario.before))
        self.foreign = Foreign(self.target.state(self.room))
        self.journals = Journals(self.room.folder / "journal")
        if self.second is not None:
            self.second_model = Model(self.second, self.room)

    @property
    def second(self) -> Target | None:
        """The second catalog, if the scenario has one."""
        return self.target.second if self.scenario.second or self.scenario.mirrors else None

    def write(self, number: int) -> Path:
        """Write the manifest of this number."""
        self.wanted = self.scenario.manifests[number]
        self.second_wanted = self.scenario.second[number] if self.scenario.second else None
        return write_manifest(self.target, self.room, self.wanted, self.second_wanted, mirrors=self.scenario.mirrors)

    def begin(self, number: int) -> None:
        """Write the manifest of this number, after others have acted."""
        self.write(number)
        if number:
            self.others_act(self.scenario.between, cleans_up=True)

    @property
    def skips(self) -> bool:
        """Whether some of the manifest cannot be planned."""
        return bool(self.wanted.blocked or (self.second_wanted and self.second_wanted.blocked))

    def others_act(self, acts: Sequence[Act], *, cleans_up: bool = False) -> None:
        """Let others act; where they remove old versions of their data, its files are looked at anew."""
        for act in acts:
            do(self.target, self.room, act)
            self.model.happened(act)
            if act.what == "write" and self.storage is not None:
                self.storage.written("-".join(act.path))
        keys = touched(self.target, self.room, acts)
        self.touched |= keys
        if keys:
            self.foreign.changed(self.target.state(self.room), keys)
        if cleans_up:
            self.files = self._lasting_files()

    def variables(self, *, faulty: bool, patient: bool = True, file: str = "lancens.yaml") -> dict[str, str]:
        """Return the values of the variables of a manifest."""
        port = self.faulty_port if faulty else self.target.port
        second = self.second_port if faulty and self.second_port else self.second.port if self.second else 0
        values = {"port": str(port), "patience": _PATIENT if patient else _IMPATIENT, SECOND: str(second)}
        text = (self.room.folder / file).read_text("utf-8")
        return {name: value for name, value in values.items() if f"${{var:{name}}}" in text}

    def manifest(self, *, faulty: bool, patient: bool = False) -> Manifest:
        variables = self.variables(faulty=faulty, patient=patient or not faulty)
        return reconciler.load(self.room.folder / "lancens.yaml", variables=variables)

    # ---- what lancens does ---------------------------------------------------------------------------------------

    def plan(self, manifest: Manifest | None = None, *, faulty: bool = False, parallelism: int = 4) -> Plan:
        manifest = manifest or self.manifest(faulty=faulty)
        return within(lambda: reconciler.plan(manifest, allow_mass_removal=True, parallelism=parallelism))

    def apply(
        self,
        plan: Plan,
        manifest: Manifest | None = None,
        *,
        faulty: bool = False,
        patient: bool = False,
        parallelism: int = 4,
    ) -> reconciler.ApplyReport:
        manifest = manifest or self.manifest(faulty=faulty, patient=patient)
        report = within(
            lambda: reconciler.apply(
                plan,
                manifest,
                journal=self.room.folder / "journal",
                allow_mass_removal=True,
                skip_blocked=self.skips,
                parallelism=parallelism,
            )
        )
        unclean = [result.message for result in report.results if is_unclean(result.message)]
        if unclean:
            raise Violation(f"not a message for people: {unclean}")
        return report

    def calm(self, *, through_serve: bool = False) -> None:
        """Apply what there is to do with nothing in the way; with ``through_serve``, first through `lancens serve`.

        That shows no secrets, so that it enters no table under another name; it makes a table's entry before its data,
        at another location than some catalogs by default; and in a directory it leaves an interrupted creation to
        whoever chose its location.
        """
        if through_serve and not self.wanted.moves and self.target.impl != "dir":
            with self._through_serve() as (_, manifest):
                plan = self.plan(manifest)
                makes_tables = any(change.kind == "table" and change.before is None for change in plan.changes)
                if not (makes_tables and self.target.abilities.data_first):
                    self._expect_ok(self.apply(plan, manifest))
        self._expect_ok(self.apply(self.plan()))
        self.expect_done()

    def _expect_ok(self, report: reconciler.ApplyReport) -> None:
        if not report.ok:
            raise Violation(f"a calm apply fails: {failures(report)}")

    def maintain(self, *, faulty_times: int = 0) -> None:
        """Carry out the jobs of the manifest's `maintain`, and check that no row, version or entry is gone by that.

        The first ``faulty_times`` go through the proxy. What they plan may be less where they could not read a dataset.
        """
        if not self.wanted.upkeep:
            return
        before, rows = self.state(), self._rows()
        for faulty in (*(True for _ in range(faulty_times)), False):
            manifest, truth = self.manifest(faulty=faulty), self._jobs(self.manifest(faulty=False))
            try:
                jobs = self._jobs(manifest)
                if (left := _changes(jobs, unread_in(jobs))) != (due := _changes(truth, unread_in(jobs))):
                    raise Violation(f"jobs that were planned of less than all:\n{difference(due, left)}")
                report = within(partial(maintain, jobs, manifest, journal=self.room.folder / "journal"))
            except LancensError:
                if not faulty:
                    raise
            else:
                if not (report.ok or faulty):
                    raise Violation(f"maintain fails: {failures(report)}")
        if left_over := self._jobs(self.manifest(faulty=False)).changes:
            raise Violation(f"after maintain there are jobs: {[change.address for change in left_over]}")
        if (after := self.state()) != before or self._rows() != rows:
            raise Violation(f"changed by maintain: {difference({**before, **rows}, {**after, **self._rows()})}")
        self.expect_files()
        self.storage = self.storage and Storage(self.target.data(self.room))

    @contextmanager
    def upkeep(self) -> Iterator[None]:
        """Check that jobs which are ended midway change no row and no column, and know the versions that they leave."""
        before = self._rows_of_datasets()
        yield
        if (left := self._rows_of_datasets()) != before:
            raise Violation(f"changed by maintain: {difference(before, left)}")
        self.storage = self.storage and Storage(self.target.data(self.room))

    def _rows_of_datasets(self) -> Mapping[str, Any]:
        return {key: held for key, held in self._rows().items() if isinstance(held, Mapping)}

    def _jobs(self, manifest: Manifest) -> Plan:
        return within(lambda: plan_maintenance(manifest))

    def _rows(self) -> Mapping[str, Any]:
        """Return what datasets show, but for their versions."""
        data = self.target.data(self.room)
        return {key: {**held, "versions": 0} if isinstance(held, Mapping) else held for key, held in data.items()}

    # ---- what has to hold ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what the server itself says is in the room."""
        return {**self.target.state(self.room), **{f"{SECOND} {key}": one for key, one in self.second_state().items()}}

    def second_state(self) -> dict[str, Any]:
        return dict(self.second.state(self.room)) if self.second else {}

    def expect_files(self) -> None:
        """Check that no file of data has gone or changed since the last look."""
        found = self.target.files(self.room)
        for name, digest in self.files.items():
            if found.get(name) != digest:
                raise Violation(f"data lost or changed: {name}")
        self.files = self._lasting_files(found)

    def _lasting_files(self, found: Mapping[str, str] | None = None) -> dict[str, str]:
        files = self.target.files(self.room) if found is None else found
        return {name: digest for name, digest in files.items() if not _REWRITTEN.fullmatch(name)}

    def expect_complete(self, plan: Plan) -> None:
        """Check that a plan that was made under faults is the plan that is made without.

        It may block tables whose storage it could not read, and says so.
        """
        truth = self.plan()
        unread = unread_in(plan)
        made, expected = _changes(plan, unread), _changes(truth, unread)
        if made != expected:
            raise Violation(f"a plan made of less than all:\n{difference(expected, made)}")

    def expect_only_planned(self, plan: Plan, before: Mapping[str, Any]) -> None:
        """Check that since ``before`` nothing has changed but what ``plan`` names."""
        planned = {
            key_of(change.catalog, change.kind, name)
            for change in plan.changes
            for name in (change.identifier, change.moved_from)
            if name is not None
        }
        planned |= self.target.implied(self.room, planned)
        after = self.state()
        others = {key for key in {*before, *after} if before.get(key) != after.get(key)} - planned - self.touched
        if others:
            left = {key: value for key, value in before.items() if key in others}
            right = {key: value for key, value in after.items() if key in others}
            raise Violation(f"changed and not planned:\n{difference(left, right)}")
        self.expect_journalled(before, after)

    def look(self) -> dict[str, Any]:
        """Return what the server holds, from when on journals have to tell what changes."""
        self.touched.clear()  # what others did before is in the state already
        self.journals.forget()
        return self.state()

    def expect_journalled(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Check that the journals since the last look tell what has changed, and that nothing shows a secret."""
        self.journals.expect(before, after, self.touched | self.target.implied(self.room, set(after)))
        expect_no_secret(self.room.folder, after)

    def expect_done(self) -> None:
        """Check that the manifest is carried out: by lancens' own plan, and by the model, which knows of none."""
        self.expect_no_more_to_do()
        self.expect_modelled()

    def expect_modelled(self) -> None:
        """Check that the servers hold what the model says."""
        state, data = self.target.state(self.room), self.target.data(self.room)
        self.model.expect(self.wanted, state, data)
        if self.scenario.is_tagged:
            self.model.expect_tagged(self.wanted, data)
        if self.second_model is not None and self.second_wanted is not None:
            self.second_model.expect(self.second_wanted, self.second_state(), data)
        second = self.second_state()
        if self.second is not None and self.scenario.mirrors:
            self.model.expect_mirrored(self.wanted, state, second)
        moves = self.wanted.moves.items()
        self.foreign.expect(state, {self._table_key(new): self._table_key(old) for new, old in moves})
        self._expect_served(state)
        if twice := [key for key in (*state, *second) if key.endswith(" again")]:
            raise Violation(f"there twice: {twice}")
        if self.storage is not None:
            entries = [entry for key, entry in (*state.items(), *second.items()) if key.startswith("table ")]
            manifests = [self.wanted, *([self.second_wanted] if self.second_wanted else [])]
            evolves = any(table.evolves for wanted in manifests for table in wanted.tables.values())
            self.storage.expect(data, entries, evolves=evolves)

    def _expect_served(self, state: Mapping[str, Any]) -> None:
        """Check that `lancens serve` in front of the catalog hands out every table with its location and no secret."""
        tables = {key: entry for key, entry in state.items() if key.startswith("table ") and not key.endswith(" again")}
        with self._through_serve() as (url, manifest):
            for key, entry in tables.items():
                route = quote(key.removeprefix("table ").replace("/", "$"), safe="")
                response = Plain(url)("POST", f"/v1/table/{route}/describe", {}, may=(400,))
                if CANARY in json.dumps(response) or (response is None) != (key in self.model.foreign):
                    raise Violation(f"serve describes {key} as {response}")
                if response is not None and not is_at(location_in(response), location_in(entry)):
                    raise Violation(f"serve: {key} is at {response['location']}, not {location_in(entry)}")
            if changes := self.plan(manifest).changes:
                raise Violation(f"through serve there is more to do: {[change.address for change in changes]}")

    @contextmanager
    def _through_serve(self) -> Iterator[tuple[str, Manifest]]:
        """Run `lancens serve` in front of the first catalog; yield its address, and the manifest of it there."""
        from reconciler.server.catalogs import OneCatalog

        name, manifest = OWNER.partition("/")[2], self.manifest(faulty=False)
        document = json.loads((self.room.folder / "lancens.yaml").read_text("utf-8"))
        with open_connections(manifest, [name]) as connections:
            catalog = OneCatalog(
                connections[name].backend, list(connections[name].spec.secrets), extra_locations=[str(self.room.lake)]
            )
            with served(catalog) as url:
                block = document["catalogs"][name]
                config = {"root": str(self.room.lake), **block["config"]}
                if self.target.impl == "iceberg":  # its default locations are not those of Lance REST below a `root`
                    del config["root"]
                passed = {key: value for key, value in config.items() if key.startswith(("root", "storage."))}
                block |= {"impl": "rest", "config": {**passed, "uri": url}}
                file = self.room.folder / "through.yaml"
                file.write_text(json.dumps({**document, "catalogs": {name: block}}), "utf-8")
                yield url, reconciler.load(file, variables=self.variables(faulty=False, file=file.name))

    def expect_agreed(self) -> None:
        """Check that what both manifests say of a table is so, whichever of them was applied last."""
        first, edited = self.scenario.manifests
        state = self.target.state(self.room)
        for path, table in first.tables.items():
            properties = first.properties_of(path)
            if edited.tables.get(path) == table and edited.properties_of(path) == properties:
                entry = json.dumps(state.get(self._table_key(path)))
                if entry == "null" or any(f'"{key}": "{value}"' not in entry for key, value in properties.items()):
                    raise Violation(f"applied twice, and {'/'.join(path)} is {entry}, not {properties}")

    def _table_key(self, path: Path_) -> str:
        return key_of("", "table", self.target.identifier(self.room, path))

    def expect_no_more_to_do(self) -> None:
        plan = self.plan()
        if plan.changes:
            raise Violation(f"after apply the plan is not empty:\n{difference({}, _changes(plan))}")
        told = {f"{one.catalog}/{'/'.join(one.identifier)}: {one.reason}" for one in plan.blocked}
        if told and not self.skips:
            raise Violation(f"blocked, for no reason: {sorted(told)}")

    def expect_same(self, reference: Play) -> None:
        """Check that a room holds what another one does in which nothing was disturbed."""
        expected, found = (plain_state(play.room, play.state()) for play in (reference, self))
        if expected != found:
            raise Violation(f"the server does not hold what it does without faults:\n{difference(expected, found)}")
        expected, found = (plain_state(play.room, play.target.data(play.room)) for play in (reference, self))
        if expected != found:
            raise Violation(f"storage does not hold what it does without faults:\n{difference(expected, found)}")

    def expect_refused(self) -> bool:
        """Let a saved plan be edited, and somebody change what it is about to, and check that nothing is carried out.

        Return whether there was such an object.
        """
        plan = Plan.from_json(self.plan().to_json())
        changed = self._changed_properties(plan)
        path = min((path for path, properties in changed.items() if properties), default=None)
        if path is None or not self.target.abilities.updates:
            return False
        self._expect_refused(Plan.from_json(_forged(plan)), "it was edited", (StalePlanError, PlanFileError))
        if self.target.can_be_pointed:
            place = self.target.place_of(self.room, path)
            self.target.point(self.room, path, f"{place}-elsewhere")
            self._expect_refused(plan, f"{'/'.join(path)} points elsewhere")
            self.target.point(self.room, path, place)
        self.target.change(self.room, path, {min(changed[path]): "changed by somebody else"})
        self._expect_refused(plan, f"{'/'.join(path)} has changed")
        return True

    def _expect_refused(self, plan: Plan, why: str, errors: tuple[type[LancensError], ...] = (StalePlanError,)) -> None:
        before = self.state()
        try:
            report = self.apply(plan)
        except errors:
            pass
        else:
            raise Violation(f"a plan is carried out, although {why}: {failures(report)}")
        if (after := self.state()) != before:
            raise Violation(f"a plan is refused and changes\n{difference(before, after)}")

    def _changed_properties(self, plan: Plan) -> dict[Path_, Mapping[str, str]]:
        """Return the tables of the first manifest that a plan changes, with their properties before."""
        paths = {self.target.identifier(self.room, path): path for path in self.scenario.manifests[0].tables}
        return {
            paths[change.moved_from or change.identifier]: change.before.properties
            for change in plan.changes
            if change.kind == "table" and change.catalog != SECOND and change.before is not None
            if (change.moved_from or change.identifier) in paths
        }

    def forget(self) -> None:
        if self.second is not None:
            self.second.forget_entries(self.room)
        self.target.forget(self.room)


def plays_of(target: Target, scenario: Scenario, dice: random.Random, *ports: int) -> list[Play]:
    """Return a play that is disturbed, in some runs followed by one of the same scenario that is not.

    The model says what the others have to leave; where no proxy counts calls, a run in peace does.
    """
    is_compared = not target.faults or dice.random() < _COMPARED
    return [Play(target, scenario, *ports) for _ in range(1 + is_compared)]


def drawn(target: Target, dice: random.Random, tally: Tally) -> Scenario:
    """Draw a scenario for a server, and count what it holds."""
    scenario = draw(dice, target.abilities, target.second.abilities if target.second else None)
    tally.drawn.update(scenario.holds)
    return scenario


def unread_in(plan: Plan) -> frozenset[tuple[str, Path_]]:
    """Return the tables that a plan blocks because it could not read their storage."""
    return frozenset((one.catalog, one.identifier) for one in plan.blocked if one.code is ReasonCode.STORAGE_UNREADABLE)


def _changes(plan: Plan, without: Collection[tuple[str, Path_]] = ()) -> dict[str, str]:
    """Return what a plan does and what it blocks, in a form that two plans of one state share."""
    changes = {
        f"{one.action.value} {one.catalog}/{'/'.join(one.identifier)}": f"{one.before} -> {one.after}"
        for one in plan.changes
        if (one.catalog, one.identifier) not in without
    }
    return changes | {
        f"blocked {one.catalog}/{'/'.join(one.identifier)}": one.code.value
        for one in plan.blocked
        if (one.catalog, one.identifier) not in without
    }


def _forged(plan: Plan) -> str:
    """Return a plan whose last change sets or removes a property that nobody knows, with the digest that fits it."""
    document = json.loads(plan.to_json())
    views = [change["after"] for change in document["changes"] if change.get("after")]
    (views or [change["before"] for change in document["changes"]])[-1]["properties"] = {"forged": "yes"}
    return resealed(document)


def failures(report: reconciler.ApplyReport) -> str:
    """Return what was said of the changes that did not go well."""
    return "; ".join(
        f"{'/'.join(result.change.identifier)}: {result.message}" for result in report.results if result.message
    )


def within(call: Callable[[], ResultT]) -> ResultT:
    """Return what ``call`` returns.

    Raises:
        LancensError: what lancens reports.
        Violation: it raises anything else, or does not end.
    """
    ended: list[ResultT] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(call())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    started = time.monotonic()
    thread.start()
    thread.join(LONGEST_SECONDS)
    if thread.is_alive():
        raise Violation(f"no end after {time.monotonic() - started:.0f} s")
    if not raised:
        return ended[0]
    error = raised[0]
    if not isinstance(error, LancensError):
        raise Violation(f"not an error of lancens: {''.join(traceback.format_exception(error))}")
    if is_unclean(str(error)):
        raise Violation(f"not a message for people: {error}")
    raise error
