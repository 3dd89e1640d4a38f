"""Tests assert codes, states and short phrases, so that sentences can be worded better without breaking one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONG, WORDS = 40, 5
"""From how many characters and words on a text is a sentence."""
MOST = 24
"""SQL, command lines, tables, and what the tests' own stand-ins say are sentences by that measure too."""


def _asserted(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.test
        elif isinstance(node, ast.Call):
            yield from (word.value for word in node.keywords if word.arg == "match")


def _is_a_sentence(node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and len(text) >= LONG and len(text.split(" ")) >= WORDS and text.count("\n") < 2


def test_few_sentences_are_asserted() -> None:
    found = {
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in TESTS.rglob("*.py")
        for asserted in _asserted(ast.parse(path.read_text("utf-8")))
        for node in ast.walk(asserted)
        if isinstance(node, ast.Constant) and _is_a_sentence(node)
    }
    assert len(found) <= MOST, sorted(found)
