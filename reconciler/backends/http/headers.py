"""What the headers of a configuration say: who asks, and which catalog of the service is meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from reconciler.model.redaction import is_sensitive, slow_digest

_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


def hold_secret(headers: Mapping[str, str]) -> bool:
    """Return whether one of ``headers`` is a credential."""
    return any(name.lower() in _CREDENTIALS or is_sensitive(name, value) for name, value in headers.items())


def with_headers(address: str, headers: Mapping[str, str], salt: str) -> str:
    """Return a text that names the service at ``address``, and by a digest the headers that can choose a catalog."""
    parts = urlsplit(address)
    service = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
    choosing = {name.lower(): value for name, value in headers.items() if name.lower() not in _CREDENTIALS}
    if not choosing:
        return service
    return f"{service} with headers {slow_digest(json.dumps(choosing, sort_keys=True), salt)[:12]}"
