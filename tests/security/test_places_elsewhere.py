"""What a dataset refers to outside its own directory is read only where the catalog's roots or the caller admit it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import FragmentMetadata

from reconciler import storage
from reconciler.backends.dir import DirBackend
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.live import StorageKind
from reconciler.operations.probes import Probes
from reconciler.server.catalogs import OneCatalog
from tests.cli.running import lancens
from tests.server.client import Api
from tests.servers.lance_rest import served
from tests.servers.listening import socket_server
from tests.writing import write_manifest

CANARY = "row-of-another-tenant-5d1c"
ROWS = 4_217
_COUNTED = re.compile(r"(?<![\w.])4,?217(?!\w)")
"""The rows as a number of its own, not within an id or a time."""
_AUDIT = ("audit", "--engine", "local", "--fail-on", "never")


def _clone(secret: Path, place: Path) -> None:
    dataset = lance.dataset(secret)
    dataset.shallow_clone(place, dataset.version)


def _index_and_deletions(secret: Path, place: Path) -> None:
    """Make a dataset with data files of its own, and a base for the others."""
    _clone(secret, place)
    shutil.copytree(secret / "data", place / "data")
    clone = lance.dataset(place)
    fragments = [fragment.metadata.to_json() for fragment in clone.get_fragments()]
    for file in (file for fragment in fragments for file in fragment["files"]):
        file["base_id"] = None
    merge = lance.LanceOperation.Merge([*map(_fragment, fragments)], clone.lance_schema)
    lance.LanceDataset.commit(place, merge, read_version=clone.version)


def _fragment(fragment: dict[str, Any]) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps(fragment))


def _blobs(secret: Path, place: Path) -> None:
    base = lance.DatasetBasePath(str(secret), "blobs", id=1)
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    rows = pa.table([[1], lance.blob_array([next(secret.glob("data/*")).as_uri()])], schema=schema)
    lance.write_dataset(rows, place, initial_bases=[base], data_storage_version="2.2")


def _branch(secret: Path, place: Path) -> None:
    lance.write_dataset(pa.table({"id": [1], "text": ["own"]}), place)
    (place / "tree").mkdir()
    (place / "tree/b").symlink_to(secret)


def _linked(name: str) -> Callable[[Path, Path], None]:
    def make(secret: Path, place: Path) -> None:
        place.mkdir(parents=True)
        for entry in secret.iterdir():
            target = place / entry.name
            if entry.name == name:
                target.symlink_to(entry)
            else:
                shutil.copytree(entry, target)

    return make


def _linked_file(secret: Path, place: Path) -> None:
    _linked("none")(secret, place)
    file = next((place / "data").iterdir())
    file.unlink()
    file.symlink_to(secret / "data" / file.name)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "base path": _clone,
    "data": _linked("data"),
    "_versions": _linked("_versions"),
    "_indices": _linked("_indices"),
    "_deletions": _linked("_deletions"),
    "a data file": _linked_file,
    "a base of index and deletion files": _index_and_deletions,
    "a base of external blobs": _blobs,
    "a branch": _branch,
}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a root with a table that refers to another tenant's dataset."""
    KINDS[request.param](_secret(tmp_path), tmp_path / "lake/t.lance")
    return tmp_path / "lake"


def _secret(folder: Path) -> Path:
    """Write the dataset of another tenant."""
    rows = pa.table({"id": range(-1, ROWS), "text": [CANARY] * (ROWS + 1)})
    secret = lance.write_dataset(rows, folder / "tenant/secret.lance", max_rows_per_file=500)
    secret.create_scalar_index("text", "BTREE")
    secret.delete("id < 0")
    return folder / "tenant/secret.lance"


@pytest.fixture
def manifest(lake: Path) -> Path:
    return write_manifest(lake.parent, {"lake": {**_config(lake), "tables": {"t": _block()}}})


def _config(root: Path) -> dict[str, object]:
    return {"impl": "dir", "config": {"root": str(root)}}


def _block(**maintain: object) -> dict[str, object]:
    schema = [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}]
    return {"schema": schema, "maintain": {"compact": {"max_small_fragments": 1}, **maintain}}


