"""The Spark engine on a cluster: a master and two workers, `spark-submit`, and what dies in the middle."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from tests.catalogs.maintained import fingerprint, manifest_of, needy
from tests.cli.running import shell
from tests.pipeline.conftest import DAEMON, PLUGINS, PRELOADED
from tests.servers.process import HUNG_SECONDS
from tests.servers.spark_classes import JAVA_OPTIONS
from tests.servers.spark_cluster import HOME, Cluster, spark_cluster
from tests.soak import count, in_full
from tests.writing import write_manifest

JOB = """\
import os, signal, sys, time
from pathlib import Path
from reconciler import load, plan
from reconciler.auditor.audit import AuditOptions
from reconciler.auditor.run import run_audit
from reconciler.operations.maintain import maintain, plan_maintenance
from reconciler.spark import plan_on_spark, spark_session
from reconciler.pipeline.upkeep_tasks import on_executors
from troubled_backend import nearest

needy, audited, *paths = sys.argv[1:]
marker = Path(needy).with_name("killed")

def spread(act, work):
    def killing(item):
        done = act(item)
        if not marker.exists():
            marker.touch()
            os.kill(nearest("CoarseGrainedExecutorBackend"), signal.SIGKILL)
            time.sleep(60)
        return done
    return executors(killing, work)

with spark_session() as spark:
    executors, manifest = on_executors(spark), load(needy)
    (end,) = maintain(plan_maintenance(manifest), manifest, executors=spread).results
    print("maintained", end.status.value, end.note.count("data/") > 0, plan_maintenance(manifest).is_empty, flush=True)
    history = str(Path(audited).with_name("audits.lance"))
    for engine in (spark, None):
        document = run_audit(engine, load(audited), AuditOptions(history=history))
        found = sorted((one.rule, *one.identifier) for one in document.findings)
        print("audited", document.complete, document.totals.tables, found, flush=True)
    for path in paths:
        manifest = load(path)
        made = plan_on_spark(spark, manifest)
        print("plan of", path, len(made.changes), made.to_json() == plan(manifest).to_json(), flush=True)
