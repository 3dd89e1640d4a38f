"""``make mutants``: change one thing of lancens at a time, and see whether a test fails.

python -m tests.covered                                     # once for a version: which tests run which lines
python -m tests.mutants --result before.jsonl               # the fixed sample
python -m tests.mutants --again before.jsonl --result after.jsonl
python -m tests.mutants --compare before.jsonl after.jsonl  # what was killed before and is alive after

A mutant is named by its file, its text and its occurrence there, and the sample is drawn by the hash of that name:
other code may move or change, and the sample stays. Each runs in a fork of a process that has collected the tests and
replaces the code of live functions. What importing has run already is run by a process of its own instead.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import heapq
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.covered import COVERED, ROOT, Covered

__all__ = ["ROOMS", "Mutant", "Outcome", "alive_again", "main", "mutants_of", "picked", "replace_code"]

ROOMS = {
    "planner": ["tests/unit/planner", "tests/unit/output", "tests/unit/test_mirrors.py"],
    "applier": ["tests/unit/applier", "tests/applier", "tests/catalogs/test_dir_interrupted.py"],
    "storage": ["tests/unit/test_storage.py", "tests/unit/test_storage_inspection.py"],
    "manifest": ["tests/unit/manifest"],
    "operations": ["tests/unit/test_operations_examples.py", "tests/cli"],
    "namespace": ["tests/server/test_namespace.py"],
    "server": ["tests/server"],
    "action": [
        "tests/action/test_api.py",
        "tests/action/test_inputs.py",
        "tests/action/test_pull_request.py",
        "tests/action/test_merge.py",
    ],
    "backends": ["tests/unit/test_backend_contract.py", "tests/catalogs/test_conformance.py"],
    "backends/dir": ["tests/catalogs/test_dir.py", "tests/catalogs/test_dir_parts.py"],
    "backends/glue": ["tests/catalogs/glue"],
    "backends/hive": ["tests/catalogs/hive"],
    "backends/http": ["tests/unit/test_http.py", "tests/catalogs/rest"],
    "backends/iceberg": ["tests/catalogs/iceberg"],
    "backends/rest": ["tests/catalogs/rest"],
    "backends/unity": ["tests/catalogs/unity"],
}
"""The rooms that are mutated, each with the tests for lines whose tests are not known."""

SEED = 56
NUMBER = 120
CPU_SECONDS = 90.0
"""What the tests of one mutant may take, half of it those that need no server."""
_HANGS_SECONDS = 300
_LIGHT = ("tests/unit/", "tests/cli/", "tests/applier/")
_UNKNOWN_CPU_SECONDS = 1.0
_NOT_COLLECTED = "tests are not collected"
_DIED = "the tests die or hang"
_FAILED = "LANCENS_MUTANTS_FAILED"
_ORIGIN = "LANCENS_MUTANTS_ORIGIN"

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
}


@dataclass(frozen=True)
class Mutant:
    """One expression of a module and what replaces it."""

    path: Path
    span: tuple[int, int, int, int]
    statement: int
    before: str
    after: str
    text: str
    occurrence: int = 0

    @property
    def name(self) -> str:
        return f"{self.path}: `{self.before}` is `{self.after}` #{self.occurrence}"

    @property
    def line(self) -> int:
        return self.span[0]

    def mutated(self, source: str) -> str:
        """Return the module with the change; every other line keeps its number."""
        first, start, last, end = self.span
        lines = source.encode().splitlines(keepends=True)
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        filled = f"({self.text}{chr(10) * (last - first)})".encode()
        return b"".join([*lines[: first - 1], head, filled, tail, *lines[last:]]).decode()


def mutants_of(path: Path, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of its text."""
    mutants: list[Mutant] = []
    for statement, node in _nodes(ast.parse(source), 0):
        for target, text, before, after in _changes(node):
            if target.end_lineno is not None and target.end_col_offset is not None:
                span = (target.lineno, target.col_offset, target.end_lineno, target.end_col_offset)
                mutants.append(Mutant(path, span, statement, _shown(before), _shown(after), text))
    times: Counter[str] = Counter()
    for mutant in sorted(mutants, key=lambda mutant: (mutant.span, mutant.after)):
        times[mutant.name] += 1
        yield replace(mutant, occurrence=times[mutant.name])


