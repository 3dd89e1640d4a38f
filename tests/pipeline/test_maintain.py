"""`lancens maintain --engine spark`: the jobs of the local engine, done on executors."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

from reconciler.applier.report import ApplyReport, Status
from reconciler.model.maintenance import IndexType
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.pipeline.upkeep_tasks import on_executors
from reconciler.planner.plan import Plan
from reconciler.storage import Executors, segments
from tests.catalogs.maintained import (
    MAINTAIN,
    append,
    entered,
    files_of,
    fingerprint,
    managed,
    manifest_of,
    needy,
    recall,
    rows,
)
from tests.catalogs.vending import wrong_environment
from tests.cli.running import lancens
from tests.servers.s3 import BUCKET, SECRET, TOKEN, guarded_s3
from tests.soak import count
from tests.writing import load_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest

COMPACT = {"compact": {"max_small_fragments": 5}}
MANY = {"compact": {"max_small_fragments": 5, "target_rows": 100}}
"""Compaction in several tasks."""


_SHAPE = ("metric_type", "compression")


@pytest.fixture
def executors(spark: SparkSession) -> Executors:
    return on_executors(spark)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_SEGMENT_ROWS", 500)


def run(manifest: Manifest, executors: Executors | None, made: Plan | None = None) -> ApplyReport:
    journal = Path(manifest.folder, "journal")
    return maintain(made or plan_maintenance(manifest), manifest, journal=journal, executors=executors)


def ends(report: ApplyReport) -> list[Status]:
    return [end.status for end in report.results]


def indices_of(place: str) -> dict[str, tuple[Any, ...]]:
    """Return what is equal whichever engine built the indices."""
    return {
        index.name: (index.index_type, index.num_rows_indexed, len(index.segments), *map(index.details.get, _SHAPE))
        for index in lance.dataset(place).describe_indices()
    }


def before_commit(executors: Executors, happens: Callable[[], object]) -> Executors:
    """Return executors after whose work something ``happens``, once."""
    left = [happens]

    def working(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        done = executors(act, work)
        while left:
            left.pop()()
        return done

    return working


# ---- as in one process


@pytest.mark.soak
def test_jobs_end_as_in_one_process(executors: Executors, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(count(3, 200))]
    manifest = managed(tmp_path, *names)
    shutil.copytree(tmp_path / "lake", tmp_path / "control/lake")
    control = load_manifest(tmp_path / "control", manifest_of(names))
    kept = {name: files_of(tmp_path / f"lake/{name}.lance") for name in names}
    assert run(control, None).ok
    report = run(manifest, executors)
    assert {(end.status, end.message, end.note) for end in report.results} == {(Status.DONE, "", "")}
    for name in names:
        place, local = (str(folder / f"lake/{name}.lance") for folder in (tmp_path, tmp_path / "control"))
        assert fingerprint(place) == fingerprint(local)
        assert indices_of(place) == indices_of(local)
        assert lance.dataset(place).version == lance.dataset(local).version
        assert len(lance.dataset(place).get_fragments()) == 1
        assert kept[name] <= files_of(place)
    assert plan_maintenance(manifest).is_empty


def test_many_tasks_of_one_dataset_are_one_commit(executors: Executors, tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a", asked=MANY), str(tmp_path / "lake/a.lance")
    before, tasks = fingerprint(place), list[int]()

    def counted(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        tasks.append(len(work))
        return executors(act, work)

    version = lance.dataset(place).version
    assert run(manifest, counted).ok
    assert tasks[0] > 1
    assert fingerprint(place) == before
    assert lance.dataset(place).version == version + 2  # pylance reserves the numbers of fragments first
    assert plan_maintenance(manifest).is_empty


SOME = (IndexType.BTREE, IndexType.INVERTED, IndexType.IVF_PQ, IndexType.IVF_RQ)
KINDS = [*SOME, *[kind for kind in IndexType if kind not in (*SOME, IndexType.LABEL_LIST)][: count(0, 20)]]


@pytest.mark.soak
@pytest.mark.usefixtures("small_segments")
def test_indices_are_built_in_segments_and_merged(executors: Executors, tmp_path: Path) -> None:
    place, control = str(tmp_path / "lake/a.lance"), str(tmp_path / "control/lake/a.lance")
    for kind in KINDS:
        for written in (place, control):
            shutil.rmtree(written, ignore_errors=True)
            lance.write_dataset(rows(2400), written, max_rows_per_file=200)
        column = "v" if kind.is_vector else {"INVERTED": "text", "NGRAM": "text"}.get(kind.value, "id")
        shape = {"metric": "cosine", "num_partitions": 4} if kind.is_vector else {}
        shape |= {"num_sub_vectors": 8} if kind.is_pq else {}
        catalogs = manifest_of(["a"], {"indices": {column: {"type": kind.value, **shape}}})
        manifest = load_manifest(tmp_path, catalogs)
        (end,) = run(manifest, executors).results
        assert run(load_manifest(tmp_path / "control", catalogs), None).ok
        assert end.status is Status.DONE, end.message
        assert indices_of(place) == indices_of(control), kind
        assert fingerprint(place) == fingerprint(control)
        assert end.note.count("_indices/") == (0 if kind in segments.ONE_TASK else 4)
        if kind.is_vector:
            assert recall(place) >= recall(control) - 0.1, kind  # training begins at random vectors
        assert plan_maintenance(manifest).is_empty


@pytest.mark.usefixtures("small_segments")
def test_new_rows_are_added_to_an_index_in_segments(executors: Executors, tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a"), str(tmp_path / "lake/a.lance")
    assert run(manifest, executors).ok
    append(place, 600, 10_000)
    assert run(manifest, executors).ok
    dataset = lance.dataset(place)
    assert {index.num_rows_indexed for index in dataset.describe_indices()} == {1220}
    assert dataset.to_table(filter="id IN (5, 10599)")["id"].to_pylist() == [5, 10599]
    assert plan_maintenance(manifest).is_empty


# ---- trouble


def test_a_task_whose_python_ends_is_tried_again_and_its_files_are_named(executors: Executors, tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a", asked=MANY), str(tmp_path / "lake/a.lance")
    before, marker = fingerprint(place), tmp_path / "died"

    def dying(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        def once(item: Any) -> Any:
            done = act(item)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return executors(once, work)

    (end,) = run(manifest, dying).results
    assert (end.status, marker.exists()) == (Status.DONE, True)
    needed = {file.path for one in lance.dataset(place).get_fragments() for file in one.data_files()}
    named = {path.removeprefix("data/") for path in end.note.partition(": ")[2].split(", ")}
    assert named
    assert not named & needed
    assert named <= {path.name for path in Path(place, "data").iterdir()}
    assert fingerprint(place) == before
    assert plan_maintenance(manifest).is_empty


def test_a_job_whose_tasks_always_fail_commits_nothing(executors: Executors, tmp_path: Path) -> None:
    manifest = managed(tmp_path, "a", "b", asked=COMPACT)
    place = str(tmp_path / "lake/a.lance")
    version = lance.dataset(place).version

    def failing(act: Callable[[Any], Any], work: Sequence[Any]) -> list[Any]:
        def failed(item: Any) -> Any:
            act(item)
            if any("/a.lance" in str(part) for part in act.args):  # type: ignore[attr-defined] # a partial
                raise MemoryError("no room")
            return act(item)

        return executors(failed, work)

    report = run(manifest, failing)
    assert ends(report) == [Status.FAILED, Status.DONE]
    assert "no room" in report.results[0].message
    assert "data/" in report.results[0].message
    assert lance.dataset(place).version == version
    assert run(manifest, executors).ok
    assert plan_maintenance(manifest).is_empty


def test_a_lost_race_starts_over(executors: Executors, tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a", asked=COMPACT), str(tmp_path / "lake/a.lance")

    def write() -> None:
        append(place, 30, 10_000)
        lance.dataset(place).delete("id = 3")

    report = run(manifest, before_commit(executors, write))
    assert ends(report) == [Status.DONE]
    dataset = lance.dataset(place)
    assert (dataset.count_rows(), dataset.count_rows("id = 3"), len(dataset.get_fragments())) == (649, 0, 1)
    assert report.results[0].note.count("data/") == 2  # of the first attempt, and what was appended before the second


def test_nothing_is_committed_where_the_configuration_would_clean_up(executors: Executors, tmp_path: Path) -> None:
    manifest, place = managed(tmp_path, "a", asked=COMPACT), str(tmp_path / "lake/a.lance")

    def configure() -> None:
        given = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "1000d"}
        lance.dataset(place).update_config(given)  # type: ignore[arg-type]

    report = run(manifest, before_commit(executors, configure))
    assert ends(report) == [Status.FAILED]
    versions = [one["version"] for one in lance.dataset(place).versions()]
    assert versions == [*range(1, 14)]  # the last one is the configuration


def test_a_dataset_that_is_dropped_stops_no_other(executors: Executors, tmp_path: Path) -> None:
    managed(tmp_path, "a", "b")
    manifest = entered(tmp_path, ["a", "b"], COMPACT)
    made, places = plan_maintenance(manifest), [tmp_path / f"lake/{name}.lance" for name in "ab"]
    shutil.rmtree(places[0])
    assert ends(run(manifest, executors, made)) == [Status.FAILED, Status.DONE]
    manifest = managed(tmp_path, "a", asked=COMPACT)
    report = run(manifest, before_commit(executors, lambda: shutil.rmtree(places[0])))
    assert ends(report) == [Status.FAILED]
    assert "unexpected" not in report.results[0].message


def test_credentials_reach_the_executors_and_no_log(
    executors: Executors, spark_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong_environment(monkeypatch)
    with guarded_s3() as server:
        options = {**server.where, **server.vended}
        place = needy(f"s3://{BUCKET}/a.lance", options=options)
        config = {"root": f"s3://{BUCKET}", **{f"storage.{key}": value for key, value in options.items()}}
        lake = {"impl": "dir", "config": config, "tables": {"a": {"maintain": MAINTAIN}}}
        manifest = load_manifest(tmp_path, {"lake": lake})
        before = fingerprint(lance.dataset(place, storage_options=options))
        report = run(manifest, executors)
        assert report.ok, report.results
        dataset = lance.dataset(place, storage_options=options)
        assert (fingerprint(dataset), len(dataset.get_fragments())) == (before, 1)
        assert plan_maintenance(manifest).is_empty
    text = spark_log.read_text("utf-8", "replace")
    assert SECRET not in text
    assert TOKEN not in text


# ---- the command


def test_the_command_works_on_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    ran = lancens(capsys, "maintain", "--engine", "spark", "--auto-approve")
    assert ran.code == 0, ran.err
    assert "Applied 3 of 3" in ran.out
    assert lancens(capsys, "maintain", "--engine", "spark", "--dry-run", "--detailed-exitcode").code == 0


def test_small_jobs_do_not_start_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reconciler.pipeline.session.active_session", lambda: None)
    ran = lancens(capsys, "maintain", "--engine", "spark", "--master", "spark://127.0.0.1:1", "--auto-approve")
    assert (ran.code, "Applied 3 of 3" in ran.out, "small jobs" in ran.err) == (0, True, True)


def test_ctrl_c_ends_the_job_in_flight_and_starts_no_other(java: None, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(9)]
    managed(tmp_path, *names)
    options = ["--engine", "spark", "--master", "local[2]", "--parallelism", "1", "--auto-approve"]
    code = "from reconciler.cli import main; from reconciler.pipeline import upkeep_tasks as tasks"
    command = [sys.executable, "-c", f"{code}; tasks._FEW_BYTES = 0; main()", "maintain", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as ran:
        assert ran.stderr is not None
        assert any("✓" in line for line in ran.stderr)
        os.killpg(ran.pid, signal.SIGINT)  # as a terminal does
        out, _ = ran.communicate()
    assert (ran.returncode, out.count("Stopped. Applied"), "0 failed" in out) == (130, 1, True)
    assert 0 < len(plan_maintenance(load_manifest(tmp_path, manifest_of(names))).changes) < 3 * len(names)


def test_options_of_spark_are_refused_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys, "maintain", "--master", "local[2]", tmp_path)
    assert (ran.code, "--engine spark" in ran.err) == (1, True)
