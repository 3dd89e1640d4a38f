"""Make a mirror, let somebody else change what it follows, and follow that, on a copy of this folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

import reconciler

HERE = Path(__file__).parent


def follow(folder: Path) -> None:
    manifest = reconciler.load(folder / "lancens.yaml")
    plan = reconciler.plan(manifest)
    print(f"\n{plan}")
    report = reconciler.apply(plan, manifest, journal=folder / ".lancens")
    assert report.ok
    assert reconciler.plan(manifest).is_empty


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-demo-") as name:
        folder = Path(name)
        shutil.copy(HERE / "lancens.yaml", folder)
        follow(folder)
        # Somebody writes a table that no manifest knows; the mirror follows it, and it opens through both catalogs.
        lance.write_dataset(pa.table({"page": ["home", "cart"]}), folder / "lake/clicks.lance")
        follow(folder)
        warehouse = reconciler.connect("memory", {"name": "warehouse"})
        clicks = lance.dataset(namespace_client=warehouse, table_id=["mirrored", "clicks"])
        print(f"\nwarehouse/mirrored/clicks has {clicks.count_rows()} rows, at {Path(clicks.uri).name}")


if __name__ == "__main__":
    main()
