"""The backend that the guide shows is complete: it passes the conformance kit as it stands on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-backend.md"


@pytest.fixture(scope="module")
def shelf() -> Callable[..., Backend]:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict[str, Callable[..., Backend]] = {}
    exec(compile(code[1], str(PAGE), "exec"), names)  # noqa: S102 - the page is part of this repository
    return names["ShelfBackend"]


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, shelf: Callable[..., Backend], tmp_path: Path) -> None:
    connect = partial(shelf, file=str(tmp_path / "shelves.json"), root=str(tmp_path / "data"))
    verify(check, connect, scratch=str(tmp_path))
