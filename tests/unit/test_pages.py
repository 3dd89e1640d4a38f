"""The pages hold together: every link leads somewhere, and every backend has a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.cli import _COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


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
