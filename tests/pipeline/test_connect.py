"""Every command that runs on Spark, on a Spark Connect server: the same plan, inventory and audit as elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from tests.catalogs.maintained import fingerprint, manifest_of, needy
from tests.cli.running import shell
from tests.pipeline.conftest import SETTINGS
from tests.servers.spark_cluster import spark_connect
from tests.soak import sampled
from tests.writing import write_manifest


@pytest.fixture(scope="module")
def server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark_connect(tmp_path_factory.mktemp("connect"), SETTINGS) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a manifest that differs from a catalog of three tables."""
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("a",), {})
    for name in ("one", "two", "three"):
        place = backend.default_location(("a", name))
        lance.write_dataset(pa.table({"id": [1]}), place)
        backend.insert_table(("a", name), place, {"lancens.managed-by": "store/lake"})
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: store\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces:\n"
        "      a: {tables: {one: {}, new: {schema: [{name: id, type: int64}]}}}\n"
    )
    return tmp_path


def test_a_plan_is_that_of_the_local_engine(server: str, folder: Path) -> None:
    local = shell("plan", "--format", "json", folder=folder)
    ran = shell("plan", "--engine", "spark", "--master", server, "--format", "json", folder=folder)
    assert (ran.code, local.code) == (0, 0), ran.err
    assert ran.out == local.out
    assert [change["action"] for change in json.loads(ran.out)["changes"]] == [
        "create-table",
        "deregister-table",
        "deregister-table",
    ]


def test_an_inventory_has_every_table(server: str, folder: Path) -> None:
    ran = shell("inventory", "--master", server, folder=folder)
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted(row["name"] for row in rows if row["kind"] == "table") == ["one", "three", "two"]


@pytest.mark.soak
@pytest.mark.parametrize("is_orphaned", sampled([True, False], 2))
def test_an_audit_is_complete(server: str, folder: Path, is_orphaned: bool) -> None:
    if is_orphaned:
        lance.write_dataset(pa.table({"id": [1]}), str(folder / "lake/left/over.lance"))
    ran = shell("audit", "--master", server, "--out", "report", "--fail-on", "never", folder=folder)
    assert ran.code == 0, ran.err
    document = json.loads((folder / "report/audit.json").read_text())
    assert document["complete"]
    assert document["totals"]["tables"] == 3
    found = [finding["name"] for finding in document["findings"] if finding["rule"] == "orphan"]
    assert found == (["over.lance"] if is_orphaned else [])


def test_datasets_are_maintained(server: str, tmp_path: Path) -> None:
    place = needy(tmp_path / "lake/a.lance")
    write_manifest(tmp_path, manifest_of(["a"]))
    before = fingerprint(place)
    ran = shell("maintain", "--engine", "spark", "--master", server, "--auto-approve", folder=tmp_path)
    assert (ran.code, "Applied 3 of 3" in ran.out) == (0, True), ran.err
    assert fingerprint(place) == before
    assert len(lance.dataset(place).get_fragments()) == 1


def test_workers_without_lancens_are_one_clear_error(java: None, folder: Path) -> None:
    bare = folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with spark_connect(folder, SETTINGS, str(bare)) as url:
        ran = shell("plan", "--engine", "spark", "--master", url, folder=folder)
    assert (ran.code, ran.out) == (1, "")
    error = ran.err.splitlines()[-1]
    assert "the Python of an executor has no module" in error
    assert error.endswith("where a Spark Connect server starts")


def test_a_server_that_is_not_there_is_one_clear_error(folder: Path) -> None:
    ran = shell("plan", "--engine", "spark", "--master", "sc://127.0.0.1:1", folder=folder)
    assert (ran.code, ran.out) == (1, "")
    assert "server answers at 127.0.0.1:1" in ran.err.splitlines()[-1]
