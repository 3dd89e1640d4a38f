"""The conformance kit on pylance's adapter and on lancens' own server."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.conformance import ConformanceCheck, checks, verify
from tests.catalogs.rest.conftest import Server


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, either: Server, tmp_path: Path) -> None:
    verify(check, either.connect, scratch=str(tmp_path))
