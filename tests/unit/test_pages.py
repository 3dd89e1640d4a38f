"""The pages hold together: every link leads somewhere, and every backend has a page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from reconciler.backends import registry
from reconciler.cli import _COMMANDS, _lancens

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = {"&&", "||", "|", ";", ">", ">>", "<"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_readme_names_every_backend() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in registry.names() if f"`{name}`" not in readme] == []


def test_the_commands_page_names_every_command() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in _COMMANDS if f"`lancens {name}" not in page] == []


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    schema = "https://github.com/lancens/lancens/blob/main/schemas/plan.schema.json"
    assert schema in (tmp_path / "plan" / "index.html").read_text(encoding="utf-8")


def _commands(page: Path) -> list[list[str]]:
    """Return the arguments of every call of `lancens` in the shell blocks of a page."""
    found = []
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while "lancens" in words:
                words = words[words.index("lancens") + 1 :]
                end = next((place for place, word in enumerate(words) if word in SHELL), len(words))
                found.append(words[:end])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_is_one_that_the_command_line_takes(page: Path) -> None:
    for name, *arguments in _commands(page):
        command = _lancens.get_command(click.Context(_lancens), name)
        assert command is not None, f"{name} is not a command"
        try:
            command.make_context(name, arguments)
        except click.UsageError as error:
            pytest.fail(f"lancens {shlex.join([name, *arguments])}: {error.format_message()}")
