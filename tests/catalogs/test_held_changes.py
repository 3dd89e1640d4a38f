"""A change that is held right before its write, while another apply changes the same entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.backends.rest import RestBackend
from reconciler.backends.rest.client import RestClient
from reconciler.model.live import LiveTable
from reconciler.model.ownership import recorded_keys
from reconciler.server.catalogs import OneCatalog
from reconciler.server.operations import AlterNamespaceRequest
from tests.servers.lance_rest import served
from tests.writing import load_manifest

_OLD, _NEW, _LESS = {"tier": "silver", "region": "eu"}, {"tier": "gold", "region": "us"}, {"tier": "silver"}


class _Catalog:
    """A catalog with the namespace ``a`` and the table ``a/t``, both with the same properties."""

    def __init__(self, folder: Path, impl: str, config: dict[str, str]) -> None:
        self.folder, self.impl, self.config = folder, impl, config

    def manifest(self, properties: dict[str, str]) -> reconciler.Manifest:
        block = {"properties": properties}
        namespaces = {"a": {**block, "tables": {"t": {**block, "location": f"{self.folder}/lake/t"}}}}
        return load_manifest(
            self.folder, {"lake": {"impl": self.impl, "config": self.config, "namespaces": namespaces}}
        )

    def apply(self, properties: dict[str, str]) -> reconciler.ApplyReport:
        manifest = self.manifest(properties)
        return reconciler.apply(reconciler.plan(manifest), manifest)


@pytest.fixture(params=["rest", "memory", "dir"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Catalog]:
    root = str(tmp_path / "lake")
    if request.param == "rest":
        with served(OneCatalog(DirBackend(root=root))) as url:
            yield _Catalog(tmp_path, "rest", {"uri": url, "root": root})
    else:
        named = {"name": str(tmp_path)} if request.param == "memory" else {}
        yield _Catalog(tmp_path, request.param, {"root": root, **named})


def _hold(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object]) -> None:
    genuine = getattr(owner, name)

    def held(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, genuine)
        act()
        return genuine(*given, **named)

    monkeypatch.setattr(owner, name, held)


@pytest.mark.parametrize("call", ["alter_table", "alter_namespace"])
def test_a_change_on_another_state_is_refused_and_leaves_no_key_without_an_owner(
    catalog: _Catalog, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    assert catalog.apply(_OLD).ok
    owner = {"rest": RestClient, "memory": MemoryBackend, "dir": DirBackend}[catalog.impl]
    _hold(monkeypatch, owner, call, lambda: catalog.apply(_LESS))
    report = catalog.apply(_NEW)
    kind = call.removeprefix("alter_")
    assert [result.change.kind for result in report.results if result.status == "failed"] == [kind]
    assert catalog.apply(_LESS).ok
    assert reconciler.plan(catalog.manifest(_LESS)).is_empty


@pytest.mark.parametrize("call", ["alter_table", "alter_namespace"])
def test_a_server_without_preconditions_gets_the_marks_with_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Its delta alone would bring a key back that ``lancens.keys`` does not list any more."""
    monkeypatch.setattr(AlterNamespaceRequest, "conditional_backend", lambda _, backend, __: backend)
    root = str(tmp_path / "lake")
    with served(OneCatalog(DirBackend(root=root))) as url:
        catalog = _Catalog(tmp_path, "rest", {"uri": url, "root": root})
        assert catalog.apply(_OLD).ok
        _hold(monkeypatch, RestClient, call, lambda: catalog.apply(_LESS))
        catalog.apply(_NEW)
        backend = RestBackend(**catalog.config)
        for live in (backend.load_table(("a", "t")), backend.load_namespace(("a",))):
            assert {"tier", "region"} & live.properties.keys() <= recorded_keys(live.properties)
        assert catalog.apply(_LESS).ok
        assert "region" not in backend.load_table(("a", "t")).properties


def test_an_answer_that_differs_from_the_plan_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = _Catalog(tmp_path, "memory", {"root": str(tmp_path), "name": str(tmp_path)})
    assert catalog.apply(_OLD).ok
    genuine = MemoryBackend.alter_table

    def answer(backend: MemoryBackend, *given: Any) -> LiveTable:
        altered = genuine(backend, *given)
        return replace(altered, properties={**altered.properties, "tier": "SILVER"})

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBackend, "alter_table", answer)
        report = catalog.apply(_NEW)
    assert [result.change.kind for result in report.results if result.status == "failed"] == ["table"]
