"""A directory catalog that has tables of another kind as well, and cannot always say which."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import Field

from reconciler.backends.dir import DirBackend, DirConfig
from reconciler.model.capabilities import Capabilities
from reconciler.model.errors import InternalError, NamespaceNotFoundError
from reconciler.model.live import ForeignTable
from reconciler.model.names import Identifier, split


class MixedConfig(DirConfig):
    """``foreign`` is their location; ``silent`` is the namespace, or ``roots``, that fails to answer."""

    foreign: str
    silent: str = ""
    password: str = Field(default="", repr=False)


class MixedBackend(DirBackend):
    """Takes tables anywhere, and has ``csv`` in each namespace."""

    impl = "mixed"
    config_model = MixedConfig  # type: ignore[assignment] # made with other keys as well
    config: MixedConfig
    known_capabilities = Capabilities()

    def foreign_tables(self, namespace: Identifier, names: Collection[str] | None = None) -> Sequence[ForeignTable]:
        """Return the one that is in ``namespace``."""
        if namespace == ("gone",):
            raise NamespaceNotFoundError("mixed: it has just been dropped")
        if namespace and namespace == split(self.config.silent):
            raise InternalError(f"mixed: no answer to {self.config.password}")
        found = [ForeignTable((*namespace, "csv"), self.config.foreign, "csv")]
        return [table for table in found if names is None or table.id[-1] in names]

    def roots(self) -> Sequence[str]:
        """Return the root."""
        if self.config.silent == "roots":
            raise InternalError(f"mixed: no answer to {self.config.password}")
        return super().roots()
