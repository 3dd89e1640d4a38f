"""Every command that runs on Spark, on a Spark Connect server: the same plan, inventory and audit as elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from tests.catalogs.maintained import fingerprint, manifest_of, needy
from tests.cli.running import Ran, lancens, shell
from tests.pipeline.conftest import DAEMON, PRELOADED, SETTINGS
from tests.servers.spark_cluster import spark_connect
from tests.soak import count, in_full, sampled
from tests.writing import write_manifest


@pytest.fixture(scope="module")
def server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {**SETTINGS, **PRELOADED}
    with spark_connect(tmp_path_factory.mktemp("connect"), settings, python_path=str(DAEMON)) as url:
        yield url


COMMANDS = """\
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from reconciler.cli import main

ended = []
for folder, *arguments in json.load(sys.stdin):
    os.chdir(folder)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            ended.append((end.code, out.buffer.getvalue().decode(), err.getvalue()))
print(json.dumps(ended))
"""
"""Commands one after the other in one process, each in a session of its own: a client takes seconds to start."""


@dataclass(frozen=True)
class OnServer:
    """What each command ended with, in ``folder`` or ``orphaned``, and the dataset that one maintained."""

    folder: Path
    orphaned: Path
    ran: Mapping[str, Ran]
    maintained: str
    before: str


@pytest.fixture(scope="module")
def commands(server: str, tmp_path_factory: pytest.TempPathFactory) -> OnServer:
    """Run each command on the server."""
    folder, orphaned, needing = (tmp_path_factory.mktemp(name) for name in ("tables", "orphaned", "needing"))
    for filled in (folder, orphaned):
        three_tables(filled)
    lance.write_dataset(pa.table({"id": [1]}), str(orphaned / "lake/left/over.lance"))
    place = needy(needing / "lake/a.lance")
    write_manifest(needing, manifest_of(["a"]))
    before = fingerprint(place)
    audit = ("audit", "--out", "report", "--fail-on", "never")
    given: Mapping[str, tuple[Path, tuple[str, ...]]] = {
        "plan": (folder, ("plan", "--engine", "spark", "--format", "json")),
        "inventory": (folder, ("inventory",)),
        "orphan": (orphaned, audit),
        **({"audit": (folder, audit)} if count(0, 1) else {}),
        "maintain": (needing, ("maintain", "--engine", "spark", "--auto-approve")),
    }
    work = [(str(where), *command, "--master", server) for where, command in given.values()]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], input=json.dumps(work), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ended = [Ran(*end) for end in json.loads(done.stdout)]
    return OnServer(folder, orphaned, dict(zip(given, ended, strict=True)), place, before)


def three_tables(folder: Path) -> None:
    """Write a manifest that differs from a catalog of three tables."""
    backend = DirBackend(root=str(folder / "lake"))
    backend.insert_namespace(("a",), {})
    for name in ("one", "two", "three"):
        place = backend.default_location(("a", name))
        lance.write_dataset(pa.table({"id": [1]}), place)
        backend.insert_table(("a", name), place, {"lancens.managed-by": "store/lake"})
    (folder / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces:\n"
        "      a: {tables: {one: {}, new: {schema: [{name: id, type: int64}]}}}\n"
    )


def test_a_plan_is_that_of_the_local_engine(
    commands: OnServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(commands.folder)
    ran, local = commands.ran["plan"], lancens(capsys, "plan", "--format", "json")
    assert (ran.code, local.code) == (0, 0), ran.err
    assert ran.out == local.out
    assert [change["action"] for change in json.loads(ran.out)["changes"]] == [
        "create-table",
        "deregister-table",
        "deregister-table",
    ]


def test_an_inventory_has_every_table(commands: OnServer) -> None:
    ran = commands.ran["inventory"]
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted(row["name"] for row in rows if row["kind"] == "table") == ["one", "three", "two"]


@pytest.mark.soak
@pytest.mark.parametrize("audit", sampled(["orphan", "audit"], 2))
def test_an_audit_is_complete(commands: OnServer, audit: str) -> None:
    ran = commands.ran[audit]
    assert ran.code == 0, ran.err
    folder = commands.folder if audit == "audit" else commands.orphaned
    document = json.loads((folder / "report/audit.json").read_text())
    assert document["complete"]
    assert document["totals"]["tables"] == 3
    found = [finding["name"] for finding in document["findings"] if finding["rule"] == "orphan"]
    assert found == (["over.lance"] if audit == "orphan" else [])


def test_datasets_are_maintained(commands: OnServer) -> None:
    ran = commands.ran["maintain"]
    assert (ran.code, "Applied 3 of 3" in ran.out) == (0, True), ran.err
    assert fingerprint(commands.maintained) == commands.before
    assert len(lance.dataset(commands.maintained).get_fragments()) == 1


@pytest.mark.soak
@in_full
def test_workers_without_lancens_are_one_clear_error(java: None, tmp_path: Path) -> None:
    three_tables(folder := tmp_path)
    bare = folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with spark_connect(folder, SETTINGS, str(bare)) as url:
        ran = shell("plan", "--engine", "spark", "--master", url, folder=folder)
    assert (ran.code, ran.out) == (1, "")
    error = ran.err.splitlines()[-1]
    assert "the Python of an executor has no module" in error
    assert error.endswith("where a Spark Connect server starts")


def test_a_server_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    three_tables(tmp_path)
    ran = shell("plan", "--engine", "spark", "--master", "sc://127.0.0.1:1", folder=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert "server answers at 127.0.0.1:1" in ran.err.splitlines()[-1]
