"""``lancens audit --since-last``, and audits that go on after they were cut off."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reconciler
from benchmarks.since_last import audits
from reconciler import storage
from reconciler.auditor import audit as auditing
from reconciler.auditor import probe_cache
from reconciler.auditor.records import ROUNDS, LocationContent
from reconciler.backends.dir import DirBackend
from reconciler.model.concurrency import in_parallel
from reconciler.model.live import StorageKind
from tests.cli.running import Ran, lancens
from tests.processes import writers
from tests.servers.s3 import BUCKET, guarded_s3
from tests.soak import count

Audit = Callable[..., tuple[Ran, dict[str, Any]]]
NEVER = 2**40
"""So many rounds that no turn comes by chance."""
NAMES = [f"t{number}" for number in range(9)]
RULES = ("dangling", "orphan", "missing-files", "stale", "many-versions", "missing-index")
COMMAND = [
    *("audit", "--engine", "local", "--history", "audits.lance", "--out", "report"),
    *(f"--rule={rule}" for rule in RULES),
]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest and a catalog of nine sound tables, and the audits' history beside it."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, NAMES)
    write_manifest()
    return tmp_path / "lake/data"


def fill(folder: Path, names: list[str]) -> None:
    backend = DirBackend(root=str(folder / "lake"))
    backend.insert_namespace(("ns",), {})
    first = str(folder / "lake/data" / names[0])
    lance.write_dataset(pa.table({"id": [1]}), first)

    def add(name: str) -> None:
        place = str(folder / "lake/data" / name)
        if place != first:
            shutil.copytree(first, place)
        backend.insert_table(("ns", name), place, {})

    in_parallel(add, names, 32)  # what arrives together is one commit


def write_manifest(policy: str = "expect: {max_versions: 50}", name: str = "store") -> None:
    Path("lancens.yaml").write_text(
        f"version: 1\nname: {name}\ncatalogs: {{lake: {{impl: dir, config: {{root: ./lake}}, "
        f"policies: [{{match: 'ns/**', {policy}}}]}}}}\n"
    )


@pytest.fixture
def audit(lake: Path, capsys: pytest.CaptureFixture[str]) -> Audit:
    def run(*options: str) -> tuple[Ran, dict[str, Any]]:
        shutil.rmtree("report", ignore_errors=True)
        ran = lancens(capsys, *COMMAND, *options)
        path = Path("report/audit.json")
        return ran, json.loads(path.read_text("utf-8")) if path.exists() else {}

    return run


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables whose datasets were looked at."""
    seen: list[str] = []
    examine = storage.examine

    def noted(location: str, *given: Any) -> Any:
        if "audits.lance" not in location:
            seen.append(Path(location).name)
        return examine(location, *given)

    monkeypatch.setattr(storage, "examine", noted)
    return seen


def looked_at(document: dict[str, Any]) -> int:
    return int(document["coverage"][0]["tables_looked_at"])


def rules(document: dict[str, Any]) -> list[str]:
    return [f"{found['rule']} {found['name']}" for found in document["findings"]]