def test_it_is_opened_only_where_that_is_admitted(lake: Path) -> None:
    place, tenant = str(lake / "t.lance"), str(lake.parent / "tenant")
    for admission in (Admission(), Admission((str(lake),)), Admission(same_bucket=True)):
        refused = storage.probe(place, StorageOptions({}, admission))
        assert refused.kind is StorageKind.DENIED
        assert tenant in refused.detail
        assert all(one.startswith(tenant) for one in refused.elsewhere)
    probes, admissions = Probes(), (Admission(outside=True), Admission(), Admission(outside=True))
    kinds = [probes.probe(place, StorageOptions({}, admission)).kind for admission in admissions]
    assert kinds == [StorageKind.DATASET, StorageKind.DENIED, StorageKind.DATASET]
    for admission in (Admission((str(lake), tenant)), Admission(outside=True)):
        assert storage.probe(place, StorageOptions({}, admission)).kind is StorageKind.DATASET


def test_serve_counts_and_shows_none_of_it(tmp_path: Path) -> None:
    secret, lake = _secret(tmp_path), tmp_path / "lake"
    for number, make in enumerate(KINDS.values()):
        make(secret, lake / f"t{number}.lance")
    requests: Sequence[tuple[str, dict[str, object]]] = (
        ("count_rows", {}),
        ("count_rows", {"predicate": f"text = '{CANARY}'"}),
        ("stats", {}),
        ("describe", {"load_detailed_metadata": True}),
        ("add_columns", {"new_columns": [{"name": "copy", "expression": "concat(text, 'x')"}]}),
    )
    with served(OneCatalog(DirBackend(root=str(lake)))) as address, closing(Api(address)) as api:
        for (number, kind), (path, body) in product(enumerate(KINDS), requests):
            told = api("POST", f"/v1/table/t{number}/{path}", body)
            assert (kind, path, told.error) == (kind, path, (403, 15))
            assert _COUNTED.search(told.text) is None


