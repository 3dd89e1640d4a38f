"""Tables that only the credentials open which their catalog hands out: audited and planned on the executors as well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import lance.namespace
import pytest

from reconciler import plan
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.spark import plan_on_spark
from tests.catalogs.vending import wrong_environment
from tests.security.baits import NOWHERE, hostile, thief
from tests.servers.s3 import BUCKET, KEY, SECRET, TOKEN, GuardedS3, guarded_s3
from tests.writing import load_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.manifest import Manifest


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedS3]:
    wrong_environment(monkeypatch)
    with guarded_s3() as server:
        yield server


@pytest.fixture
def config(guarded: GuardedS3) -> Iterator[dict[str, str]]:
    """A server that hands out credentials for two tables, one of which lacks its data."""
    for name in ("broken", "sound"):
        guarded.write(name)
    guarded.empty("broken.lance/data/")
    options = {f"storage.{key}": value for key, value in {**guarded.where, **guarded.vended}.items()}
    served = {"root": f"s3://{BUCKET}", "vend_input_storage_options": "true", **options}
    with lance.namespace.RestAdapter("dir", served, port=0) as server:
        # Where S3 is, is said here: without it, the wrong credentials would be tried at Amazon's.
        where = {f"storage.{key}": value for key, value in guarded.where.items()}
        yield {"uri": f"http://127.0.0.1:{server.port}", "table_properties": "false", **where}


def of_one_table(folder: Path, config: dict[str, str]) -> Manifest:
    columns = [{"name": "id", "type": "int64"}, {"name": "added", "type": "string"}]
    tables = {"sound": {"schema": columns, "evolve": "additive"}}
    return load_manifest(folder, {"main": {"impl": "rest", "config": config, "tables": tables}})


def test_an_audit_looks_at_the_data(
    spark: SparkSession, guarded: GuardedS3, config: dict[str, str], tmp_path: Path
) -> None:
    options = AuditOptions(rules=("missing-files", "unreadable"))
    document = audit(spark, of_one_table(tmp_path, config), options)
    assert [(one.rule, one.address) for one in document.findings] == [("missing-files", "main/broken")]
    assert [(table.name, table.rows) for table in document.tables] == [("broken", 2), ("sound", 2)]
    assert document.complete
    assert set(guarded.seen) == {(KEY, TOKEN)}
    shown = document.model_dump_json()
    assert not [secret for secret in (KEY, SECRET, TOKEN) if secret in shown]


def test_a_plan_is_that_of_the_local_engine(spark: SparkSession, config: dict[str, str], tmp_path: Path) -> None:
    loaded = of_one_table(tmp_path, config)
    made = plan_on_spark(spark, loaded)
    assert [change.action.value for change in made.changes] == ["alter-table"]
    assert made.to_json() == plan(loaded).to_json()


def test_data_that_nobody_may_open_is_said_to_be_unreadable(
    spark: SparkSession, config: dict[str, str], tmp_path: Path
) -> None:
    refusing = {**config, "vend_credentials": "false", "storage.skip_signature": "true"}
    document = audit(spark, of_one_table(tmp_path, refusing), AuditOptions(datetime.now(UTC), rules=("unreadable",)))
    assert [(one.rule, one.name) for one in document.findings] == [("unreadable", "broken"), ("unreadable", "sound")]


def test_a_hostile_service_has_nothing_sent_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    with thief() as server, hostile("environment", server) as service:
        config = {"uri": service.url, **{f"storage.{key}": value for key, value in NOWHERE.items()}}
        document = audit(spark, of_one_table(tmp_path, config), AuditOptions(datetime.now(UTC)))
        assert [table.name for table in document.tables] == ["t"]
        assert [one for one in service.requests if one.body and one.body.get("vend_credentials")]
        assert server.requests == []
