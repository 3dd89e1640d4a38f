"""What the service cannot hold: said when planning, or sent in a form that it can hold."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reconciler
from reconciler.backends.unity import UnityBackend
from reconciler.backends.unity.rules import LONGEST, as_uri, join_marks, split_marks
from reconciler.model import locations, ownership
from reconciler.model.errors import InvalidInputError
from reconciler.model.live import PropertyChanges
from tests.catalogs.unity.conftest import CATALOG, Unity
from tests.writing import load_manifest

SCHEMA = (CATALOG, "s0")
MANY = {f"a-property-with-a-rather-long-name-{number:02}": str(number) for number in range(40)}


def wanting(unity: Unity, folder: Path, properties: dict[str, str]) -> reconciler.Manifest:
    """Return a manifest of a schema and a table that have these properties."""
    table = {"location": str(folder / "t.lance"), "properties": dict(MANY)}
    schema = {"properties": properties, "tables": {"t": table}}
    catalog = {"impl": "unity", "config": unity.config(), "namespaces": {CATALOG: {"namespaces": {"s0": schema}}}}
    return load_manifest(folder, {"governed": catalog}, name="shop")


def apply(manifest: reconciler.Manifest, journal: Path) -> None:
    report = reconciler.apply(reconciler.plan(manifest), manifest, journal=journal)
    assert report.ok, report
    assert reconciler.plan(manifest).changes == ()


# ---- properties --------------------------------------------------------------------------------------------------


def test_more_keys_than_one_property_holds_converge(unity: Unity, tmp_path: Path) -> None:
    assert len(ownership.encode_keys(MANY)) > 4 * LONGEST
    apply(wanting(unity, tmp_path, MANY), tmp_path)
    kept = unity.contract.table(*SCHEMA, "t")["properties"]
    assert max(map(len, kept.values())) <= LONGEST
    backend = unity.connect()
    assert ownership.recorded_keys(backend.load_table((*SCHEMA, "t")).properties) == set(MANY)
    assert set(backend.load_namespace(SCHEMA).properties) == {*MANY, ownership.KEYS, ownership.MANAGED_BY}


def test_keys_that_go_take_their_parts_with_them(unity: Unity, tmp_path: Path) -> None:
    apply(wanting(unity, tmp_path, MANY), tmp_path)
    apply(wanting(unity, tmp_path, {"owner": "ads"}), tmp_path)
    kept = unity.connect().load_namespace(SCHEMA).properties
    assert set(kept) == {"owner", ownership.KEYS, ownership.MANAGED_BY}
    unity.connect().alter_namespace(SCHEMA, PropertyChanges(MANY))
    apply(wanting(unity, tmp_path, {"owner": "ads"}), tmp_path)


@given(st.text(max_size=3 * LONGEST), st.dictionaries(st.text(), st.text()))
def test_parts_are_short_and_whole_again(keys: str, others: dict[str, str]) -> None:
    properties = {
        **{key: value for key, value in others.items() if not key.startswith("lancens.")},
        "lancens.keys": keys,
    }
    sent = split_marks(properties)
    assert join_marks(sent) == properties
    assert all(len(sent[key].encode("utf-16-le", "surrogatepass")) <= 2 * LONGEST for key in sent if key not in others)


def test_marks_of_older_releases_are_read_as_they_are() -> None:
    older = {"lancens.keys": '["tier"]', "lancens.managed-by": "shop/governed", "tier": "gold", "a.2": "x"}
    assert join_marks(older) == older
    assert split_marks(older) == older


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (
            {"note": "x" * 256},
            r"property `note` in namespace .* \(unity\): its value has 256 characters, expected .* 255",
        ),
        ({"note": "\U0001f600" * 128}, r"its value has 256 characters"),
        ({"x" * 256: "note"}, r"its key has 256 characters"),
    ],
)
def test_a_property_that_is_too_long_is_an_error_of_the_manifest(
    unity: Unity, tmp_path: Path, properties: dict[str, str], line: str
) -> None:
    with pytest.raises(reconciler.ManifestError, match=line):
        wanting(unity, tmp_path, properties)
    assert unity.server.requests == []


def test_a_property_that_is_too_long_is_invalid_input_through_the_interface(unity: Unity) -> None:
    unity.fill(0)
    with pytest.raises(InvalidInputError, match="Value too long"):
        unity.connect().insert_table((*SCHEMA, "t"), "s3://lake/t", {"note": "x" * 256})


# ---- locations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    [
        "/data/a b/[x]/t.lance",
        "/data/größe/a+b/a%b/{c}.lance",
        "file:///data//a%20b/",
        "file:/data/t.lance",
        "s3://lake/a b/t.lance",
        "s3://lake/a%20b/größe/t+1",
        "s3://lake//a[1]//t|2/",
        "s3://lake/a%b/50%",
        "s3a://lake/t.lance",
        "S3N://lake/t.lance",
        "gs://lake/t.lance",
        "abfss://box@account.dfs.core.windows.net/t.lance",
        f"s3://lake/{'x' * 2037}",
    ],
)
def test_a_location_comes_back_as_the_same_place(unity: Unity, location: str) -> None:
    unity.fill(0)
    backend = unity.connect()
    assert backend.location_problem((*SCHEMA, "t"), location) is None
    made = backend.insert_table((*SCHEMA, "t"), location, {})
    assert locations.same(made.location, location)
    assert backend.scan().tables[*SCHEMA, "t"].location == made.location


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ("http://lake/t", "no location of the scheme `http`"),
        ("az://lake/t", "no location of the scheme `az`"),
        ("memory://t", "no location of the scheme `memory`"),
        ("s3://lake", "no whole bucket"),
        ("s3://lake//", "no whole bucket"),
        ("/", "no root directory"),
        ("s3://lake/a/../t", "`.` or `..`"),
        ("s3://lake/a/%2E%2E/t", "`.` or `..`"),
        ("/data/./t", "`.` or `..`"),
        ("s3://lake/__unitystorage/t", "`__unitystorage`"),
        ("data/t", "relative path"),
        (f"s3://lake/{'x' * 2039}", "at most 2048 characters"),
    ],
)
def test_a_location_the_service_cannot_keep_is_refused_before_it_is_sent(
    unity: Unity, location: str, line: str
) -> None:
    unity.fill(0)
    backend = unity.connect()
    assert line in (backend.location_problem((*SCHEMA, "t"), location) or "")
    unity.server.requests.clear()
    with pytest.raises(InvalidInputError, match="Unity Catalog"):
        backend.insert_table((*SCHEMA, "t"), location, {})
    assert unity.server.requests == []


def test_the_data_is_where_the_entry_says(unity: Unity, tmp_path: Path) -> None:
    unity.fill(0)
    location = str(tmp_path / "a b [ü] 50%/t.lance")
    lance.write_dataset(pa.table({"id": [1, 2]}), location)
    made = unity.connect().insert_table((*SCHEMA, "t"), location, {})
    assert lance.dataset(made.location).count_rows() == 2


def test_what_is_sent_stays_what_it_is() -> None:
    for location in ("s3://lake/a%20b/t", "/data/a b", "file:///data/ü"):
        assert as_uri(as_uri(location)) == as_uri(location)


# ---- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["größe", "a.b", "a b", "a:b", "a%b", "a*"])
def test_names_the_service_refuses_are_invalid_input(unity: Unity, name: str) -> None:
    with pytest.raises(InvalidInputError, match="a name in Unity Catalog has letters"):
        UnityBackend(**unity.config()).namespace_id_of([CATALOG, name])
