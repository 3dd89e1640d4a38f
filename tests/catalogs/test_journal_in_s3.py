"""Journals in an object store: what they say after a kill, who reads them, and that a write waits for its intent."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.applier.journal_reader import JournalFolder, describe_journal, list_runs, read_journal
from reconciler.backends import registry
from reconciler.storage import ObjectFolder
from reconciler.storage.files import session_at
from tests.catalogs.conftest import Doomed
from tests.cli.running import lancens
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, guarded_s3
from tests.soak import count
from tests.writing import write_manifest

TABLES = 6


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with guarded_s3() as server:
        yield server.endpoint


@pytest.fixture
def journals(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the URI of an empty folder, to which the environment has the key; the current folder has a manifest."""
    for name, value in {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "LANCENS_ACTOR": "alice",
    }.items():
        monkeypatch.setenv(name, value)
    blocks = {f"t{number}": {"properties": {"api_token": "s3cret-value"}} for number in range(TABLES)}
    lake = {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {"a": {"tables": blocks}}}
    write_manifest(tmp_path, {"lake": lake})
    monkeypatch.chdir(tmp_path)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.mark.parametrize("command", ["apply --auto-approve", "runs"])
def test_a_journal_alone_imports_no_pylance(journals: str, tmp_path: Path, command: str) -> None:
    write_manifest(tmp_path, {"lake": {"impl": "memory", "config": {"name": "a"}, "namespaces": {"a": {}}}})
    code = (
        f"import sys\nfrom reconciler.cli import main\ntry:\n    main({[*command.split(), '--journal', journals]!r})\n"
        "except SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "heavy = {'lance', 'pyarrow', 'numpy'} & {*sys.modules}\nimport lance.file\n"
        "print(heavy, lance.file._LanceFileSession is sys.modules['lance.lance'].LanceFileSession)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("set() True\n"), done.stderr


def test_two_runners_see_each_others_runs(
    journals: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    applied = lancens(capsys, "apply", "--auto-approve", "--journal", journals)
    assert applied.code == 0, applied.err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    [line] = lancens(capsys, "runs", "--journal", journals).out.splitlines()
    assert "  alice  7 done of 7 changes" in line
    shown = lancens(capsys, "show", line.split()[0], "--journal", journals).out
    assert "actor alice" in shown
    assert "s3cret-value" not in shown
    [uri] = JournalFolder(journals).runs()
    record = read_journal(uri)
    assert record.finished
    assert record.header["plan"]
    assert len(record.intents) == len(record.outcomes) == TABLES + 1


def test_an_object_that_is_lost_is_missed_and_the_rest_is_shown(
    journals: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lancens(capsys, "apply", "--auto-approve", "--journal", journals).code == 0
    write_manifest(Path(), {"lake": {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {"a": {}}}})
    assert lancens(capsys, "apply", "--auto-approve", "--allow-mass-removal", "--journal", journals).code == 0
    folder = JournalFolder(journals)
    uri = next(uri for uri in folder.runs() if "deregister-table" in describe_journal(read_journal(uri)))
    names = ObjectFolder(uri, {}).names()
    session_at(uri, {}).delete_file(names[len(names) // 2])
    listed = lancens(capsys, "runs", "--journal", journals)
    assert (listed.code, listed.out.count("; incomplete: ")) == (1, 1)
    run = uri.rpartition("/")[2]
    for options, shown in (((), "! missing: object "), (("--manifest",), "# Missing from the journal: object ")):
        ran = lancens(capsys, "show", run, *options, "--journal", journals)
        assert (ran.code, shown in ran.out) == (1, True), ran
        assert "is incomplete: it lacks object " in ran.err


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(count(4, 20)))
def test_a_kill_leaves_a_journal_that_says_what_was_begun(
    journals: str, capsys: pytest.CaptureFixture[str], doomed: Doomed, seed: int
) -> None:
    dice = random.Random(seed)
    # However the tables' intents are put together, there are the header, intent and commit twice each, and the summary.
    point = {"lives": dice.randint(2, 6), "after": dice.choice((False, True))}
    apply = ("apply", "--auto-approve", "--journal", journals, "--parallelism", "1")
    code, printed = doomed("at_write", *apply, **point)
    assert code is None, printed
    there = registry.connect("dir", {"root": "lake"}).scan()
    made = {"/".join(name) for name in (*there.tables, *there.namespaces)}
    begun: set[str] = set()
    for uri in JournalFolder(journals).runs():
        begun |= {intent["address"].partition("/")[2] for intent in read_journal(uri).intents.values()}
    assert made <= begun, "nothing is written before its intent is stored"
    assert lancens(capsys, "apply", "--auto-approve", "--journal", journals).code == 0
    assert "did not finish" in "\n".join(run.line for run in list_runs(JournalFolder(journals)))


def test_a_store_that_is_not_there_stops_the_apply_before_its_first_write(
    journals: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody-else")
    refused = lancens(capsys, "apply", "--auto-approve", "--journal", journals)
    assert refused.code == 1
    assert "Nothing was changed" in refused.err
    assert not Path("lake").exists()
    for odd in ("ftp://ops/journals", "s3://user:word@ops/x"):
        unusable = lancens(capsys, "apply", "--auto-approve", "--journal", odd)
        assert unusable.code == 1
        assert "word" not in unusable.err
