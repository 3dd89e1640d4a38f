"""A catalog's ``config``: unresolved at load, resolved on demand, never shown."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from reconciler import load
from reconciler.manifest import check_services
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load, Write, manifest, refused

SECRET = "hunter2-hunter2"


def test_placeholders_are_resolved_when_asked_for(
    load_text: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANCENS_KEY", raising=False)
    (tmp_path / "token").write_text("t0ken\n")
    config = (
        '{name: "${var:name}", storage.key: "${env:LANCENS_KEY}", memory.storage.token: "${file:token}", '
        'storage.region: "${env:LANCENS_REGION:-eu-west-1}", root: "$${x}", storage.secret: literal}'
    )
    catalog = load_text(manifest("", "memory", config), name="shop").catalogs["lake"]
    monkeypatch.setenv("LANCENS_KEY", SECRET)

    resolved = catalog.resolve_config()

    assert resolved.properties == {
        "name": "shop",
        "storage.key": SECRET,
        "memory.storage.token": "t0ken",
        "storage.region": "eu-west-1",
        "storage.secret": "literal",
        "root": f"{tmp_path}/${{x}}",
    }
    assert resolved.secrets == {SECRET, "t0ken", "literal"}


def test_what_is_missing_is_named_with_its_place_all_at_once(load_text: Load) -> None:
    config = '{name: "${env:LANCENS_NOT_SET}", storage.a: "${file:nothing}", storage.b: "${var:who}"}'
    catalog = load_text(manifest("", "memory", config)).catalogs["lake"]

    with refused(
        ("lancens.yaml:6:14", "config `name`: ", "`LANCENS_NOT_SET` is not set", "`${env:LANCENS_NOT_SET:-default}`"),
        ("lancens.yaml:6:46", "config `storage.a`: ", "file `nothing` does not exist"),
        ("lancens.yaml:6:76", "config `storage.b`: ", "`--var who=value`", "`${var:who:-default}`"),
    ):
        catalog.resolve_config()


def test_a_resolved_value_that_cannot_be_used_is_an_error_that_does_not_show_it(
    load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCENS_RETRIES", SECRET)
    catalog = load_text(manifest("", "glue", '{region: eu, retries: "${env:LANCENS_RETRIES}"}')).catalogs["lake"]

    with pytest.raises(ManifestError) as caught:
        catalog.resolve_config()

    assert str(caught.value).startswith("lancens.yaml:6:26: config: `retries`:")
    assert SECRET not in str(caught.value)


def test_what_is_wrong_between_keys_waits_for_their_values(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    config = '{endpoint: "http://127.0.0.1:1", warehouses: "${env:LANCENS_WAREHOUSES}", warehouses.a: "${var:a}"}'
    catalog = load_text(manifest("", "iceberg", config), a="x").catalogs["lake"]
    monkeypatch.setenv("LANCENS_WAREHOUSES", "b")
    assert catalog.resolve_config().properties["warehouses"] == "b"
    for warehouses, reason in (
        ("a", "give the same name to two warehouses"),
        ("b$", "`warehouses` holds `${env:LANCENS_WAREHOUSES}`"),
    ):
        monkeypatch.setenv("LANCENS_WAREHOUSES", warehouses)
        with pytest.raises(ManifestError, match=re.escape(reason)):
            catalog.resolve_config()
    monkeypatch.setenv("LANCENS_WAREHOUSES", f"{SECRET}$")
    with pytest.raises(ManifestError, match="`warehouses` holds") as raised:
        catalog.resolve_config()
    assert SECRET not in str(raised.value)
    with pytest.raises(ManifestError, match="`endpoint` is missing"):
        load_text(manifest("", "iceberg", '{warehouses: "${env:LANCENS_WAREHOUSES}"}'))


def test_no_repr_shows_a_value(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCENS_KEY", SECRET)
    config = f'{{storage.key: "${{env:LANCENS_KEY}}", storage.literal: {SECRET}, storage.given: "${{var:password}}"}}'
    loaded = load_text(manifest("", "memory", config), password=SECRET)
    catalog = loaded.catalogs["lake"]

    shown = [loaded, catalog, catalog.config, *catalog.config.entries, catalog.resolve_config(), catalog.desired]

    assert not [text for text in map(repr, shown) if SECRET in text]


def test_relative_roots_start_at_the_file_they_stand_in(write: Write) -> None:
    path = write(
        lancens="version: 1\nname: n\ninclude: [teams/*.yaml]\n",
        teams__a='catalogs: {a: {impl: dir, config: {root: ../lake}}, b: {impl: dir, config: {dir.path: "${var:at}"}}}',
    )

    loaded = load(path, variables={"at": "./b"})
    catalogs = loaded.catalogs

    assert catalogs["a"].resolve_config().properties == {"root": f"{path.parent}/lake"}
    assert catalogs["b"].resolve_config().properties == {"dir.path": f"{path.parent}/teams/b"}
    assert catalogs["a"].config.relative_templates(loaded.folder) == {"root": "./lake"}
    assert catalogs["b"].config.relative_templates(loaded.folder) == {"dir.path": "${var:at}"}


def test_the_text_of_a_path_does_not_name_the_folder_of_the_manifest(write: Write, tmp_path: Path) -> None:
    root = f"../../{tmp_path.name}/lake"
    path = write(
        lancens="version: 1\nname: shop\ninclude: [teams/a.yaml]\n",
        teams__a=f"catalogs: {{a: {{impl: dir, config: {{root: {root}}}}}}}",
    )

    loaded = load(path)

    assert loaded.catalogs["a"].resolve_config().properties == {"root": f"{path.parent}/lake"}
    assert loaded.catalogs["a"].config.relative_templates(loaded.folder) == {"root": "./lake"}


def test_config_text_is_what_a_manifest_can_hold(load_text: Load) -> None:
    config = '{name: "a $${b}", storage.x: "${env:X:-y}", root: "s3://b/${var:c}", storage.f: "${file:../f}"}'
    loaded = load_text(manifest("", "memory", config))

    assert loaded.catalogs["lake"].config.relative_templates(loaded.folder) == {
        "name": "a $${b}",
        "storage.x": "${env:X:-y}",
        "root": "s3://b/${var:c}",
        "storage.f": "${file:../f}",
    }


def test_two_catalogs_of_one_service_are_found_once_their_placeholders_are_known(
    load_text: Load, tmp_path: Path
) -> None:
    text = (
        "version: 1\nname: n\ncatalogs:\n"
        "  a: {impl: dir, config: {root: ./lake}}\n"
        '  b: {impl: dir, config: {root: "${var:root}"}}\n'
        '  c: {impl: dir, config: {root: "${var:root}/c"}}\n'
    )
    loaded = load_text(text, root=f"{tmp_path}//lake/")

    with refused(("lancens.yaml:5:3", "catalog b and lancens.yaml:4:3 a are")):
        check_services(loaded, {name: catalog.resolve_config() for name, catalog in loaded.catalogs.items()})


def test_a_variable_that_nothing_uses_is_an_error_with_the_nearest_name(load_text: Load) -> None:
    with refused(
        ("lancens.yaml", "variable `other` is defined"),
        ("lancens.yaml", "variable `shelve` is defined", "did you mean `shelf`?"),
    ):
        load_text(manifest("", "memory", '{name: "${var:shelf}"}'), shelve="a", other="b")


@pytest.mark.parametrize(
    ("scopes", "is_apart"),
    [
        (('["ads/**"]', '["pr_7/**", "pr_8"]'), True),
        (('["ads/**"]', '["web", "ads/x/*"]'), False),
        (('["ads/**"]', '["ADS/**"]'), False),
        (('["ads/**"]', '["a*/**"]'), False),
        (('["ads/**"]', '["**"]'), False),
    ],
)
def test_two_catalogs_may_be_parts_of_one_service(load_text: Load, scopes: tuple[str, str], is_apart: bool) -> None:
    lines = (
        f"  {name}: {{impl: dir, config: {{root: ./lake}}, scope: {scope}}}\n"
        for name, scope in zip("ab", scopes, strict=True)
    )
    text = "version: 1\nname: n\ncatalogs:\n" + "".join(lines)
    with nullcontext() if is_apart else refused(("lancens.yaml:5:3", "a `scope` in each with other outermost names")):
        load_text(text)
