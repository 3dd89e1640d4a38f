"""``make mutants``: change one thing in the planner, the applier or a backend at a time, and see whether a test fails.

python -m tests.mutants                         # a sample, whose seed is printed
python -m tests.mutants --number 5 --seed 42    # the same five again
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "main", "mutants_of"]

ROOT = Path(__file__).parents[1]
ROOMS = {
    "planner": ["tests/unit/planner", "tests/unit/output", "tests/unit/test_mirrors.py", "tests/applier", "tests/cli"],
    "applier": ["tests/unit/applier", "tests/applier", "tests/cli", "tests/catalogs/test_dir_interrupted.py"],
    "backends/dir": [
        "tests/catalogs/test_dir.py",
        "tests/catalogs/test_dir_parts.py",
        "tests/catalogs/test_conformance.py",
    ],
    "backends/glue": ["tests/catalogs/glue"],
    "backends/http": ["tests/unit/test_http.py", "tests/catalogs/rest"],
    "backends/rest": ["tests/catalogs/rest"],
}
"""The rooms that are mutated, each with the tests that hold it and need no JVM."""

_NEEDED = (
    "reconciler",
    "tests",
    "schemas",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "action.yml",
    "CHANGELOG.md",
)
_HANGS_SECONDS = 900
_SWAPS: dict[type[ast.cmpop] | type[ast.boolop], type[ast.cmpop] | type[ast.boolop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    path: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.before}` is `{self.after}`"


def mutants_of(path: Path, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            mutated = copy.deepcopy(tree)
            found = next(one for at, one in enumerate(ast.walk(mutated)) if at == number)
            change(found)
            ast.fix_missing_locations(mutated)
            yield Mutant(path, getattr(node, "lineno", 0), _shown(node), _shown(found), ast.unparse(mutated))


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 100 else f"{text[:97]}..."


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            yield lambda found: setattr(found, "ops", [_SWAPS[type(found.ops[0])]()])  # type: ignore[attr-defined]
        case ast.BoolOp():
            yield lambda found: setattr(found, "op", _SWAPS[type(found.op)]())  # type: ignore[attr-defined]
        case ast.If(test=test) | ast.IfExp(test=test) if ast.unparse(test) != "TYPE_CHECKING":
            yield lambda found: setattr(found, "test", ast.UnaryOp(ast.Not(), found.test))  # type: ignore[attr-defined]
        case ast.Return(value=value) if value is not None and ast.unparse(value) != "None":
            yield lambda found: setattr(found, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield lambda found: setattr(found, "value", ast.Constant(None))


def _sample(rooms: Sequence[str], dice: random.Random, number: int) -> Iterator[tuple[str, Mutant]]:
    for _ in range(number):
        room = dice.choice(rooms)
        files = sorted(path for path in (ROOT / "reconciler" / room).rglob("*.py") if "/gen/" not in str(path))
        while not (found := list(mutants_of((path := dice.choice(files)).relative_to(ROOT), path.read_text("utf-8")))):
            pass
        yield room, dice.choice(found)


def _failure(tests: Sequence[str], folder: Path) -> str:
    """Run tests over a copy of the project; return what pytest printed if they fail or hang, else nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", "--timeout", "300"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_HANGS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the tests hang"
    return done.stdout or "the tests fail" if done.returncode else ""


def _survives(mutant: Mutant, tests: Sequence[str], folder: Path) -> bool:
    """Return whether the tests pass over a copy of the project that has the mutant."""
    file = folder / mutant.path
    kept = file.read_text("utf-8")
    file.write_text(mutant.source, "utf-8")
    try:
        return not _failure(tests, folder)
    finally:
        file.write_text(kept, "utf-8")


def main() -> int:
    """Run a sample; print each mutant and how it ended. Return 1 if one survives, 2 if tests fail without one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--room", choices=ROOMS, action="append")
    told = parser.parse_args()
    print(f"seed {told.seed}", flush=True)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        for needed in _NEEDED:
            source = ROOT / needed
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / needed)
        sound: set[str] = set()
        for room, mutant in _sample(told.room or list(ROOMS), random.Random(told.seed), told.number):
            if room not in sound and (failure := _failure(ROOMS[room], folder)):
                print(f"the tests of {room} fail without any mutant:\n{failure}")
                return 2
            sound.add(room)
            survives = _survives(mutant, ROOMS[room], folder)
            survivors += survives
            print(f"{'SURVIVES' if survives else 'killed  '} {mutant}", flush=True)
    print(f"{told.number - survivors} of {told.number} killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
