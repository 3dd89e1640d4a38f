"""What users and vendors may import: the names in ``__all__`` of the modules that CONTRIBUTING calls public."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconciler
from tests.pages.blocks import PAGES, ROOT, sections
from tests.size import nodes

_OF_THE_ROOMS = {"CONTRIBUTING.md"}
"""The page for those who change lancens itself."""


def public_modules() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    sentence = re.search(r"^The public modules are (.*?), and of these", text, re.MULTILINE | re.DOTALL)
    assert sentence
    return re.findall(r"`([\w.]+)`", sentence[1])


def names_in(code: str) -> Iterator[str]:
    """Yield the dotted names of lancens that code imports, or reads of the package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and re.fullmatch(r"[\w.]+", name := ast.unparse(node)):
            yield name


def written() -> Iterator[tuple[str, str]]:
    """Yield the dotted names on pages and in examples, and where they stand."""
    for section in sections():
        for block in section.blocks:
            if block.language == "python":
                where = f"{section.page.relative_to(ROOT)}:{block.line}"
                yield from ((where, name) for name in names_in(block.text))
    for page in PAGES:
        text = page.read_text("utf-8")
        for module, names in re.findall(r"from (reconciler[\w.]*) import ([\w, ]+)", text):
            yield from ((str(page.relative_to(ROOT)), f"{module}.{name.strip()}") for name in names.split(","))
        yield from ((str(page.relative_to(ROOT)), name) for name in re.findall(r"`(reconciler\.[\w.]+\w)", text))
    for path in sorted(ROOT.glob("examples/**/*.py")):
        yield from ((str(path.relative_to(ROOT)), name) for name in names_in(path.read_text("utf-8")))


def is_public(name: str) -> bool:
    """Return whether a name is a public module, one of its names, or an attribute of such a name."""
    first, *others = name.split(".")
    modules = public_modules()
    while others and f"{first}.{others[0]}" in modules:
        first = f"{first}.{others.pop(0)}"
    return not others or others[0] in importlib.import_module(first).__all__


def test_docs_and_examples_name_public_modules_and_names_only() -> None:
    private = [
        f"{where}: {name}"
        for where, name in written()
        if name.partition(".")[0] == "reconciler"
        and where.partition(":")[0] not in _OF_THE_ROOMS
        and not is_public(name)
    ]
    assert private == []


def test_what_is_not_public_is_found() -> None:
    code = (
        "import reconciler.storage\nfrom reconciler import plan\nfrom reconciler.output import text\nreconciler.nothing"
    )
    found = [*names_in(code), "reconciler.Plan.from_json", "reconciler.spark", "reconciler.pipeline.engine"]
    assert [name for name in found if not is_public(name)] == [
        "reconciler.storage",
        "reconciler.output.text",
        "reconciler.nothing",
        "reconciler.pipeline.engine",
    ]


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