def test_only_new_versions_are_looked_at(lake: Path, audit: Audit, looked: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    _, first = audit("--since-last")
    assert (sorted(looked), first["carried_since"]) == (NAMES, None)
    lance.write_dataset(pa.table({"id": [2]}), str(lake / "t1"), mode="append")
    shutil.rmtree(lake / "t2")  # written anew, it has version 1 again
    lance.write_dataset(pa.table({"id": [5, 6]}), str(lake / "t2"))
    shutil.rmtree(lake / "t3")
    shutil.copytree(lake / "t2", lake / "moved")
    backend = DirBackend(root=str(lake.parent))
    backend.remove_table(("ns", "t4"))
    backend.insert_table(("ns", "t4"), str(lake / "moved"), {})
    looked.clear()
    ran, second = audit("--since-last")
    assert sorted(looked) == ["moved", "t1", "t2", "t3", "t4"]  # the last is an orphan now
    assert second["carried_since"] == first["started"]
    assert second["totals"]["rows"] == 5 + 2 + 2 + 2
    assert rules(second) == ["dangling t3", "orphan t4"]
    assert "Carried over since" in ran.out
    assert "5 tables without a new version" in ran.out
    page = Path("report/audit.html").read_text("utf-8")
    assert ("Everything was read" in page, "Carried over since" in page) == (False, True)


def test_a_clean_up_shows_in_the_next_run(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    write_manifest("expect: {max_versions: 1}")
    dataset = lance.write_dataset(pa.table({"id": [2]}), str(lake / "t1"), mode="append")
    assert rules(audit("--since-last")[1]) == ["many-versions t1"]
    dataset.cleanup_old_versions(older_than=timedelta(0))
    assert rules(audit("--since-last")[1]) == []


def test_the_manifest_counts_at_once(lake: Path, audit: Audit, looked: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    audit()
    looked.clear()
    write_manifest("expect: {indices: [id]}")
    ran, document = audit("--since-last", "--fail-on", "warning")
    assert (looked, ran.code) == ([], 2)
    assert rules(document) == [f"missing-index {name}" for name in NAMES]
    assert {found["carried_from"] for found in document["findings"]} == {document["carried_since"]}
    assert "9 findings" in ran.out


def test_a_lost_file_is_found_when_the_turn_comes(
    lake: Path, audit: Audit, looked: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", 3)
    audit()
    (data,) = (lake / "t5/data").iterdir()
    kept = data.rename(lake.parent.parent / "kept")
    looked.clear()
    found = [rules(audit("--since-last")[1]) for _ in range(3)]
    assert sorted(set(looked)) == NAMES
    assert found[-1] == ["missing-files t5"]
    # From then on it is looked at every time, so that a remedy shows.
    kept.rename(data)
    assert rules(audit("--since-last")[1]) == []


def test_a_full_audit_looks_at_everything_again(lake: Path, audit: Audit, looked: list[str]) -> None:
    for _ in range(2):
        looked.clear()
        assert looked_at(audit()[1]) == len(looked) == 9
    write_manifest(name="another")
    assert looked_at(audit("--since-last")[1]) == 9


def test_audits_without_a_manifest_go_on_from_those_of_the_same_service(
    lake: Path, audit: Audit, monkeypatch: Any
) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    Path("other").mkdir()
    for root, figures in (("./lake", (9, 9, 1)), ("./other", (0, 0, 1)), (f"{lake.parent}/", (9, 0, 2))):
        given = ("--impl", "dir", "--config", f"root={root}", "--metrics", "run.prom")
        document = audit(*given, "--since-last")[1]
        assert (document["totals"]["tables"], looked_at(document), len(document["history"])) == figures
        assert "dir:" not in Path("run.prom").read_text("utf-8")


def test_looks_do_not_pile_up(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", 3)
    for _ in range(8):
        audit("--since-last")
    (folder,) = Path("audits.lance/_looks").iterdir()
    runs = {int(file.name.partition("-")[0]) for file in folder.iterdir()}
    assert runs <= {5, 6, 7}


def test_looks_of_settings_that_are_not_used_any_more_are_removed(audit: Audit, monkeypatch: Any) -> None:
    audit("--stale-after", "5")
    (old,) = Path("audits.lance/_looks").iterdir()
    (old / "notes.parquet").touch()
    audit()
    assert len([*old.iterdir()]) == 2
    monkeypatch.setattr("reconciler.auditor.audit.datetime", Ahead)
    assert audit("--skip-rule", "stale")[0].code == 0
    files = Path("audits.lance/_looks").rglob("*.parquet")
    assert sorted(file.name.partition("-")[0] for file in files) == ["0", "notes.parquet"]


def _cut_off(at: int) -> None:
    """Audit in a process that kills itself at its look number ``at``."""
    from reconciler.cli import main

    examine, seen = storage.examine, list[str]()

    def looking(location: str, *given: Any) -> Any:
        seen.append(location)
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return examine(location, *given)

    vars(storage)["examine"] = looking
    vars(os)["cpu_count"] = lambda: 1
    main(COMMAND)


def test_an_audit_that_was_killed_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], audit: Audit, looked: list[str], monkeypatch: Any
) -> None:
    fill_more = [f"more{number}" for number in range(300)]
    shutil.rmtree("lake")
    fill(tmp_path, fill_more)
    process = writers().Process(target=_cut_off, args=(250,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    ran, document = audit()
    assert (ran.code, looked_at(document), len(looked)) == (0, 100, 100)
    assert document["totals"]["rows"] == 300
    monkeypatch.setattr(probe_cache, "_LONGEST_BREAK", probe_cache._LONGEST_BREAK * 0)
    assert looked_at(audit()[1]) == 300


def test_a_break_of_more_than_a_day_is_another_audit(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(auditing, "find_orphans", fail)
        assert audit()[0].code != 0
    with monkeypatch.context() as patched:
        patched.setattr(probe_cache, "_LONGEST_BREAK", probe_cache._LONGEST_BREAK * 0)
        patched.setattr(auditing, "find_orphans", fail)
        audit()
    assert looked_at(audit()[1]) == 0


class Ahead(datetime):
    """A clock that is years ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(days=999)


def test_a_history_that_was_cut_back_hides_no_loss(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    last = [audit()[1] for _ in range(3)][-1]
    lance.dataset("audits.lance").delete(f"run_id != '{last['run_id']}'")
    (data,) = (lake / "t5/data").iterdir()
    data.unlink()
    assert [rules(audit(*given)[1]) for given in ((), ("--since-last",))] == [["missing-files t5"]] * 2


def test_a_clock_that_was_ahead_hides_no_loss(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    with monkeypatch.context() as patched:
        patched.setattr("reconciler.auditor.audit.datetime", Ahead)
        audit()
    (data,) = (lake / "t5/data").iterdir()
    data.unlink()
    documents = [audit(*given)[1] for given in ((), ("--since-last",), ("--since-last",))]
    assert [rules(one) for one in documents] == [["missing-files t5"]] * 3
    assert {one["findings"][0]["first_seen"] for one in documents} == {documents[0]["finished"]}


def test_two_audits_at_once_leave_no_dataset_out(lake: Path, audit: Audit, looked: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", 4)
    monkeypatch.setattr(probe_cache.ProbeCache, "prune", lambda _: None)  # as without the permission to delete
    audit()
    looked.clear()
    for _ in range(4):
        audit("--since-last")
        history = lance.dataset("audits.lance")
        (run,) = history.to_table(limit=1, offset=history.count_rows() - 1).to_pylist()
        other = pa.Table.from_pylist([{**run, "run_id": f"{run['run_id']}-other"}], history.schema)
        lance.write_dataset(other, "audits.lance", mode="append")
    assert sorted(set(looked)) == NAMES


def test_looks_that_another_audit_replaces_meanwhile_are_no_error(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    audit()
    listed = probe_cache.ProbeCache._files

    def replaced(self: probe_cache.ProbeCache) -> list[str]:
        found = listed(self)
        for name in found:
            Path(self.folder, name).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(probe_cache.ProbeCache, "_files", replaced)
    ran, document = audit("--since-last")
    assert (ran.code, looked_at(document)) == (0, 9), ran.err


def test_a_damaged_file_is_one_error(lake: Path, audit: Audit) -> None:
    audit()
    ((file,),) = (folder.iterdir() for folder in Path("audits.lance/_looks").iterdir())
    file.write_bytes(b"damaged")
    ran, _ = audit("--since-last")
    error = ran.err.splitlines()[-1]
    assert ran.code == 1
    assert file.name in error
    assert "remove the file" in error
    file.unlink()
    assert looked_at(audit("--since-last")[1]) == 9


def test_without_a_history_there_is_no_last_run(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "audit", "--since-last")
    assert (ran.code, "`since-last` needs `history`" in ran.err) == (1, True)


def test_python_and_the_command_go_on_from_each_other(lake: Path, audit: Audit, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    (data,) = (lake / "t5/data").iterdir()
    data.unlink()
    first = audit()[1]
    manifest = reconciler.load("lancens.yaml")
    second = reconciler.audit(manifest, rules=RULES, history="audits.lance", since_last=True).document
    assert (second.coverage[0].tables_looked_at, len(second.history)) == (1, 2)
    third = audit("--since-last")[1]
    assert (looked_at(third), len(third["history"])) == (1, 3)
    assert third["history"][1]["run_id"] == second.run_id
    assert [one["first_seen"] for one in third["findings"]] == [first["finished"]]


@pytest.mark.soak
def test_a_hundredth_that_changed_takes_a_twentieth_of_the_looks() -> None:
    (_, known, full), *since = audits(tables := count(500, 1_000_000), runs=count(ROUNDS, 2))
    assert known == len(full) == tables
    assert sum(len(looked) for _, _, looked in since) <= 0.05 * tables * len(since)
    assert [known for _, known, _ in since] == [tables] * len(since)
    if len(since) == ROUNDS:
        assert set().union(*(looked for _, _, looked in since)) == set(range(tables))


def test_a_history_in_a_bucket_is_used_even_by_who_may_not_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reconciler.auditor.run.ROUNDS", NEVER)
    with guarded_s3() as server:
        options = {**server.where, **server.vended}
        for name, value in options.items():
            monkeypatch.setenv(f"AWS_{name.removeprefix('aws_').upper()}", value)
        server.write("lake/looked")
        server.denies = lambda method, _path: method == "DELETE"
        config = {"root": f"s3://{BUCKET}/lake", **{f"storage.{name}": value for name, value in options.items()}}
        Path("lancens.yaml").write_text(
            json.dumps({"version": 1, "name": "store", "catalogs": {"lake": {"impl": "dir", "config": config}}})
        )
        history, carried = f"s3://{BUCKET}/audits-{tmp_path.name}.lance", []
        for often in ((), ("--since-last",), ("--since-last",), ()):
            ran = lancens(capsys, "audit", "--engine", "local", "--skip-rule", "orphan", "--history", history, *often)
            assert ran.code == 0, ran.err
            carried.append("1 table without a new version" in ran.out)
        server.denies = lambda _method, path: path.endswith(".parquet")
        ran = lancens(capsys, "audit", "--engine", "local", "--skip-rule", "orphan", "--history", history)
        assert (ran.code, "remove the file" in ran.err) == (1, False)
    assert carried == [False, True, True, False]


def test_looks_hold_no_secret_of_a_location(tmp_path: Path) -> None:
    secret = "s3://user:hunter2@bucket/t.lance?sig=hunter2"
    row = {"catalog": "glue", "key": "db$t", "location": secret, "data_place": secret}
    kept = probe_cache.ProbeCache(str(tmp_path), "a" * 32, 0, 1, datetime.now(UTC))
    kept.write([row], [LocationContent(StorageKind.DATASET, state="1.manifest 0-a.txn")])
    (found,) = pq.read_table(next(tmp_path.rglob("*.parquet"))).to_pylist()
    assert "hunter2" not in str(found)
    assert kept.cached({**row, "look": found["look"]}) is not None
