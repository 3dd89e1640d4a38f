"""The tasks of "How do I …": what the page shows is run, each task in a folder of its own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import lance
import pytest

from tests.cli.running import lancens

PAGE = Path(__file__).parents[2] / "docs/how-do-i.md"
BLOCK = re.compile(r"^```(yaml|console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
START, *TASKS = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
EXITS = re.compile(r" +# exits (\d)$")


def follow(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Do what ``text`` shows, in the current folder: write the manifest, run the commands, run the Python."""
    for kind, block in BLOCK.findall(text):
        if kind == "yaml":
            Path("lancens.yaml").write_text(block, "utf-8")
        elif kind == "python":
            exec(block, {})  # noqa: S102 - what a reader is told to run
        else:
            for command, *said in (part.splitlines() for part in block.split("$ ")[1:]):
                run(command, said, capsys)


def run(command: str, said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    exits = EXITS.search(command)
    program, *arguments = shlex.split(EXITS.sub("", command))
    assert program == "lancens"
    answer = lancens(capsys, *arguments)
    assert answer.code == (int(exits[1]) if exits else 0), answer
    shown = " ".join(answer.out.split())
    assert [line for line in said if " ".join(line.split()) not in shown] == [], answer.out


@pytest.mark.parametrize("task", TASKS, ids=[task.partition("\n")[0] for task in TASKS])
def test_a_task_is_done_as_the_page_says(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    follow(START, capsys)
    follow(task, capsys)
    assert lance.dataset("lake/users.lance").count_rows() == 1000
