"""The digest is of what a manifest means, not of how or where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler import load
from tests.unit.manifest.conftest import Load, Write, manifest

ONE = """\
version: 1
name: shop
catalogs:
  lake:
    impl: dir
    config: {root: ./lake, storage.region: eu, storage.key: "${env:LANCENS_KEY}"}
    namespaces:
      a:
        properties: {owner: ml, tier: gold}
        tables:
          users: {location: ./lake/users.lance}
          events: {schema: [{name: id, type: float}]}
"""
SAME = {
    "comments, order and style": """\
# a comment
catalogs:
  lake:
    namespaces: {"a": {tables: {events: {schema: [{type: float32, 'name': id}]},
                                users: {location: "./lake/users.lance"}},
                       properties: {tier: gold, owner: ml}}}
    config:
      storage.key: ${env:LANCENS_KEY}
      dir.storage.region: eu
      root: lake
    impl: dir   # here
name: shop
version: 1
""",
    "defaults said": ONE.replace("impl: dir", "impl: dir\n    prune: owned\n    scope: ['**']").replace(
        "events: {", "events: {evolve: never, probe: true, absent: false, expect: {indices: [id], max_versions: 5}, "
    ),
    "normalised location": ONE.replace("./lake/users.lance", "lake//users.lance/"),
}
OTHER = {
    "name": ONE.replace("shop", "store"),
    "catalog": ONE.replace("  lake:", "  pond:"),
    "config": ONE.replace("region: eu", "region: us"),
    "placeholder": ONE.replace("LANCENS_KEY", "OTHER_KEY"),
    "property": ONE.replace("gold", "silver"),
    "location": ONE.replace("users.lance", "user.lance"),
    "type": ONE.replace("float", "double"),
    "nullable": ONE.replace("type: float", "type: float, nullable: false"),
    "claim": ONE.replace("properties: {owner: ml, tier: gold}", ""),
    "protect": ONE.replace("tables:", "protect: true\n        tables:"),
    "probe": ONE.replace("{schema", "{probe: false, schema"),
    "prune": ONE.replace("impl: dir", "impl: dir\n    prune: all"),
    "scope": ONE.replace("impl: dir", "impl: dir\n    scope: ['a/**']"),
    "safety": ONE + "safety: {min_tables: 11}\n",
    "one more table": ONE + "          more: {}\n",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_the_same_content_has_the_same_digest(load_text: Load, text: str) -> None:
    assert load_text(text).digest == load_text(ONE).digest


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_other_content_has_another_digest(load_text: Load, text: str) -> None:
    assert load_text(text).digest != load_text(ONE).digest


def test_a_claim_on_a_namespace_of_a_kind_is_content(load_text: Load) -> None:
    path, claimed = (
        load_text(manifest(f"namespaces: {{a: {{kind: database{claim}}}}}", "glue", "{region: eu}"))
        for claim in ("", ", properties: {}")
    )

    assert path.digest != claimed.digest


def test_the_split_into_files_makes_no_difference(write: Write) -> None:
    whole = load(write(lancens=ONE)).digest
    path = write(
        lancens="version: 1\nname: shop\ninclude: [parts/*.yaml]\n",
        parts__a='catalogs: {lake: {impl: dir, config: {root: ../lake, storage.key: "${env:LANCENS_KEY}"}}}\n',
        parts__b="catalogs: {lake: {config: {storage.region: eu}, namespaces: {a: {tables: {users: {location: "
        "../lake/users.lance}}}}}}\n",
        parts__c="catalogs: {lake: {namespaces: {a: {properties: {owner: ml, tier: gold}, tables: {events: {schema: "
        "[{name: id, type: float}]}}}}}}\n",
    )

    assert load(path).digest == whole


def test_the_folder_and_the_credentials_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for folder, key in (("one", "a"), ("two/deep", "b")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "lancens.yaml").write_text(ONE)
        monkeypatch.setenv("LANCENS_KEY", key)
        digests.add(load(tmp_path / folder / "lancens.yaml").digest)

    assert len(digests) == 1


def test_a_variable_outside_of_config_is_content(load_text: Load) -> None:
    text = ONE.replace("gold", '"${var:tier}"')

    assert load_text(text, tier="gold").digest == load_text(ONE).digest
    assert load_text(text, tier="iron").digest != load_text(ONE).digest
