"""What is said of a namespace that could not be read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from reconciler.model import names


class ReadFailure(BaseModel):
    """Something that could not be read, so that nothing is known of what is in it; no text holds a secret.

    ``namespace`` is empty where the root, or the catalog as a whole, is meant.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, json_schema_serialization_defaults_required=True
    )

    catalog: str
    namespace: tuple[str, ...] = ()
    message: str

    @property
    def address(self) -> str:
        """What a person calls the namespace."""
        return names.address(self.catalog, self.namespace)
