"""From a manifest to the metastore and back, through the public API."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from lance_namespace import DropNamespaceRequest

import reconciler
from reconciler.applier import Event, Finished, Status
from reconciler.backends import registry
from reconciler.backends.hive.backend import HiveBackend
from reconciler.names import Identifier
from reconciler.namespace import CatalogNamespace
from reconciler.state import PropertyChanges
from tests.catalogs.hive.files import digests, write_dataset
from tests.catalogs.hive.raw import fetch, fetch_database
from tests.servers.hive import Metastore, metastore
from tests.servers.process import free_port

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def example(server: Metastore, config: Mapping[str, str], lake: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example for the server, with its environment; what it made goes at the end."""
    monkeypatch.setenv("HIVE_URI", server.uri)
    monkeypatch.setenv("HIVE_ROOT", lake)
    write_dataset(Path(lake, "landing", "clicks.lance"))
    yield EXAMPLES / server.impl / "lancens.yaml"
    backend = registry.connect(server.impl, config)
    for name in ("features", "raw") if server.impl == "hive2" else ("ml",):
        CatalogNamespace(backend).drop_namespace(DropNamespaceRequest(id=[name], behavior="cascade", mode="skip"))
    backend.close()


def _apply(path: Path, journal: Path) -> reconciler.ApplyReport:
    manifest = reconciler.load(path)
    return reconciler.apply(reconciler.plan(manifest), manifest, journal=journal)


def _features(server: Metastore) -> Identifier:
    return ("features",) if server.impl == "hive2" else ("ml", "features")


def test_the_example_is_planned_applied_and_planned_again(
    server: Metastore, example: Path, lake: str, tmp_path: Path
) -> None:
    before = digests(Path(lake, "landing"))
    manifest = reconciler.load(example)
    plan = reconciler.plan(manifest)
    assert {change.action.value for change in plan.changes} == {
        "create-namespace",
        "create-table",
        "declare-table",
        "register-table",
    }
    report = reconciler.apply(plan, manifest, journal=tmp_path)
    assert [result for result in report.results if result.status is not Status.DONE] == []
    assert all(not result.note for result in report.results)
    assert reconciler.plan(manifest).changes == ()
    features = _features(server)
    struct = fetch_database(server.uri, features)
    assert (struct.description, struct.ownerName) == ("What models are trained on", "ml-platform")
    assert struct.parameters["lancens.managed-by"] == "feature-store/lake"
    assert fetch(server.uri, (*features, "users")).parameters["EXTERNAL"] == "TRUE"
    assert digests(Path(lake, "landing")) == before


def test_drift_is_found_and_mended(server: Metastore, backend: HiveBackend, example: Path, tmp_path: Path) -> None:
    _apply(example, tmp_path)
    manifest, features = reconciler.load(example), _features(server)
    backend.alter_table((*features, "events"), PropertyChanges({"tier": "bronze", "theirs": "kept"}))
    backend.remove_table((*features[:-1], "raw", "clicks"))
    found = {(change.action.value, change.identifier[-1]) for change in reconciler.plan(manifest).changes}
    assert found == {("update-table", "events"), ("register-table", "clicks")}
    _apply(example, tmp_path)
    assert reconciler.plan(manifest).changes == ()
    parameters = fetch(server.uri, (*features, "events")).parameters
    assert (parameters["tier"], parameters["theirs"]) == ("silver", "kept")


def test_an_imported_manifest_plans_nothing(server: Metastore, example: Path, tmp_path: Path) -> None:
    _apply(example, tmp_path)
    written = tmp_path / "imported.yaml"
    written.write_text(reconciler.import_(reconciler.load(example)), "utf-8")
    imported = reconciler.load(written)
    assert reconciler.plan(imported).changes == ()
    tables = imported.catalogs["lake"].desired.tables
    assert {(*_features(server), "users"), (*_features(server), "events")} <= tables.keys()


def test_what_left_the_manifest_leaves_the_metastore_and_the_data_stays(
    backend: HiveBackend, example: Path, lake: str, tmp_path: Path
) -> None:
    _apply(example, tmp_path)
    before = digests(Path(lake))
    emptied = tmp_path / "lancens.yaml"
    lines = example.read_text("utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("    namespaces:"))
    emptied.write_text("\n".join(lines[:start]), "utf-8")
    manifest = reconciler.load(emptied)
    plan = reconciler.plan(manifest, allow_mass_removal=True)
    report = reconciler.apply(plan, manifest, journal=tmp_path, allow_mass_removal=True)
    assert all(result.status is Status.DONE for result in report.results)
    assert not {"features", "raw", "ml"} & set(backend.child_namespaces(()))
    assert reconciler.plan(manifest, allow_mass_removal=True).changes == ()
    assert digests(Path(lake)) == before


def test_two_applies_at_once_both_end_well(server: Metastore, example: Path, tmp_path: Path) -> None:
    manifest = reconciler.load(example)
    plan = reconciler.plan(manifest)
    begin = threading.Barrier(2, timeout=60)

    def run(number: int) -> reconciler.ApplyReport:
        begin.wait()
        return reconciler.apply(plan, manifest, journal=tmp_path / str(number))

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(run, range(2)))
    ended = {Status.DONE, Status.ALREADY}
    assert [result for report in reports for result in report.results if result.status not in ended] == []
    assert reconciler.plan(manifest).changes == ()


def test_a_server_killed_in_the_middle_of_apply_is_reported_and_the_next_run_converges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, database = free_port(), f"jdbc:derby:{tmp_path}/derby;create=true"
    monkeypatch.setenv("HIVE_URI", f"thrift://127.0.0.1:{port}")
    monkeypatch.setenv("HIVE_ROOT", str(tmp_path / "lake"))
    path = tmp_path / "lancens.yaml"
    tables = "".join(f"          t{number:02}: {{}}\n" for number in range(20))
    path.write_text(
        "version: 1\nname: killed\ncatalogs:\n  lake:\n    impl: hive2\n"
        '    config: {uri: "${env:HIVE_URI}", root: "${env:HIVE_ROOT}"}\n'
        f"    namespaces:\n      db:\n        tables:\n{tables}",
        "utf-8",
    )
    manifest = reconciler.load(path)
    with ExitStack() as first:
        first.enter_context(metastore("2.3", tmp_path / "server", port=port, database=database))
        plan = reconciler.plan(manifest)
        done: list[Event] = []

        def kill_after_five(event: Event) -> None:
            if isinstance(event, Finished):
                done.append(event)
                if len(done) == 5:
                    first.close()

        report = reconciler.apply(plan, manifest, journal=tmp_path / "journal", on_event=kill_after_five, parallelism=2)
    failed = [result for result in report.results if result.status is Status.FAILED]
    assert len(failed) >= 10
    assert all("no metastore answers" in result.message or "broke" in result.message for result in failed)
    with metastore("2.3", tmp_path / "server", port=port, database=database):
        again = reconciler.apply(plan, manifest, journal=tmp_path / "journal")
        assert {result.status for result in again.results} == {Status.DONE, Status.ALREADY}
        assert reconciler.plan(manifest).changes == ()
