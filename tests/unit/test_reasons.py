"""Reason codes: documented, each with the object it is about, and the only thing that anything decides by."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from reconciler.model.reasons import NoteCode, ReasonCode
from tests.size import nodes, sources

ROOT = Path(__file__).parents[2]
SOURCES = sources()
_WORDS = {"reason", "remedy"}
_TESTS_OF_TEXT = {"startswith", "endswith", "find", "index", "partition", "rpartition", "removeprefix", "removesuffix"}
_TESTS_OF_TEXT |= {"match", "fullmatch", "search", "split", "count"}


def _is_words(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _WORDS


def _is_said(node: ast.expr) -> bool:
    """Return whether an expression is a text, or a name for one."""
    return not (isinstance(node, ast.Constant) and node.value is None)


def decisions_on_words(tree: Iterable[ast.AST]) -> Iterator[int]:
    """Yield each line that compares a reason or a remedy with a text, or looks for one in it."""
    for node in tree:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_words, sides)) and all(_is_said(side) or _is_words(side) for side in sides):
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _TESTS_OF_TEXT
            and any(map(_is_words, [node.func.value, *node.args]))
        ):
            yield node.lineno


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("one.reason == SAID", [1]),
        ("'gone' in one.remedy", [1]),
        ("one.reason.startswith('it')", [1]),
        ("re.search('it', one.reason)", [1]),
        ("one.reason is None", []),
        ("one.code is ReasonCode.ABSENT", []),
        ("print(one.reason)", []),
    ],
)
def test_decisions_on_words_are_found(code: str, found: list[int]) -> None:
    assert [*decisions_on_words(ast.walk(ast.parse(code)))] == found


def test_nothing_decides_on_words() -> None:
    found = {path: [*decisions_on_words(nodes(path))] for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_every_code_is_documented_and_in_the_schema() -> None:
    page = (ROOT / "docs/plan.md").read_text("utf-8")
    section = page.partition("### Reason codes")[2].partition("## From Python")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    named = [set(re.findall("`([a-z-]+)`", line.rpartition(" | `")[2].join("``"))) for line in rows]
    assert set().union(*named[:-1]) - {"release"} == {code.value for code in ReasonCode}
    assert named[-1] == {code.value for code in NoteCode}
    schema = json.loads((ROOT / "schemas/plan.schema.json").read_text("utf-8"))
    for codes in (ReasonCode, NoteCode):
        assert schema["$defs"][codes.__name__]["enum"] == [code.value for code in codes]


def test_every_code_is_given_somewhere() -> None:
    used = "".join(path.read_text("utf-8") for path in SOURCES if path.name != "reasons.py")
    for codes in (ReasonCode, NoteCode):
        assert [code for code in codes if f"{codes.__name__}.{code.name}" not in used] == []
