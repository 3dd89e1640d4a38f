"""The JSON Schema that editors use agrees with what is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reconciler import load
from reconciler.model.errors import ManifestError
from reconciler.operations import plan_tests
from reconciler.operations.manifests import json_schema
from tests.unit.manifest.conftest import Write, manifest
from tests.unit.manifest.test_digest import ONE
from tests.unit.manifest.test_hostile import SAMPLE
from tests.unit.manifest.test_loading import FULL, TWO_CATALOGS

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def stand_ins() -> None:
    """The schema knows the implementations that there are."""


class EditorLoader(yaml.SafeLoader):
    """Reads scalars as an editor with YAML 1.2 does: dates are text, so are yes and no."""


EditorLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
EditorLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


@cache
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json_schema())


def errors(text: str) -> list[str]:
    document: Any = yaml.load(text, Loader=EditorLoader)  # noqa: S506
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator().iter_errors(document)]


@pytest.mark.parametrize(("name", "schema"), [("manifest", json_schema), ("test", plan_tests.json_schema)])
def test_the_committed_schema_is_current(name: str, schema: Callable[[], dict[str, Any]]) -> None:
    committed = (ROOT / f"schemas/{name}.schema.json").read_text(encoding="utf-8")

    assert committed == json.dumps(schema(), indent=2) + "\n", "make schemas"
    jsonschema.Draft7Validator.check_schema(schema())


def test_the_tests_of_the_examples_fit_the_schema() -> None:
    schema = jsonschema.Draft7Validator(plan_tests.json_schema())
    for path in ROOT.glob("examples/*/tests/*.yaml"):
        document = yaml.load(path.read_text("utf-8"), Loader=EditorLoader)  # noqa: S506
        assert [error.message for error in schema.iter_errors(document)] == [], path


def documented_manifests() -> list[str]:
    text = (ROOT / "docs/manifest.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


def is_manifest(path: Path) -> bool:
    return re.search(r"^catalogs:|manifest\.schema\.json", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


EXAMPLES = sorted(filter(is_manifest, ROOT.glob("examples/**/*.y*ml")))


@pytest.mark.parametrize("path", EXAMPLES, ids=[str(path.relative_to(ROOT)) for path in EXAMPLES])
def test_every_example_is_valid(path: Path) -> None:
    assert errors(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        *(FULL, TWO_CATALOGS, SAMPLE, ONE, "", "catalogs: {lake: {tables: {a: {}}}}"),
        *(manifest(f"tables: {nothing}") for nothing in ("", "{}", "null")),
        manifest("tables: {a: {properties: {a: 1, b: true, c: 2024-01-01, d: , e: 1.5}}}"),
        manifest('prune: "${var:prune}"\ntables: {a: {protect: "${var:x}", evolve: "${var:y}"}}'),
    ],
)
def test_what_loads_is_valid(text: str) -> None:
    assert errors(text) == []


def test_every_manifest_of_the_documentation_is_valid() -> None:
    assert documented_manifests()
    assert [error for text in documented_manifests() for error in errors(text)] == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("version: 2\n", "version"),
        ("name: x\ncatalogs: {}\n", ""),
        (manifest("prune: sometimes"), "catalogs/lake/prune"),
        (manifest("tables: {t: {propertys: {}}}"), "catalogs/lake/tables/t"),
        (manifest("tables: {t: {protect: 'yes'}}"), "catalogs/lake/tables/t/protect"),
        (manifest("tables: {t: {schema: [{name: a}]}}"), "catalogs/lake/tables/t/schema"),
        (manifest("tables: {t: {schema: []}}"), "catalogs/lake/tables/t/schema"),
        (manifest("namespaces: {a: {namespaces: {b: {zzz: 1}}}}"), "catalogs/lake/namespaces/a/namespaces/b"),
        *(
            (
                manifest(f"tables: {{t: {{schema: [{{name: a, type: '{name}'}}]}}}}"),
                "catalogs/lake/tables/t/schema",
            )
            for name in ("bigint", "timestamp", "decimal128", "list", "int64 not null", "Int64", "int64[8]")
        ),
        (manifest("tables: {t: {schema: [{name: a, type: }]}}"), "catalogs/lake/tables/t/schema"),
        (manifest("tables: {t: {schema: [{name: , type: int8}]}}"), "catalogs/lake/tables/t/schema"),
        (manifest("tables: {t: {expect: {max_versions: 0}}}"), "catalogs/lake/tables/t/expect/max_versions"),
        (manifest("tables: {t: {tags: {a: 0}}}"), "catalogs/lake/tables/t/tags/a"),
        (manifest("tables: {a/b: {}}"), "catalogs/lake/tables"),
        (manifest("namespaces: {a: {namespaces: {'': {}}}}"), "catalogs/lake/namespaces/a/namespaces"),
        (manifest("scope: [a//b]"), "catalogs/lake/scope"),
        (manifest("moved: [{from: /a, to: b}]\ntables: {b: {}}"), "catalogs/lake/moved/0/from"),
        (
            manifest("suppress: [{rule: orphan, match: '**', until: 31/12/2027, reason: x}]"),
            "catalogs/lake/suppress/0/until",
        ),
    ],
)
def test_what_does_not_load_is_marked_in_an_editor(text: str, place: str, write: Write) -> None:
    assert [error.partition(":")[0] for error in errors(text)] == [place]
    with pytest.raises(ManifestError):
        load(write(lancens=text))


def test_every_key_has_a_description_for_completion() -> None:
    def undescribed(part: Any, path: str = "") -> Iterator[str]:
        """Yield the keys without a description in a schema."""
        keys = [*part.get("properties", {}).items(), *part.get("patternProperties", {}).items()]
        yield from (f"{path}.{key}" for key, value in keys if not value.get("description"))
        inner = [*keys, *((word, part[word]) for word in ("items", "additionalProperties") if word in part)]
        inner += [("", each) for each in part.get("anyOf", ())]
        for key, value in inner:
            yield from undescribed(value, f"{path}.{key}") if isinstance(value, dict) else ()

    schema = json_schema()
    for block in (schema, *schema["definitions"].values()):
        assert block["description"]
        assert [*undescribed(block)] == []
    assert "`max_wait` of glue." not in json.dumps(schema), "a description says what a key does"


@pytest.mark.parametrize(
    ("impl", "config", "place"),
    [
        ("glue", "{region: eu-west-1, assume_role_arn: '${env:ROLE}'}", None),
        ("glue", "{glue.region: eu-west-1, storage.region: eu-west-1}", None),
        ("glue", "{regoin: eu-west-1}", "catalogs/lake/config"),
        ("hive3", "{uri: 'thrift://localhost:9083', client.pool-size: 4, ssl: true}", None),
        ("hive3", "{uri: 'thrift://localhost:9083', client.pool-size: 0}", "catalogs/lake/config/client.pool-size"),
        ("hive3", "{uri: x, auth: basic}", "catalogs/lake/config/auth"),
        ("rest", "{uri: x, headers.x-team: ads}", None),
        ("hive", "{}", "catalogs/lake/impl"),
    ],
)
def test_editors_check_the_keys_of_each_implementation(impl: str, config: str, place: str | None) -> None:
    found = errors(manifest("prune: never", impl=impl, config=config))
    assert [error.partition(":")[0] for error in found] == ([] if place is None else [place])