def test_no_command_reads_counts_or_copies_it(lake: Path, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(lake.rglob("*"))
    for command in (
        ("plan",),
        ("apply", "--auto-approve", "--skip-blocked"),
        ("maintain", "--auto-approve"),
        (*_AUDIT, "--out", str(lake.parent / "report")),
    ):
        told = lancens(capsys, command[0], str(manifest), *command[1:])
        assert told.code in (0, 3), told.err
        assert _COUNTED.search(told.out + told.err) is None
        assert CANARY not in told.out + told.err
    assert sorted(lake.rglob("*")) == before
    report = json.loads((lake.parent / "report/audit.json").read_text())
    (noted,) = [one for one in report["findings"] if one["rule"] == "reads-elsewhere"]
    assert str(lake.parent / "tenant") in noted["reason"]
    assert _COUNTED.search(json.dumps(report)) is None


def test_a_saved_plan_is_not_applied_to_it(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The dataset takes the place of another one after the plan."""
    evil, place = lake / "t.lance", lake.parent / "evil.lance"
    evil.rename(place)
    lance.write_dataset(pa.table({"id": pa.array([1])}), evil)
    block = {**_block(), "evolve": "additive", "properties": {"team": "a"}}
    manifest = write_manifest(lake.parent, {"lake": {**_config(lake), "tables": {"t": block}}})
    assert " ~ t " in lancens(capsys, "plan", str(manifest), "--out", str(lake.parent / "plan.json")).out
    shutil.rmtree(evil)
    place.rename(evil)
    before = sorted(evil.rglob("*"))
    told = lancens(capsys, "apply", str(lake.parent / "plan.json"), "--auto-approve")
    assert told.code == 1, told.out
    assert _COUNTED.search(told.out + told.err) is None
    assert CANARY not in told.out + told.err
    assert sorted(evil.rglob("*")) == before


def test_the_versions_elsewhere_are_not_listed(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "tenant.lance")
    _linked("_versions")(tmp_path / "tenant.lance", tmp_path / "lake/t.lance")
    place = str(tmp_path / "lake/t.lance")
    assert storage.latest_state(place, StorageOptions({}, Admission((str(tmp_path / "lake"),)))) is None
    assert storage.latest_state(place, StorageOptions({}, Admission((str(tmp_path),)))) is not None


def test_a_clone_within_the_roots_is_opened_and_its_rows_are_copied_only_if_its_block_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    lance.write_dataset(pa.table({"id": range(40), "text": ["x"] * 40}), lake / "a.lance", max_rows_per_file=10)
    _clone(lake / "a.lance", lake / "t.lance")
    with served(OneCatalog(DirBackend(root=str(lake)))) as address, closing(Api(address)) as api:
        assert api("POST", "/v1/table/t/count_rows", {}).json == 40
    manifest = write_manifest(tmp_path, {"lake": {**_config(lake), "tables": {"t": _block()}}})
    (note,) = _notes(lancens(capsys, "plan", str(manifest), "--format", "json").out)
    assert note["params"]["names"] == [str(lake / "a.lance")]
    told = lancens(capsys, "maintain", str(manifest), "--auto-approve")
    assert told.code == 3
    assert str(lake / "a.lance") in told.out
    assert [*(lake / "t.lance").glob("data/*")] == []
    write_manifest(tmp_path, {"lake": {**_config(lake), "tables": {"t": _block(copy_elsewhere=True)}}})
    assert [*_notes(lancens(capsys, "maintain", str(manifest), "--dry-run", "--format", "json").out)] == [note]
    assert lancens(capsys, "maintain", str(manifest), "--auto-approve").code == 0
    assert len([*(lake / "t.lance").glob("data/*")]) == 1


def _notes(plan: str) -> list[dict[str, Any]]:
    return [note for note in json.loads(plan)["notes"] if note["code"] == "reads-elsewhere"]


def test_each_version_is_opened_only_where_its_own_places_are_admitted(tmp_path: Path) -> None:
    """The latest version of this dataset refers to nothing elsewhere, and a forged earlier one does."""
    lance.write_dataset(pa.table({"id": range(ROWS)}), tmp_path / "tenant.lance")
    _clone(tmp_path / "tenant.lance", tmp_path / "clone.lance")
    place = tmp_path / "lake/t.lance"
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"id": [1]}), place, mode=mode)
    lance.dataset(place).create_branch("b", 1).add_bases(
        [lance.DatasetBasePath(str(tmp_path / "tenant.lance"), "elsewhere", is_dataset_root=True)]
    )
    (forged,) = (tmp_path / "clone.lance/_versions").glob("*.manifest")
    shutil.copy(forged, place / "_versions")
    with served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))) as address, closing(Api(address)) as api:
        assert api("POST", "/v1/table/t/count_rows", {}).json == 2
        assert api("POST", "/v1/table/t/count_rows", {"version": 1}).error == (403, 15)
        assert api("POST", "/v1/table/t/count_rows", {"branch": "b"}).error == (403, 15)
        assert api("POST", "/v1/table/t/restore", {"version": 1}).error == (403, 15)
    options = StorageOptions({}, Admission((str(tmp_path / "lake"),)))
    lance.dataset(place).tags.create("old", 1)
    compared = storage.files_of(lance.dataset(place), str(place), options)
    assert str(tmp_path / "tenant.lance") in (compared.problem or "")


def test_external_blobs_are_referred_to_and_never_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, schema = tmp_path / "lake/t.lance", pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    secret = tmp_path / "secret.bin"
    secret.write_text(CANARY * 1_000)
    rows = pa.table([pa.array([1]), lance.blob_array([secret.as_uri()])], schema=schema)
    for _ in range(3):
        mode = "append" if place.exists() else "create"
        lance.write_dataset(rows, place, mode=mode, data_storage_version="2.2", allow_external_blob_outside_bases=True)
    secret.unlink()  # reading it would fail now
    block = {"maintain": {"compact": {"max_small_fragments": 1}}, "properties": {"team": "a"}}
    manifest = write_manifest(tmp_path, {"lake": {**_config(tmp_path / "lake"), "tables": {"t": block}}})
    for command in ("apply", "maintain"):
        assert lancens(capsys, command, str(manifest), "--auto-approve").code == 0
    assert len(lance.dataset(place).get_fragments()) == 1
    told = lancens(capsys, "audit", str(manifest), "--engine", "local", "--fail-on", "error")
    assert told.code == 0, told.out
    with served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))) as address, closing(Api(address)) as api:
        assert api("POST", "/v1/table/t/count_rows", {"predicate": "blob IS NOT NULL"}).json == 3
        copy = {"new_columns": [{"name": "copy", "expression": "blob"}]}
        assert api("POST", "/v1/table/t/add_columns", copy).status >= 400
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(rows)
        refused = api("POST", "/v1/table/new/create", data=sink.getvalue().to_pybytes())
        assert refused.status >= 400
        assert "outside registered external bases" in refused.text


def test_the_path_of_a_data_file_leads_nowhere_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    secret = lance.write_dataset(pa.table([[1], [CANARY]], schema=schema), tmp_path / "tenant/secret.lance")
    fragment = secret.get_fragments()[0].metadata.to_json()
    file = fragment["files"][0]
    name, lake = file["path"], tmp_path / "lake"
    paths = {"above": f"../../../tenant/secret.lance/data/{name}", "rooted": f"{secret.uri}/data/{name}"}
    for table, file["path"] in paths.items():
        lance.write_dataset(pa.table([[1], ["own"]], schema=schema), lake / f"{table}.lance")
        append = lance.LanceOperation.Append([_fragment(fragment)])
        lance.LanceDataset.commit(lake / f"{table}.lance", append, read_version=1)
    before = {path: path.read_bytes() for path in lake.rglob("data/*")}
    manifest = write_manifest(tmp_path, {"lake": {**_config(lake), "tables": dict.fromkeys(paths, _block())}})
    for command in (("plan",), ("apply", "--auto-approve", "--skip-blocked"), ("maintain", "--auto-approve"), _AUDIT):
        told = lancens(capsys, command[0], str(manifest), *command[1:])
        assert CANARY not in told.out + told.err
    with served(OneCatalog(DirBackend(root=str(lake)))) as address, closing(Api(address)) as api:
        for table in paths:
            for path, body in (
                ("count_rows", {"predicate": f"text = '{CANARY}'"}),
                ("add_columns", {"new_columns": [{"name": "copy", "expression": "concat(text, 'x')"}]}),
            ):
                assert api("POST", f"/v1/table/{table}/{path}", body).status >= 400
    assert {path: path.read_bytes() for path in lake.rglob("data/*")} == before


def test_an_audit_connects_to_no_host_that_is_not_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All requests go through a proxy, which answers none."""
    connections: list[str] = []
    dataset = lance.write_dataset(pa.table({"id": [1]}), tmp_path / "data.lance")
    fragment = dataset.get_fragments()[0].metadata.to_json()
    fragment["files"][0]["base_id"] = 1
    base = lance.DatasetBasePath("abfss://c@other.dfs.core.windows.net/t", is_dataset_root=True, id=1)
    whole = lance.LanceOperation.Overwrite(dataset.lance_schema, [_fragment(fragment)], [base])
    lance.LanceDataset.commit(tmp_path / "lake/t.lance", whole)
    quick = {"max_retries": "0", "client_max_retries": "0", "azure_storage_account_key": "a2V5"}
    config = {"root": str(tmp_path / "lake"), **{f"storage.{key}": value for key, value in quick.items()}}
    manifest = write_manifest(tmp_path, {"lake": {"impl": "dir", "config": config}})
    with socket_server(lambda connection: connections.append(connection.recv(65536).decode())) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        for host, is_reached in (("only.example.com", False), ("other.dfs.core.windows.net", True)):
            told = lancens(capsys, "audit", str(manifest), *_AUDIT[1:], "--allow-outside", "--allow-host", host)
            assert told.code == 0, told.err
            assert any("other.blob.core.windows.net" in one for one in connections) is is_reached
            assert bool(connections) is is_reached


@pytest.mark.parametrize(
    ("dataset", "place", "admission", "is_admitted"),
    [
        ("s3://b/t", "/etc", Admission(outside=True), False),
        ("s3://b/t", "/lake/a", Admission(("/lake",)), False),
        ("s3://b/t", "s3://b/u", Admission(same_bucket=True), True),
        ("s3://b/t", "gs://b/u", Admission(same_bucket=True), False),
        ("s3://b/t", "s3://c/u", Admission(same_bucket=True), False),
        ("s3://b/x/t", "s3://b/x/u", Admission(("s3://b/x",)), True),
        ("s3://b/x/t", "s3://b/xy/u", Admission(("s3://b/x",)), False),
        ("abfss://c@a.example/t", "abfss://c@b.example/u", Admission(outside=True, hosts=["a.example"]), False),
        ("abfss://c@a.example/t", "abfss://c@a.example/u", Admission(outside=True, hosts=["a.example"]), True),
        ("/lake/t", "/other/u", Admission(same_bucket=True), False),
        ("/lake/t", "/other/u", Admission(outside=True), True),
    ],
)
def test_a_place_is_admitted_as_a_location_is(
    dataset: str, place: str, admission: Admission, is_admitted: bool
) -> None:
    assert admission.admits(dataset, place) is is_admitted
