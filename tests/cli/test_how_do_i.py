"""The commands of docs/how-do-i.md, run as they stand there, each answer in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-do-i.md"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def sections() -> Iterator[tuple[str, str]]:
    _, *parts = re.split(r"^## (.*)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    yield from zip(parts[::2], parts[1::2], strict=True)


def run(folder: Path, *command: str, stdin: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command, cwd=folder, input=stdin, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{stdin}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the manifest of the page was applied."""
    folder = tmp_path_factory.mktemp("start")
    [(language, manifest), *_] = _BLOCK.findall(PAGE.read_text("utf-8"))
    assert language == "yaml"
    (folder / "lancens.yaml").write_text(manifest, "utf-8")
    run(folder, "sh", "-eu", stdin="lancens apply --auto-approve")
    return folder


def test_there_are_twenty_answers_and_the_first_ones_asked_for_are_among_them() -> None:
    titles = {title.strip("… ?") for title, _ in sections()}
    assert len(titles) >= 20
    assert titles >= {
        "rename a table",
        "split a manifest into files",
        "give a table to another team",
        "take a column away",
        "bring back what was removed",
    }


@pytest.mark.parametrize(("title", "answer"), sections(), ids=[title.strip("… ?") for title, _ in sections()])
def test_the_answer_works(title: str, answer: str, start: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "here"
    shutil.copytree(start, folder)
    blocks = _BLOCK.findall(answer)
    assert blocks, title
    shown = ""
    for language, text in blocks:
        match language:
            case "sh":
                shown = run(folder, "sh", "-eu", stdin=text)
            case "python":
                shown = run(folder, sys.executable, "-", stdin=text)
            case _:
                continue
    assert shown or "mkdir" in answer or "validate" in answer or ">" in answer, title
