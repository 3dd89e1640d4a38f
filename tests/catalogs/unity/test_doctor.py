"""``lancens doctor`` on Unity Catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import reconciler
from reconciler.operations.doctor import doctor
from tests.catalogs.diagnosing import diagnosed
from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.servers.unity_contract import Answer, Contract, jwt
from tests.servers.unity_contract_server import serving


def test_it_reads_tries_to_write_and_changes_nothing(unity: Unity, tmp_path: Path) -> None:
    unity.fill(120)
    found = diagnosed(tmp_path, "unity", unity.config())
    assert [(check.name, check.detail) for check in found if check.status == "failed"] == []
    assert [check.status for check in found if check.name == "writing"] == ["ok", "ok"]
    [paging] = [check.detail for check in found if check.name == "paging"]
    assert paging == f"both ways of listing `{CATALOG}$s0` show 120 tables"
    assert "clock" in {check.name for check in found}


class ReadOnly(Contract):
    """Lets a token read, and nothing else."""

    def answer(self, method: str, path: str, query: Mapping[str, str], body: object, token: str | None) -> Answer:
        if method == "GET":
            return super().answer(method, path, query, body, token)
        return Answer(403, {"error_code": "PERMISSION_DENIED", "message": "Access denied."})


def test_a_token_that_may_only_read_is_said(tmp_path: Path) -> None:
    contract = ReadOnly(authorization=True)
    contract.add_catalog(CATALOG)
    with serving(contract) as server:
        unity = Unity(server)
        unity.fill(1)
        found = diagnosed(tmp_path, "unity", unity.config())
    assert "failed" not in {check.status for check in found}
    said = [(check.status, check.detail.partition(": ")[0]) for check in found if check.name == "writing"]
    assert said == [("warning", "deregistering a table is refused"), ("warning", "dropping a schema is refused")]
    assert all("Access denied" in check.detail for check in found if check.name == "writing")


@pytest.mark.parametrize(
    ("token", "reason"),
    [("nobody-knows-it", "No authorization found"), (jwt("https://elsewhere"), "Invalid access token")],
    ids=["none", "another's"],
)
def test_a_token_that_is_not_taken_is_said_and_not_shown(
    stand_in: Unity, tmp_path: Path, token: str, reason: str
) -> None:
    path = tmp_path / "lancens.yaml"
    config = {**stand_in.config(), "auth_token": token}
    path.write_text(json.dumps({"version": 1, "name": "s", "catalogs": {"uc": {"impl": "unity", "config": config}}}))
    found = doctor(reconciler.load(path))
    assert [(check.name, check.status) for check in found if check.status == "failed"][-1] == ("reading", "failed")
    assert reason in found[-1].detail
    assert token not in str(found)
