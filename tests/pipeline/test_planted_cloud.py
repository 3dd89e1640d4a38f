"""An audit of S3 and Glue, while a writer commits, compacts and cleans up: what was planted, and nothing else.

In this process: `test_audit.py` audits the same defects on Spark, and `test_vended.py` a bucket.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from reconciler import load
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.document import AuditDocument
from reconciler.storage import Depth
from tests.pipeline.planted import LIMITS, Planted
from tests.pipeline.planted_cloud import TABLES, Cloud, plant_in_cloud, writing
from tests.servers.glue import ACCESS_KEY, REGION, SECRET_KEY, glue_server
from tests.soak import count

pytestmark = pytest.mark.soak

DATASETS = count(40, 2_000)
AUDITS_OF_WHAT_IS_WRITTEN = count(2, 100)


def audited(planted: Planted) -> AuditDocument:
    now = planted.cut + timedelta(days=400)
    return audit(None, load(planted.manifest), AuditOptions(now, now - planted.cut, Depth.FOOTERS, LIMITS))


def test_exactly_what_was_planted_is_found_while_tables_are_written(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with glue_server(tmp_path_factory.mktemp("glue")) as server:
        s3 = boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        planted = plant_in_cloud(tmp_path, Cloud(server, s3), DATASETS)
        with writing(tmp_path) as turns:
            document = audited(planted)
            assert [next(turns) for _ in range(3)] == ["2\n", "3\n", "4\n"]  # it was at work all the time
    found = Counter((finding.rule, finding.address) for finding in document.findings)
    expected = planted.expected + planted.deeper
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []
    assert (document.complete, document.failures) == (True, ())
    assert len(document.notes) == sum(rule == "wrong-table-type" for rule, _ in planted.expected)
    assert all("marked as a Lance table, but " in note for note in document.notes)
    busy = next(catalog for catalog in document.coverage if catalog.name == "busy")
    assert (busy.tables_looked_at, busy.tables_unreadable) == (TABLES, 0)


def test_a_table_that_is_written_all_the_time_is_sound_each_time(tmp_path: Path) -> None:
    manifest = tmp_path / "lancens.yaml"
    manifest.write_text("version: 1\nname: store\ncatalogs: {busy: {impl: dir, config: {root: ./busy}}}\n")
    with writing(tmp_path):
        for _ in range(AUDITS_OF_WHAT_IS_WRITTEN):
            rules = (
                "missing-files",
                "short-files",
                "broken-tag",
                "unreadable",
                "dangling",
                "not-lance",
                "unversioned-data",
                "orphan",
            )
            document = audit(None, load(manifest), AuditOptions(datetime.now(UTC), rules=rules))
            assert [(finding.rule, finding.reason) for finding in document.findings] == []
            assert all(table.reclaimable is not None for table in document.tables)
