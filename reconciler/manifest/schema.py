"""The JSON Schema of a manifest for editors, generated from the models that check it."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic.fields import FieldInfo

from reconciler.manifest import models
from reconciler.manifest.config import Implementation, Implementations
from reconciler.manifest.models import TEXT_SCHEMA, Block, ManifestFile, or_placeholder
from reconciler.model.backend_config import describe_keys, key_prefixes

_DIALECT = "http://json-schema.org/draft-07/schema#"
_NAME = r"^(?!\.{1,2}$)(?:[^/$]|\$\{[^}]*\})+$"


def json_schema(implementations: Implementations) -> dict[str, Any]:
    """Return the JSON Schema (draft 7, which editors support best) of a manifest file.

    It completes keys, values and examples. Checks that need several files or the catalog's own rules are left to
    ``lancens validate``.
    """
    # Only a file with a `name` needs a `version`: an included file has neither.
    schema = json_schema_of(ManifestFile, "lancens manifest", dependencies={"name": ["version"]})
    _add_config_schemas(schema["definitions"], implementations)
    _allow_null_blocks(schema)
    return schema


def json_schema_of(model: type[Block], title: str, **keywords: Any) -> dict[str, Any]:
    """Return the JSON Schema of files with the keys of ``model``, with ``keywords`` at the top."""
    generated = model.model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions = generated.pop("$defs")
    schema = {
        "$schema": _DIALECT,
        "title": title,
        **{key: value for key, value in generated.items() if key != "title"},
        **keywords,
        "definitions": definitions,
    }
    for definition in definitions.values():
        del definition["title"]
    homes = (vars(models), vars(sys.modules[model.__module__]))
    for name, part in ((model.__name__, schema), *definitions.items()):
        part["description"] = " ".join(part["description"].split())
        block = next(home[name] for home in homes if name in home)
        descriptions = dict(_descriptions(block))
        fields = {info.alias or name: info for name, info in block.model_fields.items()}
        for key, field in part["properties"].items():
            field.pop("title", None)
            field["description"] = " ".join(descriptions[key].split())
            _add_limits(field, fields[key])
            if key in ("catalogs", "namespaces", "tables") and "additionalProperties" in field:
                field["propertyNames"] = {"pattern": _NAME}
            if field.get("default") in (None, {}, []):
                field.pop("default", None)
    return schema


def _add_limits(schema: dict[str, Any], field: FieldInfo) -> None:
    """Add the limits of a whole number, which pydantic leaves out beside a placeholder."""
    for choice in schema.get("anyOf", ()):
        _add_limits(choice, field)
    for limit in field.metadata if schema.get("type") == "integer" else ():
        for name, keyword in (("ge", "minimum"), ("le", "maximum")):
            if (value := getattr(limit, name, None)) is not None:
                schema[keyword] = value


def _descriptions(model: type[Block]) -> Iterator[tuple[str, str]]:
    """Yield each key of ``model`` with the docstring below its field.

    pydantic can read these as well, but it would for every command: reading sources takes longer than a small manifest.
    """
    for owner in reversed(model.__mro__[: model.__mro__.index(Block)]):
        (definition,) = ast.parse(inspect.getsource(owner)).body
        for field, text in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                    yield model.model_fields[name].alias or name, docstring


def _add_config_schemas(definitions: dict[str, Any], implementations: Implementations) -> None:
    """Add the ``config`` of every installed implementation to a catalog's block."""
    catalog = definitions["CatalogBlock"]
    names = implementations.names()
    catalog["properties"]["impl"]["enum"] = names
    catalog["allOf"] = []
    for name in names:
        definitions[f"config of {name}"] = _config_schema(name, implementations.find(name))
        catalog["allOf"].append(
            {
                "if": {"properties": {"impl": {"const": name}}, "required": ["impl"]},
                "then": {"properties": {"config": {"$ref": f"#/definitions/config%20of%20{name}"}}},
            }
        )


def _config_schema(impl: str, implementation: Implementation) -> dict[str, Any]:
    """Return the schema of ``config``; no key is required, as another file may have it."""
    keys: dict[str, Any] = {}
    patterns: dict[str, Any] = {
        f"^{re.escape(prefix)}": {**TEXT_SCHEMA, "description": f"A key of {impl}, with its prefix."}
        for prefix in key_prefixes(impl)
    }
    for setting in describe_keys(implementation.config_model):
        value: dict[str, Any] = dict(TEXT_SCHEMA) if not setting.schema else or_placeholder(dict(setting.schema))
        value["description"] = setting.description or f"`{setting.key}` of {impl}."
        if setting.default is not None:
            value["default"] = json.loads(setting.default) if "type" in setting.schema else setting.default
        if setting.key.endswith(".*"):
            patterns[f"^{re.escape(setting.key[:-1])}."] = value
            block = {"type": "object", "additionalProperties": value}
            plain = keys.get(setting.key[:-2])
            keys[setting.key[:-2]] = {
                "description": (plain or value)["description"],
                **({"anyOf": [plain, block]} if plain else block),
            }
        else:
            keys[setting.key] = value
    return {
        "description": f"The connection to a catalog of {impl}. Put secrets into ${{env:NAME}} or ${{file:path}}.",
        "type": "object",
        "properties": keys,
        "patternProperties": patterns,
        "additionalProperties": False,
    }


def _allow_null_blocks(schema: Any) -> None:
    """Allow null for every block, as YAML writes an empty one."""
    if isinstance(schema, list):
        for item in schema:
            _allow_null_blocks(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            schema["type"] = ["object", "null"]
        for value in schema.values():
            _allow_null_blocks(value)
