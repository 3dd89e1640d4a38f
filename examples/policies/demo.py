"""Let a policy set the properties of tables that no manifest names, on a copy of this folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

import reconciler

HERE = Path(__file__).parent


def apply(folder: Path) -> None:
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
        apply(folder)
        # A job makes tables that no manifest knows, through the catalog as any Lance client would.
        lake = reconciler.connect("dir", {"root": str(folder / "lake")})
        for table in ("clicks", "daily_clicks"):
            rows = pa.table({"page": ["home", "cart"]})
            lance.write_dataset(rows, namespace_client=lake, table_id=["ads", table], mode="create")
        apply(folder)


if __name__ == "__main__":
    main()
