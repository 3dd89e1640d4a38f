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
from tests.catalogs.hive.raw import drop, plain_table, put
from tests.servers.hive import Metastore
from tests.soak import count

# 3.1 has the backend of 4.1 and differs in what it refuses, which other tests are about.
_SERVERS = ["2.3", "4.1", "3.1", "3.1 with its SQL schema"][: count(2, 4)]


@pytest.mark.soak
@pytest.mark.parametrize("server", _SERVERS, indirect=True, scope="session")
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
