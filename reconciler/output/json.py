"""The JSON Schema of a saved plan."""

from __future__ import annotations

from typing import Any

from reconciler.planner.plan import FORMAT_VERSION, Plan, Summary

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of saved plans of this major version.

    Unknown keys are allowed everywhere, so that a plan of a later minor version is valid too.
    """
    from pydantic.json_schema import models_json_schema

    references, definitions = models_json_schema(
        [(Plan, "validation"), (Summary, "validation")],
        by_alias=True,
        title="A plan of lancens",
        description="What would be done to which objects of which catalogs, and why.",
    )
    schemas = definitions["$defs"]
    plan = schemas.pop("Plan")
    properties = plan["properties"]
    properties["format_version"] = {
        "type": "string",
        "pattern": rf"^{FORMAT_VERSION.partition('.')[0]}\.",
        "description": "The major version changes when an older lancens could misread the plan.",
    }
    properties["digest"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "The SHA-256 over everything else in the plan, by which a review names it.",
    }
    properties["summary"] = references[(Summary, "validation")]
    return {
        "$schema": _DIALECT,
        **{key: value for key, value in definitions.items() if key != "$defs"},
        "type": "object",
        "properties": properties,
        "required": ["format_version", *plan["required"], "summary", "digest"],
        "$defs": schemas,
    }
