"""Files that are read in other processes say what they say when they are read in this one."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.manifest import ManifestInParts, load, load_in_parts, loading
from reconciler.manifest.apart import ApartContent, ApartReader, FileApart
from reconciler.manifest.workers import read_apart

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all files are read in one process")

FILES = 5


def manifest(folder: Path, team: str = "", tables: int = 3) -> Path:
    (folder / "teams").mkdir()
    for number in range(FILES):
        blocks = "".join(f"          t{table}: {{properties: {{tier: gold}}}}\n" for table in range(tables))
        text = f"catalogs:\n  lake:\n    namespaces:\n      n{number}:\n        tables:\n{blocks}"
        (folder / f"teams/{number}.yaml").write_text(text if number != 2 else text + team)
    main = folder / "lancens.yaml"
    main.write_text(
        "version: 1\nname: store\ninclude: [teams/*.yaml]\ncatalogs: {lake: {impl: dir, config: {root: ./lake}}}\n"
    )
    return main


def in_parts(path: Path) -> ManifestInParts:
    parts = load_in_parts(path)
    assert isinstance(parts, ManifestInParts)
    assert len(parts.files) == FILES
    return parts


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_files_say_the_same_in_other_processes(tmp_path: Path, processes: int) -> None:
    parts = in_parts(manifest(tmp_path))
    assert list(read_apart(parts.reader, parts.files, processes)) == list(read_apart(parts.reader, parts.files, 1))


def test_what_large_files_say_is_the_whole_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = manifest(tmp_path)
    whole = load(path)
    monkeypatch.setattr(loading, "_LARGE", 1)
    monkeypatch.setattr(loading, "read_apart", lambda reader, files: read_apart(reader, files, 2))
    apart = load(path)
    assert (apart.digest, apart.files) == (whole.digest, whole.files)
    assert apart.catalogs["lake"].desired == whole.catalogs["lake"].desired


def test_a_process_that_is_killed_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = in_parts(manifest(tmp_path))
    here, genuine = os.getpid(), ApartReader.read

    def killed(reader: ApartReader, file: FileApart, catalog: str) -> ApartContent | None:
        if os.getpid() != here and file.names["lake"] == ("n3",):
            os._exit(9)
        return genuine(reader, file, catalog)

    monkeypatch.setattr(ApartReader, "read", killed)
    found = [content is not None for _, content in read_apart(parts.reader, parts.files, 2)]
    assert found == [True, True, True, False, True]
    monkeypatch.setattr(loading, "read_apart", lambda reader, files: read_apart(reader, files, 2))
    assert len(parts.together().catalogs["lake"].desired.tables) == 3 * FILES


def test_no_process_stays_when_the_rest_is_not_wanted(tmp_path: Path) -> None:
    parts = in_parts(manifest(tmp_path, "          t7: {location: []}\n"))
    with closing(read_apart(parts.reader, parts.files, 3)) as contents:
        assert [content is None for _, content in (next(contents), next(contents), next(contents))][-1]
        assert multiprocessing.active_children()
    assert not multiprocessing.active_children()


def test_no_process_stays_when_the_one_that_waits_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from reconciler.manifest import load_in_parts, workers\n"
        "parts = load_in_parts(sys.argv[1])\n"
        "contents = workers.read_apart(parts.reader, parts.files, 2)\n"
        "next(contents)\n"
        "print(*(one.pid for one in workers.multiprocessing.active_children()), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    path = manifest(tmp_path, tables=2_000)  # more than a pipe holds
    # The end of what they print comes when the last process is gone.
    killed = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert killed.returncode == -9
    assert len(killed.stdout.split()) == 2
