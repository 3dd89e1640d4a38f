"""The example's manifest through the public API, on both servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest
import urllib3

from reconciler.backends.iceberg import IcebergBackend
from reconciler.model.live import PropertyChanges
from reconciler.model.reasons import ReasonCode
from reconciler.planner.entries import Action
from reconciler.planner.plan import Plan
from tests.catalogs.calling import calls_of_changes
from tests.catalogs.end_to_end import EndToEnd, Example, HeldNames, Stage, actions, carried_out, edit, planned
from tests.catalogs.iceberg.conftest import Catalog, on_one_server
from tests.plans import assert_blocked

EXAMPLE = Path(__file__).parents[3] / "examples" / "iceberg" / "lancens.yaml"
CREDENTIAL_LINE = '      credential: "${env:ICEBERG_CREDENTIAL}"  # client_id:client_secret\n'


@pytest.fixture
def manifest_path(catalog: Catalog, backend: IcebergBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with the way into the server under test, where nothing of it is left from other tests."""
    _remove(backend, (catalog.warehouse, "analytics"))
    monkeypatch.chdir(tmp_path)
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


def _relative(plan: Plan) -> dict[str, Action]:
    """Return what happens to what is below the warehouse."""
    return {path.partition("/")[2]: action for path, action in actions(plan)}


def look(catalog: Catalog, path: str) -> Mapping[str, str] | None:
    """Return the properties of the object at a path, as the server's own API has them."""
    _, *names = (quote(name, safe="") for name in path.split("/"))
    table = f"/namespaces/{'%1F'.join(names[:-1])}/tables/{names[-1]}" if len(names) > 1 else None
    for place in filter(None, (table, f"/namespaces/{'%1F'.join(names)}")):
        answer = urllib3.request("GET", catalog.routes + place, headers=catalog.headers, timeout=30)
        if answer.status == 200:
            found = answer.json()
            properties: Mapping[str, str] = found.get("metadata", found)["properties"]
            # Nessie says of every object at which of its commits it was read.
            return {key: value for key, value in properties.items() if not key.startswith("nessie.commit.")}
        assert answer.status == 404, (answer.status, answer.data[:300])
    return None


def dataset(backend: IcebergBackend, path: str) -> lance.LanceDataset:
    location = backend.load_table(tuple(path.split("/"))).location
    return lance.dataset(location, storage_options=backend.storage_options())


@pytest.fixture
def example(catalog: Catalog, backend: IcebergBackend, manifest_path: Path) -> Example:
    space = (catalog.warehouse, "analytics")
    analytics = "/".join(space)
    users, daily = f"{analytics}/users", f"{analytics}/eu/daily"
    changes = ("{tier: gold}", "{tier: silver}"), ("{owner: ml-platform}", "{owner: search}")

    def drift() -> None:
        backend.alter_table((*space, "users"), PropertyChanges({"tier": "bronze"}))
        backend.remove_table((*space, "eu", "daily", "events"))

    def remove() -> None:
        text = manifest_path.read_text("utf-8")
        start, end = text.index("              # No data yet"), text.index("            # Namespaces nest")
        manifest_path.write_text(text[:start] + "              kept: {}\n" + text[end:], "utf-8")

    def fill() -> None:
        backend.insert_namespace((*space, "theirs"), {"owner": "someone"})
        backend.insert_table((*space, "eu", "50% off"), f"{catalog.root}/a", {"tier": "bronze"})
        backend.insert_table((*space, "theirs", "t.ü"), f"{catalog.root}/b", {})

    return Example(
        manifest=manifest_path,
        look=lambda path: look(catalog, path),
        open=lambda path: dataset(backend, path),
        first=Stage(
            [
                (analytics, Action.CREATE_NAMESPACE),
                (f"{analytics}/eu", Action.CREATE_NAMESPACE),
                (daily, Action.CREATE_NAMESPACE),
                (f"{daily}/events", Action.DECLARE_TABLE),
                (f"{daily}/page views", Action.DECLARE_TABLE),
                (users, Action.CREATE_TABLE),
            ],
            shown={users: {"tier": "gold", "lancens.managed-by": "feature-store/lake"}},
            rows={users: 0},
        ),
        edited=Stage(
            [(analytics, Action.UPDATE_NAMESPACE), (users, Action.UPDATE_TABLE)],
            lambda: edit(manifest_path, *changes),
            shown={analytics: {"owner": "search"}, users: {"tier": "silver"}},
        ),
        drift=Stage(
            [(f"{daily}/events", Action.DECLARE_TABLE), (users, Action.UPDATE_TABLE)],
            drift,
            shown={users: {"tier": "gold"}},
        ),
        removed=Stage(
            [(f"{analytics}/kept", Action.DECLARE_TABLE), (users, Action.DEREGISTER_TABLE)],
            remove,
        ),
        # What comes back is registered again, where the service lets it be.
        returned=[(users, Action.CREATE_TABLE if catalog.ignores_location else Action.REGISTER_TABLE)],
        fill=fill,
        imported=["50% off", "t.ü", "tier: bronze", "owner: someone"],
        hidden=[
            *("nessie.", "gc.enabled", "created-at", "write.parquet", "table_type"),
            catalog.config.get("credential", "nothing"),
        ],
        note="the service put it at s3://lake/w/analytics/" if catalog.ignores_location else None,
        hold=lambda path: catalog.hold(tuple(path.split("/"))),
    )


