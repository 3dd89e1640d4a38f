"""The least that credentials need: what plan and apply truly call, and runs with no more than that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.server.catalogs import OneCatalog
from reconciler.server.guard import Settings, Tokens
from tests.cli.running import lancens
from tests.servers.lance_rest import served
from tests.servers.require import tool
from tests.torture.manifests import write_manifest
from tests.torture.scenario import Table, Wanted
from tests.torture.targets.base import Target
from tests.torture.targets.servers import SERVERS

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
_FULL = bool(os.environ.get("LANCENS_SOAK"))


@pytest.fixture(params=[name for name in SERVERS if name != "dir"] if _FULL else ["serve", "glue", "dir-s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    with SERVERS[request.param](tmp_path) as made:
        yield made


def test_only_apply_writes(target: Target, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    room = target.room()
    target.prepare(room)
    target.add_namespace(room, ("a",), {})
    made = Table("create", {"tier": "gold"})
    with target.proxy() as proxy:
        monkeypatch.chdir(room.folder)

        def run(*arguments: str) -> list[str]:
            """Return the calls of a command that change something."""
            proxy.reset()
            ran = lancens(capsys, *arguments, *variables)
            assert ran.code in (0, 2), ran.err
            assert proxy.calls
            return [call for call in proxy.calls if target.is_write(call)]

        for tables in (("users", "events"), ("users",)):
            manifest = write_manifest(
                target, room, Wanted({("a",): {"team": "ml"}}, {("a", name): made for name in tables})
            )
            text = manifest.read_text()
            given = {"port": str(proxy.port), "patience": "60"}
            variables = [
                part
                for key, value in given.items()
                if f"${{var:{key}}}" in text
                for part in ("--var", f"{key}={value}")
            ]
            for reading in (["plan"], ["drift"], ["import", "--with-schema"], ["import", "--from-storage"]):
                assert run(*reading) == [], reading
            written = run("apply", "--auto-approve")
            assert written
            # Of the data nothing is deleted: what a policy denies that says so is never asked for.
            assert not [call for call in written if target.name == "dir on S3" and call.startswith("DELETE")], written
            assert run("drift") == []


# ---- a directory -----------------------------------------------------------------------------------------------------


@pytest.fixture
def readable(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a table, of which nothing may be written."""
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs: {lake: {impl: dir, config: {root: ./lake}, namespaces: {a: {tables: "
        "{t: {schema: [{name: id, type: int64}]}}}}}}\n"
    )
    assert lancens(capsys, "apply", "--auto-approve").code == 0
    lake = tmp_path / "lake"
    lance.write_dataset(pa.table({"id": [1]}), str(next(lake.glob("*$t"))), mode="append")
    everything = [lake, *lake.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield tmp_path
    for path in everything:
        path.chmod(0o755)


_IN_TURN = """
import json, sys
from reconciler.cli import main
codes = []
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as ended:
        codes.append(ended.code)
print(json.dumps(codes))
"""


def _bound(*commands: list[str]) -> tuple[list[int], str]:
    """Run commands in a process that keeps to the permissions of files, as root does not; return codes and stderr."""
    command = [sys.executable, "-c", _IN_TURN, json.dumps(commands)]
    if os.geteuid() == 0:
        command = [tool("setpriv"), "--bounding-set", "-dac_override,-dac_read_search,-fowner", *command]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr


def test_a_directory_is_planned_by_who_can_only_read(readable: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (readable / "lake").rglob("*")}
    Path("other.yaml").write_text(Path("lancens.yaml").read_text().replace("{t: {", "{u: {"))
    reading = [
        [*command, name]
        for name in ("lancens.yaml", "other.yaml")
        for command in (["plan"], ["drift"], ["import"], ["import", "--with-schema"])
    ]
    codes, err = _bound(*reading, ["apply", "other.yaml", "--auto-approve"])
    assert {*codes[:-1]} <= {0, 2}, err
    assert codes[-1] == 1
    assert "Traceback" not in err
    assert {path: path.stat().st_mtime_ns for path in (readable / "lake").rglob("*")} == before


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_a_read_token_plans_and_does_not_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = "reader-4b1e8c2f90", "writer-4b1e8c2f90"
    lake = DirBackend(root=str(tmp_path / "lake"))
    settings = Settings(tokens=Tokens(read_only=[reader], read_write=[writer]))
    monkeypatch.chdir(tmp_path)
    with served(OneCatalog(lake), settings) as url:
        Path("lancens.yaml").write_text(
            f"version: 1\nname: shop\ncatalogs: {{c: {{impl: rest, config: {{uri: '{url}', root: {tmp_path}/lake, "
            "auth_token: '${env:TOKEN}'}, namespaces: {a: {properties: {team: ml}}}}}\n"
        )
        monkeypatch.setenv("TOKEN", reader)
        assert lancens(capsys, "plan").code == 0
        refused = lancens(capsys, "apply", "--auto-approve")
        assert refused.code == 1
        assert "403" in refused.err
        assert lake.child_namespaces(()) == []
        monkeypatch.setenv("TOKEN", writer)
        assert lancens(capsys, "apply", "--auto-approve").code == 0
        monkeypatch.setenv("TOKEN", reader)
        assert lancens(capsys, "drift").code == 0
