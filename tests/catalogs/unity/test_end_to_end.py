"""The example manifest, from the first plan to the last removal, through the public interface."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import reconciler
from reconciler.backends.unity import UnityConfig
from reconciler.namespace import CatalogNamespace
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.catalogs.unity.conftest import CATALOG, TOKEN, Unity
from tests.cli.running import lancens
from tests.plans import assert_blocked

EXAMPLE = Path(__file__).parents[3] / "examples/unity/lancens.yaml"
PAGE = EXAMPLE.parents[2] / "docs/catalogs/unity.md"
FEATURES = (CATALOG, "features")


@pytest.fixture
def manifest(unity: Unity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example beside a lake that holds its raw data; the server answers its places percent-encoded."""
    monkeypatch.setenv("UNITY_ENDPOINT", unity.server.url)
    monkeypatch.setenv("UNITY_TOKEN", TOKEN)
    monkeypatch.setenv("LAKE_ROOT", str(tmp_path / "my lake"))
    monkeypatch.chdir(tmp_path)
    lance.write_dataset(pa.table({"url": ["a", "b"]}), tmp_path / "my lake/raw/clicks.lance")
    return Path(shutil.copy(EXAMPLE, tmp_path / "lancens.yaml"))


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


def test_the_first_apply_makes_everything_and_the_second_nothing(unity: Unity, manifest: Path, tmp_path: Path) -> None:
    assert actions(apply(manifest)) == [
        ("main/features", Action.CREATE_NAMESPACE),
        ("main/staging", Action.CREATE_NAMESPACE),
        ("main/features/clicks", Action.REGISTER_TABLE),
        ("main/features/users", Action.CREATE_TABLE),
        ("main/staging/events", Action.DECLARE_TABLE),
    ]
    users = unity.contract.table(*FEATURES, "users")
    assert [column["type_text"] for column in users["columns"]] == ["bigint", "timestamp", "array<float>"]
    assert users["properties"]["tier"] == "gold"
    assert users["properties"]["lancens.managed-by"] == "feature-store/governed"
    backend = unity.connect()
    assert lance.dataset(namespace_client=CatalogNamespace(backend), table_id=[*FEATURES, "clicks"]).count_rows() == 2
    assert lance.dataset(namespace_client=CatalogNamespace(backend), table_id=[*FEATURES, "users"]).count_rows() == 0
    lance.write_dataset(pa.table({"n": [1]}), backend.load_table((CATALOG, "staging", "events")).location)
    assert planned(manifest).changes == ()
    assert lance.dataset(str(tmp_path / "my lake/main/staging/events.lance")).count_rows() == 1


def test_a_plan_notes_what_unity_shows_otherwise_and_only_while_it_is_to_be_made(manifest: Path) -> None:
    [note] = [note.message for note in planned(manifest).notes if "Unity shows" in note.message]
    assert note.startswith("1 column of type fixed_size_list<float32>[8]: Unity shows array<float>")
    apply(manifest)
    assert not [note for note in planned(manifest).notes if "Unity shows" in note.message]


def test_what_is_gone_from_the_manifest_is_deregistered_and_its_data_stays(manifest: Path, tmp_path: Path) -> None:
    apply(manifest)
    text = manifest.read_text()
    manifest.write_text(text[: text.index("          staging:")])
    edit(manifest, "              clicks:\n", "              moved:\n")
    assert actions(apply(manifest)) == [
        ("main/features/clicks", Action.DEREGISTER_TABLE),
        ("main/features/moved", Action.REGISTER_TABLE),
        ("main/staging/events", Action.DEREGISTER_TABLE),
        ("main/staging", Action.DROP_NAMESPACE),
    ]
    assert lance.dataset(str(tmp_path / "my lake/raw/clicks.lance")).count_rows() == 2


def test_a_schemas_properties_are_changed_in_place(unity: Unity, manifest: Path) -> None:
    apply(manifest)
    edit(manifest, "{owner: ml-platform}", "{tier: gold}")
    assert actions(apply(manifest)) == [("main/features", Action.UPDATE_NAMESPACE)]
    properties = unity.connect().load_namespace(FEATURES).properties
    assert properties["tier"] == "gold"
    assert "owner" not in properties


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{tier: gold}", "{tier: silver}", "users: it cannot be changed: this catalog cannot alter a table"),
        ("raw/clicks.lance", "raw/other.lance", "clicks: it cannot be relocated: this catalog cannot alter a table"),
    ],
)
def test_the_plan_says_that_a_table_cannot_be_changed(
    manifest: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    apply(manifest)
    lance.write_dataset(pa.table({"url": ["a"]}), tmp_path / "my lake/raw/other.lance")
    edit(manifest, old, new)
    assert_blocked(planned(manifest), match=said)


def test_the_page_shows_this_example_and_what_it_answers(manifest: Path) -> None:
    page = PAGE.read_text()
    assert EXAMPLE.read_text() in page
    apply(manifest)
    edit(manifest, "{tier: gold}", "{tier: silver}")
    [blocked] = planned(manifest).blocked
    assert blocked.reason in page
    assert blocked.remedy in page


def test_the_page_lists_every_key_and_its_default() -> None:
    page = PAGE.read_text()
    for name, field in UnityConfig.model_fields.items():
        shown = "storage.*" if name == "storage" else name
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{shown}`")]
        if isinstance(field.default, str | float | int):
            assert str(field.default).removesuffix(".0") in row


def test_drift_is_seen_and_mended(unity: Unity, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply(manifest)
    assert lancens(capsys, "drift").code == 0
    unity.contract.remove(*FEATURES, "users")
    drift = lancens(capsys, "drift")
    assert drift.code == 2
    assert "main/features/users" in drift.out
    assert actions(apply(manifest)) == [("main/features/users", Action.REGISTER_TABLE)]


def test_an_imported_manifest_plans_to_nothing(unity: Unity, manifest: Path, tmp_path: Path) -> None:
    unity.fill(120, 1)
    apply(manifest)
    imported = tmp_path / "imported.yaml"
    imported.write_text(reconciler.import_(reconciler.load(manifest)))
    assert planned(imported).changes == ()
    assert "t0119" in imported.read_text()
    assert TOKEN not in imported.read_text()


def test_a_catalog_that_is_missing_is_for_the_administrator(manifest: Path) -> None:
    edit(manifest, "      main:\n", "      absent:\n")
    assert_blocked(planned(manifest), match="made outside lancens")


def test_the_command_line_shows_the_error_and_no_secret(
    unity: Unity, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unity.server.fail_once("/schemas?", 403, {"error_code": "PERMISSION_DENIED", "message": TOKEN, "details": []})
    failed = lancens(capsys, "plan")
    assert failed.code == 1
    assert "governed (unity): list the schemas of `main`: 403: PERMISSION_DENIED" in failed.err
    assert TOKEN not in failed.out + failed.err
    assert "Traceback" not in failed.err
