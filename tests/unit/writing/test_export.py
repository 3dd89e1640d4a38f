"""What is live, written as a manifest, is read back as the same state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler import load
from reconciler.backends import registry
from reconciler.manifest.variables import escape
from reconciler.model import ownership
from reconciler.model.desired import DesiredCatalog
from reconciler.model.live import LiveNamespace, LiveTable, Snapshot
from reconciler.model.names import EVERYTHING, Scope, check_name
from reconciler.model.redaction import is_sensitive_key
from reconciler.writing.export import ExportCatalog, to_yaml


def snapshot(*live: LiveNamespace | LiveTable, notes: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot(
        {one.id: one for one in live if isinstance(one, LiveNamespace)},
        {one.id: one for one in live if isinstance(one, LiveTable)},
        notes,
    )


def read_back(folder: Path, text: str) -> DesiredCatalog:
    path = folder / "exported.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path).catalogs["lake"].desired


EXPORTED = """\
# yaml-language-server: $schema=./manifest.schema.json
# `lancens schema > manifest.schema.json` writes the schema that editors check and complete with.
version: 1
name: shop
catalogs:
  lake:
    impl: memory
    config:
      name: shop
      # `storage.key` is a secret; set it in the environment.
      storage.key: "${env:LANCENS_LAKE_STORAGE_KEY}"
      storage.region: "${env:REGION}"
    scope: ["features/**", "empty"]
    # legacy is federated and read-only
    namespaces:
      empty: {}
      features:
        properties:
          owner: ml
        tables:
          # table "a$b" is left out: a name cannot contain `$`, which separates names in identifiers
          events:
            location: s3://lake/events.lance
            # property "db.password" is left out: its value looks like a secret
            properties:
              tier: gold
          "no": {}
            # location is left out: a location cannot hold user information; give credentials in `config` (`storage.*`)
        namespaces:
          eu:
            tables:
              users: {location: "s3://lake/users.lance"}
