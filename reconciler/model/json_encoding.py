"""Write large JSON documents."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any


def encode_json(value: Any, indent: int | None = None) -> str:
    """Return ``value``, which may hold dataclasses, as JSON.

    Python's own encoder takes ten times as long with an indent.
    """
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(value, indent=indent).decode()
    except PydanticSerializationError:  # lone surrogates, or too deep
        return json.dumps(value, indent=indent, ensure_ascii=indent is None, default=asdict)
