"""The mutants of `make mutants`: each is a module that runs and differs in one place."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutants import ROOMS, ROOT, mutants_of

SOURCE = '''
def chosen(names, limit):
    """Return some."""
    if limit is None and names:
        names.sort()
    return names
'''


def test_each_mutant_changes_one_thing() -> None:
    made = list(mutants_of(Path("module.py"), SOURCE))
    assert [(one.line, one.before, one.after) for one in made] == [
        (4, "if limit is None and names:", "if not (limit is None and names):"),
        (6, "return names", "return None"),
        (4, "limit is None and names", "limit is None or names"),
        (5, "names.sort()", "None"),
        (4, "limit is None", "limit is not None"),
    ]
    for one in made:
        compile(one.source, "module.py", "exec")
        assert one.source != ast.unparse(ast.parse(SOURCE))


def test_every_room_and_its_tests_are_there() -> None:
    assert [room for room in ROOMS if not (ROOT / "reconciler" / room).is_dir()] == []
    assert [path for paths in ROOMS.values() for path in paths if not (ROOT / path).exists()] == []
