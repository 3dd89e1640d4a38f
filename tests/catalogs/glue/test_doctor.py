"""``lancens doctor`` on Glue: what the policy allows is tried, call by call, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from tests.catalogs.diagnosing import diagnosed
from tests.catalogs.glue.seeding import databases, lance_table
from tests.catalogs.glue.test_end_to_end import APPLY, PLAN
from tests.servers.glue import GlueServer

PROBES = {
    "creating a table, in a database that is not there,": "glue:CreateTable",
    "changing a table": "glue:UpdateTable",
    "deregistering a table": "glue:DeleteTable",
    "dropping a database": "glue:DeleteDatabase",
}


def test_each_write_that_the_policy_lacks_is_named(glue: GlueServer, tmp_path: Path) -> None:
    databases(glue, ["web"])
    glue.add_tables("web", [lance_table("clicks")])
    glue.allow(PLAN)
    found = diagnosed(tmp_path, "glue", glue.config())
    said = [check.detail for check in found if check.name == "writing"]
    assert len(said) == len(PROBES)
    for (what, action), detail in zip(PROBES.items(), said, strict=True):
        assert detail.startswith(f"{what} is refused: ")
        assert f"the credentials lack {action} on" in detail
    assert "failed" not in {check.status for check in found}


def test_with_the_policy_for_apply_none_is_refused(glue: GlueServer, tmp_path: Path) -> None:
    databases(glue, ["web"])
    glue.allow(PLAN | APPLY)
    found = diagnosed(tmp_path, "glue", glue.config())
    assert [check.status for check in found if check.name == "writing"] == ["ok"] * len(PROBES)
