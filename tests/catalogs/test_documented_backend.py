"""The backend that the guide shows is complete: it has types, and it passes the conformance kit as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.backend import Backend
from reconciler.conformance import ConformanceCheck, checks, verify

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "writing-a-backend.md"


def shown() -> str:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    return code[1]


@pytest.fixture(scope="module")
def shelf() -> Callable[..., Backend]:
    names: dict[str, Callable[..., Backend]] = {}
    exec(compile(shown(), str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - the page is part of this repository
    return names["ShelfBackend"]


def test_strict_types_accept_it(tmp_path: Path) -> None:
    module = tmp_path / "shelf.py"
    module.write_text(shown(), "utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(module)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, shelf: Callable[..., Backend], tmp_path: Path) -> None:
    connect = partial(shelf, file=str(tmp_path / "shelves.json"), root=str(tmp_path / "data"))
    verify(check, connect, scratch=str(tmp_path))
