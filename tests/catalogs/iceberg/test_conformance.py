"""The conformance kit: whole on Apache's adapter, each operation on Nessie, which chooses where tables are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.iceberg.conftest import Catalog
from tests.catalogs.kit import one_of_each_operation


@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, apache: Catalog) -> None:
    _verify(check, apache)


@pytest.mark.soak
@pytest.mark.parametrize("check", one_of_each_operation(), ids=str)
def test_on_nessie(check: ConformanceCheck, on_nessie: Catalog) -> None:
    _verify(check, on_nessie)


def _verify(check: ConformanceCheck, catalog: Catalog) -> None:
    def add_foreign(_backend: Backend, identifier: Identifier) -> Callable[[], None]:
        return catalog.hold(identifier)

    verify(
        check,
        catalog.connect,
        namespace=(catalog.warehouse,),
        scratch=catalog.root,
        add_foreign=add_foreign,
    )
