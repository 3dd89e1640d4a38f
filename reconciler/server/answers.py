"""From the response of an operation to JSON that may leave the house."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, RootModel

from reconciler import locations
from reconciler.redaction import redact_properties

__all__ = ["shown"]

_KEPT_BACK = {"storage_options", "context"}
"""Storage options hold the credentials of the server: clients open data with their own."""


def shown(response: BaseModel) -> Any:
    """Return ``response`` as JSON values.

    Storage options are left out, user information and queries of locations are, and so are the values of properties
    whose keys look like those of secrets.
    """
    if isinstance(response, RootModel):
        return response.model_dump(mode="json")
    fields = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_KEPT_BACK)
    for key in ("location", "table_uri"):
        if key in fields:
            fields[key] = locations.redact(fields[key])
    for key in ("properties", "metadata"):
        if key in fields:
            fields[key] = redact_properties(fields[key])
    return fields
