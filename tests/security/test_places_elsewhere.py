"""What a dataset refers to outside its own directory is read only where the catalog's roots or the caller admit it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.backends.dir import DirBackend
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.live import StorageKind
from reconciler.server.catalogs import OneCatalog
from tests.cli.running import lancens
from tests.server.client import Api
from tests.servers.lance_rest import served
from tests.writing import write_manifest

CANARY = "row-of-another-tenant-5d1c"
ROWS = 4_217
"""So many that no output holds the number by chance."""


def _clone(secret: Path, place: Path) -> None:
    lance.dataset(secret).shallow_clone(place, 1)


def _linked(name: str) -> Callable[[Path, Path], None]:
    def make(secret: Path, place: Path) -> None:
        place.mkdir(parents=True)
        for entry in secret.iterdir():
            target = place / entry.name
            if entry.name == name:
                target.symlink_to(entry)
            else:
                target.mkdir()
                for file in entry.iterdir():
                    (target / file.name).write_bytes(file.read_bytes())

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
    "a data file": _linked_file,
}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a root with a table that refers to another tenant's dataset."""
    rows = pa.table({"id": range(ROWS), "text": [CANARY] * ROWS})
    lance.write_dataset(rows, tmp_path / "tenant/secret.lance", max_rows_per_file=500)
    KINDS[request.param](tmp_path / "tenant/secret.lance", tmp_path / "lake/t.lance")
    return tmp_path / "lake"


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
    for admission in (Admission((str(lake), tenant)), Admission(outside=True)):
        assert storage.probe(place, StorageOptions({}, admission)).kind is StorageKind.DATASET


def test_serve_counts_and_shows_none_of_it(lake: Path) -> None:
    with served(OneCatalog(DirBackend(root=str(lake)))) as address, closing(Api(address)) as api:
        for path, body in (
            ("count_rows", {}),
            ("count_rows", {"predicate": f"text = '{CANARY}'"}),
            ("stats", {}),
            ("describe", {"load_detailed_metadata": True}),
            ("add_columns", {"new_columns": [{"name": "copy", "expression": "concat(text, 'x')"}]}),
        ):
            told = api("POST", f"/v1/table/t/{path}", body)
            assert (path, told.error) == (path, (403, 15))
            assert str(ROWS) not in str(told.json)


def test_no_command_reads_counts_or_copies_it(lake: Path, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(lake.rglob("*"))
    for command in (
        ("plan",),
        ("maintain", "--auto-approve"),
        ("audit", "--engine", "local", "--out", str(lake.parent / "report"), "--fail-on", "never"),
    ):
        told = lancens(capsys, command[0], str(manifest), *command[1:])
        assert told.code in (0, 3), told.err
        assert str(ROWS) not in told.out.replace(",", "") + told.err
        assert CANARY not in told.out + told.err
    assert sorted(lake.rglob("*")) == before
    report = json.loads((lake.parent / "report/audit.json").read_text())
    (noted,) = [one for one in report["findings"] if one["rule"] == "reads-elsewhere"]
    assert str(lake.parent / "tenant") in noted["reason"]
    assert str(ROWS) not in json.dumps(report)


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
    (forged,) = (tmp_path / "clone.lance/_versions").glob("*.manifest")
    shutil.copy(forged, place / "_versions")
    with served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))) as address, closing(Api(address)) as api:
        assert api("POST", "/v1/table/t/count_rows", {}).json == 2
        assert api("POST", "/v1/table/t/count_rows", {"version": 1}).error == (403, 15)
        assert api("POST", "/v1/table/t/restore", {"version": 1}).error == (403, 15)
    options = StorageOptions({}, Admission((str(tmp_path / "lake"),)))
    lance.dataset(place).tags.create("old", 1)
    compared = storage.files_of(lance.dataset(place), str(place), options)
    assert str(tmp_path / "tenant.lance") in (compared.problem or "")


def test_external_blobs_are_referred_to_and_never_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, schema = tmp_path / "lake/t.lance", pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    secret = tmp_path / "secret.bin"
    for number in range(3):
        secret.write_text(CANARY * 1_000)
        rows = pa.table([pa.array([number]), lance.blob_array([secret.as_uri()])], schema=schema)
        mode = "append" if place.exists() else "create"
        lance.write_dataset(rows, place, mode=mode, data_storage_version="2.2", allow_external_blob_outside_bases=True)
    secret.unlink()  # reading it would fail now
    block = {"maintain": {"compact": {"max_small_fragments": 1}}}
    manifest = write_manifest(tmp_path, {"lake": {**_config(tmp_path / "lake"), "tables": {"t": block}}})
    assert lancens(capsys, "maintain", str(manifest), "--auto-approve").code == 0
    assert len(lance.dataset(place).get_fragments()) == 1
    told = lancens(capsys, "audit", str(manifest), "--engine", "local", "--fail-on", "error")
    assert told.code == 0, told.out
    with served(OneCatalog(DirBackend(root=str(tmp_path / "lake")))) as address, closing(Api(address)) as api:
        assert api("POST", "/v1/table/t/count_rows", {}).json == 3


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
