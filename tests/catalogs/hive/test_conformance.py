"""The conformance kit on every metastore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.hive.conftest import oldest_and_newest
from tests.catalogs.hive.raw import drop, plain_table, put
from tests.servers.hive import Metastore


@pytest.mark.soak
@oldest_and_newest  # 3.1 has the backend of 4.1 and differs in what it refuses, which other tests are about
@pytest.mark.parametrize("check", checks(), ids=str)
def test_conformance(check: ConformanceCheck, server: Metastore, config: Mapping[str, str], tmp_path: Path) -> None:
    def add_foreign(backend: Backend, identifier: Identifier) -> Callable[[], None]:
        put(server.uri, plain_table(identifier))
        return partial(drop, server.uri, identifier)

    verify(
        check,
        partial(registry.connect, server.impl, config),
        scratch=str(tmp_path),
        add_foreign=add_foreign,
    )
