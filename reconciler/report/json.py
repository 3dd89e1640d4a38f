"""Render the audit document as JSON, and its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from reconciler.auditor.document import FORMAT_VERSION, AuditDocument
from reconciler.model import display

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def render_json(document: AuditDocument) -> str:
    """Return the document as ASCII text with every key."""
    parts = document.model_dump(mode="json")
    ordered = {"format_version": parts.pop("format_version"), "complete": parts.pop("complete"), **parts}
    lines = ",\n".join(f"  {json.dumps(key)}: {''.join(_value(part))}" for key, part in ordered.items())
    return display.json_text("{\n" + lines + "\n}\n")


def _value(part: Any) -> Iterator[str]:
    """Yield ``part`` as JSON, with a line for each item of a list."""
    if not isinstance(part, list) or not part:
        yield json.dumps(part)
        return
    yield "[\n    "
    yield ",\n    ".join(map(json.dumps, part))
    yield "\n  ]"


def audit_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of documents of this major version.

    Unknown keys are allowed everywhere, so that a document of a later minor version is valid too.
    """
    schema = AuditDocument.model_json_schema(mode="serialization")
    schema["properties"]["format_version"] = {
        "type": "string",
        "pattern": rf"^{FORMAT_VERSION.partition('.')[0]}\.",
        "description": "The major version changes when an older reader could misread the document.",
    }
    return {
        "$schema": _DIALECT,
        **schema,
        "title": "An audit of lancens",
        "description": "The coverage, the counts, the findings and the tables of one audit.",
    }
