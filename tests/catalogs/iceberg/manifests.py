"""A manifest of one namespace in a catalog under test, through the public API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reconciler
from reconciler.applier.report import ApplyReport
from reconciler.model.names import Identifier
from reconciler.planner.plan import Plan
from tests.catalogs.iceberg.conftest import Catalog

__all__ = ["OWNER", "Store"]

OWNER = "store/lake"


@dataclass(frozen=True)
class Store:
    """A folder with a manifest of the tables in ``space``; ``OWNER`` is its mark."""

    catalog: Catalog
    space: Identifier
    folder: Path

    def wants(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the manifest."""
        config = {**self.catalog.config, "root": self.catalog.root}
        spaces = {self.space[0]: {"namespaces": {self.space[1]: {"tables": tables}}}}
        lake = {"impl": "iceberg", "config": config, "scope": ["/".join(self.space), f"{'/'.join(self.space)}/**"]}
        text = json.dumps({"version": 1, "name": "store", "catalogs": {"lake": {**lake, "namespaces": spaces}}})
        self._path.write_text(text, "utf-8")

    def plan(self) -> Plan:
        """Plan it."""
        return reconciler.plan(reconciler.load(self._path))

    def apply(self, plan: Plan | None = None) -> ApplyReport:
        """Apply a plan, a new one where none is given."""
        made = plan or self.plan()
        return reconciler.apply(made, reconciler.load(self._path), journal=self.folder / "journal")

    @property
    def _path(self) -> Path:
        return self.folder / "lancens.yaml"
