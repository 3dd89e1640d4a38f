"""Rows of entries become rows with findings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler import apply, load, plan
from reconciler.auditor.audit import AuditOptions, audit
from reconciler.auditor.catalog_info import CatalogInfo
from reconciler.auditor.entries import ENTRIES, block_entries
from reconciler.auditor.evaluate import Evaluator
from reconciler.auditor.rules import RULES, RuleLimits
from reconciler.auditor.suppressions import Suppressions
from reconciler.backends.dir import DirBackend
from reconciler.model.desired import DesiredMirror, DesiredTable, Source
from reconciler.operations.connections import CatalogSpec
from reconciler.pipeline.schemas import STRINGS, record_batch
from reconciler.pipeline.tasks import batched
from reconciler.storage import Depth
from tests.unit.pipeline.documents import NOW


def evaluator(*catalogs: CatalogInfo, **changed: Any) -> Evaluator:
    found = {one.name: one for one in catalogs}
    limits, none = RuleLimits(NOW, None), Suppressions([], [])
    plain = Evaluator(found, limits, tuple(RULES), unread={}, teams={}, depth=Depth.QUICK, suppressions=none)
    return replace(plain, **changed)


def info(name: str, mirrored: str | None = None) -> CatalogInfo:
    mirror = None if mirrored is None else DesiredMirror(mirrored, Source("lancens.yaml", 1))
    return CatalogInfo(CatalogSpec(name, "dir"), f"store/{name}", {}, mirror=mirror)


def test_the_entries_of_mirrors_share_the_location_of_the_table_they_follow() -> None:
    live = {"location": "/t", "properties": {}, "managed_versioning": False}
    row = {"catalog": "lake", "key": "t", "address": "lake/t", "live": live, "location": "/t", "data_place": "/t"}
    sharing = ["copy/t", "lake/t", "other/t", "second/t"]
    batch = record_batch([{**row, "sharing": sharing}], ENTRIES.append(pa.field("sharing", STRINGS)))
    catalogs = info("lake"), info("copy", "lake"), info("second", "copy"), info("other")
    [found] = chain.from_iterable(map(pa.RecordBatch.to_pylist, evaluator(*catalogs)([batch])))
    [reason] = [one["reason"] for one in found["findings"] if one["rule"] == "shared-location"]
    assert reason.startswith("other/t is at")


def test_the_mirrors_of_a_catalog_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def mirrors(_: Evaluator, name: str) -> frozenset[str]:
        asked.append(name)
        return frozenset()

    monkeypatch.setattr(Evaluator, "_mirrors", mirrors)
    live = {"location": "/t", "properties": {}, "managed_versioning": False}
    row = {"catalog": "lake", "live": live, "location": "/t", "data_place": "/t", "sharing": ["copy/t", "lake/t"]}
    named = [{**row, "key": f"t{number}", "address": f"lake/t{number}"} for number in range(30)]
    batch = record_batch(named, ENTRIES.append(pa.field("sharing", STRINGS)))
    assert len([*evaluator(info("lake"), info("copy", "lake"))([batch])]) == 1
    assert sorted(asked) == ["copy", "lake"]


def test_a_block_in_an_unread_namespace_claims_its_location_and_has_no_finding() -> None:
    block = DesiredTable(("b", "users"), Source("lancens.yaml", 1), location="s3a://lake/users.lance/")
    evaluate = evaluator(info("prod"), unread={"prod": frozenset({("b",)})})
    [batch] = evaluate(block_entries(batched([("prod", block)]).to_batches()))
    [row] = batch.to_pylist()
    assert (row["data_place"], row["closed"], row["sound"], row["live"]) == ("s3://lake/users.lance", True, True, False)


def test_the_original_of_a_clone_that_a_table_is_is_no_orphan(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    original = lance.write_dataset(rows, str(tmp_path / "store/deep/original.lance"))
    original.shallow_clone(str(tmp_path / "lake/clone.lance"), original.version)
    lance.write_dataset(rows, str(tmp_path / "store/deep/lost.lance"))
    (tmp_path / "lancens.yaml").write_text(
        "version: 1\nname: s\n"
        "catalogs: {lake: {impl: dir, config: {root: lake}}, s: {impl: dir, config: {root: store}}}"
    )
    document = audit(None, load(tmp_path / "lancens.yaml"), AuditOptions(NOW, rules=("orphan",)))
    assert [one.address for one in document.findings] == ["s/deep/lost.lance"]


@pytest.mark.parametrize(
    ("wanted", "act"),
    [
        ("{prod: 1}", lambda _: None),
        ("{prod: 2}", lambda _: None),
        ("{prod: 1, more: 2}", lambda _: None),
        ("{}", lambda _: None),
        ("{prod: 1}", lambda tags: tags.update("prod", 2)),
        ("{prod: 1}", lambda tags: tags.delete("prod")),
        ("{}", lambda tags: tags.delete("prod")),
        ("{prod: 1}", lambda tags: tags.create("of-another", 2)),
    ],
)
def test_audit_and_plan_agree_on_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, act: Callable[[Any], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        lance.write_dataset(pa.table({"id": [number]}), "lake/t.lance", mode="append" if number else "create")
    text = "{version: 1, name: s, catalogs: {lake: {impl: dir, config: {root: lake}, tables: {t: {tags: %s}}}}}"
    Path("lancens.yaml").write_text(text % "{prod: 1}")
    first = load("lancens.yaml")
    assert apply(plan(first, adopt=True), first).ok
    Path("lancens.yaml").write_text(text % wanted)
    act(lance.dataset("lake/t.lance").tags)
    manifest = load("lancens.yaml")
    document = audit(None, manifest, AuditOptions(NOW, rules=("property-drift",)))
    assert bool(document.findings) == bool(plan(manifest).changes)


def test_an_entry_that_can_list_no_tags_is_no_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog such as Unity changes no entry, so a plan compares the data's tags alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(DirBackend, "known_capabilities", replace(DirBackend.known_capabilities, alter_table=False))
    lance.write_dataset(pa.table({"id": [1]}), "lake/data").tags.create("prod", 1)
    Path("lancens.yaml").write_text(
        "{version: 1, name: s, catalogs: {lake: {impl: dir, config: {root: lake}, namespaces: {a: {tables: {t: "
        "{location: lake/data, tags: {prod: 1}}}}}}}}"
    )
    manifest = load("lancens.yaml")
    assert apply(plan(manifest), manifest).ok
    document = audit(None, manifest, AuditOptions(NOW, rules=("property-drift",)))
    assert (plan(manifest).changes, document.findings) == ((), ())


def test_no_report_holds_a_root_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_ROOT", str(tmp_path / "hunter2"))
    for name in ("t.lance", "deep/lost.lance"):
        lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "hunter2" / name))
    shutil.rmtree(tmp_path / "hunter2/t.lance/data")
    (tmp_path / "lancens.yaml").write_text(
        'version: 1\nname: s\ncatalogs: {lake: {impl: dir, config: {root: "${env:LAKE_ROOT}"}}}'
    )
    document = audit(None, load(tmp_path / "lancens.yaml"), AuditOptions(NOW))
    assert {"orphan", "missing-files"} <= {one.rule for one in document.findings}
    assert document.tables[0].location == "${env:LAKE_ROOT}/t.lance"
    assert "hunter2" not in document.model_dump_json()
