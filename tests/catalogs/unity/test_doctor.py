"""``lancens doctor`` on Unity Catalog."""

from __future__ import annotations

from pathlib import Path

from tests.catalogs.diagnosing import diagnosed
from tests.catalogs.unity.conftest import CATALOG, Unity


def test_it_reads_tries_to_write_and_changes_nothing(unity: Unity, tmp_path: Path) -> None:
    unity.fill(120)
    found = diagnosed(tmp_path, "unity", unity.config())
    assert [(check.name, check.detail) for check in found if check.status == "failed"] == []
    assert [check.status for check in found if check.name == "writing"] == ["ok", "ok"]
    [paging] = [check.detail for check in found if check.name == "paging"]
    assert paging == f"both ways of listing `{CATALOG}$s0` show 120 tables"
    assert "clock" in {check.name for check in found}


def test_a_token_that_may_not_is_said(stand_in: Unity, tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "unity", stand_in.config())
    assert "failed" not in {check.status for check in found}
    wrong = {**stand_in.config(), "auth_token": "nobody"}
    assert wrong["auth_token"] not in str(found)
