"""Many writers of one directory at once, each in a process of its own: nothing that one was told is done is lost."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pytest

from reconciler.backends.dir import DirBackend
from tests.cli.running import lancens, shell
from tests.servers.process import HUNG_SECONDS
from tests.soak import count
from tests.writing import write_manifest

TABLES, DECLARED = count(90, 300), count(12, 30)
PYLANCE = """
import sys
import lance_namespace as lance

root, name, tables = sys.argv[1], sys.argv[2], int(sys.argv[3])
lake = lance.connect("dir", {"root": root})

def until_done(call, request):
    # A client retries after a conflict; the first attempt may have done the work after all.
    for attempts in range(200):
        try:
            return call(request)
        except Exception as error:
            told = str(error)
            if attempts and ("already exists" in told or "not found" in told.lower()):
                return None
    raise SystemExit(told)

until_done(lake.create_namespace, lance.CreateNamespaceRequest(id=[name]))
for number in range(tables):
    until_done(lake.declare_table, lance.DeclareTableRequest(id=[name, f"t{number}"]))
    if number % 3 == 0:
        until_done(lake.deregister_table, lance.DeregisterTableRequest(id=[name, f"t{number}"]))
    if number % 10 == 0:
        until_done(lake.create_namespace, lance.CreateNamespaceRequest(id=[f"{name}{number}"]))
        until_done(lake.drop_namespace, lance.DropNamespaceRequest(id=[f"{name}{number}"]))
"""


def _write(folder: Path, root: Path, name: str, tier: str, first: int) -> Path:
    blocks = {f"t{number}": {"properties": {"tier": tier}} for number in range(first, first + TABLES)}
    lake = {"impl": "dir", "config": {"root": str(root)}, "namespaces": {name: {"tables": blocks}}}
    return write_manifest(folder, {"lake": lake}, name=name)


def test_two_applies_and_pylance_at_once_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    for name in ("a", "b"):
        _write(tmp_path / name, root, name, "bronze", 0)
        monkeypatch.chdir(tmp_path / name)
        assert lancens(capsys, "apply", "--auto-approve").code == 0
        _write(tmp_path / name, root, name, "silver", TABLES // 3)
    pylance = [sys.executable, "-c", PYLANCE, str(root), "p", str(DECLARED)]
    with ThreadPoolExecutor() as pool:
        applies = [
            pool.submit(shell, "apply", "--auto-approve", "--allow-mass-removal", folder=tmp_path / name)
            for name in ("a", "b")
        ]
        other = subprocess.run(pylance, capture_output=True, text=True, check=False, timeout=HUNG_SECONDS)
    assert (other.returncode, other.stderr) == (0, "")
    assert [(apply.result().code, apply.result().err[-2_000:]) for apply in applies if apply.result().code] == []
    snapshot = DirBackend(root=str(root)).scan()
    wanted = {(name, f"t{number}") for name in ("a", "b") for number in range(TABLES // 3, TABLES + TABLES // 3)}
    assert snapshot.tables.keys() == wanted | {("p", f"t{number}") for number in range(DECLARED) if number % 3}
    assert {snapshot.tables[name].properties["tier"] for name in wanted} == {"silver"}
    assert snapshot.namespaces.keys() == {("a",), ("b",), ("p",)}
    assert lance.dataset(str(root / "__manifest")).count_rows() == len(snapshot.tables) + len(snapshot.namespaces)
    for name in ("a", "b"):
        monkeypatch.chdir(tmp_path / name)
        assert lancens(capsys, "drift").code == 0
