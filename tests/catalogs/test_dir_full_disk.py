"""A disk that fills up at any byte: nothing unreadable is committed, and the next apply makes it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconciler
from tests.catalogs.conftest import Doomed
from tests.soak import sampled
from tests.writing import load_manifest


@pytest.mark.parametrize("largest", sampled(range(0, 2_000, 100), 4))
def test_a_disk_that_fills_up_leaves_a_catalog_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doomed: Doomed, largest: int
) -> None:
    tables = {"users": {"properties": {"tier": "gold"}}, "events": {"schema": [{"name": "id", "type": "int64"}]}}
    lake = {"impl": "dir", "config": {"root": "./lake"}, "namespaces": {"a": {"tables": tables}}}
    manifest = load_manifest(tmp_path, {"lake": lake})
    monkeypatch.chdir(tmp_path)
    code, printed = doomed("with_full_disk", "apply", "--auto-approve", "--journal", "journal", largest=largest)
    assert code in (0, 1), printed
    assert "Traceback" not in printed
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal").ok
    assert reconciler.plan(manifest).changes == ()
