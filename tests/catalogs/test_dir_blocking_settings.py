"""What other writers set on ``__manifest`` that keeps lancens from reading it, or from committing to it."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import reconciler
from reconciler.backends.dir import DirBackend
from reconciler.backends.dir.manifest import DirManifest
from reconciler.model.errors import CatalogError, UnsupportedOperationError
from reconciler.model.reasons import ReasonCode
from reconciler.operations.doctor import doctor
from tests.plans import assert_blocked
from tests.writing import blocks_of, load_manifest

READER, WRITER = (f"lance.namespace.manifest.{use}_feature_flags" for use in ("reader", "writer"))
CLEANUP: dict[str, str | None] = {"lance.auto_cleanup.interval": "6", "lance.auto_cleanup.older_than": "0s"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return the root of a catalog with a table in a namespace, and one directly under the root."""
    backend = DirBackend(root=str(tmp_path / "lake"))
    backend.insert_namespace(("eu",), {})
    backend.insert_table(("eu", "users"), str(tmp_path / "lake/eu.users"), {})
    backend.insert_table(("root",), str(tmp_path / "lake/root.lance"), {})
    return tmp_path / "lake"


def _manifest(lake: Path, tables: dict[tuple[str, ...], object]) -> reconciler.Manifest:
    return load_manifest(lake.parent, {"lake": {"impl": "dir", "config": {"root": str(lake)}, **blocks_of(tables)}})


def _list_of_objects(lake: Path) -> lance.LanceDataset:
    return lance.dataset(str(lake / "__manifest"))


@pytest.mark.parametrize("flags", ["1", "+4", "", "abc", "18446744073709551616"])
def test_unknown_features_of_readers_are_refused_before_anything_is_listed(lake: Path, flags: str) -> None:
    _list_of_objects(lake).update_metadata({READER: flags})
    for use in (DirBackend.scan, lambda backend: backend.load_table(("eu", "users"))):
        with pytest.raises(UnsupportedOperationError, match="reader feature flags"):
            use(DirBackend(root=str(lake)))
    with pytest.raises(CatalogError, match="upgrade lancens"):
        reconciler.plan(_manifest(lake, {("eu", "users"): {}}))


@pytest.mark.parametrize("key", [READER, WRITER])
def test_no_features_are_no_hindrance(lake: Path, key: str) -> None:
    _list_of_objects(lake).update_metadata({key: "0"})
    manifest = _manifest(lake, {("eu", "more"): {}})
    assert reconciler.apply(reconciler.plan(manifest), manifest).ok


def test_unknown_features_of_writers_are_refused_before_every_write(lake: Path) -> None:
    _list_of_objects(lake).update_metadata({WRITER: "2"})
    backend, files = DirBackend(root=str(lake)), sorted(lake.rglob("*"))
    for write in (
        lambda: backend.insert_namespace(("us",), {}),
        lambda: backend.insert_table(("eu", "new"), f"{lake}/new", {}),
        lambda: backend.remove_table(("root",)),
        lambda: backend.remove_table(("eu", "users")),
        lambda: backend.rename_table(("eu", "users"), ("eu", "people")),
    ):
        with pytest.raises(UnsupportedOperationError, match="writer feature flags"):
            write()
    assert sorted(lake.rglob("*")) == files


def test_a_plan_and_a_doctor_say_that_a_newer_pylance_must_write(lake: Path) -> None:
    _list_of_objects(lake).update_metadata({WRITER: "2"})
    manifest = _manifest(lake, {("eu", "users"): {"absent": True}, ("eu", "more"): {}})
    plan = reconciler.plan(manifest)
    assert_blocked(plan, "lake/__manifest", ReasonCode.CATALOG_TOO_NEW, key=WRITER, value="2")
    assert (plan.changes, len(plan.waiting)) == ((), 2)
    assert reconciler.apply(plan, manifest, skip_blocked=True).ok
    assert any(WRITER in check.detail and check.status == "warning" for check in doctor(manifest))
    nothing = reconciler.plan(_manifest(lake, {}))
    assert (nothing.changes, nothing.blocked) == ((), ())
    assert any(WRITER in note.message for note in nothing.notes)


def test_an_apply_ends_the_auto_clean_up_of_the_list_first_and_deletes_no_version(lake: Path) -> None:
    _list_of_objects(lake).update_config(CLEANUP)
    assert _list_of_objects(lake).version == 5, "the next commit is one that cleans up"
    versions = {*(lake / "__manifest/_versions").glob("*.manifest")}
    manifest = _manifest(lake, {("eu", "users"): {"absent": True}, ("eu", "more"): {}})
    assert any("auto_cleanup" in check.detail and check.status == "warning" for check in doctor(manifest))
    plan = reconciler.plan(manifest)
    first, *others = plan.changes
    assert (first.address, first.code) == ("lake/__manifest", ReasonCode.CATALOG_CLEANUP)
    assert len(others) == 2
    assert all(0 in change.depends_on for change in others)
    assert reconciler.apply(plan, manifest).ok
    assert _list_of_objects(lake).config() == {}
    assert versions < {*(lake / "__manifest/_versions").glob("*.manifest")}
    assert reconciler.plan(manifest).is_empty
    assert reconciler.apply(plan, manifest).ok, "the saved plan is done already"


def test_an_auto_clean_up_of_the_list_is_a_note_while_nothing_changes(lake: Path) -> None:
    _list_of_objects(lake).update_config(CLEANUP)
    plan = reconciler.plan(_manifest(lake, {}))
    assert plan.is_empty
    assert any("auto_cleanup" in note.message for note in plan.notes)


def test_an_apply_killed_after_the_end_of_the_clean_up_goes_on(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _list_of_objects(lake).update_config(CLEANUP)
    manifest = _manifest(lake, {("eu", "more"): {}})
    plan = reconciler.plan(manifest)
    with monkeypatch.context() as patch:
        patch.setattr(DirManifest, "update", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            reconciler.apply(plan, manifest)
    assert _list_of_objects(lake).config() == {}
    assert reconciler.apply(plan, manifest).ok
    assert reconciler.plan(manifest).is_empty
