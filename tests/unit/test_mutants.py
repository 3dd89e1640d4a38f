"""The mutants of `make mutants`: each is a module that runs and differs in one place."""

from __future__ import annotations

import ast
import gc
import importlib.util
from pathlib import Path

from tests.covered import ROOT
from tests.mutants import ROOMS, Outcome, alive_again, mutants_of, picked, replace_code

SOURCE = '''
def chosen(names, limit):
    """Return some."""
    if limit is None and names:
        names.sort(
            key=lambda name: name == "ä",
        )
    return names


def nothing(name, text):
    if name == text or f"{name == text}":
        return True
'''
MODULE = Path("module.py")


def test_each_mutant_changes_one_thing() -> None:
    assert [(mutant.line, mutant.before, mutant.after) for mutant in mutants_of(MODULE, SOURCE)] == [
        (4, "limit is None", "limit is not None"),
        (4, "if limit is None and names", "if not (limit is None and names)"),
        (4, "limit is None and names", "limit is None or names"),
        (5, "names.sort(key=lambda name: name == 'ä')", "None"),
        (6, "name == 'ä'", "name != 'ä'"),
        (8, "return names", "return None"),
        (12, "name == text", "name != text"),
        (12, "if name == text or f'{name == text}'", "if not (name == text or f'{name == text}')"),
        (12, "name == text or f'{name == text}'", "name == text and f'{name == text}'"),
        (13, "return True", "return False"),
    ]


def test_a_mutated_module_runs_and_keeps_the_numbers_of_its_lines() -> None:
    for mutant in mutants_of(MODULE, SOURCE):
        mutated = mutant.mutated(SOURCE)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(SOURCE))
        assert mutated.count("\n") == SOURCE.count("\n")
        compile(mutated, "module.py", "exec")


def test_a_mutant_keeps_its_name_when_other_code_moves() -> None:
    moved = f"import this\n{SOURCE}"
    names = [{mutant.name for mutant in mutants_of(MODULE, source)} for source in (moved, SOURCE)]
    assert names[0] == names[1]
    doubled = [mutant.name for mutant in mutants_of(MODULE, SOURCE * 2)]
    assert len(set(doubled)) == len(doubled)


LIVE = """
from functools import cache
@cache
def cached(name):
    return name == "a"
class Holder:
    def closed(self):
        return lambda name: name == "a"
CLOSED = Holder().closed()
"""


def test_live_functions_take_the_code_of_a_mutant(tmp_path: Path) -> None:
    file = tmp_path / "live.py"
    file.write_text(LIVE, "utf-8")
    spec = importlib.util.spec_from_file_location("live", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text(LIVE.replace("==", "!="), "utf-8")
    gc.freeze()  # as after every collection
    assert replace_code(file)
    assert [module.cached("a"), module.CLOSED("a"), module.Holder().closed()("a")] == [False, False, False]
    file.write_text(LIVE.replace("def closed(self)", "def opened(self)"), "utf-8")
    assert not replace_code(file)
    gc.freeze()


def test_cheap_tests_come_first_and_one_of_each_function() -> None:
    costs = {"tests/unit/a.py::one[1]": 1.0, "tests/unit/a.py::one[2]": 2.0, "tests/unit/b.py::two": 3.0}
    server = "tests/catalogs/c.py::three"
    assert picked([server, *reversed(costs)], {**costs, server: 0.1}, 20) == [
        "tests/unit/a.py::one[1]",
        "tests/unit/b.py::two",
        "tests/unit/a.py::one[2]",
        server,
    ]
    assert picked([server, *costs], {**costs, server: 5.0}, 9) == [*list(costs)[::2], server]


def test_what_was_killed_and_is_alive_is_named_with_the_test_that_killed_it() -> None:
    before = {name: Outcome(name, 1, killer, 1.0, 1) for name, killer in (("a", "x"), ("b", "y"), ("c", None))}
    after = {name: Outcome(name, 1, None, 1.0, 1) for name in ("a", "c")}
    assert alive_again(before, after) == ["a\n    was killed by x"]


def test_every_room_and_its_tests_are_there() -> None:
    assert [room for room in ROOMS if not (ROOT / "reconciler" / room).is_dir()] == []
    assert [path for paths in ROOMS.values() for path in paths if not (ROOT / path).exists()] == []
