"""A property whose value comes from the environment or a file is a secret, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconciler
from reconciler.output import render
from reconciler.planner.plan import Plan

MANIFEST = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      a:
        properties: {team: "by ${env:LANCENS_TEST_VALUE}"}
        tables:
          t: {schema: [{name: id, type: int64}], properties: {tier: "${file:tier.txt}", max_tokens: "12"}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "lancens.yaml").write_text(MANIFEST)
    return tmp_path / "lancens.yaml"


def planned(manifest: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> tuple[reconciler.Manifest, Plan]:
    monkeypatch.setenv("LANCENS_TEST_VALUE", value)
    (manifest.parent / "tier.txt").write_text(f"{value}\n")
    loaded = reconciler.load(manifest)
    return loaded, reconciler.plan(loaded)


def test_it_is_compared_by_value_and_shown_nowhere(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journals = manifest.parent / "journals"
    for value in ("swordfish", "hunter22"):
        loaded, plan = planned(manifest, monkeypatch, value)
        pages = [render(plan, format_, full=True) for format_ in ("text", "markdown", "html", "json")]
        assert not any("swordfish" in page or "hunter22" in page for page in [*pages, plan.to_json()])
        assert "max_tokens" in plan.to_json()
        saved = Plan.from_json(plan.to_json())
        assert reconciler.apply(saved, loaded, journal=journals).ok
        assert reconciler.plan(loaded).is_empty
    assert not any(
        "swordfish" in text or "hunter22" in text for text in (one.read_text() for one in journals.iterdir())
    )


def test_a_saved_plan_is_stale_when_the_live_value_moved(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, plan = planned(manifest, monkeypatch, "swordfish")
    reconciler.apply(plan, loaded, journal=manifest.parent / "journals")
    _, wanted = planned(manifest, monkeypatch, "hunter22")
    between, other = planned(manifest, monkeypatch, "between")
    reconciler.apply(other, between, journal=manifest.parent / "journals")
    again, _ = planned(manifest, monkeypatch, "hunter22")
    with pytest.raises(reconciler.model.errors.StalePlanError) as caught:
        reconciler.apply(Plan.from_json(wanted.to_json()), again, journal=manifest.parent / "journals")
    assert "properties.team" in str(caught.value)
    assert not any(value in str(caught.value) for value in ("swordfish", "hunter22", "between"))


def test_another_value_is_another_manifest(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (planned(manifest, monkeypatch, value)[0].digest for value in ("swordfish", "hunter22"))
    assert one != other
