"""The JSON Schema of a manifest, for editors and other tools: generated from the models that check it."""

from __future__ import annotations

from typing import Any

from reconciler.manifest.models import ManifestFile

__all__ = ["json_schema"]

_DIALECT = "http://json-schema.org/draft-07/schema#"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 7, which editors support best) of a manifest file.

    It is made for typing: it names keys, values and examples. What needs more than one file or the catalog's own
    rules is left to ``lancens validate``.
    """
    generated = ManifestFile.model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions = generated.pop("$defs")
    schema = {
        "$schema": _DIALECT,
        "title": "lancens manifest",
        **{key: value for key, value in generated.items() if key != "title"},
        # An included file is a part and need not say either.
        "dependencies": {"name": ["version"]},
        "definitions": definitions,
    }
    for definition in definitions.values():
        del definition["title"]
    for part in (schema, *definitions.values()):
        part["description"] = " ".join(part["description"].split())
        for field in part["properties"].values():
            field.pop("title", None)
            field["description"] = " ".join(field["description"].split())
            if field.get("default") in (None, {}, []):
                field.pop("default", None)
    _allow_nothing(schema)
    return schema


def _allow_nothing(schema: Any) -> None:
    """Let every block be written with nothing behind its key, as YAML allows."""
    if isinstance(schema, list):
        for item in schema:
            _allow_nothing(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            schema["type"] = ["object", "null"]
        for value in schema.values():
            _allow_nothing(value)
