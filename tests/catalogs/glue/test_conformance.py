"""The conformance kit on Glue: whole in the root catalog, each operation in a catalog inside a catalog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.glue.seeding import hold
from tests.catalogs.kit import one_of_each_operation
from tests.servers.glue import GlueServer


def _foreign(glue: GlueServer) -> Callable[[Backend, Identifier], Callable[[], None]]:
    return lambda _, identifier: hold(glue, identifier)


@pytest.mark.parametrize("check", checks(), ids=str)
def test_in_the_root_catalog(check: ConformanceCheck, glue: GlueServer, tmp_path: Path) -> None:
    verify(check, partial(registry.connect, "glue", glue.config()), scratch=str(tmp_path), add_foreign=_foreign(glue))


@pytest.mark.soak
@pytest.mark.parametrize("check", one_of_each_operation(), ids=str)
def test_in_a_nested_catalog(check: ConformanceCheck, glue: GlueServer, tmp_path: Path) -> None:
    glue.add_catalog("sales")
    glue.add_catalog("sales/eu")
    connect = partial(registry.connect, "glue", glue.config())
    verify(check, connect, namespace=("sales", "eu"), scratch=str(tmp_path), add_foreign=_foreign(glue))
