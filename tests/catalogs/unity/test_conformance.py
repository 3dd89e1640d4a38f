"""The conformance kit against both kinds of server, with and without a root for tables that name no location."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.kit import one_of_each_operation
from tests.catalogs.unity.conftest import CATALOG, Unity


@pytest.mark.soak
@pytest.mark.parametrize(
    ("check", "rooted"),
    [*((check, True) for check in checks()), *((check, False) for check in one_of_each_operation())],
    ids=str,
)
def test_conformance(check: ConformanceCheck, rooted: bool, either: Unity, tmp_path: Path) -> None:
    def add_view(_backend: Backend, identifier: Identifier) -> Callable[[], None]:
        return either.hold(*identifier)

    more = {"root": str(tmp_path / "lake")} if rooted else {}
    verify(check, partial(either.connect, **more), namespace=[CATALOG], scratch=str(tmp_path), add_foreign=add_view)
