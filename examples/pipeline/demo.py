"""Make a lake, damage it as lakes get damaged, and have the pipeline find out, on a copy of this folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

HERE = Path(__file__).parent


def run(*command: str, folder: Path, code: int = 0) -> None:
    print(f"\n$ {' '.join(command)}", flush=True)
    ended = subprocess.run([Path(sys.executable).with_name(command[0]), *command[1:]], cwd=folder, check=False)
    if ended.returncode != code:
        sys.exit(f"it ended with {ended.returncode}, not {code}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-demo-") as name:
        folder = Path(name)
        for file in ("lancens.yaml", "tables.py", "queries.py"):
            shutil.copy(HERE / file, folder)
        lake = folder / "lake"
        lance.write_dataset(pa.table({"page": ["home", "cart"]}), lake / "clicks.lance")
        run("lancens", "apply", "--auto-approve", folder=folder)

        # Somebody removes the data of a table, and somebody else writes a dataset that nobody registers.
        sessions = next(lake.rglob("*sessions*"))
        shutil.rmtree(sessions)
        lance.write_dataset(pa.table({"page": ["home"]}), lake / "scratch/copy_of_clicks.lance")

        # A lake of this size needs no Spark; without `--engine`, these two would take it, with the same result.
        run("lancens", "inventory", "--engine", "local", "-o", "inventory.parquet", folder=folder)
        audit = ("audit", "--engine", "local", "--out", "report", "--history", "audits.lance")
        run("lancens", *audit, folder=folder)
        run("lancens", "plan", "--engine", "spark", folder=folder, code=3)  # lost data is blocked
        run("python", "tables.py", folder=folder)
        run("python", "queries.py", folder=folder)


if __name__ == "__main__":
    main()
