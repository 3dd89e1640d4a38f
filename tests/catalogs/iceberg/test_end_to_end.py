"""The example's manifest through the public API, on both servers."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.iceberg import IcebergBackend
from reconciler.planner.plan import Action, Plan
from reconciler.state import PropertyChanges
from tests.catalogs.iceberg.conftest import Catalog
from tests.servers.iceberg import IcebergServer

EXAMPLE = Path(__file__).parents[3] / "examples" / "iceberg" / "lancens.yaml"
CREDENTIAL_LINE = '      credential: "${env:ICEBERG_CREDENTIAL}" # client_id:client_secret\n'


@pytest.fixture
def manifest_path(catalog: Catalog, backend: IcebergBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with the way into the server under test, where nothing of it is left from other tests."""
    _remove(backend, (catalog.warehouse, "analytics"))
    monkeypatch.setenv("ICEBERG_ENDPOINT", catalog.config["endpoint"])
    monkeypatch.setenv("ICEBERG_CREDENTIAL", catalog.config.get("credential", ""))
    monkeypatch.setenv("ICEBERG_ROOT", catalog.root)
    text = EXAMPLE.read_text("utf-8").replace("      ware:\n", f"      {catalog.warehouse}:\n")
    assert CREDENTIAL_LINE in text
    if "credential" not in catalog.config:
        lines = ""
        for key, value in catalog.config.items():
            if key.startswith("storage."):
                name = f"ICEBERG_{key.replace('.', '_').upper()}"
                monkeypatch.setenv(name, value)
                lines += f'      {key}: "${{env:{name}}}"\n'
        text = text.replace(CREDENTIAL_LINE, lines)
    path = tmp_path / "lancens.yaml"
    path.write_text(text, "utf-8")
    return path


def _remove(backend: IcebergBackend, identifier: tuple[str, ...]) -> None:
    if identifier[-1] not in backend.child_namespaces(identifier[:-1]):
        return
    for name in backend.child_namespaces(identifier):
        _remove(backend, (*identifier, name))
    for name in backend.child_tables(identifier):
        backend.remove_table((*identifier, name))
    backend.remove_namespace(identifier)


def _planned(path: Path) -> Plan:
    return reconciler.plan(reconciler.load(path))


def _actions(plan: Plan) -> dict[str, Action]:
    return {"/".join(change.identifier[1:]): change.action for change in plan.changes}


def _apply(path: Path, tmp_path: Path) -> list[str]:
    manifest = reconciler.load(path)
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=tmp_path / "journal")
    assert report.ok, [(result.change.address, result.message) for result in report.results]
    return [result.note for result in report.results if result.note]


def test_the_example_converges_and_comes_back(
    catalog: Catalog, backend: IcebergBackend, manifest_path: Path, tmp_path: Path
) -> None:
    # plan and apply
    assert _actions(_planned(manifest_path)) == {
        "analytics": Action.CREATE_NAMESPACE,
        "analytics/eu": Action.CREATE_NAMESPACE,
        "analytics/eu/daily": Action.CREATE_NAMESPACE,
        "analytics/users": Action.CREATE_TABLE,
        "analytics/eu/daily/events": Action.DECLARE_TABLE,
        "analytics/eu/daily/page views": Action.DECLARE_TABLE,
    }
    notes = _apply(manifest_path, tmp_path)
    assert bool(notes) is catalog.ignores_location
    assert all("the service put it at s3://lake/w/analytics/" in note for note in notes)

    # a second plan is empty, and data is where the catalog says
    assert not _planned(manifest_path).changes
    users = backend.load_table((catalog.warehouse, "analytics", "users"))
    dataset = lance.dataset(users.location, storage_options=backend.storage_options())
    assert dataset.schema.names == ["user_id", "embedding"]
    assert users.location.startswith("s3://lake/w/" if catalog.ignores_location else catalog.root)

    # drift, and back
    backend.alter_table(users.id, PropertyChanges({"tier": "bronze"}))
    backend.remove_table((catalog.warehouse, "analytics", "eu", "daily", "events"))
    assert _actions(_planned(manifest_path)) == {
        "analytics/users": Action.UPDATE_TABLE,
        "analytics/eu/daily/events": Action.DECLARE_TABLE,
    }
    _apply(manifest_path, tmp_path)
    assert not _planned(manifest_path).changes

    # what leaves the manifest leaves the catalog; the data stays
    shorter, whole = manifest_path.read_text("utf-8"), manifest_path.read_text("utf-8")
    start = shorter.index("              # No data yet")
    end = shorter.index("            # Namespaces nest")
    manifest_path.write_text(shorter[:start] + "              kept: {}\n" + shorter[end:], "utf-8")
    assert _actions(_planned(manifest_path)) == {
        "analytics/users": Action.DEREGISTER_TABLE,
        "analytics/kept": Action.DECLARE_TABLE,
    }
    _apply(manifest_path, tmp_path)
    assert "users" not in backend.child_tables((catalog.warehouse, "analytics"))
    assert lance.dataset(users.location, storage_options=backend.storage_options()).count_rows() == 0

    # and what comes back is registered again, where the service lets it be
    manifest_path.write_text(whole, "utf-8")
    again = _actions(_planned(manifest_path))["analytics/users"]
    assert again is (Action.CREATE_TABLE if catalog.ignores_location else Action.REGISTER_TABLE)


