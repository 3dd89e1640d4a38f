"""What tests have lancens read: manifests, and datasets of a few rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reconciler
from reconciler.manifest import Manifest
from reconciler.model.names import Identifier

__all__ = ["blocks_of", "load_manifest", "load_text", "write_dataset", "write_manifest"]


def write_manifest(folder: Path, catalogs: Mapping[str, Mapping[str, Any]], *, name: str = "store", **top: Any) -> Path:
    """Write a manifest of these catalogs, with ``top`` beside them, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / "lancens.yaml"
    document = {"version": 1, "name": name, **top, "catalogs": catalogs}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False), "utf-8")  # YAML has no surrogate pairs
    return path


def load_manifest(folder: Path, catalogs: Mapping[str, Mapping[str, Any]], *, name: str = "store") -> Manifest:
    """Write a manifest of these catalogs, and load it."""
    return reconciler.load(write_manifest(folder, catalogs, name=name))


def load_text(folder: Path, text: str) -> Manifest:
    """Write a manifest of this text, and load it."""
    path = folder / "lancens.yaml"
    path.write_text(text, "utf-8")
    return reconciler.load(path)


def blocks_of(tables: Mapping[Identifier, object]) -> dict[str, Any]:
    """Return the blocks of tables, each within those of its namespaces, as a catalog has them."""
    tree: dict[str, Any] = {}
    for (*above, name), block in tables.items():
        node = tree
        for level in above:
            node = node.setdefault("namespaces", {}).setdefault(level, {})
        node.setdefault("tables", {})[name] = block
    return tree


def write_dataset(place: Path, rows: int = 3) -> None:
    """Write a dataset with one column."""
    import lance
    import pyarrow as pa

    lance.write_dataset(pa.table({"id": list(range(rows))}), str(place))
