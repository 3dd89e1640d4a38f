"""From the response of an operation to JSON that may leave the house."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, RootModel

from reconciler.backends.service_options import PUBLIC_OPTIONS
from reconciler.model import locations
from reconciler.model.redaction import redact_properties

_KEPT_BACK = {"context"}
_PUBLIC = PUBLIC_OPTIONS | {"azure_storage_use_emulator", "use_emulator"}
"""Whatever is not here stays here: an option that nobody has thought of may be a secret."""


def shown(response: BaseModel) -> Any:
    """Return ``response`` as JSON values.

    Of the storage options those are kept that say where data is and not who opens it; user information and queries of
    locations are left out, and so are the values of properties whose keys look like those of secrets.
    """
    if isinstance(response, RootModel):
        return response.model_dump(mode="json")
    fields = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_KEPT_BACK)
    options = public_options(fields.pop("storage_options", {}))
    if options:
        fields["storage_options"] = options
    for key in ("location", "table_uri"):
        if key in fields:
            fields[key] = locations.redact(fields[key])
    for key in ("properties", "metadata"):
        if key in fields:
            fields[key] = redact_properties(fields[key])
    return fields


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``options`` that are no secret; an address that holds one is none of them."""
    return {
        key: value
        for key, value in options.items()
        if key.lower() in _PUBLIC and locations.redact(value) == value and "@" not in value
    }