class TestExample(EndToEnd):
    """The suite, over both servers: they differ in where tables are."""


@on_one_server
@pytest.mark.soak
class TestHeldNames(HeldNames):
    """Names that are taken, which the planner finds in a scan."""


def test_a_warehouse_that_does_not_exist_is_named_with_its_line(catalog: Catalog, manifest_path: Path) -> None:
    edit(manifest_path, (f"      {catalog.warehouse}:\n", "      missing_ware:\n"))
    plan = planned(manifest_path)
    assert_blocked(plan, "lake/missing_ware", ReasonCode.MADE_OUTSIDE)
    line = manifest_path.read_text("utf-8").splitlines().index("      missing_ware:") + 1
    assert f"lancens.yaml:{line}" in {str(one.source) for one in plan.blocked}


def test_locations_the_service_ignores_are_said_and_not_asked_for_again(
    catalog: Catalog, backend: IcebergBackend, manifest_path: Path
) -> None:
    real = f"{catalog.root}/real.lance"
    lance.write_dataset(pa.table({"n": [1, 2]}), real, storage_options=backend.storage_options() or None)
    head = manifest_path.read_text("utf-8").partition("          analytics:\n")[0]

    def manifest(*tables: str) -> None:
        lines = "".join(f"              {line}\n" for line in tables)
        manifest_path.write_text(f"{head}          analytics:\n            tables:\n{lines}", "utf-8")

    def told() -> list[str]:
        results = carried_out(planned(manifest_path), manifest_path).results
        return [result.note.partition(", not at ")[2].rpartition("/")[2] for result in results if result.note]

    placed = f'placed: {{location: "{catalog.root}/placed.lance"}}'
    made = {"analytics": Action.CREATE_NAMESPACE, "analytics/placed": Action.DECLARE_TABLE}
    if catalog.ignores_location:
        manifest(placed)
        assert _relative(planned(manifest_path)) == made
        assert told() == ["placed.lance"]
    else:
        manifest(f'real: {{location: "{real}"}}', placed)
        assert _relative(planned(manifest_path)) == {**made, "analytics/real": Action.REGISTER_TABLE}
        assert told() == []

    moved = f"{catalog.root}/moved.lance"
    lance.write_dataset(pa.table({"n": [3]}), moved, storage_options=backend.storage_options() or None)
    manifest(f'real: {{location: "{real}"}}', f'placed: {{location: "{moved}"}}')
    plan = planned(manifest_path)
    if catalog.ignores_location:
        assert plan.changes == ()
        scope = f"lake/{catalog.warehouse}/analytics"
        assert_blocked(plan, f"{scope}/real", ReasonCode.DATA_ELSEWHERE)
        assert_blocked(plan, f"{scope}/placed", ReasonCode.LOCATION_CHOSEN)
        assert all(
            one.params["location"].startswith("s3://lake/w/ana")
            for one in plan.blocked
            if one.identifier[-1] == "placed"
        )
        assert [name[-1] for name in backend.scan().tables if name[-2] == "analytics"] == ["placed"]
        manifest("real: {}", placed)
        assert _relative(planned(manifest_path)) == {"analytics/real": Action.DECLARE_TABLE}
    else:
        assert _relative(plan) == {"analytics/placed": Action.RELOCATE_TABLE}
        assert told() == []
    assert lance.dataset(real, storage_options=backend.storage_options() or None).count_rows() == 2


def test_calls_of_each_kind_of_change(catalog: Catalog, manifest_path: Path) -> None:
    # Each table is also loaded in the check. A declare and a create write the requested location and then confirm it.
    assert calls_of_changes(manifest_path, catalog.warehouse, "analytics") == {
        "declare": (4, 2),
        "create": (4, 3),
        "update": (8, 2),
        "move": (8, 6),
        "removal": (8, 2),
    }