def _nodes(node: ast.AST, statement: int) -> Iterator[tuple[int, ast.AST]]:
    """Yield all nodes with the line of their statement; those within f-strings have no true positions."""
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.stmt):
        statement = node.lineno
    yield statement, node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, statement)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, str, str, str]]:
    """Yield what can be replaced in a node, with the new text, and how both are shown."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            text = ast.unparse(ast.Compare(node.left, [_COMPARISONS[type(op)]()], node.comparators))
            yield node, text, ast.unparse(node), text
        case ast.BoolOp(op=joined):
            text = ast.unparse(ast.BoolOp(ast.Or() if isinstance(joined, ast.And) else ast.And(), node.values))
            yield node, text, ast.unparse(node), text
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
            if (text := ast.unparse(test)) != "TYPE_CHECKING":
                yield test, f"not ({text})", f"if {text}", f"if not ({text})"
        case ast.Return(value=ast.Constant(value=bool() as value) as constant):
            yield constant, str(not value), f"return {value}", f"return {not value}"
        case ast.Return(value=ast.expr() as value) if (text := ast.unparse(value)) != "None":
            yield value, "None", f"return {text}", "return None"
        case ast.Expr(value=ast.Call() as call):
            yield call, "None", ast.unparse(call), "None"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."


def _room(path: Path) -> str:
    """Return the room of a module; empty for what is not mutated."""
    inside = path.relative_to("reconciler")
    return max((room for room in ROOMS if inside.is_relative_to(room)), key=len, default="")


def _every(root: Path, rooms: Iterable[str]) -> Iterator[Mutant]:
    for file in sorted((root / "reconciler").rglob("*.py")):
        path = file.relative_to(root)
        if "gen" not in path.parts and _room(path) in rooms:
            yield from mutants_of(path, file.read_text("utf-8"))


def _sample(mutants: Iterable[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return as many mutants, always the same ones while they exist."""
    return heapq.nsmallest(
        number, mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()
    )