"""


def test_the_text_is_what_a_person_would_write() -> None:
    live = snapshot(
        LiveNamespace(("features",), {"owner": "ml"}),
        LiveTable(("features", "eu", "users"), "s3://lake/users.lance"),
        LiveTable(
            ("features", "events"),
            "s3://lake/events.lance",
            {"tier": "gold", "db.password": "hunter2", "lancens.keys": "x", "table_type": "lance", "EXTERNAL": "TRUE"},
        ),
        LiveTable(("features", "no"), "s3://me:hunter2@lake/no.lance"),
        LiveTable(("features", "a$b"), "s3://lake/ab.lance"),
        LiveNamespace(("empty",)),
        notes=("legacy is federated\nand read-only",),
    )
    config = {"name": "shop", "storage.key": "hunter2", "storage.region": "${env:REGION}"}

    assert to_yaml("shop", [ExportCatalog("lake", "memory", config, live, Scope(("features/**", "empty")))]) == EXPORTED


def test_every_value_an_owned_object_needs_and_a_manifest_cannot_show_has_a_variable_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = {ownership.MANAGED_BY: "shop/lake"}
    live = snapshot(
        LiveNamespace(("a-b",), {"api_key": "one", "bell": "\a", **mark}),
        LiveNamespace(("a_b",), {"api_key": "two", **mark}),
        LiveNamespace(("unowned",), {"api_key": "three", "bell": "\a"}),
    )

    text = to_yaml("shop", [ExportCatalog("lake", "memory", {}, live, EVERYTHING)])
    variables = re.findall(r"\$\{env:(\w+)}", text)
    for variable, value in zip(variables, ["one", "\a", "two"], strict=True):
        monkeypatch.setenv(variable, value)

    assert {one.id: dict(one.properties) for one in read_back(tmp_path, text).namespaces.values()} == {
        ("a-b",): {"api_key": "one", "bell": "\a"},
        ("a_b",): {"api_key": "two"},
        ("unowned",): {},
    }


@pytest.mark.parametrize("stand_in", ["(redacted)", "(redacted 2c26b46b)"])
def test_what_stands_in_for_a_secret_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: str
) -> None:
    monkeypatch.setenv("LANCENS_LAKE_OWNED_NOTE", "hunter2")
    mark = {ownership.MANAGED_BY: "shop/lake"}
    live = snapshot(
        LiveNamespace(("owned",), {"note": stand_in, **mark}),
        LiveTable(("unowned",), "s3://lake/t.lance", {"note": stand_in, "tier": "gold"}),
    )
    desired = read_back(tmp_path, to_yaml("shop", [ExportCatalog("lake", "memory", {}, live, EVERYTHING)]))
    assert desired.namespaces["owned",].properties == {"note": "hunter2"}
    assert desired.tables["unowned",].properties == {"tier": "gold"}


def export_of(impl: str, config: dict[str, str], live: Snapshot) -> ExportCatalog:
    capabilities = registry.backend_class(impl).known_capabilities
    return ExportCatalog("lake", impl, config, live, EVERYTHING, capabilities=capabilities)


@pytest.mark.parametrize("kind", ["catalog", "database"])
def test_a_kind_is_written_where_it_would_not_be_guessed(tmp_path: Path, kind: str) -> None:
    live = snapshot(LiveNamespace(("a",), kind=kind))

    text = to_yaml("n", [export_of("glue", {"region": "eu-west-1"}, live)])

    assert ("kind: catalog" in text) == (kind == "catalog")
    assert "kind: database" not in text
    assert list(read_back(tmp_path, text).namespaces) == [("a",)]


def test_levels_that_a_catalog_has_already_are_paths(tmp_path: Path) -> None:
    live = snapshot(LiveNamespace(("main",), {"comment": "x"}), LiveNamespace(("main", "ml"), {"comment": "y"}))

    desired = read_back(
        tmp_path, to_yaml("n", [export_of("unity", {"endpoint": "http://localhost", "catalog": "main"}, live)])
    )

    assert {one.id: dict(one.properties) for one in desired.namespaces.values()} == {
        ("main",): {},
        ("main", "ml"): {"comment": "y"},
    }


def test_an_empty_catalog_is_a_manifest_too(tmp_path: Path) -> None:
    desired = read_back(tmp_path, to_yaml("n", [ExportCatalog("lake", "memory", {}, Snapshot(), EVERYTHING)]))

    assert (desired.namespaces, desired.tables) == ({}, {})


@pytest.mark.parametrize("depth", [40, 46, 60])
def test_what_is_too_deep_for_a_manifest_is_left_out(tmp_path: Path, depth: int) -> None:
    deepest = tuple(f"n{level}" for level in range(depth))

    text = to_yaml("n", [ExportCatalog("lake", "memory", {}, snapshot(LiveNamespace(deepest)), EVERYTHING)])

    assert (deepest in read_back(tmp_path, text).namespaces) == ("is left out" not in text)


printable = st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u2028\u2029\ufeff\ufffe\uffff")
texts = st.text(printable | st.sampled_from("${}:#'\"\\\n\t -~!&*"), max_size=12) | st.sampled_from(
    ["yes", "null", "~", "0x1", "1.5", "2024-01-01", "${env:X}", "$${", "a: b", "a #b", "- a", "<<", "=", "...", "---"]
)
names = texts.filter(lambda text: check_name(text) is None)
keys = texts.filter(lambda key: key != "" and not is_sensitive_key(key) and not ownership.is_reserved_key(key))
properties = st.dictionaries(keys, texts, max_size=3)
identifiers = st.lists(names, min_size=1, max_size=4).map(tuple)
places = st.builds("/{}".format, names)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    namespaces=st.dictionaries(identifiers, properties, max_size=5),
    tables=st.dictionaries(identifiers, st.tuples(places, properties), max_size=5),
    name=names,
    storage=texts,
)
def test_what_is_written_is_read_back(
    tmp_path: Path,
    namespaces: dict[tuple[str, ...], dict[str, str]],
    tables: dict[tuple[str, ...], tuple[str, dict[str, str]]],
    name: str,
    storage: str,
) -> None:
    live = snapshot(
        *(LiveNamespace(identifier, given) for identifier, given in namespaces.items()),
        *(LiveTable(identifier, location, given) for identifier, (location, given) in tables.items()),
    )
    if "${" in name:
        name = "n"

    text = to_yaml(name, [ExportCatalog("lake", "memory", {"name": "/" + escape(storage)}, live, EVERYTHING)])
    desired = read_back(tmp_path, text)

    paths = {one[:length] for one in namespaces for length in range(1, len(one) + 1)}
    paths |= {one[:length] for one in tables for length in range(1, len(one))}
    assert desired.owner == f"{name}/lake"
    assert set(desired.namespaces) == paths
    assert {key: one.properties for key, one in desired.namespaces.items()} == {
        key: namespaces.get(key, {}) for key in paths
    }
    assert {key: one.is_claimed for key, one in desired.namespaces.items()} == {
        key: bool(namespaces.get(key)) for key in paths
    }
    assert {key: (one.location, one.properties) for key, one in desired.tables.items()} == tables
    assert yaml.safe_load(text)["version"] == 1
