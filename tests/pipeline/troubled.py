"""Manifests of a catalog that gives trouble, and what was read of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reconciler import load
from reconciler.backends.dir import DirBackend
from reconciler.manifest import Manifest
from reconciler.model.live import Snapshot
from reconciler.model.names import Identifier
from reconciler.operations.connections import CatalogSpec, catalog_specs

__all__ = ["SECRET", "Troubled"]

SECRET = "hunter2-correct-horse"

_NAMESPACES: tuple[Identifier, ...] = (("a",), ("b",), ("b", "deep"), ("empty",))
_TABLES: tuple[Identifier, ...] = (("top",), ("a", "one"), ("a", "two"), ("b", "one"), ("b", "deep", "three"))


@dataclass(frozen=True)
class Troubled:
    """A catalog below ``folder`` with namespaces on two levels; ``namespace`` fails so many ``times``, or kills."""

    folder: Path
    namespace: str = "b"
    times: int = 0
    kills: bool = False

    @property
    def path(self) -> Path:
        """The manifest."""
        return self.folder / "lancens.yaml"

    def make(self) -> Troubled:
        """Make the catalog and write the manifest, in which the password is a variable."""
        backend = DirBackend(root=str(self.folder / "lake"))
        for name in _NAMESPACES:
            backend.insert_namespace(name, {"owner": name[-1]})
        for table in _TABLES:
            backend.insert_table(table, backend.default_location(table), {"api-key": SECRET, "name": table[-1]})
        self.path.write_text(
            f"""\
version: 1
name: store
catalogs:
  lake:
    impl: troubled
    config:
      root: ./lake
      log: {self.folder / "log"}
      namespace: "{self.namespace}"
      times: {self.times}
      kills: {str(self.kills).lower()}
      password: "${{file:password.txt}}"
"""
        )
        (self.folder / "password.txt").write_text(SECRET)
        return self

    def manifest(self) -> Manifest:
        """Return the manifest."""
        return load(self.path)

    def specs(self) -> list[CatalogSpec]:
        """Return its only catalog, with the password."""
        return catalog_specs(self.manifest())

    def whole(self) -> Snapshot:
        """Return all that is there."""
        return DirBackend(root=str(self.folder / "lake")).scan()

    def reads(self) -> dict[str, int]:
        """Return how often each namespace was read."""
        return {found.name: len(list(found.iterdir())) for found in (self.folder / "log").iterdir()}

    def reads_nothing(self) -> bool:
        """Return whether nothing was read at all."""
        return not (self.folder / "log").exists()
