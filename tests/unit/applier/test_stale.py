"""What changed since a plan was made is called stale, not edited, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconciler
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import StalePlanError
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan
from tests.writing import load_manifest


def _elsewhere(_: MemoryBackend, identifier: Identifier) -> str:
    return f"/elsewhere/{identifier[-1]}"


@pytest.mark.parametrize("block", [{}, {"schema": [{"name": "id", "type": "int64"}]}], ids=["declared", "created"])
def test_a_default_location_that_changed_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: dict[str, object]
) -> None:
    catalog = {"impl": "memory", "config": {"name": str(tmp_path), "root": str(tmp_path)}, "tables": {"t": block}}
    manifest = load_manifest(tmp_path, {"lake": catalog})
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    monkeypatch.setattr(MemoryBackend, "default_location", _elsewhere)
    with pytest.raises(StalePlanError, match=r"default location .*now /elsewhere/t"):
        reconciler.apply(saved, manifest, journal=tmp_path / "journal")
    assert not (tmp_path / "t.lance").exists()


def test_a_location_that_the_catalog_refuses_by_now_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"location": str(tmp_path / "t.lance")}
    catalog = {"impl": "memory", "config": {"name": str(tmp_path)}, "tables": {"t": block}}
    manifest = load_manifest(tmp_path, {"lake": catalog})
    saved = Plan.from_json(reconciler.plan(manifest).to_json())
    monkeypatch.setattr("reconciler.backends.optional.location_problem", lambda *_: "taped")
    with pytest.raises(StalePlanError, match=r"lake/t +location +.*t\.lance .*: taped"):
        reconciler.apply(saved, manifest, journal=tmp_path / "journal")
