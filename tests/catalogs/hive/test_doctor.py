"""``lancens doctor`` on each Hive Metastore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reconciler.backends.hive.hive2 import Hive2Backend
from reconciler.model.names import Identifier
from tests.catalogs.diagnosing import diagnosed
from tests.servers.hive import Metastore


def test_it_reads_tries_to_write_and_changes_nothing(
    server: Metastore,
    backend: Hive2Backend,
    database: Identifier,
    config: Mapping[str, str],
    lake: str,
    tmp_path: Path,
) -> None:
    backend.insert_table((*database, "users"), f"{lake}/users.lance", {})
    found = diagnosed(tmp_path, server.impl, config)
    assert [(check.name, check.detail) for check in found if check.status == "failed"] == []
    assert [check.status for check in found if check.name == "writing"] == ["ok"]
    assert "reading" in {check.name for check in found}