def test_an_imported_manifest_plans_no_changes(
    catalog: Catalog, backend: IcebergBackend, manifest_path: Path, tmp_path: Path
) -> None:
    space = (catalog.warehouse, "analytics")
    backend.insert_namespace(space, {"owner": "someone"})
    backend.insert_namespace((*space, "eu"), {})
    backend.insert_table((*space, "eu", "50% off"), f"{catalog.root}/a", {"tier": "gold"})
    backend.insert_table((*space, "t.ü"), f"{catalog.root}/b", {})
    imported = reconciler.import_(reconciler.load(manifest_path))
    manifest_path.write_text(imported, "utf-8")
    assert "50% off" in imported
    assert "tier: gold" in imported
    assert not [
        key for key in ("nessie.", "gc.enabled", "created-at", "write.parquet", "table_type") if key in imported
    ]
    assert catalog.config.get("credential", "nothing") not in imported
    assert not _planned(manifest_path).changes


def test_a_warehouse_that_does_not_exist_is_named_with_its_line(catalog: Catalog, manifest_path: Path) -> None:
    text = manifest_path.read_text("utf-8").replace(f"      {catalog.warehouse}:\n", "      missing_ware:\n")
    manifest_path.write_text(text, "utf-8")
    with pytest.raises(reconciler.PlanError, match=r"lancens\.yaml:\d+: lake/missing_ware does not exist"):
        _planned(manifest_path)


@pytest.mark.parametrize("catalog", ["apache"], indirect=True)
def test_a_token_revoked_in_the_middle_of_an_apply_is_renewed(
    apache_server: IcebergServer, manifest_path: Path, tmp_path: Path
) -> None:
    server = apache_server
    manifest = reconciler.load(manifest_path)
    plan = reconciler.plan(manifest)
    before = len(server.requests())
    report = reconciler.apply(
        plan, manifest, journal=tmp_path / "journal", parallelism=1, on_event=lambda _: server.revoke_tokens()
    )
    assert report.ok
    assert sum(request.startswith("POST /v1/oauth/tokens") for request in server.requests()[before:]) > 2
    assert not _planned(manifest_path).changes


def test_locations_the_service_ignores_are_said_and_not_asked_for_again(
    catalog: Catalog, backend: IcebergBackend, manifest_path: Path, tmp_path: Path
) -> None:
    real = f"{catalog.root}/real.lance"
    lance.write_dataset(pa.table({"n": [1, 2]}), real, storage_options=backend.storage_options() or None)
    head = manifest_path.read_text("utf-8").partition("          analytics:\n")[0]

    def manifest(*tables: str) -> None:
        lines = "".join(f"              {line}\n" for line in tables)
        manifest_path.write_text(f"{head}          analytics:\n            tables:\n{lines}", "utf-8")

    def told(notes: list[str]) -> list[str]:
        return [note.partition(", not at ")[2].rpartition("/")[2] for note in notes]

    manifest(f'real: {{location: "{real}"}}', f'placed: {{location: "{catalog.root}/placed.lance"}}')
    assert _actions(_planned(manifest_path)) == {
        "analytics": Action.CREATE_NAMESPACE,
        "analytics/real": Action.REGISTER_TABLE,
        "analytics/placed": Action.DECLARE_TABLE,
    }
    notes = told(_apply(manifest_path, tmp_path))
    assert sorted(notes) == (["placed.lance", "real.lance"] if catalog.ignores_location else [])
    assert not _planned(manifest_path).changes

    moved = f"{catalog.root}/moved.lance"
    lance.write_dataset(pa.table({"n": [3]}), moved, storage_options=backend.storage_options() or None)
    manifest(f'real: {{location: "{real}"}}', f'placed: {{location: "{moved}"}}')
    assert _actions(_planned(manifest_path)) == {"analytics/placed": Action.RELOCATE_TABLE}
    notes = told(_apply(manifest_path, tmp_path))
    assert notes == (["moved.lance"] if catalog.ignores_location else [])
    assert not _planned(manifest_path).changes
    assert lance.dataset(real, storage_options=backend.storage_options() or None).count_rows() == 2


def test_the_page_shows_the_example() -> None:
    page = EXAMPLE.parents[2] / "docs" / "catalogs" / "iceberg.md"
    assert f"```yaml\n{EXAMPLE.read_text('utf-8')}```" in page.read_text("utf-8")
