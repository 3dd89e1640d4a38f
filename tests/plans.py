"""Saved plans as somebody who edits them sees them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["resealed"]


def resealed(plan: str | dict[str, Any]) -> str:
    """Return an edited plan with the digest that fits it, as somebody who knows how it is made would write it."""
    document = json.loads(plan) if isinstance(plan, str) else plan
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()})
