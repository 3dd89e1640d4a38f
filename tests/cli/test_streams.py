"""Streams that are closed, `-` for stdout, and files that are not regular ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.backends.dir import DirBackend
from tests.cli.running import lancens, shell
from tests.servers.process import HUNG_SECONDS

pytestmark = pytest.mark.end_to_end  # each test is about a process of its own

MANIFEST = "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}, namespaces: {a: {}}}\n"


@pytest.fixture
def lake(folder: Path) -> Path:
    """Return the root of the manifest's catalog."""
    (folder / "lake").mkdir()
    return folder / "lake"


def _redirected(command: str, redirection: str) -> subprocess.CompletedProcess[str]:
    script = f'exec "$0" -c "from reconciler.cli import main; main()" {command} {redirection}'
    return subprocess.run(
        ["bash", "-c", script, sys.executable], capture_output=True, text=True, check=False, timeout=HUNG_SECONDS
    )


@pytest.mark.parametrize(
    ("command", "redirection", "code", "said"),
    [
        ("apply", "<&-", 1, "stdin is not a terminal"),
        ("plan -", "<&-", 1, "the manifest has no keys"),
        ("plan --detailed-exitcode", ">&-", 2, "Read 1 catalog"),
        ("plan --detailed-exitcode", "2>&-", 2, ""),
        ("apply --auto-approve", "<&- >&- 2>&-", 0, ""),
    ],
)
def test_a_closed_stream_is_one_without_a_reader(
    lake: Path, command: str, redirection: str, code: int, said: str
) -> None:
    ran = _redirected(command, redirection)
    assert (ran.returncode, said in ran.stderr) == (code, True), ran.stderr
    assert DirBackend(root=str(lake)).child_namespaces(()) == (
        ["a"] if command.startswith("apply") and not code else []
    )


def test_no_file_takes_the_place_of_a_closed_stream(lake: Path) -> None:
    """What is written to stdout would end up in whichever file was opened first, such as the journal."""
    assert _redirected("apply --auto-approve", "<&- >&- 2>&-").returncode == 0
    [journal] = Path(".lancens").iterdir()
    assert [json.loads(line)["entry"] for line in journal.open()] == ["header", "intent", "outcome", "summary"]


@pytest.mark.parametrize("command", [("import",), ("init",), ("schema",), ("plan",)])
def test_a_dash_is_stdout(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("reconciler.writing.starting.new_id", lambda: "1f2e")
    before = sorted(Path().iterdir())
    plain = {"init": ("init", "-o", "new.yaml"), "plan": ("plan", "--format", "json")}.get(command[0], command)
    expected = lancens(capsys, *plain).out
    if command == ("init",):
        expected = Path("new.yaml").read_text()
        Path("new.yaml").unlink()
    ran = lancens(capsys, *command, "-o", "-")
    assert (ran.code, ran.out, sorted(Path().iterdir())) == (0, expected, before)
    assert expected


def test_a_dash_and_a_format_are_two_things_for_stdout(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "plan", "-o", "-", "--format", "html").code == 1
    assert not Path("-").exists()


def test_a_result_goes_into_what_is_no_regular_file(lake: Path) -> None:
    """A device that is replaced by a file is gone for everybody else on the machine."""
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert shell("plan", "-o", "pipe").code == 0
    assert Path("pipe").is_fifo()
    assert json.loads(os.read(reader, 65536))["manifest"]["name"] == "shop"
    os.close(reader)


def test_a_result_goes_into_a_pipe_that_the_shell_names(lake: Path) -> None:
    for redirection in ("-o /dev/stdout | cat", "-o >(cat)"):
        ran = _redirected(f"plan {redirection}", "")
        assert '"name": "shop"' in ran.stdout, ran.stderr


def test_a_reader_that_leaves_is_no_traceback(lake: Path) -> None:
    assert "Traceback" not in _redirected("plan --format html", "| head -c 10").stderr


def test_a_plan_of_stdin_cannot_be_applied_and_says_so(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("plan", "-", "-o", "plan.json", stdin=Path("lancens.yaml").read_text()).code == 0
    ran = lancens(capsys, "apply", "plan.json", "--auto-approve")
    assert (ran.code, "made from stdin" in ran.err) == (1, True)


def test_no_command_is_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    ran = lancens(capsys)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == lancens(capsys, "--help").out


def test_a_stdout_that_lacks_characters_is_no_bug(lake: Path) -> None:
    Path("lancens.yaml").write_text(Path("lancens.yaml").read_text().replace("{a: {}}", "{日本: {}}"), "utf-8")
    ran = shell("show", "lake/日本", PYTHONIOENCODING="latin-1")
    assert (ran.code, "PYTHONIOENCODING=utf-8" in ran.err) == (1, True), ran.err


# ---- folders with more than regular files in them


@pytest.mark.parametrize("special", ["fifo", "endless"])
def test_a_folder_is_read_without_what_is_no_regular_file(lake: Path, special: str) -> None:
    assert shell("apply", "--auto-approve").code == 0
    Path("teams").mkdir()
    Path("teams/a.yaml").write_text(Path("lancens.yaml").read_text())
    for path in (Path(".lancens/zz.jsonl"), Path("teams/b.yaml")):
        if special == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
    runs = _redirected("runs", "")
    assert (runs.returncode, len(runs.stdout.splitlines())) == (0, 2), runs.stderr
    assert "zz.jsonl" in runs.stdout
    valid = _redirected("validate teams", "")
    assert (valid.returncode, valid.stderr) == (0, "")


def test_metadata_that_is_no_regular_file_is_not_waited_for(lake: Path) -> None:
    backend = DirBackend(root=str(lake))
    (lake / "t.lance/metadata").mkdir(parents=True)
    os.mkfifo(lake / "t.lance/metadata/v1.metadata.json")
    backend.insert_namespace(("b",), {})
    Path("lancens.yaml").write_text(
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n    namespaces:\n"
        "      b: {tables: {t: {location: ./lake/t.lance, schema: [{name: id, type: int64}]}}}\n"
    )
    ran = _redirected("plan", "")
    assert (ran.returncode, "blocked" in ran.stdout) == (3, True), ran.stderr
