"""Rows of entries become rows with findings."""

from __future__ import annotations

from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.entries import block_entries
from reconciler.auditor.evaluate import Evaluator
from reconciler.auditor.records import Depth
from reconciler.auditor.rules import RULES, RuleLimits
from reconciler.auditor.suppressions import Suppressions
from reconciler.model.desired import DesiredTable, Source
from reconciler.operations.connections import CatalogSpec
from reconciler.spark.tasks import batched
from tests.unit.pipeline.documents import NOW


def test_a_block_in_an_unread_namespace_claims_its_location_and_has_no_finding() -> None:
    block = DesiredTable(("b", "users"), Source("lancens.yaml", 1), location="s3a://lake/users.lance/")
    evaluator = Evaluator(
        catalogs={"prod": CatalogInfo(CatalogSpec("prod", "dir"), "store/prod", {})},
        limits=RuleLimits(NOW, None),
        rules=tuple(RULES),
        unread={"prod": frozenset({("b",)})},
        teams={},
        depth=Depth.QUICK,
        suppressions=Suppressions([], []),
    )
    [batch] = evaluator(block_entries(batched([("prod", block)]).to_batches()))
    [row] = batch.to_pylist()
    assert (row["claimed"], row["closed"], row["sound"], row["live"]) == ("s3://lake/users.lance", True, True, False)
