"""The conformance kit on both servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, catalog: Catalog) -> None:
    def add_foreign(_backend: Backend, identifier: Identifier) -> Callable[[], None]:
        return catalog.hold(identifier)

    verify(
        check,
        catalog.connect,
        namespace=(catalog.warehouse,),
        scratch=catalog.root,
        add_foreign=add_foreign,
    )
