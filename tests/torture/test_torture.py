"""A sample of `make torture` on every server, the same each time: new seeds are drawn by `make torture` itself.

A seed that fails here is run again alone with the command it prints.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from tests.servers.fault_proxy import Fault
from tests.soak import in_full
from tests.torture.__main__ import main
from tests.torture.faulted import BUSY, run_faults
from tests.torture.killed import expect_true, run_kill
from tests.torture.left import Storage
from tests.torture.others import Act
from tests.torture.play import Play
from tests.torture.raced import run_race
from tests.torture.sabotages import SABOTAGES
from tests.torture.scenario import Existing, Scenario, Table, Wanted
from tests.torture.tally import DRAWN, Tally, Violation, again, table
from tests.torture.targets.base import CANARY, OWNER, Target
from tests.torture.targets.servers import SERVERS
from tests.torture.traces import Foreign
from tests.torture.workers import Ended, Workers, workers


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with workers(tmp_path_factory.mktemp("workers")) as made:
        yield made


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Target]]:
    name: str = request.param
    with SERVERS[name](tmp_path_factory.mktemp(name)) as running:
        yield name, running


_SAMPLE = (
    ("hive-3.1", "kills", 141),  # with a mirror, tags and blocked tables
    ("hive-4.1", "races", 62),  # of two manifests
    ("iceberg", "runs", 95),  # compared with a run in peace
    ("nessie", "kills", 52),
    ("glue", "runs", 20261123),  # a second catalog dies
    ("unity", "runs", 91),
    ("unity-stand-in", "runs", 91),
    ("serve", "races", 54),  # of one manifest
    ("dir-s3", "runs", 134),
    ("dir", "kills", 85),  # a disk that fails, then SIGTERM
    ("dir", "kills", 134),  # SIGINT, then a full disk
    ("dir", "races", 97),
)
"""Every server, and each kind of run on each kind of server; the seeds draw much of what there is in few tables."""


@pytest.mark.parametrize(("server", "what", "seed"), _SAMPLE, indirect=["server"])
def test_under_faults_killed_and_raced_it_ends_as_without(
    server: tuple[str, Target], what: str, seed: int, ready: Workers
) -> None:
    name, target = server
    tally = Tally(name)
    runs: dict[str, Callable[[], None]] = {
        "runs": partial(run_faults, target, seed, tally),
        "kills": partial(run_kill, target, seed, tally, ready),
        "races": partial(run_race, target, seed, tally, ready, most=3),
    }
    try:
        runs[what]()
    except Violation as violation:
        pytest.fail(f"{again(name, what, seed)}\n{violation}", pytrace=False)
    assert set(tally.limits) <= {*target.limits.values(), BUSY}


def test_the_table_says_that_unity_is_skipped_without_its_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("LANCENS_UNITY_HOME", raising=False)
    monkeypatch.setattr("sys.argv", ["torture", "unity", "--seed", "1"])
    assert main() == 0
    assert "Skipped unity: needs" in capsys.readouterr().out


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], None]]:
    """Give a run in peace of a scenario that has what each sabotage breaks; it is on Glue, whose backend some break."""
    before = [
        *(Existing("namespace", (name,)) for name in ("a", "theirs")),
        Existing("lance", ("theirs", "data")),
        Existing("lance", ("a", "unowned")),
        Existing("lance", ("a", "stale"), {"lancens.managed-by": OWNER}),
    ]
    users, clicks, views = (("a", name) for name in ("users", "clicks", "views"))
    first = Wanted({("a",): None, ("b",): {"team": "ml"}})
    first.tables[users] = Table("create", {"tier": "gold", "note": "gold"})
    first.tables |= {clicks: Table("register", tags={"prod": 1}), views: Table("register", tags={"prod": 1})}
    edited = Wanted({("a",): None}, {users: Table("create", {"tier": "silver"}, evolves=True)})
    edited.tables |= {
        clicks: Table("register", tags={"prod": 2}),
        views: Table("register", tags={"prod": 1}, moved=True),
    }
    change, label = Act("change", users, {"seen-by": "spark"}), Act("label", properties={"place": "a-clicks"})
    scenario = Scenario(False, before, (first, edited), between=(Act("describe", users), change, label))
    with SERVERS["glue"](tmp_path_factory.mktemp("telling")) as target, target.proxy() as proxy:

        def run() -> None:
            play = Play(target, scenario, proxy.port)
            try:
                play.write(0)
                play.calm()
                play.begin(1)
                assert play.expect_refused()
                plan, before = play.plan(faulty=True), play.look()
                play.expect_complete(plan)
                play.apply(plan, faulty=True)
                play.expect_only_planned(plan, before)
                play.expect_done()
            finally:
                play.forget()

        yield run


def test_the_harness_sees_nothing_where_nothing_is_broken(telling: Callable[[], None]) -> None:
    telling()


@pytest.mark.parametrize("name", SABOTAGES)
def test_the_harness_sees_what_is_broken_on_purpose(name: str, telling: Callable[[], None]) -> None:
    with SABOTAGES[name](), pytest.raises(Violation):
        telling()


@in_full
@pytest.mark.soak
@pytest.mark.parametrize("name", SABOTAGES)
def test_it_sees_it_in_what_it_draws(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SERVERS["glue"](tmp_path) as target, SABOTAGES[name]():
        monkeypatch.setattr(target, "faults", (Fault.RESET,))  # which nobody waits for
        runs = (partial(run_faults, target, seed, Tally("glue")) for seed in range(11, 31))
        assert any(map(_violates, runs))


@pytest.mark.parametrize("name", ["leaves-locations", "adds-no-columns"])
def test_the_model_sees_what_no_second_run_of_lancens_does(name: str, tmp_path: Path) -> None:
    before = Wanted({("a",): None}, {("a", "users"): Table("create"), ("a", "clicks"): Table("register")})
    after = Wanted(before.namespaces, {("a", "users"): Table("create", evolves=True)})
    after.tables["a", "clicks"] = Table("register", moved=True)
    with SERVERS["dir"](tmp_path) as target:
        play = Play(target, Scenario(False, (), (before, after)))
        play.write(0)
        play.calm()
        play.write(1)
        with SABOTAGES[name](), pytest.raises(Violation, match="not what the manifest"):
            play.calm()
        play.calm()


def test_the_end_of_an_apply_has_to_be_true(tmp_path: Path) -> None:
    wanted = Wanted({("a",): None}, {("a", "users"): Table("create")})
    with SERVERS["dir"](tmp_path) as target:
        play = Play(target, Scenario(False, (), (wanted,)))
        play.write(0)
        for code, by in ((0, signal.SIGKILL), (None, signal.SIGTERM), (None, None)):
            with pytest.raises(Violation):
                expect_true(Ended(code), by, play)
        expect_true(Ended(1), signal.SIGTERM, play)
        expect_true(Ended(None), signal.SIGKILL, play)


def test_the_table_says_what_no_run_had() -> None:
    tally = Tally("dir", runs=Counter(kills=1), drawn=Counter(DRAWN[2:]))
    assert f"Never drawn on dir: {DRAWN[0]}, {DRAWN[1]}\n" in table([tally]) + "\n"


def _violates(run: Callable[[], None]) -> bool:
    try:
        run()
    except Violation:
        return True
    return False


def test_a_missing_server_is_named_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(_: Path) -> NoReturn:
        pytest.fail("no Java 17 on PATH")

    monkeypatch.setitem(SERVERS, "hive-3.1", gone)
    monkeypatch.setattr("sys.argv", ["torture", "dir", "hive-3.1", "--seed", "1"])
    assert main() == 2
    assert capsys.readouterr().out.splitlines()[1:] == [
        "these servers cannot be started:",
        "hive-3.1: no Java 17 on PATH",
    ]


def test_what_is_lost_twice_or_not_planned_is_a_violation(tmp_path: Path) -> None:
    """The oracle sees what it is there to see: without this it might be blind and say that all is well."""
    wanted = Wanted({("a",): {"team": "ml"}}, {("a", "users"): Table("create"), ("a", "clicks"): Table("register")})
    theirs = [Existing("namespace", ("theirs",)), Existing("lance", ("theirs", "data"))]
    with SERVERS["dir"](tmp_path) as target:
        clean, other = (Play(target, Scenario(False, theirs, (wanted,))) for _ in range(2))
        clean.write(0)
        clean.calm()
        other.write(0)
        plan, before = other.plan(), other.state()
        other.calm()
        other.expect_only_planned(plan, before)
        other.expect_same(clean)

        before = other.look()
        target.add_lance(other.room, ("a", "stray"), target.write_dataset(other.room, "stray", 1), {})
        with pytest.raises(Violation, match="table a/stray: nothing -> "):
            other.expect_same(clean)
        with pytest.raises(Violation, match="changed and not planned:\n  table a/stray"):
            other.expect_only_planned(plan, before)
        with pytest.raises(Violation, match=r"in no journal: .*table a/stray"):
            other.expect_journalled(before, other.state())
        with pytest.raises(Violation, match="nobody's"):
            other.expect_modelled()
        (other.room.folder / "plan.json").write_text(CANARY, "utf-8")
        with pytest.raises(Violation, match=r"shown in .*plan\.json"):
            other.expect_journalled(other.look(), other.state())
        other.expect_files()
        [file, *_] = (other.room.lake / "raw/theirs-data.lance/data").iterdir()
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(Violation, match=r"changed: raw/theirs-data\.lance/data/"):
            other.expect_files()


def test_what_is_lost_beside_what_is_managed_is_a_violation() -> None:
    entry = {"properties": {}, "kept": {"Owner": "somebody"}}
    foreign = Foreign({"table a/users": entry, "namespace a": {}})
    foreign.expect({"table a/people": entry}, {"table a/people": "table a/users"})
    with pytest.raises(Violation, match="Owner was 'somebody' and is None"):
        foreign.expect({"table a/people": {**entry, "kept": {}}}, {})


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({}, "has gone"),
        ({"dataset raw/users.lance": {"rows": 2, "versions": 2}}, "holds"),
        ({"dataset new.lance": {"rows": 1, "versions": 1}}, "is new and holds"),
        ({"dataset new.lance": {"rows": 0, "versions": 1}}, "has no entry"),
        ({"file new.lance/data/left.lance": ""}, "is left over"),
    ],
)
def test_what_nobody_made_in_storage_is_a_violation(after: dict[str, object], told: str) -> None:
    before = {"dataset raw/users.lance": {"rows": 3, "versions": 2}}
    with pytest.raises(Violation, match=told):
        Storage(before).expect({**(before if after else {}), **after}, [], evolves=False)
    with_entry = {**before, "dataset new.lance": {"rows": 0, "versions": 1}, "file new.lance/.lance-reserved": ""}
    Storage(before).expect(with_entry, [{"location": "/lake/new.lance"}], evolves=False)
