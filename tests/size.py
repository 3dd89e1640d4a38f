"""Print the lines of code proper of ``reconciler/`` by room: ``python -m tests.size``.

Docstrings, comments, blank lines and generated files do not count.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "reconciler"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def sources() -> list[Path]:
    """Return the modules that people wrote."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "gen" not in path.parts]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the syntax of a module, the module itself first; each is parsed and walked once in a process."""
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def size_by_room() -> Counter[str]:
    """Return how many lines of code each room holds; modules at the top are one room."""
    rooms: Counter[str] = Counter()
    for path in sources():
        parts = path.relative_to(PACKAGE).parts
        rooms[parts[0] if len(parts) > 1 else "(top)"] += len(code_lines(path.read_text()))
    return rooms


if __name__ == "__main__":
    rooms = size_by_room()
    print(f"{rooms.total():,} lines of code proper")
    for room, count in rooms.most_common():
        print(f"{count:8,}  {room}")