@dataclass(frozen=True)
class Outcome:
    """How a mutant ended: the test that failed, or None where it survived all that ran."""

    mutant: str
    line: int
    killed_by: str | None
    seconds: float
    tests: int

    @staticmethod
    def read(path: Path) -> dict[str, Outcome]:
        """Return the outcomes in a file by mutant."""
        outcomes = [Outcome(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        return {outcome.mutant: outcome for outcome in outcomes}


def alive_again(before: Mapping[str, Outcome], after: Mapping[str, Outcome]) -> list[str]:
    """Return a line for each mutant that was killed before and is alive after."""
    return [
        f"{name}\n    was killed by {outcome.killed_by}"
        for name, outcome in before.items()
        if outcome.killed_by is not None and name in after and after[name].killed_by is None
    ]


def picked(tests: Iterable[str], costs: Mapping[str, float], limit: float) -> list[str]:
    """Return the tests to run, the cheapest of each function first, those without a server before all others.

    Each of the two kinds may take half of the limit, and those on servers what the others left.
    """
    by_cost = sorted(tests, key=lambda test: (costs.get(test, _UNKNOWN_CPU_SECONDS), test))
    seen: Counter[str] = Counter()
    ranked: list[tuple[bool, int, int, str]] = []
    for test in by_cost:
        function = test.partition("[")[0]
        ranked.append((not test.startswith(_LIGHT), seen[function], len(ranked), test))
        seen[function] += 1
    chosen: list[str] = []
    spent = 0.0
    for on_server, _, _, test in sorted(ranked):
        cost = costs.get(test, _UNKNOWN_CPU_SECONDS)
        if spent + cost <= (limit if on_server else limit / 2):
            chosen.append(test)
            spent += cost
    return chosen


@dataclass(frozen=True)
class _Job:
    """A mutant, the tests that may kill it, whether importing its module has run it already, and what killed it."""

    mutant: Mutant
    tests: list[str]
    imported: bool
    first: str | None


class _Jobs:
    """Finds the tests of each mutant in what `tests.covered` noted, perhaps of an earlier version."""

    def __init__(self, covered: Covered) -> None:
        self._covered = covered
        self._lines: dict[Path, tuple[dict[str, Mutant], dict[int, set[str]]]] = {}

    def job(self, mutant: Mutant, first: str | None) -> _Job:
        then, lines = self._noted(mutant.path)
        noted = then.get(mutant.name, mutant)
        tests = lines.get(noted.line) or lines.get(noted.statement) or set()
        return _Job(mutant, sorted(tests - {""}), imported="" in tests, first=first)

    def _noted(self, path: Path) -> tuple[dict[str, Mutant], dict[int, set[str]]]:
        if path not in self._lines:
            command = ["git", "show", f"{self._covered.version}:{path}"]
            shown = subprocess.run(command, cwd=os.environ[_ORIGIN], capture_output=True, text=True, check=False)
            then = {mutant.name: mutant for mutant in mutants_of(path, shown.stdout)}
            self._lines[path] = then, self._covered.tests(path)
        return self._lines[path]


class _InForkError(Exception):
    """This process is the fork: leave the loop over mutants and run the tests."""


class _Runner:
    """Runs the tests of each mutant in a fork of the process that has collected them."""

    def __init__(self, jobs: Sequence[_Job], costs: Mapping[str, float], limit: float, result: Path) -> None:
        self._jobs = jobs
        self._costs = costs
        self._limit = limit
        self._result = result
        self._failed = Path(os.environ[_FAILED])
        self._sound: set[str] = set()
        self._unsound: set[str] = set()
        self.survivors = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run every mutant and return True; in a fork, let pytest run the chosen tests."""
        items = {item.nodeid: item for item in session.items}
        try:
            for job in self._jobs:
                self._note(job, items, session)
        except _InForkError:
            return None
        return True

    def _note(self, job: _Job, items: Mapping[str, pytest.Item], session: pytest.Session) -> None:
        began = _children_seconds()
        of_room = [test for test in items if test.startswith(tuple(ROOMS[_room(job.mutant.path)]))]
        tests = {test for test in job.tests if test in items}.union(test for test in of_room if test not in self._costs)
        tests = tests or set(of_room)
        original = job.mutant.path.read_text("utf-8")
        mutated = job.mutant.mutated(original)
        while True:
            chosen = picked(tests - self._unsound, self._costs, self._limit)
            if job.first is not None and job.first in items and job.first not in self._unsound:
                chosen = [job.first, *(test for test in chosen if test != job.first)]
            with _Written(job.mutant.path, mutated):
                killer = None if job.imported else self._forked(chosen, items, session, job.mutant)
                if job.imported or killer == _NOT_COLLECTED:
                    killer = self._fresh(chosen)
            if killer is None:
                self._sound.update(chosen)
            if killer is None or killer not in items or killer in self._sound:
                break
            self._sound.add(killer)
            if self._forked([killer], items, session, None) is None:
                break
            self._unsound.add(killer)
        self.survivors += killer is None
        seconds = round(_children_seconds() - began, 1)
        outcome = Outcome(job.mutant.name, job.mutant.line, killer, seconds, len(chosen))
        with self._result.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(outcome)) + "\n")
        print(f"{'SURVIVES' if killer is None else 'killed'} {outcome.mutant}", file=sys.__stderr__, flush=True)

    def _forked(
        self, tests: Sequence[str], items: Mapping[str, pytest.Item], session: pytest.Session, mutant: Mutant | None
    ) -> str | None:
        """Return the test that fails in a fork, with the mutant if there is one."""
        self._failed.write_text("", "utf-8")
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            return self._killer(os.waitstatus_to_exitcode(status))
        if mutant is not None and not replace_code(mutant.path):
            os._exit(pytest.ExitCode.USAGE_ERROR)
        resource.setrlimit(resource.RLIMIT_CPU, (int(2 * self._limit), int(2 * self._limit)))
        session.items[:] = [items[test] for test in tests]
        session.testsfailed = 0
        session.config.option.maxfail = 1
        raise _InForkError

    def _fresh(self, tests: Sequence[str]) -> str | None:
        """Return the test that fails in a process of its own."""
        self._failed.write_text("", "utf-8")
        command = [sys.executable, "-m", "pytest", "-x", *_PYTEST, *tests]
        try:
            run = subprocess.run(command, capture_output=True, timeout=4 * _HANGS_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return _DIED
        return self._killer(run.returncode)

    def _killer(self, code: int) -> str | None:
        if failed := self._failed.read_text("utf-8").splitlines():
            return failed[0]
        if code in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED}:
            return _NOT_COLLECTED
        return _DIED if code else None


_PYTEST = ["-p", "no:cacheprovider", "-p", "tests.mutants", f"--timeout={_HANGS_SECONDS}"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the tests that fail, for the process that waits for them."""
    if report.failed:
        with Path(os.environ[_FAILED]).open("a", encoding="utf-8") as file:
            file.write(report.nodeid + "\n")


def _children_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


class _Written:
    """A module's text while a mutant runs: for the processes that tests start, and for what is not imported yet.

    Compiled modules are told apart by size and whole seconds, so that each mutant gets a time of its own.
    """

    _times = 0

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def __enter__(self) -> None:
        self._stat = self._path.stat()
        self._original = self._path.read_bytes()
        self._path.write_text(self._text, "utf-8")
        _Written._times += 1
        os.utime(self._path, (_Written._times, _Written._times))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is _InForkError:
            return
        self._path.write_bytes(self._original)
        os.utime(self._path, ns=(self._stat.st_atime_ns, self._stat.st_mtime_ns))


def replace_code(path: Path) -> bool:
    """Give each function of a module the code that its file has now; return whether all of them can take it."""
    file = str(path.resolve())
    codes = list(_codes(compile(path.read_text("utf-8"), file, "exec", dont_inherit=True)))
    by_place = {_place(code): code for code in codes}
    gc.unfreeze()  # tests/conftest.py freezes what was collected, and frozen objects are not listed
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == file:
            code = by_place.get(_place(function.__code__))
            if code is None or len(code.co_freevars) != len(function.__code__.co_freevars):
                return False
            function.__code__ = code
    return len(by_place) == len(codes)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _place(code: CodeType) -> tuple[str, int, tuple[object, ...]]:
    """Return where a function begins, its columns included, which tell the lambdas of one line apart."""
    starts = [place for place in code.co_positions() if place[2]]
    return code.co_qualname, code.co_firstlineno, starts[0][2:3] if "<" in code.co_name and starts else ()


def _copied(folder: Path) -> None:
    """Copy what Git tracks, or would; share what is installed and built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for name in (".venv", "build"):
        (folder / name).symlink_to(ROOT / name)


def _run_in_copy(options: argparse.Namespace) -> int:
    outcomes = Outcome.read(options.again) if options.again else {}
    mutants = _every(ROOT, options.room or ROOMS)
    if options.again:
        sample = [mutant for mutant in mutants if mutant.name in outcomes and outcomes[mutant.name].killed_by]
    else:
        sample = _sample(mutants, options.number, options.seed)
    covered = Covered(Path(os.environ[_ORIGIN]) / COVERED.relative_to(ROOT))
    jobs = _Jobs(covered)
    todo = [jobs.job(mutant, outcomes[mutant.name].killed_by if options.again else None) for mutant in sample]
    fallbacks = {path for job in todo for path in ROOMS[_room(job.mutant.path)]}
    files = {test.partition("::")[0] for job in todo for test in [*job.tests, *filter(None, [job.first])]} | fallbacks
    os.environ["PYTHONPATH"] = str(ROOT)
    runner = _Runner(todo, covered.costs, options.limit, options.result)
    warnings.filterwarnings("ignore", "lance", Warning)  # of forks: nothing was opened yet
    parent = os.getpid()
    collected = sorted(file for file in files if (ROOT / file).exists())
    code = pytest.main([*_PYTEST, "--continue-on-collection-errors", *collected], plugins=[runner])
    if os.getpid() != parent:
        os._exit(code)
    print(f"{len(todo) - runner.survivors} of {len(todo)} killed", file=sys.__stderr__)
    return 1 if runner.survivors else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sample and note how each mutant ended; return 1 if one survives, or is alive again."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--number", type=int, default=NUMBER)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--limit", type=float, default=CPU_SECONDS, help="CPU seconds for the tests of each mutant")
    parser.add_argument("--room", choices=ROOMS, action="append")
    parser.add_argument("--result", type=lambda name: Path(name).resolve(), default=ROOT / "build/mutants.jsonl")
    parser.add_argument("--again", type=Path, help="the mutants that were killed in an earlier result, no sample")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args(arguments)
    if options.compare:
        alive = alive_again(*map(Outcome.read, options.compare))
        print("\n".join(alive) or "Every mutant that was killed before is killed after.")
        return 1 if alive else 0
    if _ORIGIN in os.environ:
        return _run_in_copy(options)
    options.result.parent.mkdir(parents=True, exist_ok=True)
    options.result.write_text("", "utf-8")
    given = list(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name) / "lancens"
        _copied(folder)
        environment = {**os.environ, _ORIGIN: str(ROOT), _FAILED: str(Path(name) / "failed")}
        if options.again:
            given += ["--again", str(options.again.resolve())]
        command = [sys.executable, "-m", "tests.mutants", *given, "--result", str(options.result)]
        with options.result.with_suffix(".log").open("w") as log:
            return subprocess.run(command, cwd=folder, env=environment, stdout=log, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
