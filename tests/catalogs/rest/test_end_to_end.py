"""The example manifest against lancens' own server, and what of it pylance's adapter can do."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.namespace import CatalogNamespace
from reconciler.planner.plan import Action, Plan
from tests.catalogs.rest.conftest import TOKEN, Server
from tests.cli.running import lancens

EXAMPLE = Path(__file__).parents[3] / "examples/rest/lancens.yaml"


@pytest.fixture
def manifest(serve: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example over lancens' server, beside a lake that holds its raw data."""
    return placed(serve, tmp_path, monkeypatch)


def placed(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCE_REST_URI", server.config["uri"])
    monkeypatch.setenv("LANCE_REST_TOKEN", TOKEN)
    monkeypatch.setenv("LAKE_ROOT", str(server.root))
    monkeypatch.chdir(folder)
    lance.write_dataset(pa.table({"url": ["a", "b"]}), server.root / "raw/clicks.lance")
    return Path(shutil.copy(EXAMPLE, folder / "lancens.yaml"))


def planned(manifest: Path) -> Plan:
    return reconciler.plan(reconciler.load(manifest))


def apply(manifest: Path) -> Plan:
    """Apply what is planned, and see that nothing is left to do."""
    made = planned(manifest)
    report = reconciler.apply(made, reconciler.load(manifest))
    assert report.ok, report
    assert planned(manifest).changes == ()
    return made


def edit(manifest: Path, old: str, new: str) -> None:
    text = manifest.read_text()
    assert old in text
    manifest.write_text(text.replace(old, new))


def actions(plan: Plan) -> list[tuple[str, Action]]:
    return [("/".join(change.identifier), change.action) for change in plan.changes]


def test_the_first_apply_makes_everything_and_the_second_nothing(serve: Server, manifest: Path) -> None:
    assert actions(apply(manifest)) == [
        ("features", Action.CREATE_NAMESPACE),
        ("features/eu", Action.CREATE_NAMESPACE),
        ("features/eu/clicks", Action.REGISTER_TABLE),
        ("features/events", Action.DECLARE_TABLE),
        ("features/users", Action.CREATE_TABLE),
    ]
    backend = serve.connect()
    assert backend.load_table(("features", "users")).properties["lancens.managed-by"] == "feature-store/shared"
    assert (
        lance.dataset(namespace_client=CatalogNamespace(backend), table_id=["features", "eu", "clicks"]).count_rows()
        == 2
    )


def test_properties_change_in_place_and_entries_move(serve: Server, manifest: Path) -> None:
    apply(manifest)
    lance.write_dataset(pa.table({"url": ["c"]}), serve.root / "raw/newer.lance")
    edit(manifest, "{tier: gold}", "{tier: silver}")
    edit(manifest, "raw/clicks.lance", "raw/newer.lance")
    edit(manifest, "{owner: ml-platform}", "{owner: search}")
    assert sorted(actions(apply(manifest))) == [
        ("features", Action.UPDATE_NAMESPACE),
        ("features/eu/clicks", Action.RELOCATE_TABLE),
        ("features/users", Action.UPDATE_TABLE),
    ]
    assert lance.dataset(serve.root / "raw/clicks.lance").count_rows() == 2


def test_a_secret_that_the_server_redacts_cannot_be_planned(serve: Server, manifest: Path) -> None:
    edit(manifest, "{tier: gold}", "{tier: gold, api_key: hunter2-hunter2}")
    report = reconciler.apply(planned(manifest), reconciler.load(manifest))
    assert not report.ok
    failed = "".join(result.message for result in report.results)
    assert "the server does not keep, or not show, `api_key` of table `features$users`" in failed
    assert "hunter2" not in failed
    assert "users" not in serve.connect().child_tables(("features",))


def test_what_is_gone_from_the_manifest_is_deregistered_and_its_data_stays(serve: Server, manifest: Path) -> None:
    apply(manifest)
    text = manifest.read_text()
    manifest.write_text(text[: text.index("        namespaces:\n          eu:")])
    assert actions(apply(manifest)) == [
        ("features/eu/clicks", Action.DEREGISTER_TABLE),
        ("features/eu", Action.DROP_NAMESPACE),
    ]
    assert lance.dataset(serve.root / "raw/clicks.lance").count_rows() == 2


def test_drift_is_seen_and_mended(serve: Server, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply(manifest)
    serve.connect().remove_table(("features", "users"))
    drift = lancens(capsys, "drift")
    assert drift.code == 2
    assert "features/users" in drift.out
    assert actions(apply(manifest)) == [("features/users", Action.REGISTER_TABLE)]


def test_an_imported_manifest_plans_to_nothing(manifest: Path, tmp_path: Path) -> None:
    apply(manifest)
    imported = tmp_path / "imported.yaml"
    imported.write_text(reconciler.import_(reconciler.load(manifest)))
    assert planned(imported).changes == ()
    assert TOKEN not in imported.read_text()


def test_a_token_that_is_not_known_is_one_clear_error(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANCE_REST_TOKEN", "another-token-0123456789")
    failed = lancens(capsys, "plan")
    assert failed.code == 1
    assert "shared (rest): " in failed.err
    assert "check `auth_token`: it is not accepted" in failed.err
    assert "another-token-0123456789" not in failed.out + failed.err


def test_on_pylances_adapter_the_same_without_marks(
    pylance_adapter: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = placed(pylance_adapter, tmp_path, monkeypatch)
    edit(manifest, "      root:", "      table_properties: false\n      root:")
    edit(manifest, "            properties: {tier: gold}\n", "")
    edit(manifest, "{properties: {tier: silver}}", "{}")
    assert len(apply(manifest).changes) == 5
    text = manifest.read_text()
    manifest.write_text(text[: text.index("        namespaces:\n          eu:")])
    assert actions(planned(manifest)) == []
    assert (
        lance.dataset(
            namespace_client=CatalogNamespace(pylance_adapter.connect()), table_id=["features", "users"]
        ).count_rows()
        == 0
    )
