"""Datasets that need upkeep, and what must not change about them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import reconciler
from reconciler.manifest import Manifest
from tests.writing import load_manifest

__all__ = [
    "MAINTAIN",
    "WIDTH",
    "append",
    "entered",
    "example",
    "files_of",
    "fingerprint",
    "found_by_index",
    "managed",
    "manifest_of",
    "needy",
    "recall",
    "rows",
]

WIDTH = 16
MAINTAIN: Mapping[str, Any] = {
    "compact": {"max_small_fragments": 5},
    "indices": {
        "id": {"type": "BTREE"},
        "v": {"type": "IVF_PQ", "metric": "cosine", "num_partitions": 4, "num_sub_vectors": 8},
    },
    "optimize_indices": {"max_unindexed_rows": 50},
}


def rows(number: int, first: int = 0) -> pa.Table:
    """Return rows with ids from ``first`` on."""
    vectors = np.random.default_rng(first).random((number, WIDTH), dtype=np.float32)
    ids = pa.array(range(first, first + number), pa.int64())
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH)
    return pa.table({"id": ids, "text": [f"row {one % 7}" for one in range(number)], "v": column})


def append(place: str, number: int, first: int) -> None:
    """Append rows in one commit."""
    lance.write_dataset(rows(number, first), place, mode="append")


def needy(place: Path | str, fragments: int = 12, options: Mapping[str, str] | None = None) -> str:
    """Write a dataset of many small fragments and no index."""
    lance.write_dataset(rows(400), str(place), storage_options=dict(options or {}))
    for number in range(1, fragments):
        table = rows(20, 400 + 20 * number)
        lance.write_dataset(table, str(place), mode="append", storage_options=dict(options or {}))
    return str(place)


def entered(folder: Path, names: list[str], maintain: Mapping[str, Any]) -> Manifest:
    """Enter datasets in a namespace of a directory, whose entries stay when the data is gone, and maintain them."""
    tables = {name: {"maintain": maintain, "location": f"./lake/{name}.lance"} for name in names}
    catalog = {"impl": "dir", "config": {"root": "."}, "namespaces": {"n": {"tables": tables}}}
    manifest = load_manifest(folder, {"lake": catalog})
    assert reconciler.apply(reconciler.plan(manifest), manifest, journal=folder / "journal").ok
    return manifest


def example(folder: Path) -> None:
    """Write the manifest of ``examples/maintain`` and the datasets that it names."""
    shutil.copytree(Path(__file__).parents[2] / "examples/maintain", folder, dirs_exist_ok=True)
    for name in ("users", "clicks"):
        for first in range(0, 1200, 40):
            table = rows(40, first).rename_columns(["user_id", "text", "embedding"])
            place = str(folder / f"lake/{name}.lance")
            lance.write_dataset(table, place, mode="append" if first else "create")


def fingerprint(place: str | lance.LanceDataset) -> str:
    """Return a hash of all rows, in order of their ids."""
    dataset = lance.dataset(place) if isinstance(place, str) else place
    table = dataset.to_table().sort_by("id").combine_chunks()
    digest = hashlib.sha256()
    for column in table.columns:
        digest.update(str(column.to_pylist()).encode())
    return digest.hexdigest()


def files_of(place: Path | str) -> set[str]:
    """Return the data files, the files of indices and the manifests of a dataset."""
    root = Path(place)
    kept = ("data", "_deletions", "_indices", "_versions")
    found = {str(path.relative_to(root)) for name in kept for path in (root / name).rglob("*") if path.is_file()}
    return {path for path in found if path.endswith((".lance", ".manifest", ".idx", ".arrow", ".bin"))}


_QUERIES, _NEAREST = 20, 10


def found_by_index(place: str, *, use_index: bool = True) -> list[list[int]]:
    """Return the ids that each of some searches for the nearest vectors finds."""
    search = {"column": "v", "k": _NEAREST, "metric": "cosine", "nprobes": 4, "use_index": use_index}
    queries, dataset = np.random.default_rng(7).random((_QUERIES, WIDTH), dtype=np.float32), lance.dataset(place)
    return [dataset.to_table(columns=["id"], nearest={**search, "q": one})["id"].to_pylist() for one in queries]


def recall(place: str) -> float:
    """Return the share of the true nearest neighbours that a search by index finds."""
    true, by_index = found_by_index(place, use_index=False), found_by_index(place)
    return sum(len({*one} & {*other}) for one, other in zip(true, by_index, strict=True)) / (_QUERIES * _NEAREST)


def manifest_of(names: list[str], maintain: Mapping[str, Any] = MAINTAIN) -> dict[str, Any]:
    """Return the catalogs of a manifest that maintains the tables of a directory."""
    tables = {name: {"maintain": maintain} for name in names}
    return {"lake": {"impl": "dir", "config": {"root": "./lake"}, "tables": tables}}


def managed(folder: Path, *names: str, asked: Any = MAINTAIN) -> Manifest:
    """Write needy datasets, and a manifest that asks for their upkeep."""
    for name in names:
        needy(folder / f"lake/{name}.lance")
    return load_manifest(folder, manifest_of([*names], asked))
