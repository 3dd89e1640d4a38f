"""The pages hold together: every link leads somewhere, and every backend has a page."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from reconciler.backends import registry
from reconciler.cli import _COMMANDS, _lancens
from reconciler.model.backend_config import describe_keys
from reconciler.model.errors import LancensError
from tests.cli.running import lancens
from tests.pages.blocks import PAGES, ROOT, calls, first_yaml, mentions, sections, untagged
from tests.pages.runs import ANSWERS, NOT_RUN, RUNS, run_of
from tests.size import nodes, sources

LINK = re.compile(r"\]\(([^)\s]+)\)")
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/lancens/lancens/blob/main/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []
    ours = [target.removeprefix(REPOSITORY) for target in targets if target.startswith(REPOSITORY)]
    assert [target for target in ours if not (ROOT / target).exists()] == []
    if page.is_relative_to(DOCS):  # the site has nothing else
        left = [target for target in local if not (page.parent / target).resolve().is_relative_to(DOCS)]
        assert left == [], f"write {REPOSITORY}PATH"


def test_the_readme_names_every_backend() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in registry.names() if f"`{name}`" not in readme] == []


CATALOG_PAGES = {name: ROOT / f"docs/catalogs/{name.rstrip('23')}.md" for name in registry.names()}


@pytest.mark.parametrize("name", CATALOG_PAGES)
def test_the_page_of_a_catalog_begins_with_a_manifest_that_is_valid(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = first_yaml(CATALOG_PAGES[name])
    assert re.search(rf"impl: {name.rstrip('23')}\d?$", text, re.MULTILINE)
    (tmp_path / "lancens.yaml").write_text(text, "utf-8")
    ran = lancens(capsys, "validate", tmp_path / "lancens.yaml")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("name", CATALOG_PAGES)
def test_the_page_of_a_catalog_has_every_key_and_its_default(name: str) -> None:
    page = CATALOG_PAGES[name].read_text("utf-8")
    rows = [re.split(r"(?<!\\)\|", line)[1:3] for line in page.splitlines() if line.startswith("| `")]
    defaults = {key.replace("NAME", "*"): row[1].strip() for row in rows for key in re.findall(r"`([^`]+)`", row[0])}
    for key in describe_keys(registry.backend_class(name).config_model):
        shown = defaults[key.key.replace("warehouses.*", "warehouses.ALIAS")]
        if key.is_preferred and key.is_required:
            assert shown == "required", key.key
        elif key.is_preferred and key.default is not None:
            assert shown == f"`{key.default.removesuffix('.0')}`", key.key


def test_the_commands_page_names_every_command() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in _COMMANDS if f"`lancens {name}" not in page] == []


@pytest.mark.end_to_end
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    text = (tmp_path / "build/docs/plan/index.html").read_text(encoding="utf-8")
    assert f'href="{REPOSITORY}schemas/plan.schema.json"' in text
    assert "https://fonts." not in text


def test_the_navigation_has_every_page_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    shown = re.findall(r"[\w/-]+\.md", str(nav))
    assert sorted(shown) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def parse_problem(name: str, arguments: list[str]) -> str | None:
    """Return why the command line does not take a command, None where it does."""
    command = _lancens.get_command(click.Context(_lancens), name)
    if command is None:
        return f"{name} is not a command"
    try:
        command.make_context(name, [*arguments])
    except click.UsageError as error:
        return f"lancens {shlex.join([name, *arguments])}: {error.format_message()}"
    except LancensError as error:
        if "the variables in" not in str(error):  # a file that is read with the command line, and is not here
            raise
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_is_one_that_the_command_line_takes(page: Path) -> None:
    assert [problem for name, *arguments in calls(page) if (problem := parse_problem(name, arguments))] == []
    named = [words for words in mentions(page) if words and not words[0].isupper()]
    problems = [problem for name, *arguments in named if (problem := parse_problem(name, arguments))]
    assert [problem for problem in problems if "Missing" not in problem] == []  # a command without what it takes


def test_all_that_a_reader_types_is_run_or_said_not_to_be() -> None:
    """What runs it is tests/pages."""
    assert untagged() == [], "write `sh` or `console` behind the fence"
    unrun = [
        f"{section}: {line}"
        for section in sections()
        if run_of(section) is None and str(section) not in NOT_RUN
        for block in section.blocks
        for line in (block.commands if block.language != "python" else ["python"])
        if not line.startswith((*NOT_RUN, "#"))
    ]
    assert unrun == [], "say in tests/pages/runs.py where it runs, or why not"


def test_nothing_is_said_to_be_run_that_is_on_no_page() -> None:
    found = {str(section) for section in sections()}
    lines = [line for section in sections() for block in section.blocks for line in block.commands]
    assert {name for name in RUNS if name not in found} == {ANSWERS}
    assert [text for text in NOT_RUN if text not in found and not any(line.startswith(text) for line in lines)] == []
    answers = {section.title.strip("… ?") for section in sections() if str(section).startswith(ANSWERS)}
    assert len(answers) >= 20
    assert answers >= {
        "rename a table",
        "split a manifest into files",
        "give a table to another team",
        "take a column away",
        "bring back what was removed",
    }


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts of a module; what an f-string fills in is an ellipsis."""
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    written = "\n".join(text for path in sources() for text in _texts(path))
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    parts = {part.strip("?!; ") for row in rows for text in re.findall("`([^`]+)`", row) for part in text.split("…")}
    assert len(parts) > 20
    assert [part for part in sorted(parts) if part not in written] == []


def test_the_extras_that_pages_install_are_there() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    named = {extra for some in re.findall(r"(?:lancens|\.)\[([a-z,]+)\]", text) for extra in some.split(",")}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert named - declared.keys() == set()
    assert {"glue", "spark"} <= named