"""

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
}
HERE = {
    **PRELOADED,
    "spark.executorEnv.PYTHONPATH": str(DAEMON),
    "spark.pyspark.python": sys.executable,
    "spark.sql.adaptive.enabled": "false",
}
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "deploy.worker.Worker"


@pytest.fixture(scope="module")
def cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def troubled(folder: Path, victim: str = "") -> Path:
    """Write a manifest of a catalog in which reading `b` kills ``victim`` once, if there is one."""
    folder.mkdir()
    backend = DirBackend(root=str(folder / "lake"))
    for namespace in ("a", "b", "c"):
        backend.insert_namespace((namespace,), {})
        for number in range(20):
            name = (namespace, f"t{number}")
            backend.insert_table(name, backend.default_location(name), {"lancens.managed-by": "store/lake"})
    trouble = f"namespace: b, times: 1, kills: 'true', victim: {victim}" if victim else "times: 0"
    lines = ["version: 1", "name: store", "catalogs:", "  lake:", "    impl: troubled"]
    lines += [f"    config: {{root: ./lake, log: {folder}/log, {trouble}}}", "    namespaces:"]
    for namespace in ("a", "b", "c"):
        lines += [f"      {namespace}:", "        tables:"]
        lines += [f"          t{number}: {{}}" for number in range(1, 20)]
    lines += ["      new:", "        tables: {t: {schema: [{name: id, type: int64}]}}"]
    (folder / "lancens.yaml").write_text("\n".join(lines) + "\n")
    return folder / "lancens.yaml"


@dataclass(frozen=True)
class Submitted:
    """What a job printed that compacts a dataset at ``needy``, audits and plans; its rows and version before."""

    lines: Sequence[str]
    needy: str
    before: tuple[str, int]
    audited: Path
    paths: Sequence[Path]


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Submitted:
    """Run the job by `spark-submit`: a driver and its executors take seconds to start."""
    folder = tmp_path_factory.mktemp("job")
    place = needy(folder / "lake/a.lance")
    before = (fingerprint(place), lance.dataset(place).version)
    upkeep = write_manifest(folder, manifest_of(["a"], {"compact": {"max_small_fragments": 5, "target_rows": 100}}))
    audited = troubled(folder / "audited", EXECUTOR)
    lake = DirBackend(root=str(audited.with_name("lake")))
    for namespace in ("a", "b", "c"):
        lance.write_dataset(pa.table({"id": [1]}), lake.default_location((namespace, "t7")))
    paths = [
        troubled(folder / "well"),
        troubled(folder / "worker", WORKER),  # with its executor
        # Under the audit, too, an executor dies in a scan; another takes seconds to start.
        *(troubled(folder / f"executor{number}", EXECUTOR) for number in range(count(0, 1))),
    ]
    (folder / "job.py").write_text(JOB)
    # What executors lack of Python's modules is sent to them; theirs is the Python that has lancens.
    modules = shutil.make_archive(str(folder / "modules"), "zip", PLUGINS)
    settings = [text for key, value in {**SETTINGS, **HERE}.items() for text in ("--conf", f"{key}={value}")]
    submit = [str(HOME / "bin/spark-submit"), "--master", cluster.master, "--py-files", modules, *settings]
    done = subprocess.run(
        [*submit, "job.py", str(upkeep), *map(str, (audited, *paths))],
        env=dict(cluster.environment),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HUNG_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return Submitted(done.stdout.splitlines(), place, before, audited, paths)


def test_plans_are_right_whatever_dies(submitted: Submitted) -> None:
    paths = submitted.paths
    plans = [line for line in submitted.lines if line.startswith("plan of")]
    assert plans == [f"plan of {path} 5 True" for path in paths]
    reads = [len(list((path.parent / "log/b").iterdir())) for path in paths]
    assert reads[0] < min(reads[1:])


def test_an_audit_with_a_history_is_whole_whatever_dies(submitted: Submitted) -> None:
    on_spark, local = [line for line in submitted.lines if line.startswith("audited")]
    assert on_spark.startswith("audited True 60 [")
    assert on_spark.partition("[")[2] == local.partition("[")[2]
    assert len(list((submitted.audited.parent / "log/b").iterdir())) > 2
    assert lance.dataset(str(submitted.audited.with_name("audits.lance"))).count_rows() == 2


def test_a_compaction_whose_executor_dies_is_one_commit(submitted: Submitted) -> None:
    assert "maintained done True True" in submitted.lines
    assert Path(submitted.needy).parents[1].joinpath("killed").exists()
    rows, version = submitted.before
    assert (fingerprint(submitted.needy), lance.dataset(submitted.needy).version) == (rows, version + 2)


@pytest.mark.soak
@in_full
def test_executors_run_the_python_of_an_archive(cluster: Cluster, tmp_path: Path) -> None:
    bin_folder = tmp_path / "environment/bin"
    bin_folder.mkdir(parents=True)
    python = bin_folder / "python"
    # What venv-pack makes of an environment is half a gigabyte; this leads to the environment of the tests.
    python.write_text(f'#!/bin/sh\necho "$PWD" "$0" >> {tmp_path}/ran\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path / "environment")
    settings = {
        **SETTINGS,
        "spark.archives": f"{archive}#lancens",
        "spark.pyspark.python": "./lancens/bin/python",
    }
    options = [text for key, value in settings.items() for text in ("--spark-conf", f"{key}={value}")]
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    backend.insert_table(("a", "t"), backend.default_location(("a", "t")), {})
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"
    )
    done = shell("inventory", "--master", cluster.master, *options, folder=tmp_path)
    assert done.code == 0, done.err
    assert '"name": "t"' in done.out
    places = {line.split()[0] for line in (tmp_path / "ran").read_text().splitlines()}
    assert all("/worker" in place for place in places), places


def test_executors_without_lancens_are_one_clear_error(cluster: Cluster, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    settings = {**SETTINGS, "spark.pyspark.python": str(bare)}
    options = [text for key, value in settings.items() for text in ("--spark-conf", f"{key}={value}")]
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"
    )
    ran = shell("plan", "--engine", "spark", "--master", cluster.master, *options, folder=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    error = ran.err.splitlines()[-1]
    expected = "Spark failed: the Python of an executor has no module `reconciler`; name one that has lancens"
    assert error.startswith(expected), ran.err
    assert "--spark-conf spark.pyspark.python=PATH" in error
    assert (tmp_path / "ran").exists()
