"""What the headers of a configuration say: who asks, and which catalog of the service is meant."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reconciler.model.redaction import is_sensitive, slow_digest

_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


def hold_secret(headers: Mapping[str, str]) -> bool:
    """Return whether one of ``headers`` is a credential."""
    return any(name.lower() in _CREDENTIALS or is_sensitive(name, value) for name, value in headers.items())


def with_headers(service: str, headers: Mapping[str, str], salt: str) -> str:
    """Return a text that names ``service``, and the headers that can choose another catalog there by a digest."""
    choosing = {name.lower(): value for name, value in headers.items() if name.lower() not in _CREDENTIALS}
    if not choosing:
        return service
    return f"{service} with headers {slow_digest(json.dumps(choosing, sort_keys=True), salt)[:12]}"
