"""The conformance kit: whole on lancens' own server, each operation on pylance's adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.conformance import ConformanceCheck, checks, verify
from tests.catalogs.kit import one_of_each_operation
from tests.catalogs.rest.conftest import Server


@pytest.mark.parametrize("either", ["serve"], indirect=True, scope="module")
@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, either: Server, tmp_path: Path) -> None:
    verify(check, either.connect, scratch=str(tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("either", ["adapter"], indirect=True, scope="module")
@pytest.mark.parametrize("check", one_of_each_operation(), ids=str)
def test_on_the_adapter(check: ConformanceCheck, either: Server, tmp_path: Path) -> None:
    verify(check, either.connect, scratch=str(tmp_path))
