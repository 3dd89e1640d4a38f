"""Audits of real datasets in real catalogs: exactly what was planted is found, and nothing is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pytest

from reconciler import load
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.document import AuditDocument
from reconciler.auditor.records import Severity
from reconciler.auditor.rules import RULES
from reconciler.storage import Depth
from tests.catalogs.hive.files import digests
from tests.pipeline.planted import LIMITS, Planted, plant
from tests.servers.hive import metastore
from tests.soak import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATASETS = count(160, 2_000)

pytestmark = pytest.mark.soak


@dataclass(frozen=True)
class Audited:
    """A lake, what an audit says of it on Spark and without, and its files before and after."""

    planted: Planted
    document: AuditDocument
    local: AuditDocument
    before: Mapping[str, str]
    after: Mapping[str, str]


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """Audit a lake with defects, half of it in a metastore, at a moment from which the older datasets are stale."""
    folder = tmp_path_factory.mktemp("planted")
    with metastore("3.1", tmp_path_factory.mktemp("metastore")) as server:
        planted = plant(folder, server.uri, DATASETS)
        now = planted.cut + timedelta(days=400)
        before = digests(folder)
        manifest, options = load(planted.manifest), AuditOptions(now, now - planted.cut, limits=LIMITS)
        document, local = audit(spark, manifest, options), audit(None, manifest, options)
        yield Audited(planted, document, local, before, digests(folder))


def test_the_audit_finds_exactly_what_was_planted(audited: Audited) -> None:
    expected = audited.planted.expected
    found = Counter((finding.rule, finding.address) for finding in audited.document.findings)
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []
    assert audited.planted.datasets >= 0.95 * DATASETS
    assert {rule for rule, _ in expected} == set(RULES)


def test_footers_tell_the_rest(audited: Audited) -> None:
    planted, options = audited.planted, AuditOptions(audited.document.started, limits=LIMITS, depth=Depth.FOOTERS)
    options = replace(options, stale_after=options.now - planted.cut)
    found = Counter(
        (finding.rule, finding.address) for finding in audit(None, load(planted.manifest), options).findings
    )
    assert found == planted.expected + planted.deeper


def test_this_process_finds_what_spark_finds(audited: Audited) -> None:
    own = {"run_id": "", "finished": audited.document.started}
    assert audited.local.model_copy(update=own) == audited.document.model_copy(update=own)


def test_the_audit_changes_nothing(audited: Audited) -> None:
    assert audited.after == audited.before


def test_everything_was_looked_at(audited: Audited) -> None:
    document = audited.document
    assert (document.complete, document.failures) == (True, ())
    assert document.notes == ()
    tables = {catalog.name: (catalog.tables, catalog.tables_looked_at) for catalog in document.coverage}
    assert tables == {name: (number, number) for name, number in audited.planted.tables.items()}
    assert {catalog.name: catalog.namespaces_unread for catalog in document.coverage} == {"lake": 0, "prod": 0}
    assert (document.findings_left_out, document.tables_left_out) == (0, 0)
    assert [(one.match, one.findings) for one in document.suppressed] == [("accepted/lost.lance", 1)]


def test_the_figures_are_those_of_the_datasets(audited: Audited) -> None:
    document = audited.document
    assert len(document.tables) == document.totals.tables == audited.planted.tables.total()
    for name in ("rows", "bytes", "fragments"):
        amounts = [getattr(table, name) for table in document.tables]
        assert getattr(document.totals, name) == sum(amount for amount in amounts if amount is not None)
    opened = [table for table in document.tables if table.rows is not None and "stale" not in table.rules]
    for table in opened[:: len(opened) // 20]:
        assert table.location is not None
        dataset = lance.dataset(table.location.removeprefix("file:").removeprefix("file-object-store://"))
        assert (table.rows, table.version) == (dataset.count_rows(), dataset.version)
        assert table.fragments == len(dataset.get_fragments())
    for distribution, figure in ((document.sizes, "bytes"), (document.ages, "committed")):
        known = [table for table in document.tables if getattr(table, figure) is not None]
        assert sum(bin_.tables for bin_ in distribution.bins) == len(known)
        assert distribution.unknown == len(document.tables) - len(known)


def test_findings_are_counted_as_they_are_listed(audited: Audited) -> None:
    document = audited.document
    by_rule = {counted.rule: counted.total for counted in document.counts.by_rule}
    assert by_rule == Counter(finding.rule for finding in document.findings)
    severities = Counter(finding.severity for finding in document.findings)
    assert document.totals.findings.model_dump() == {one.value: severities[one] for one in Severity}
    assert [finding.rank for finding in document.findings] == sorted(finding.rank for finding in document.findings)
    for table in document.tables:
        own = [finding.rule for finding in document.findings if finding.address == table.address]
        assert sorted(table.rules) == sorted(own)


def test_a_finding_about_a_block_names_its_line(audited: Audited) -> None:
    lines = audited.planted.manifest.read_text("utf-8").splitlines()
    missing = [finding for finding in audited.document.findings if finding.rule == "missing"]
    for finding in missing:
        assert finding.source is not None
        assert f'"{finding.name}"' in lines[finding.source.line - 1]
