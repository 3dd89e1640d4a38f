"""What users and vendors may import: the names in ``__all__`` of the modules that CONTRIBUTING calls public."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from tests.pages.blocks import ROOT, sections
from tests.size import nodes

_LATER = {"docs/writing-a-backend.md"}


def public_modules() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    sentence = re.search(r"^The public modules are (.*?), and of these", text, re.MULTILINE | re.DOTALL)
    assert sentence
    return re.findall(r"`([\w.]+)`", sentence[1])


def promised() -> dict[str, set[str]]:
    """Return the names in ``__all__`` of each public module."""
    return {name: set(importlib.import_module(name).__all__) for name in public_modules()}


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of lancens that code imports, with the names that it takes of each."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "reconciler":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "reconciler")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reconciler":
            yield "reconciler", node.attr


def examples() -> Iterator[tuple[str, str]]:
    """Yield the Python of each page and example, and where it stands."""
    for section in sections():
        for block in section.blocks:
            where = str(section.page.relative_to(ROOT))
            if where not in _LATER:
                yield f"{where}:{block.line}", block.text if block.language == "python" else ""
    for page in ROOT.glob("docs/**/*.md"):
        for code in re.findall(r"`(from reconciler[^`]*)`", page.read_text("utf-8")):
            yield str(page.relative_to(ROOT)), code
    for path in sorted(ROOT.glob("examples/**/*.py")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def unpromised(code: str) -> list[str]:
    names = promised()
    return [
        f"{module}.{name}" if name else module
        for module, name in imported(code)
        if module not in names or (name and name not in names[module])
    ]


def test_docs_and_examples_import_public_names_only() -> None:
    assert {where: found for where, code in examples() if (found := unpromised(code))} == {}


def test_what_is_not_public_is_found() -> None:
    code = (
        "import reconciler.storage\nfrom reconciler import plan\nfrom reconciler.output import text\nreconciler.nothing"
    )
    assert sorted(unpromised(code)) == ["reconciler.nothing", "reconciler.output.text", "reconciler.storage"]


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_is_there(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in found.__all__ if getattr(found, name, None) is None] == []


def test_the_page_of_the_python_api_names_all_of_it() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    assert [name for name in reconciler.__all__ if not re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", page)] == []
    assert [name for name in public_modules() if f"| `{name}` |" not in page] == []


def test_the_names_that_are_loaded_late_are_those_that_types_know() -> None:
    [block] = [
        node
        for node in nodes(Path(reconciler.__file__))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    typed = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == reconciler._LAZY
