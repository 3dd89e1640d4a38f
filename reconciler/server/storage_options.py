"""Which of a catalog's storage options a client is told, so that it needs credentials and no more to open data."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.backends.service_options import PUBLIC_OPTIONS
from reconciler.model import locations

_PUBLIC = PUBLIC_OPTIONS | {"azure_storage_use_emulator", "use_emulator"}
"""Whatever is not here stays here: an option that nobody has thought of may be a secret."""


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``options`` that are no secret; an address that holds one is none of them."""
    return {
        key: value
        for key, value in options.items()
        if key.lower() in _PUBLIC and locations.redact(value) == value and "@" not in value
    }
