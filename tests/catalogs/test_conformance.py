"""The conformance kit against the two catalogs that need no server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.backends import registry
from reconciler.backends.base import Backend
from reconciler.backends.dir.contents import Row
from reconciler.backends.dir.manifest import Manifest
from reconciler.backends.directory_places import Places
from reconciler.backends.memory import MemoryBackend
from reconciler.conformance import Check, Outcome, checks, run, run_check, verify
from reconciler.names import Identifier, join


def _foreign_in_memory(backend: Backend, identifier: Identifier) -> Callable[[], None]:
    assert isinstance(backend, MemoryBackend)
    backend.add_foreign(identifier)
    return partial(backend.remove_foreign, identifier)


def _foreign_in_directory(backend: Backend, identifier: Identifier) -> Callable[[], None]:
    manifest = Manifest(Places(backend.config.identity()), {})
    manifest.update(lambda contents: (contents.put(Row(join(identifier), "view")), None))
    return lambda: manifest.update(lambda contents: (contents.without(join(identifier)), None))


@pytest.mark.parametrize("check", checks(), ids=str)
def test_memory(check: Check, tmp_path: Path) -> None:
    connect = partial(registry.connect, "memory", {"name": uuid.uuid4().hex})
    verify(check, connect, scratch=str(tmp_path), add_foreign=_foreign_in_memory)


@pytest.mark.parametrize("check", checks(), ids=str)
def test_directory(check: Check, tmp_path: Path) -> None:
    connect = partial(registry.connect, "dir", {"root": str(tmp_path / "lake")})
    verify(check, connect, scratch=str(tmp_path), add_foreign=_foreign_in_directory)


@pytest.mark.parametrize("check", checks(), ids=str)
def test_directory_below_an_existing_namespace(check: Check, tmp_path: Path) -> None:
    connect = partial(registry.connect, "dir", {"root": str(tmp_path / "lake")})
    connect().insert_namespace(("there",), {})
    verify(check, connect, namespace=("there",), scratch=str(tmp_path))
    assert connect().child_namespaces(("there",)) == []


def test_a_fault_is_found_and_reported(tmp_path: Path) -> None:
    class Forgetful(MemoryBackend):
        def insert_namespace(self, identifier: Identifier, properties: object) -> object:  # type: ignore[override]
            return super().insert_namespace(identifier, {})

    check = next(check for check in checks() if check.name == "namespace_properties_round_trip")
    result = run_check(check, Forgetful(), Forgetful, scratch=str(tmp_path))
    assert result.outcome is Outcome.FAILED
    assert "'owner': None" in result.detail


def test_the_report_is_a_table_with_counts(tmp_path: Path) -> None:
    seen: list[str] = []
    report = run("dir", {"root": str(tmp_path)}, progress=lambda result: seen.append(result.check.name))
    table = report.table()
    assert report.ok
    assert seen == [check.name for check in checks()]
    assert "  CreateNamespace    ok      A created namespace exists, is described and listed." in table
    assert table.splitlines()[0] == f"dir: {tmp_path}"
    excluded = report.count(Outcome.NOT_APPLICABLE)
    assert table.endswith(f"{len(seen) - excluded} passed, 0 failed, {excluded} not applicable.")


def test_every_check_says_what_holds() -> None:
    for check in checks():
        assert check.title.endswith("."), check.name
    assert len({check.name for check in checks()}) == len(checks())
