"""The conformance kit: whole on 4.1, each operation on 2.3, which has no catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.conformance import ConformanceCheck, checks, verify
from reconciler.model.names import Identifier
from tests.catalogs.hive.conftest import EVERY
from tests.catalogs.hive.raw import drop, plain_table, put
from tests.catalogs.kit import one_of_each_operation
from tests.servers.hive import Metastore


@pytest.mark.soak
@pytest.mark.parametrize(
    ("server", "check"),
    # 3.1 has the backend of 4.1 and differs in what it refuses, which other tests are about.
    [(EVERY[1], check) for check in checks()]
    + [(version, check) for version in (EVERY[0], *EVERY[3:]) for check in one_of_each_operation()],
    indirect=["server"],
    scope="session",
    ids=str,
)
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
