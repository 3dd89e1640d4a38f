"""Clone a table of production, write to the clone, release a newer version, and follow it, on a copy of this folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

import reconciler

HERE = Path(__file__).parent


def apply(folder: Path) -> lance.LanceDataset:
    """Apply the manifest; return the table of the staging catalog."""
    manifest = reconciler.load(folder / "lancens.yaml")
    plan = reconciler.plan(manifest)
    print(f"\n{plan}")
    report = reconciler.apply(plan, manifest, journal=folder / ".lancens")
    assert report.ok
    assert reconciler.plan(manifest).is_empty
    staging = reconciler.connect("dir", {"root": str(folder / "staging")})
    return lance.dataset(namespace_client=staging, table_id=["users"])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-demo-") as name:
        folder = Path(name)
        shutil.copy(HERE / "lancens.yaml", folder)
        users = lance.write_dataset(pa.table({"user_id": [1, 2, 3]}), folder / "prod/users.lance")
        users.tags.create("released", 1)
        trial = apply(folder)
        lance.write_dataset(pa.table({"user_id": [98, 99]}), trial.uri, mode="append")
        lance.write_dataset(pa.table({"user_id": [4]}), users.uri, mode="append")
        users.tags.update("released", 2)
        followed = apply(folder)
        left = lance.dataset(trial.uri)
        print(f"\nstaging/users has {followed.count_rows()} rows; the old clone has {left.count_rows()}")


if __name__ == "__main__":
    main()
